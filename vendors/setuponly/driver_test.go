package setuponly

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// memory is a switch whose configuration is in memory; a TPID or an MTU that is not
// configured is 0x8100 and 1500.
type memory struct {
	Config
	writes int
	fail   error  // of the next write, which changes nothing
	bad    string // a port whose edits are refused

	steps bool // no transaction: the write with number cut, from 1, ends halfway through a port
	cut   int
}

func newMemory() *memory {
	return &memory{Config: Config{Ports: []Port{{Name: "p1", Now: 1500}, {Name: "p2", TPID: "9100", MTU: 9000, Now: 9000}, {Name: "p3", TPID: "88a8", Now: 1500}}}}
}

func (m *memory) Read(context.Context) (*Config, error) {
	c := m.Config
	c.Ports = append([]Port(nil), m.Ports...)
	return &c, nil
}

func (m *memory) Write(_ context.Context, e *Edit) error {
	m.writes++
	if err := m.fail; err != nil {
		m.fail = nil
		return err
	}
	for _, edit := range e.Ports {
		if edit.Port == m.bad {
			return &RefusedError{errors.New("not on this card")}
		}
		p := m.port(edit.Port)
		if edit.TPID != nil {
			if m.steps && *edit.TPID == p.TPID {
				p.TPID = ""
				if m.writes == m.cut {
					return errors.New("cut off")
				}
			}
			p.Lost = ""
			p.TPID = *edit.TPID
		}
		if edit.MTU != nil {
			p.MTU, p.Now = *edit.MTU, *edit.MTU
			if p.MTU == 0 {
				p.Now = 1500
			}
		}
	}
	if e.Record != nil {
		m.Record = *e.Record
	}
	return nil
}

func (*memory) Close() error { return nil }

func (m *memory) state() string { return fmt.Sprintf("%v %s", m.Ports, m.Record) }

var platform = Platform{
	Offline: func() vendors.Facts {
		f := vendors.Facts{Update: vendors.Refusal("nothing matches the PCP"), Strip: vendors.Refusal("nothing strips")}
		f.Traits.TPIDChange.Is = "the port flaps"
		return f
	},
	Format: func(tpid uint16) (string, error) {
		if tpid != 0x88a8 && tpid != 0x9100 {
			return "", errors.New("it takes 0x88a8 and 0x9100")
		}
		return fmt.Sprintf("%04x", tpid), nil
	},
}

func setup(tpid uint16, ports ...string) vendors.Setup {
	s := vendors.Setup{TPID: tpid, Signals: []quantize.Signal{quantize.MinABW}, OnStale: inventory.Conservative, Profile: strings.Repeat("5", 64)}
	for _, p := range ports {
		s.Ports = append(s.Ports, vendors.PortSetup{Port: p, Action: vlanrules.Passthrough})
	}
	return s
}

// TestAnyOrder: whatever setups a switch had, what it has now is the last one's, and what is
// left in the end is what was there at first.
func TestAnyOrder(t *testing.T) {
	vendorstest.AnyOrder(t, []vendorstest.Row{
		{Name: "nothing", Want: " 9100 88a8"},
		{Name: "two ports", Setup: setup(0x88a8, "p1", "p2"), Want: "88a8 88a8 88a8"},
		{Name: "one that had the TPID", Setup: setup(0x88a8, "p3"), Want: " 9100 88a8"},
		{Name: "all, another TPID", Setup: setup(0x9100, "p1", "p2", "p3"), Want: "9100 9100 9100"},
	}, 20, func(t *testing.T) vendorstest.Lab {
		m := newMemory()
		return vendorstest.Lab{
			Driver: Open(platform, m),
			State:  func(testing.TB) string { return m.state() },
			Writes: func(testing.TB) int { return m.writes },
			Frames: func(testing.TB, vendors.Setup) string {
				return m.Ports[0].TPID + " " + m.Ports[1].TPID + " " + m.Ports[2].TPID
			},
		}
	})
}

// TestRefuses: what the platform cannot have is refused before anything is written.
func TestRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*vendors.Setup)
		want   string
	}{
		"update":      {func(s *vendors.Setup) { s.Ports[0].Action = vlanrules.Update }, "port p1: it cannot update tags: nothing matches the PCP"},
		"strip":       {func(s *vendors.Setup) { s.Ports[0].Action = vlanrules.Strip }, "port p1: it cannot strip tags: nothing strips"},
		"TPID":        {func(s *vendors.Setup) { s.TPID = 0x9900 }, "it takes 0x88a8 and 0x9100"},
		"on_stale":    {func(s *vendors.Setup) { s.OnStale = inventory.StaleStrip }, "on_stale: strip is not possible here: nothing strips"},
		"no such one": {func(s *vendors.Setup) { s.Ports[1].Port = "p9" }, "port p9: the switch has no such port"},
	} {
		m := newMemory()
		s := setup(0x88a8, "p1", "p2")
		tc.change(&s)
		err := Open(platform, m).Apply(t.Context(), s)
		if !errors.As(err, new(*vendors.PermanentError)) || !strings.Contains(err.Error(), tc.want) || m.writes > 0 {
			t.Errorf("%s: %v, %d writes; want %s", name, err, m.writes, tc.want)
		}
	}
}

// TestDrift: what another program changes is restored, once a minute, and what it changed
// when csig goes stays.
func TestDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		d := Open(platform, m)
		if err := d.Apply(t.Context(), setup(0x88a8, "p1", "p2")); err != nil {
			t.Fatal(err)
		}
		m.Ports[0].TPID = ""
		if have, err := d.Observe(t.Context()); err != nil || have.Ports[0].Damaged != "its TPID is the default, and was 88a8" || have.Ports[1].Damaged != "" {
			t.Errorf("%+v, %v", have, err)
		}
		if res, err := d.Update(t.Context(), nil, time.Minute); err != nil || res.Repaired != nil || !res.Leased || m.Ports[0].TPID != "" {
			t.Errorf("at once: %+v, %v", res, err)
		}
		time.Sleep(recheck)
		m.fail = errors.New("busy")
		if res, err := d.Update(t.Context(), nil, time.Minute); err == nil || res.Leased {
			t.Errorf("a failed repair: %+v, %v", res, err)
		}
		if res, err := d.Update(t.Context(), nil, time.Minute); err != nil || res.Repaired == nil || m.Ports[0].TPID != "88a8" {
			t.Errorf("after a minute: %+v, %v", res, err)
		}
		writes := m.writes
		time.Sleep(recheck)
		if res, err := d.Update(t.Context(), nil, time.Minute); err != nil || res.Repaired != nil || m.writes != writes {
			t.Errorf("with nothing to do: %+v, %v, %d writes", res, err, m.writes-writes)
		}
		m.Ports[1].TPID = "9200"
		if err := d.Remove(t.Context()); err != nil || m.Ports[0].TPID != "" || m.Ports[1].TPID != "9200" || m.Record != "" {
			t.Errorf("%v: %s", err, m.state())
		}
		if _, err := d.Update(t.Context(), []vendors.PortUpdate{{Port: "p1", Intents: []vlanrules.Intent{{Action: vlanrules.Update}}}}, time.Minute); err == nil || !strings.Contains(err.Error(), "nothing matches the PCP") {
			t.Error(err)
		}
	})
}

// TestTakenOver: another process continues with the setup that it finds, and knows what was
// there before.
func TestTakenOver(t *testing.T) {
	m := newMemory()
	if err := Open(platform, m).Apply(t.Context(), setup(0x88a8, "p1", "p2")); err != nil {
		t.Fatal(err)
	}
	d := Open(platform, m)
	if res, err := d.Update(t.Context(), nil, time.Minute); err != nil || !res.Leased {
		t.Errorf("%+v, %v", res, err)
	}
	if err := d.Remove(t.Context()); err != nil || m.state() != newMemory().state() {
		t.Errorf("%v: %s", err, m.state())
	}
	if _, err := d.Update(t.Context(), nil, time.Minute); err == nil || !strings.Contains(err.Error(), "call Apply first") {
		t.Error(err)
	}
}

// TestMTU: the MTU of a port comes back as it was configured, with csig off and with a
// rollback, which knows only the one that held.
func TestMTU(t *testing.T) {
	for _, with := range []string{"rollback", "off"} {
		m := newMemory()
		d := Open(platform, m)
		for _, port := range []string{"p1", "p2"} {
			for _, mtu := range []int{9100, 9200} {
				if err := d.SetMTU(t.Context(), port, mtu); err != nil {
					t.Fatal(err)
				}
			}
		}
		if have, err := d.Observe(t.Context()); err != nil || !have.Nothing() {
			t.Errorf("%+v, %v", have, err)
		}
		if mtus, err := d.MTUs(t.Context()); err != nil || mtus["p1"] != 9200 || mtus["p2"] != 9200 || mtus["p3"] != 1500 {
			t.Errorf("%v, %v", mtus, err)
		}
		if with == "off" {
			if err := d.Remove(t.Context()); err != nil {
				t.Error(err)
			}
		} else {
			for port, mtu := range map[string]int{"p1": 1500, "p2": 9000} {
				if err := d.SetMTU(t.Context(), port, mtu); err != nil {
					t.Error(err)
				}
			}
		}
		if m.state() != newMemory().state() {
			t.Errorf("%s: %s", with, m.state())
		}
	}
}

// TestBrokenRecord: a record that is no record is damage, and goes with csig; what it said is
// not guessed.
func TestBrokenRecord(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":        "hello",
		"escapes":        "{\"setup\":\x1b[31m}",
		"another number": `{"setup":{"tpid":1,"ports":[{"action":"update","prefix":"p","first":0,"last":4000000000}]}}`,
		"huge":           `{"setup":{"profile":"` + strings.Repeat("5", maxRecord) + `"}}`,
		"TPID":           `{"setup":{"tpid":257,"wide_tpid":0,"layout":"draft-00","signals":[],"on_stale":"conservative","ports":[]}}`,
	} {
		m := newMemory()
		m.Record = text
		d := Open(platform, m)
		have, err := d.Observe(t.Context())
		if err != nil || have.Damaged == "" || strings.ContainsRune(have.Damaged, '\x1b') {
			t.Errorf("%s: %+v, %v", name, have, err)
		}
		if err := d.Apply(t.Context(), setup(0x9100, "p1")); name != "TPID" && (!errors.As(err, new(*vendors.PermanentError)) || m.writes > 0) {
			t.Errorf("%s: %v, %d writes", name, err, m.writes)
		}
		if err := d.Remove(t.Context()); name != "TPID" && (err == nil || !strings.Contains(err.Error(), "could not be read")) || m.state() != newMemory().state() {
			t.Errorf("%s: %v: %s", name, err, m.state())
		}
	}
}

// TestTrial: nothing is built on a change that the switch may take back, and no call reports
// it as done.
func TestTrial(t *testing.T) {
	m := newMemory()
	d := Open(platform, m)
	if err := d.Apply(t.Context(), setup(0x88a8, "p1")); err != nil {
		t.Fatal(err)
	}
	writes := m.writes
	m.Trial = "a change is on trial"
	for name, call := range map[string]func() error{
		"Apply":   func() error { return d.Apply(t.Context(), setup(0x88a8, "p1")) },
		"Remove":  func() error { return d.Remove(t.Context()) },
		"SetMTU":  func() error { return d.SetMTU(t.Context(), "p1", 1500) },
		"MTUs":    func() error { _, err := d.MTUs(t.Context()); return err },
		"Observe": func() error { _, err := d.Observe(t.Context()); return err },
		"Update":  func() error { _, err := Open(platform, m).Update(t.Context(), nil, time.Minute); return err },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), "on trial") || errors.As(err, new(*vendors.PermanentError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if m.writes != writes {
		t.Errorf("%d writes", m.writes-writes)
	}
}
