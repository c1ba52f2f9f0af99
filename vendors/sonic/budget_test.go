package sonic

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
)

// manyPorts is a lab whose ports have one entry each.
func manyPorts(t *testing.T, n int) (*lab, []string) {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("Ethernet%d", 4*i))
	}
	l := newLab(t, sonictest.R202405, names...)
	l.loose = true
	s := setupOf(quantize.Draft00, names...)
	s.Signals = s.Signals[:1]
	if err := l.Apply(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Update(t.Context(), allTo(names, 15), time.Second); err != nil {
		t.Fatal(err)
	}
	return l, names
}

func allTo(names []string, s uint8) (us []vendors.PortUpdate) {
	for _, n := range names {
		us = append(us, vendors.PortUpdate{Port: n, Intents: intents(5, s)})
	}
	return us
}

// TestSilentCycle: an orchagent that falls silent is waited for once, and not for
// each port that is left.
func TestSilentCycle(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ports, waited int
		begin         func(l *lab)
		end           func(l *lab)
	}{
		"more ports than wait at a time": {orchWindow + 16, orchWindow, func(l *lab) { l.sw.Hold(true) }, func(l *lab) { l.sw.Hold(false) }},
		"when the table is full": {16, 1, func(l *lab) {
			l.sw.SetRoom(16)
			answered := 0
			l.sw.Mute = func(string) bool { answered++; return answered > 16 }
		}, func(l *lab) { l.sw.SetRoom(1000); l.sw.Mute = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			l, names := manyPorts(t, test.ports)
			us := allTo(names, 0)
			l.expect(us)
			test.begin(l)
			l.session.patience = time.Second // what is answered is answered by then
			l.checked = time.Now()           // it has just looked at the switch
			_, err := l.Update(t.Context(), us, time.Second)
			l.session.patience = l.patience
			got, waited := portErrors(err), 0
			for port, err := range got {
				if !errors.Is(err, ErrSilent) {
					t.Errorf("%s: %v", port, err)
				}
				if !errors.Is(err, errUnbegun) {
					waited++
				}
			}
			if len(got) != len(names) || waited != test.waited {
				t.Errorf("%d errors, %d of ports that were waited for, want %d: %v", len(got), waited, test.waited, err)
			}
			test.end(l)
			l.update(us...)
			l.clean()
		})
	}
}

// TestSlowCycle: where orchagent answers slowly, a cycle ends, and the next ones do
// what is left.
func TestSlowCycle(t *testing.T) {
	t.Parallel()
	l, names := manyPorts(t, 2*orchWindow) // of one window and a half the time is over
	l.cfg.Patience = 100 * time.Millisecond
	l.session.patience = time.Hour // no single answer is late
	var done atomic.Int64
	us := allTo(names, 0)
	l.expect(us)
	left := len(names)
	for t.Context().Err() == nil {
		l.checked = time.Now() // it has just looked at the switch
		end := time.Now().Add(cyclePatience * l.cfg.Patience)
		done.Store(0)
		l.sw.SetOnOp(func(string) {
			if done.Add(1) == orchWindow/2 { // it is busy until the cycle's time is over
				time.Sleep(time.Until(end) + l.cfg.Patience)
			}
		})
		_, err := l.Update(t.Context(), us, time.Second)
		got := portErrors(err)
		if done.Load() == 0 { // this machine stood still for so long
			continue
		}
		if len(got) == 0 && err == nil {
			if left == len(names) {
				t.Error("all of it was done in one cycle")
			}
			l.exact()
			l.clean()
			return
		}
		for port, err := range got {
			if !errors.Is(err, errSlow) {
				t.Fatalf("%s: %v", port, err)
			}
		}
		if len(got) >= left {
			t.Fatalf("no progress: %d ports left of %d", len(got), left)
		}
		left = len(got)
	}
}

// TestLateAnswer: an answer to an earlier operation on the same row that comes late
// is not taken for one to the operation under way.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202405, "Ethernet0")
	l.apply(setupOf(quantize.Draft00, "Ethernet0"))
	l.loose = true
	key, fields := entryKey("Ethernet0", &l.ports[0].have[0]), entryRow(&l.ports[0].have[0])
	late, err := json.Marshal(append([]string{rcSuccess, key, "err_str", ""}, fields.words()...))
	if err != nil {
		t.Fatal(err)
	}
	for name, op := range map[string]rowOp{
		"another value": {key: key, to: row{"action": setAction, paramVID: "0x7ff"}},
		"a deletion":    {key: key},
	} {
		l.sw.Refuse = func(string, bool) string { return "SWSS_RC_IN_USE" }
		l.sw.Hold(true)
		c := &chain{ops: []rowOp{op}}
		done := make(chan error, 1)
		go func() { done <- l.run(t.Context(), []*chain{c}) }()
		sonictest.Await(t, "nothing was sent", func() bool { return len(l.sw.Redis.Keys(0, keySet)) > 0 })
		l.sw.Redis.Do(0, "PUBLISH", responses, late)
		l.sw.Hold(false)
		var status *StatusError
		if err := <-done; err != nil || !errors.As(c.err, &status) || status.Status != "SWSS_RC_IN_USE" {
			t.Errorf("%s: %v, %v", name, err, c.err)
		}
	}
}
