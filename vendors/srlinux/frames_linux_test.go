package srlinux

import (
	"slices"
	"testing"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/protocol/gnmi/oc"
	"github.com/csig-agent/csig/vendors/cli/clitest/plane"
	"github.com/csig-agent/csig/vendors/gnmiset"
	"github.com/csig-agent/csig/vendors/openconfig/octest"
)

func TestMain(m *testing.M) { fabric.Tests(m, fabric.Loopback) }

// subinterfaces are those that an operator has configured, bridged in one mac-vrf (SR Linux
// 24.10 Interfaces Guide, Subinterface VLAN configuration; srl_nokia-interfaces-vlans.yang).
type subinterfaces struct {
	name     string
	tagging  bool // vlan-tagging, with a single-tagged-range of 1 to 4094
	untagged bool // another one is untagged: it has tags of other TPIDs and VID 0, too
}

// port is a port with a TPID as the data plane has it.
func (s subinterfaces) port(tpid uint16) plane.Port {
	p := plane.Port{Outer: tpid, Trunk: s.tagging && !s.untagged}
	drop := func(vid uint16) {
		r := plane.Any()
		r.Outer, r.Drop = []plane.Range{{First: vid, Last: vid}}, true
		p.Rules = append(p.Rules, r)
	}
	if s.tagging {
		drop(4095)
	}
	if p.Trunk {
		drop(0)
	}
	return p
}

// leaves is what docs/srlinux.md says of a tag where a port has a TPID.
func (s subinterfaces) leaves(tpid uint16, tag plane.Tag) bool {
	switch vid := tag.TCI & 0xfff; {
	case !s.tagging:
		return true
	case tag.TPID != tpid || vid == 0:
		return s.untagged
	default:
		return vid != 4095
	}
}

// TestFrames: what the TPID of a port means for tags, by the subinterfaces that it has.
func TestFrames(t *testing.T) {
	p := plane.New(t, len(ports))
	for _, s := range []subinterfaces{{"tagged", true, false}, {"tagged and untagged", true, true}, {"without vlan-tagging", false, false}} {
		target := octest.New(append([]string{"mgmt0"}, ports...)...)
		target.Native = true
		target.Changed = func(list []octest.Port) {
			var out []plane.Port
			for _, port := range list[1:] {
				out = append(out, s.port(port.TPID))
			}
			if _, err := p.Program(out); err != nil {
				t.Error(err)
			}
		}
		target.ServeMemory(t)
		target.Configure(func(d *oc.Device) { d.Interface["ethernet-1/2"].Tpid = oc.VlanTypes_TPID_TYPES_TPID_0X9100 })
		var stacks [][]plane.Tag
		for _, tpid := range []uint16{0x8100, 0x88a8, 0x9100} {
			for _, tci := range []uint16{0x0000, 0xe000, 0x2001, 0x2345, 0x1ffe, 0xffff} {
				stacks = append(stacks, []plane.Tag{{TPID: tpid, TCI: tci}})
			}
		}
		check := func(when string, second, third uint16) {
			t.Helper()
			for port, tpid := range map[int]uint16{2: second, 3: third} {
				dropped := func(stack []plane.Tag) bool { return !s.leaves(tpid, stack[0]) }
				for i, got := range p.Exchange(t, port, stacks, dropped) {
					if want := stacks[i]; dropped(want) && got != nil || !dropped(want) && !slices.Equal(got, want) {
						t.Errorf("%s, %s: port %d with TPID 0x%04x: %04x leaves as %04x", s.name, when, port, tpid, want, got)
					}
				}
			}
		}
		d := driver(t, target, gnmiset.Config{})
		check("before", 0x9100, 0x8100)
		if err := d.Apply(t.Context(), setup(0x88a8, ports...)); err != nil {
			t.Fatal(err)
		}
		check("set up", 0x88a8, 0x88a8)
		target.Configure(func(dev *oc.Device) { // a restart: csig saves nothing, its record included
			dev.Acl, dev.Interface["ethernet-1/1"].Tpid = nil, 0
			dev.Interface["ethernet-1/2"].Tpid, dev.Interface["lag1"].Tpid = oc.VlanTypes_TPID_TYPES_TPID_0X9100, 0
		})
		check("restarted", 0x9100, 0x8100)
		if err := d.Apply(t.Context(), setup(0x88a8, ports...)); err != nil {
			t.Fatal(err)
		}
		check("written again", 0x88a8, 0x88a8)
		if err := d.Remove(t.Context()); err != nil {
			t.Error(err)
		}
		check("after csig off", 0x9100, 0x8100)
	}
}
