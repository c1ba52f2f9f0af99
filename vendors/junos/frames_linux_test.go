package junos

import (
	"slices"
	"testing"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/qualify/qualifytest"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/clitest/plane"
)

func TestMain(m *testing.M) { fabric.Tests(m, fabric.Loopback) }

const csig = 0x9100

// cable gives the device a data plane, whose frames come in at its first port: trunks of VLANs 2
// to 4093 and, where native is true, with a native VLAN. A tag with one of a port's TPIDs is a
// VLAN tag, which keeps its TPID; no text says that it does where the other port lacks that
// TPID: there the frame is dropped.
func (b *bench) cable(t testing.TB, p plane.Hardware, native bool) {
	b.Changed = func(tpids [][]uint16) {
		var ports []plane.Port
		for _, out := range tpids {
			common := slices.DeleteFunc(slices.Clone(tpids[0]), func(tpid uint16) bool { return !slices.Contains(out, tpid) })
			trunk := &plane.Trunk{TPIDs: common, VLANs: []plane.Range{{First: 2, Last: 4093}}, Native: native}
			hw := plane.Bridge(trunk, trunk, csig, 0x8100)
			for i := range hw.Rules {
				hw.Rules[i].SetTPID = 0
			}
			ports = append(ports, hw)
		}
		if _, err := p.Program(ports); err != nil {
			t.Error(err)
		}
	}
	b.Type("set interfaces ae0 mtu 9000") // a commit programs the data plane
}

// TestFrames: frames show what a port's list of TPIDs is: ordinary tags stay tags beside CSIG's.
func TestFrames(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		p, b := &plane.Memory{}, newBench(t, "junos-qfx")
		b.cable(t, p, false)
		tag := func(tpid, tci uint16) []plane.Tag { return []plane.Tag{{TPID: tpid, TCI: tci}} }
		frames := [][]plane.Tag{tag(csig, 0x2385), tag(csig, 0x1001), tag(csig, 0x0fff), tag(0x8100, 0x0064), append(tag(0x8100, 0x0064), tag(csig, 0x2385)...)}
		look := func(when, want string) {
			t.Helper()
			if got := plane.Leaves(t, p, 2, frames); got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		const off = "[[] [] [] [{8100 0064}] [{8100 0064} {9100 2385}]]"
		look("before", off)
		if err := b.driver.Apply(t.Context(), want(csig, xe1, xe2)); err != nil {
			t.Fatal(err)
		}
		look("applied", "[[{9100 2385}] [] [] [{8100 0064}] [{8100 0064} {9100 2385}]]")
		if err := b.driver.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		look("off", off)
	})
}

// TestQualify: with the tag as part of untagged frames the switch passes, as far as it can be
// judged.
func TestQualify(t *testing.T) {
	t.Parallel()
	b, p := newBench(t, "junos-qfx"), plane.New(t, 3)
	b.cable(t, p, true)
	qualifytest.SetUp(t, qualifytest.Fake{Plane: p, Ports: []string{xe1, xe2, ae0}, TPID: csig, Open: func() vendors.Driver { return b.open(t, b.dialect) }}, b.dialect.Platform.Offline().Update.Reason, noStrip)
}
