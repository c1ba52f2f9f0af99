package ovs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csig-agent/csig/protocol/ofp"
)

// partnerOf is the OpenFlow port of the patch that leads to a port; 0: none.
// Where two are said to, it is the one that is joined already.
func (d *Driver) partnerOf(s *state, name string) uint32 {
	patches, found := d.info.partner[name], uint32(0)
	for i := range patches {
		number := patches[i].in(s)
		joined := func(f ofp.Flow) bool { return isHook(&f) && f.Match.InPort == number }
		switch {
		case number == 0:
		case len(patches) > 1 && slices.ContainsFunc(s.flows, joined):
			return number
		case found == 0:
			found = number
		}
	}
	return found
}

// in is the patch's number; 0: it is not there. OpenFlow has 15 bytes of a name,
// which may be those of several: then it is what the database says, provided that
// a port of this number can have the name.
func (p *patch) in(s *state) uint32 {
	if len(p.name) < maxName {
		return s.ports[p.name].Number
	}
	if p.number == 0 || s.names[p.number] != p.name[:maxName] {
		return 0
	}
	return p.number
}

// isHook reports whether a flow of csig's is one that pipeline.hook makes.
func isHook(f *ofp.Flow) bool {
	return f.Table == 0 && f.Priority == priorityHook && f.Match.InPort != 0
}

// left reports whether a flow of csig's is about a port that is not there any more,
// or joins a port and a patch that the database does not have lead to each other.
func (s *state) left(f *ofp.Flow) bool {
	number := f.Match.InPort
	if m := f.Match.Regs[regOut]; m.Mask == 0xffffffff {
		number = m.Value
	}
	return isHook(f) || number != 0 && s.names[number] == ""
}

// duplicatePatches is why a port's patch is not known for sure; "" where it is.
func (d *Driver) duplicatePatches(name string) string {
	patches := d.info.partner[name]
	if len(patches) < 2 {
		return ""
	}
	names := make([]string, len(patches))
	for i := range patches {
		names[i] = patches[i].name
	}
	return fmt.Sprintf("external_ids:%s of the patch ports %s is %s, and only one of them can lead there: ovs-vsctl remove interface PATCH external_ids %s", partnerKey, strings.Join(names, " and "), name, partnerKey)
}

// patchProblems lists what is wrong with the patch ports that name ports.
func (d *Driver) patchProblems(s *state) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(d.info.partner)) {
		if why := d.duplicatePatches(name); why != "" {
			out = append(out, why)
		}
		if s.ports[name].Number != 0 {
			continue
		}
		why := fmt.Sprintf("bridge %s has no such port", d.cfg.Bridge)
		if len(name) > maxName {
			why = fmt.Sprintf("OpenFlow has no more than %d bytes of a name", maxName)
		}
		out = append(out, fmt.Sprintf("external_ids:%s of the patch port %s is %s, and %s: what comes there is dropped", partnerKey, d.info.partner[name][0].name, name, why))
	}
	return out
}
