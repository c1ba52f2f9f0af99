package iosxr

import (
	"testing"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/qualify/qualifytest"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/clitest/plane"
	"github.com/csig-agent/csig/vendors/iosxr/iosxrtest"
)

func TestMain(m *testing.M) { fabric.Tests(m, fabric.Loopback) }

const csig = 0x9100

// cable gives the router a data plane, whose frames come in at its first port. Each port has one
// subinterface, for frames with the outer VID 901 and any tag behind it: the outer tag has the
// port's TPID, and the second one 0x8100.
func (b *bench) cable(t testing.TB, p plane.Hardware) {
	trunk := func(p iosxrtest.Port) *plane.Trunk {
		return &plane.Trunk{TPIDs: []uint16{p.TPID}, VLANs: []plane.Range{{First: 901, Last: 901}}}
	}
	b.Changed = func(list []iosxrtest.Port) {
		var ports []plane.Port
		for _, out := range list {
			hw := plane.Bridge(trunk(list[0]), trunk(out), csig, 0x8100, 0x9200)
			hw.Inner = 0x8100
			for i := range hw.Rules {
				if r := &hw.Rules[i]; !r.Drop {
					r.Inner = []plane.Range{{First: 0, Last: 4095}}
				}
			}
			ports = append(ports, hw)
		}
		if _, err := p.Program(ports); err != nil {
			t.Error(err)
		}
	}
}

// TestFrames: frames show that a port's TPID is that of the outer tag of its subinterfaces with
// two tags, and of nothing else.
func TestFrames(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		p, b := &plane.Memory{}, newBench(t)
		b.cable(t, p)
		b.Type("interface "+te2, "no dot1q tunneling ethertype") // as te1 and te3; it programs the data plane
		two := func(tpid, tci uint16) []plane.Tag { return []plane.Tag{{TPID: tpid, TCI: tci}, {TPID: 0x8100, TCI: 7}} }
		frames := [][]plane.Tag{two(0x8100, 0x2385), two(csig, 0x2385), two(csig, 0x0f85), two(0x9200, 0x2385), two(csig, 0x2385)[:1], two(0x8100, 0x2385)[:1]}
		look := func(when, want string) {
			t.Helper()
			if got := plane.Leaves(t, p, 2, frames); got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		look("before", "[[{8100 2385} {8100 0007}] [] [] [] [] []]")
		if err := b.driver.Apply(t.Context(), want(csig, te1)); err != nil {
			t.Fatal(err)
		}
		look("one port", "[[] [{8100 2385} {8100 0007}] [] [] [] []]")
		if err := b.driver.Apply(t.Context(), want(csig, te1, te2)); err != nil {
			t.Fatal(err)
		}
		look("both", "[[] [{9100 2385} {8100 0007}] [] [] [] []]")
		if err := b.driver.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		look("off", "[[{8100 2385} {8100 0007}] [] [] [] [] []]")
	})
}

// TestQualify: a port that is bridged as a whole passes tags, as far as it can be judged.
func TestQualify(t *testing.T) {
	t.Parallel()
	b, p := newBench(t), plane.New(t, 3)
	if _, err := p.Program(make([]plane.Port, 3)); err != nil { // l2transport of the main interface
		t.Fatal(err)
	}
	qualifytest.SetUp(t, qualifytest.Fake{Plane: p, Ports: []string{te1, te2, te3}, TPID: csig, Open: func() vendors.Driver { return b.open(t) }}, noUpdate, noStrip)
}
