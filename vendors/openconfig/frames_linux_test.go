package openconfig

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

// lab is a target whose ports are trunks of all VLANs, with none for untagged frames, and its
// data plane.
func lab(t testing.TB) (*octest.Target, *plane.Plane) {
	t.Helper()
	p := plane.New(t, len(ports))
	target := octest.New(ports...)
	target.Changed = func(list []octest.Port) {
		var out []plane.Port
		for _, port := range list {
			out = append(out, plane.Port{Outer: port.TPID, Trunk: true})
		}
		if _, err := p.Program(out); err != nil {
			t.Error(err)
		}
	}
	target.ServeMemory(t)
	target.Configure(foreign)
	return target, p
}

// passes checks that frames with tags of this TPID, whatever they hold, leave by a port as they
// came, and that those of others do not.
func passes(t testing.TB, p *plane.Plane, port int, tpid uint16) {
	t.Helper()
	var stacks [][]plane.Tag
	for _, one := range []uint16{0x8100, 0x88a8, 0x9100} {
		for _, tci := range []uint16{0x0000, 0x2345, 0xffff} {
			stacks = append(stacks, []plane.Tag{{TPID: one, TCI: tci}})
		}
	}
	other := func(stack []plane.Tag) bool { return stack[0].TPID != tpid }
	for i, got := range p.Exchange(t, port, stacks, other) {
		if want := stacks[i]; other(want) && got != nil || !other(want) && !slices.Equal(got, want) {
			t.Errorf("port %d, where TPID 0x%04x is to pass: %04x left as %04x", port, tpid, want, got)
		}
	}
}

// TestFrames: tags of the domain's TPID pass a port that is set up, unchanged whatever they
// hold; a port that is not forwards the TPID that it had.
func TestFrames(t *testing.T) {
	target, p := lab(t)
	d := open(t, gnmiset.Config{Connect: connect(target)})
	check := func(second, third uint16) {
		t.Helper()
		passes(t, p, 2, second)
		passes(t, p, 3, third)
	}
	check(0x9100, 0x8100)
	if err := d.Apply(t.Context(), setup(0x88a8, "Ethernet2")); err != nil {
		t.Fatal(err)
	}
	check(0x88a8, 0x8100)
	if err := d.Apply(t.Context(), setup(0x88a8, ports...)); err != nil {
		t.Fatal(err)
	}
	check(0x88a8, 0x88a8)
	target.Configure(func(dev *oc.Device) { dev.Interface["Ethernet3"].Tpid = 0 })
	check(0x88a8, 0x8100)
	if err := d.Apply(t.Context(), setup(0x88a8, ports...)); err != nil {
		t.Fatal(err)
	}
	check(0x88a8, 0x88a8)
	if err := d.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	check(0x9100, 0x8100)
}
