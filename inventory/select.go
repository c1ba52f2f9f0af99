package inventory

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// What a selector of devices begins with where it is not a name or a pattern: no name
// of a device has a colon.
const (
	tagSelector   = "tag:"
	groupSelector = "group:"
)

// Selectors is what Select takes, for the help of flags.
const Selectors = "names, patterns such as leaf-* or leaf-[1-4], tag:WORD or group:NAME"

// Select returns the names of the devices that any of the selectors is of, in the order
// of the fleet: a name, a pattern of names with *, ? and ranges as fleet files have them,
// "tag:WORD" or "group:NAME". One that is of no device is an error.
func (f *Fleet) Select(selectors []string) ([]string, error) {
	chosen := make([]bool, len(f.Devices))
	for _, s := range selectors {
		is, err := f.selector(s)
		if err != nil {
			return nil, err
		}
		some := false
		for i := range f.Devices {
			if is(i) {
				chosen[i], some = true, true
			}
		}
		if !some {
			return nil, f.selectsNone(s)
		}
	}
	var out []string
	for i, yes := range chosen {
		if yes {
			out = append(out, f.Devices[i].Name)
		}
	}
	return out, nil
}

// selector is whether a device, by its place, is one that a selector is of.
func (f *Fleet) selector(s string) (func(i int) bool, error) {
	if tag, ok := strings.CutPrefix(s, tagSelector); ok {
		return func(i int) bool { return slices.Contains(f.Devices[i].Tags, tag) }, nil
	}
	if group, ok := strings.CutPrefix(s, groupSelector); ok {
		return func(i int) bool { return slices.Contains(f.groupsOf(i), group) }, nil
	}
	names, err := expand(s)
	if err != nil {
		return nil, err
	}
	exact := make(map[string]bool, len(names))
	var globs []string
	for _, name := range names {
		if !strings.ContainsAny(name, "*?") {
			exact[name] = true
			continue
		}
		if name = strings.ReplaceAll(name, `\`, `\\`); !slices.Contains(globs, name) {
			globs = append(globs, name)
		}
	}
	return func(i int) bool {
		name := f.Devices[i].Name
		return exact[name] || slices.ContainsFunc(globs, func(glob string) bool {
			ok, err := path.Match(glob, name)
			return ok && err == nil
		})
	}, nil
}

// groupsOf are the groups that the fleet file puts a device in, by its place; none where
// the fleet was not read from a file.
func (f *Fleet) groupsOf(i int) (out []string) {
	if f.index == nil || f.index.origins == nil || i >= len(f.index.origins.devices) {
		return nil
	}
	for _, g := range f.index.origins.devices[i].from.keys.Groups {
		out = append(out, g.name)
	}
	return out
}

// selectsNone is the error of a selector that is of no device.
func (f *Fleet) selectsNone(s string) error {
	kind, known := "such device", make(map[string]bool)
	word := s
	if tag, ok := strings.CutPrefix(s, tagSelector); ok {
		kind, word = "device with that tag", tag
		for i := range f.Devices {
			for _, t := range f.Devices[i].Tags {
				known[t] = true
			}
		}
	} else if group, ok := strings.CutPrefix(s, groupSelector); ok {
		kind, word = "device in that group", group
		for i := range f.Devices {
			for _, g := range f.groupsOf(i) {
				known[g] = true
			}
		}
	} else {
		for i := range f.Devices {
			known[f.Devices[i].Name] = true
		}
	}
	text := fmt.Sprintf("%s: %s has no %s", printable(s), f.Path, kind)
	if hint := suggestSome(word, known); hint != "" {
		text += ": " + hint
	}
	return errors.New(shortened(text))
}

// TagsAndGroups are the tags of the fleet's devices and the groups that they are in, sorted.
func (f *Fleet) TagsAndGroups() (tags, groups []string) {
	t, g := make(map[string]bool), make(map[string]bool)
	for i := range f.Devices {
		for _, tag := range f.Devices[i].Tags {
			t[tag] = true
		}
		for _, group := range f.groupsOf(i) {
			g[group] = true
		}
	}
	return slices.Sorted(maps.Keys(t)), slices.Sorted(maps.Keys(g))
}
