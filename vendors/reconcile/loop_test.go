package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// table is a device in memory: each port of its setup writes one bucket.
type table struct {
	loop   *Loop
	has    vendors.Setup
	writes map[string]uint8 // by port
	read   bool             // and nothing has broken off since
	reads  int

	programs int

	fails   map[string]error // of a port's next write
	breaks  bool             // the next write breaks off
	foreign map[string]error // *PermanentError of ports, "" for all
	stuck   error            // of Program
}

func newTable(ports ...string) *table {
	t := &table{writes: map[string]uint8{}, fails: map[string]error{}, foreign: map[string]error{}}
	t.loop = New(t, vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true, Prefixes: true, VIDMin: 1, VIDMax: 4094})
	t.has = setup(ports...)
	return t
}

func setup(ports ...string) vendors.Setup {
	s := vendors.Setup{TPID: 0x9900, Signals: []quantize.Signal{quantize.MinABW}, OnStale: inventory.Conservative}
	for _, p := range ports {
		s.Ports = append(s.Ports, vendors.PortSetup{Port: p, Action: vlanrules.Update})
	}
	return s
}

func (t *table) Read(context.Context) error {
	t.reads++
	t.read = true
	return nil
}

func (t *table) Known() bool { return t.read }

func (t *table) Have() vendors.Setup { return t.has }

func (t *table) Refusals(want *vendors.Setup) (errs []error) {
	if err := t.foreign[""]; err != nil {
		return []error{err}
	}
	for _, p := range want.Ports {
		if err := t.foreign[p.Port]; err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func (t *table) Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	return vendors.DiffPorts(&have, &want, func(*vendors.PortSetup) string { return "its rules" }, func(_, _ *vendors.PortSetup) string { return "" }), nil
}

func (t *table) Program(context.Context) error {
	t.programs++
	if t.stuck != nil {
		return t.stuck
	}
	for _, p := range t.loop.Want.Ports {
		if !t.has.HasPort(p.Port) && t.loop.Held(p.Port) == nil {
			t.has.Ports = append(t.has.Ports, p)
		}
	}
	return nil
}

func (t *table) InForce(port string) bool { return t.has.HasPort(port) }

func (t *table) Write(_ context.Context, ports []Port) (map[string]int, error) {
	done, errs := map[string]int{}, []error(nil)
	for _, p := range ports {
		if t.breaks {
			t.breaks, t.read = false, false
			return done, errors.New("cut off")
		}
		if err := t.fails[p.Name]; err != nil {
			errs = append(errs, &vendors.PortError{Port: p.Name, Err: err})
			continue
		}
		if s := p.Signal.Intents()[0].S; t.writes[p.Name] != s {
			t.writes[p.Name], done[p.Name] = s, 1
		}
	}
	return done, errors.Join(errs...)
}

func (t *table) update(s uint8, ports ...string) (vendors.UpdateResult, error) {
	var list []vendors.PortUpdate
	for _, p := range ports {
		list = append(list, vendors.PortUpdate{Port: p, Intents: []vlanrules.Intent{{Signal: quantize.MinABW, Action: vlanrules.Update, S: s, LM: 5}}})
	}
	return t.loop.Update(context.Background(), list)
}

// named are the ports of an error.
func named(err error) (ports []string) {
	vendors.EachPort(err, func(port string, _ error) { ports = append(ports, port) })
	return ports
}

func TestUpdateTakesOverRepairsAndFallsBack(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(t *testing.T, d *table) (vendors.UpdateResult, error)
		want string // ops, what is repaired, the ports of the error, its text, and what p1 and p2 write
	}{
		{"the setup that is found is taken over", func(_ *testing.T, d *table) (vendors.UpdateResult, error) {
			return d.update(7, "p1", "p2")
		}, "2 [] [] 7 7"},
		{"what it has already takes no operation", func(_ *testing.T, d *table) (vendors.UpdateResult, error) {
			_, _ = d.update(7, "p1", "p2")
			return d.update(7, "p1", "p2")
		}, "0 [] [] 7 7"},
		{"one port's error is its own", func(_ *testing.T, d *table) (vendors.UpdateResult, error) {
			_, _ = d.update(7, "p1", "p2")
			d.fails["p1"] = errors.New("full")
			return d.update(8, "p1", "p2")
		}, "1 [] [p1] 7 8"},
		{"a port that is refused falls back", func(_ *testing.T, d *table) (vendors.UpdateResult, error) {
			_, _ = d.update(7, "p1", "p2")
			d.foreign["p1"] = &vendors.PermanentError{Port: "p1", Err: errors.New("another policy")}
			time.Sleep(Every)
			return d.update(8, "p1", "p2")
		}, "2 [] [p1] 0 8"},
		{"all fall back where the device is refused", func(_ *testing.T, d *table) (vendors.UpdateResult, error) {
			_, _ = d.update(7, "p1", "p2")
			d.foreign[""] = &vendors.PermanentError{Err: errors.New("another TPID")}
			time.Sleep(Every)
			_, _ = d.update(8, "p1", "p2")
			return d.update(9, "p1", "p2")
		}, "0 [] [p1 p2] 0 0"},
		{"nothing is restored where the device is refused", func(_ *testing.T, d *table) (vendors.UpdateResult, error) {
			_, _ = d.update(7, "p1", "p2")
			d.has.Ports, d.foreign[""] = d.has.Ports[:1], &vendors.PermanentError{Err: errors.New("another TPID")}
			time.Sleep(Every)
			res, err := d.update(8, "p1")
			res.Ops += 10 * d.programs
			return res, err
		}, "1 [] [p1] 0 7"},
		{"what is gone is restored within a minute", func(_ *testing.T, d *table) (vendors.UpdateResult, error) {
			_, _ = d.update(7, "p1", "p2")
			d.has.Ports = d.has.Ports[:1]
			time.Sleep(Every)
			return d.update(8, "p1", "p2")
		}, "2 [p2] [] 8 8"},
		{"a session that breaks off is no success", func(t *testing.T, d *table) (vendors.UpdateResult, error) {
			_, _ = d.update(7, "p1", "p2")
			d.breaks = true
			if res, err := d.update(8, "p1", "p2"); err == nil || res.Leased {
				t.Errorf("%+v, %v", res, err)
			}
			reads := d.reads
			res, err := d.update(8, "p1", "p2")
			if d.reads != reads+1 {
				t.Errorf("%d reads", d.reads-reads)
			}
			return res, err
		}, "2 [] [] 8 8"},
		{"an error of the whole device is tried again at once", func(_ *testing.T, d *table) (vendors.UpdateResult, error) {
			_, _ = d.update(7, "p1", "p2")
			d.has.Ports, d.stuck = d.has.Ports[:1], errors.New("busy")
			time.Sleep(Every)
			_, _ = d.update(8, "p1", "p2")
			d.stuck = nil
			return d.update(8, "p1", "p2")
		}, "0 [p2] [] 8 8"},
		{"Release writes the fallback, of a setup that is found", func(_ *testing.T, d *table) (vendors.UpdateResult, error) {
			_, _ = d.update(7, "p1", "p2")
			d.loop.Stop()
			return vendors.UpdateResult{Leased: true}, d.loop.Release(context.Background())
		}, "0 [] [] 0 0"},
		{"a port that is not in the setup", func(_ *testing.T, d *table) (vendors.UpdateResult, error) { return d.update(7, "p9") }, "0 [] [p9] 0 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newTable("p1", "p2")
				res, err := tc.do(t, d)
				var repaired []string
				for _, r := range res.Repaired {
					repaired = append(repaired, r.Port)
				}
				slices.Sort(repaired)
				if got := fmt.Sprint(res.Ops, repaired, named(err), d.writes["p1"], d.writes["p2"]); got != tc.want || !res.Leased {
					t.Errorf("%s, want %s (%v)", got, tc.want, err)
				}
			})
		})
	}
}

// TestNoSetup: without a setup nothing is written, and the error says what to do.
func TestNoSetup(t *testing.T) {
	d := newTable()
	d.has = vendors.Setup{}
	if _, err := d.update(7, "p1"); err == nil || !strings.Contains(err.Error(), "call Apply first") || len(d.writes) > 0 {
		t.Error(err)
	}
	if err := d.loop.Release(t.Context()); err != nil || len(d.writes) > 0 {
		t.Error(err)
	}
}
