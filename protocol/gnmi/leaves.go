package gnmi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	pb "github.com/openconfig/gnmi/proto/gnmi"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// Shape is the part of a data tree that a Get is about.
type Shape struct {
	Lists  map[string][]string // the keys of lists, by their paths: interfaces/interface: name
	Leaves map[string]bool     // paths of leaves

	// Longest is how many bytes a value may have.
	Longest int

	// Skip says of a leaf, by its path and keys, that nothing reads its value, which may then
	// be any; nil: none.
	Skip func(path string, keys []string) bool

	// Lenient is for what people read: texts are cleaned and cut, and a leaf with a value of
	// another type is left out.
	Lenient bool
}

// maxLeaves is how many leaves one answer may have: a switch has some hundred ports.
const maxLeaves = 1 << 17

// Append appends the leaves of a notification that the shape has. What is no proper gNMI is an
// error; what the shape does not have is passed over.
func (s *Shape) Append(out []Leaf, n *pb.Notification) ([]Leaf, error) {
	r := leafReader{shape: s, out: out}
	for _, u := range n.GetUpdate() {
		var at spot
		for _, p := range [2]*pb.Path{n.GetPrefix(), u.GetPath()} {
			if len(p.GetElem()) == 0 && len(p.GetElement()) != 0 { //nolint:staticcheck // that is the point
				return nil, errors.New("the target sends paths as strings, which gNMI gave up with version 0.4")
			}
			for _, e := range p.GetElem() {
				if lists := s.Lists[at.path]; len(lists) > 0 && !at.in {
					return nil, fmt.Errorf("%s: a path without its key %s", at.path, lists[0])
				}
				at = at.child(Bare(e.GetName()))
				keys := make([]string, 0, len(s.Lists[at.path]))
				for _, key := range s.Lists[at.path] {
					v, there := e.GetKey()[key]
					if !there {
						break
					}
					keys = append(keys, v)
				}
				if len(keys) > 0 && len(keys) == len(s.Lists[at.path]) {
					at = at.entry(keys)
				}
			}
		}
		if !s.wants(at.path) {
			continue
		}
		var v Value
		if v.Read(u.GetVal()) {
			if err := r.leaf(at, &v); err != nil {
				return nil, err
			}
			continue
		}
		js := u.GetVal().GetJsonIetfVal()
		if js == nil {
			js = u.GetVal().GetJsonVal()
		}
		dec := json.NewDecoder(bytes.NewReader(js))
		var tree json.RawMessage
		err := dec.Decode(&tree)
		if err == nil {
			err = r.json(tree, at)
		}
		if err == nil {
			if _, err = dec.Token(); errors.Is(err, io.EOF) {
				err = nil
			} else if err == nil {
				err = errors.New("more than one value")
			}
		}
		if err != nil {
			return nil, fmt.Errorf("JSON of %s: %s", untrusted.Text(at.path, MaxName), untrusted.Text(err.Error(), MaxText))
		}
	}
	return r.out, nil
}

// wants reports whether a path leads to a leaf of the shape.
func (s *Shape) wants(path string) bool {
	if path == "" || s.Leaves[path] {
		return true
	}
	for leaf := range s.Leaves {
		if strings.HasPrefix(leaf, path+"/") {
			return true
		}
	}
	return false
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "/" + name
}

// spot is a place in the data tree.
type spot struct {
	path string
	keys []string
	in   bool // of a list: the keys are those of one entry
}

func (at spot) entry(keys []string) spot {
	return spot{path: at.path, keys: append(at.keys[:len(at.keys):len(at.keys)], keys...), in: true}
}

func (at spot) child(name string) spot { return spot{path: join(at.path, name), keys: at.keys} }

type leafReader struct {
	shape *Shape
	out   []Leaf
}

// json takes a JSON value (RFC 7951) that stands at a place.
func (r *leafReader) json(js json.RawMessage, at spot) error {
	keys := r.shape.Lists[at.path]
	switch {
	case r.shape.Leaves[at.path]:
		var v Value
		if !v.ReadJSON(js) {
			return fmt.Errorf("%s: %w: an object or a list", at.path, ErrType)
		}
		return r.leaf(at, &v)
	case len(keys) > 0 && js[0] == '[':
		var entries []json.RawMessage
		if err := json.Unmarshal(js, &entries); err != nil {
			return err
		}
		for _, entry := range entries {
			if err := r.json(entry, spot{path: at.path, keys: at.keys}); err != nil {
				return err
			}
		}
		return nil
	case js[0] != '{':
		return fmt.Errorf("%s: %w: want an object", at.path, ErrType)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(js, &object); err != nil {
		return err
	}
	if len(keys) > 0 && !at.in {
		values := make([]string, len(keys))
		for name, js := range object {
			for i, key := range keys {
				if Bare(name) != key {
					continue
				}
				var v Value
				if !v.ReadJSON(js) || v.Kind != Text {
					return fmt.Errorf("%s: key %s: %w", at.path, key, ErrType)
				}
				values[i] = bareIdentity(v.Text)
			}
		}
		for i, v := range values {
			if v == "" {
				return fmt.Errorf("%s: an entry without its key %s", at.path, keys[i])
			}
		}
		at = at.entry(values)
	}
	for name, js := range object {
		if next := at.child(Bare(name)); r.shape.wants(next.path) {
			if err := r.json(js, next); err != nil {
				return err
			}
		}
	}
	return nil
}

// bareIdentity is an identity without its module, and any other text as it is: names of
// interfaces may have colons.
func bareIdentity(text string) string {
	if module, name, ok := strings.Cut(text, ":"); ok && strings.HasPrefix(module, "openconfig-") || strings.HasPrefix(module, "srl_nokia") {
		return name
	}
	return text
}

// leaf notes the value of a leaf.
func (r *leafReader) leaf(at spot, v *Value) error {
	if !r.shape.Leaves[at.path] {
		if v.Kind == Other && v.Text == "no value" {
			return nil
		}
		return fmt.Errorf("%s: %w: %s where a tree is due", untrusted.Text(at.path, MaxName), ErrType, v.Describe())
	}
	if r.shape.Skip != nil && r.shape.Skip(at.path, at.keys) {
		return nil
	}
	l := Leaf{Path: at.path, Keys: at.keys}
	switch v.Kind {
	case Number:
		l.Value = strconv.FormatUint(v.Num, 10)
	case Text:
		l.Value = bareIdentity(v.Text)
	default:
		if v.Text != "a boolean" {
			if r.shape.Lenient {
				return nil
			}
			return fmt.Errorf("%s: %w: %s", at.path, ErrType, v.Describe())
		}
		l.Value = strconv.FormatBool(v.Num == 1)
	}
	if r.shape.Lenient {
		l.Value, l.Keys = untrusted.Text(l.Value, r.shape.Longest), slices.Clone(l.Keys)
		for i, key := range l.Keys {
			l.Keys[i] = untrusted.Text(key, r.shape.Longest)
		}
	}
	for _, text := range append([]string{l.Value}, l.Keys...) {
		if untrusted.Text(text, r.shape.Longest) != text {
			return fmt.Errorf("%s: a value that cannot be printed, or of more than %d bytes: %s", at.path, r.shape.Longest, untrusted.Text(text, 40))
		}
	}
	if len(r.out) == maxLeaves {
		return fmt.Errorf("more than %d leaves", maxLeaves)
	}
	r.out = append(r.out, l)
	return nil
}
