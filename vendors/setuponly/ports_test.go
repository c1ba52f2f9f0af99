package setuponly

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// TestReassertionCutOff: a port that has lost its TPID, and is left without one in the middle of
// getting it again, still gets back what it had.
func TestReassertionCutOff(t *testing.T) {
	stepwise := platform
	stepwise.Stepwise = true
	for _, port := range []string{"p1", "p2", "p3"} { // the default, another TPID, the domain's own
		for cut := 1; cut <= 3; cut++ {
			m := newMemory()
			d := Open(stepwise, m)
			if err := d.Apply(t.Context(), setup(0x88a8, "p1", "p2", "p3")); err != nil {
				t.Fatal(err)
			}
			m.port(port).Lost = "a flap"
			m.steps, m.writes, m.cut = true, 0, cut
			err := d.Apply(t.Context(), setup(0x88a8, "p1", "p2", "p3"))
			if cut == 2 && err == nil {
				t.Fatal("the reassertion was not cut off")
			}
			m.cut = -1
			if err := Open(stepwise, m).Remove(t.Context()); err != nil {
				t.Error(err)
			}
			m.port(port).Lost = ""
			if m.state() != newMemory().state() {
				t.Errorf("%s, write %d: %s", port, cut, m.state())
			}
		}
	}
}

// TestAbsentPort: what a port had before csig outlives its absence, and the others do not wait
// for it.
func TestAbsentPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		d := Open(platform, m)
		if err := d.Apply(t.Context(), setup(0x88a8, "p1", "p2")); err != nil {
			t.Fatal(err)
		}
		card := m.Ports[1]
		m.Ports = []Port{m.Ports[0], m.Ports[2]}
		m.Ports[0].TPID = ""
		time.Sleep(recheck)
		res, err := d.Update(t.Context(), nil, time.Minute)
		if err == nil || !strings.Contains(err.Error(), "port p2: the switch has no such port") || !res.Leased || m.Ports[0].TPID != "88a8" || strings.Contains(res.Repaired.String(), "p2") {
			t.Errorf("%+v, %v: %s", res, err, m.state())
		}
		if res, err := d.Update(t.Context(), nil, time.Minute); err == nil || !res.Leased {
			t.Errorf("between two looks: %+v, %v", res, err)
		}
		another := Open(platform, m)
		if res, err := another.Update(t.Context(), nil, time.Minute); err == nil || !res.Leased {
			t.Errorf("taken over: %+v, %v", res, err)
		}
		if err := d.Remove(t.Context()); err == nil || !strings.Contains(err.Error(), "port p2: the switch does not have it now") || m.Ports[0].TPID != "" || m.Record == "" {
			t.Errorf("%v: %s", err, m.state())
		}
		m.Ports = []Port{m.Ports[0], card, m.Ports[1]}
		if have, err := d.Observe(t.Context()); err != nil || !strings.Contains(have.Damaged, "port p2 has csig's TPID") {
			t.Errorf("%+v, %v", have, err)
		}
		if err := d.Remove(t.Context()); err != nil || m.state() != newMemory().state() {
			t.Errorf("%v: %s", err, m.state())
		}
	})
}

// TestRefusedPort: the port that the switch refuses is named, and the others get what they should,
// from Update and from Remove, with a transaction and without.
func TestRefusedPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, steps := range []bool{false, true} {
			p := platform
			p.Stepwise = steps
			m := newMemory()
			d := Open(p, m)
			if err := d.Apply(t.Context(), setup(0x88a8, "p1", "p2")); err != nil {
				t.Fatal(err)
			}
			m.Ports[0].TPID, m.Ports[1].TPID, m.bad = "", "", "p1"
			time.Sleep(recheck)
			res, err := d.Update(t.Context(), nil, time.Minute)
			if err == nil || !strings.Contains(err.Error(), "port p1: not on this card") || !res.Leased || m.Ports[1].TPID != "88a8" || !strings.Contains(res.Repaired.String(), "p2") || strings.Contains(res.Repaired.String(), "p1") {
				t.Errorf("%+v, %v: %s", res, err, m.state())
			}
			m.Ports[0].TPID = "88a8"
			if err := d.Remove(t.Context()); err == nil || !strings.Contains(err.Error(), "port p1: not on this card") || strings.Contains(err.Error(), "p2") || m.Ports[1].TPID != "9100" {
				t.Errorf("%v: %s", err, m.state())
			}
			if have, err := d.Observe(t.Context()); err != nil || have.TPID != 0 || !strings.Contains(have.Damaged, "port p1") {
				t.Errorf("%+v, %v", have, err)
			}
			m.bad = ""
			if err := d.Remove(t.Context()); err != nil || m.state() != newMemory().state() {
				t.Errorf("%v: %s", err, m.state())
			}
		}
	})
}

// TestForeignMTU: a rollback leaves an MTU that another user has set since.
func TestForeignMTU(t *testing.T) {
	m := newMemory()
	d := Open(platform, m)
	if err := d.SetMTU(t.Context(), "p1", 9000); err != nil {
		t.Fatal(err)
	}
	m.Ports[0].MTU, m.Ports[0].Now = 9216, 9216
	for range 2 {
		if err := d.SetMTU(t.Context(), "p1", 1500); !errors.As(err, new(*vendors.ForeignError)) || m.Ports[0].MTU != 9216 {
			t.Errorf("%v: %s", err, m.state())
		}
	}
	if err := d.Remove(t.Context()); err != nil || m.Ports[0].MTU != 9216 || m.Record != "" {
		t.Errorf("%v: %s", err, m.state())
	}
}

// TestForeignTPID: a plan shows the TPID of another user that csig replaces.
func TestForeignTPID(t *testing.T) {
	m := newMemory()
	d := Open(platform, m)
	f, err := d.Probe(t.Context())
	if err != nil || len(f.PortIssues) != 2 || f.PortIssues[0].Port != "p2" || f.PortIssues[0].Level != vlanrules.Degraded || !strings.Contains(f.PortIssues[0].Reason, "9100") {
		t.Errorf("%+v, %v", f.PortIssues, err)
	}
	if err := d.Apply(t.Context(), setup(0x88a8, "p2")); err != nil {
		t.Fatal(err)
	}
	if f, err := d.Probe(t.Context()); err != nil || len(f.PortIssues) != 1 {
		t.Errorf("%+v, %v", f.PortIssues, err)
	}
}
