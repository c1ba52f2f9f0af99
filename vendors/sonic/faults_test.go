package sonic

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
	"github.com/csig-agent/csig/vendors/vendorstest"
)

var releases = []sonictest.Release{sonictest.R202311, sonictest.R202405, sonictest.R202511, sonictest.R202605}

// sized is how much a test does: some of it, and all in one named TestLong….
func sized(t *testing.T, some, all int) int {
	if vendorstest.Long(t) {
		return all
	}
	return some
}

// eachRelease takes those that differ most from the ones that all other tests are of, and all
// of them in a test named TestLong….
func eachRelease(t *testing.T, f func(t *testing.T, release sonictest.Release)) {
	for _, r := range releases[len(releases)-sized(t, 2, len(releases)):] {
		t.Run([]string{"202311", "202405", "202511", "202605"}[r], func(t *testing.T) {
			t.Parallel()
			f(t, r)
		})
	}
}

func portErrors(err error) map[string]error {
	out := map[string]error{}
	vendors.EachPort(err, func(port string, err error) { out[port] = err })
	return out
}

// clean wants the rows in Redis to be the ASIC's entries, and nothing to wait.
func (l *lab) clean() {
	l.t.Helper()
	l.sw.Settle()
	all, _ := l.sw.Entries("")
	if rows := l.sw.Redis.Keys(0, "P4RT_TABLE:"+aclTable+":*"); len(rows) != all {
		l.t.Errorf("%d rows in APPL_DB for %d entries", len(rows), all)
	}
	if left := append(l.sw.Redis.Keys(0, "_P4RT*"), l.sw.Redis.Keys(0, "P4RT_TABLE_*_SET")...); len(left) > 0 {
		l.t.Errorf("left waiting: %v", left)
	}
}

// TestRefusal: an operation that fails half-way is taken back for its port, the
// others are done, and the next update does what was left.
func TestRefusal(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		l := newLab(t, release, "Ethernet0", "Ethernet4")
		l.apply(setupOf(quantize.Draft00, "Ethernet0", "Ethernet4"))
		l.update(vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}, vendors.PortUpdate{Port: "Ethernet4", Intents: intents(6, 21, 10, 11)})
		for nth := 0; nth < 8; nth += sized(t, 3, 1) {
			seen := 0
			l.sw.Refuse = func(key string, _ bool) string {
				if strings.Contains(key, "Ethernet0") {
					if seen++; seen == nth+1 {
						return "SWSS_RC_UNKNOWN"
					}
				}
				return ""
			}
			us := []vendors.PortUpdate{{Port: "Ethernet0", Intents: intents(7, 10, 21, 20)}, {Port: "Ethernet4", Intents: intents(8, uint8(nth), 21, 20)}}
			l.expect(us)
			res, err := l.Update(t.Context(), us, time.Second)
			l.sw.Refuse = nil
			var status *StatusError
			if got := portErrors(err); seen > nth && (len(got) != 1 || !errors.As(got["Ethernet0"], &status) || status.Status != "SWSS_RC_UNKNOWN" || !res.Leased) {
				t.Fatalf("operation %d refused: %+v, %v", nth, res, err)
			}
			if seen > nth {
				l.keeps("Ethernet0")
			}
			l.exact()
			l.clean()
			l.update(us...)
			l.clean()
			l.update(vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)})
		}
	})
}

// TestTakeBackRefused: where a change is refused half-way, and taking it back, too,
// the port is read again before anything else is done with it.
func TestTakeBackRefused(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		l := newLab(t, release, "Ethernet0")
		l.apply(setupOf(quantize.Draft00, "Ethernet0"))
		old := vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}
		l.update(old)
		next := []vendors.PortUpdate{{Port: "Ethernet0", Intents: intents(7, 10, 21, 20)}}
		seen := 0
		l.sw.Refuse = func(string, bool) string {
			if seen++; seen > 2 {
				return "SWSS_RC_UNKNOWN"
			}
			return ""
		}
		l.expect(next)
		_, err := l.Update(t.Context(), next, time.Second)
		l.sw.Refuse = nil
		if got := portErrors(err); len(got) != 1 || !strings.Contains(got["Ethernet0"].Error(), "cannot be rolled back") {
			t.Fatalf("%v", err)
		}
		l.update(old)
		l.clean()
	})
}

// TestFull: in an ASIC whose table is too small for all, the ports with the worst
// buckets have their change, the others keep what they had, and none has half of one.
func TestFull(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		var names []string
		for i := range 8 {
			names = append(names, fmt.Sprintf("Ethernet%d", 4*i))
		}
		l := newLab(t, release, names...)
		s := setupOf(quantize.Draft00, names...)
		s.Signals = s.Signals[:1]
		l.apply(s)
		var us []vendors.PortUpdate
		for _, n := range names { // one entry each
			us = append(us, vendors.PortUpdate{Port: n, Intents: intents(5, 15)})
		}
		l.update(us...)
		if n, _ := l.sw.Entries(""); n != len(names) {
			t.Fatalf("%d entries", n)
		}
		l.sw.SetRoom(8 + 2*5 + 4) // two whole changes, and one that is small
		us = us[:0]
		for i, n := range names {
			us = append(us, vendors.PortUpdate{Port: n, Intents: intents(5, uint8(7-i))}) // the last ones are the worst
		}
		l.expect(us)
		res, err := l.Update(t.Context(), us, time.Second)
		got := portErrors(err)
		if !res.Leased || len(got) == 0 || len(got) == len(names) {
			t.Fatalf("%+v, %v", res, err)
		}
		for _, n := range []string{"Ethernet28", "Ethernet24"} {
			if got[n] != nil {
				t.Errorf("%s has the worst news: %v", n, got[n])
			}
		}
		for port, err := range got {
			if !errors.Is(err, ErrFull) {
				t.Errorf("%s: %v", port, err)
			}
			l.keeps(port)
		}
		l.exact()
		l.clean()
		t.Logf("%d of %d ports have their change", len(names)-len(got), len(names))
		// The same again changes nothing; with room, the rest is done.
		if _, err := l.Update(t.Context(), us, time.Second); len(portErrors(err)) != len(got) {
			t.Errorf("again: %v", err)
		}
		l.exact()
		l.sw.SetRoom(1000)
		l.update(us...)
		l.clean()
	})
}

// TestFullWorstFirst: small changes of ports with good news do not take the room
// that the one with the worst news needs.
func TestFullWorstFirst(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		var names []string
		for i := range 8 {
			names = append(names, fmt.Sprintf("Ethernet%d", 4*i))
		}
		l := newLab(t, release, names...)
		s := setupOf(quantize.Draft00, names...)
		s.Signals = s.Signals[:1]
		l.apply(s)
		var us []vendors.PortUpdate
		for _, n := range names { // one entry each
			us = append(us, vendors.PortUpdate{Port: n, Intents: intents(5, 15)})
		}
		l.update(us...)
		l.sw.SetRoom(8 + 4) // four more for the one port, or one each for four
		us = us[:0]
		for i, n := range names {
			us = append(us, vendors.PortUpdate{Port: n, Intents: intents(5, 7)})
			if i == 5 {
				us[i].Intents = intents(5, 0)
			}
		}
		l.expect(us)
		_, err := l.Update(t.Context(), us, time.Second)
		got := portErrors(err)
		if got["Ethernet20"] != nil || len(got) != 7 {
			t.Errorf("%v", err)
		}
		for port := range got {
			l.keeps(port)
		}
		l.exact()
		l.clean()
	})
}

// TestSilence: what orchagent does not fetch in time is taken back; what it
// fetched and said nothing about is looked up.
func TestSilence(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		l := newLab(t, release, "Ethernet0", "Ethernet4")
		l.apply(setupOf(quantize.Draft00, "Ethernet0", "Ethernet4"))
		old := []vendors.PortUpdate{{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}, {Port: "Ethernet4", Intents: intents(6, 21, 10, 11)}}
		l.update(old...)
		us := []vendors.PortUpdate{{Port: "Ethernet0", Intents: intents(7, 10, 21, 20)}, {Port: "Ethernet4", Intents: intents(8, 9, 21, 20)}}

		l.sw.Hold(true)
		l.expect(us)
		l.session.patience = 200 * time.Millisecond
		res, err := l.Update(t.Context(), us, time.Second)
		l.session.patience = l.patience
		if got := portErrors(err); len(got) != 2 || !errors.Is(got["Ethernet0"], ErrSilent) || !res.Leased {
			t.Fatalf("%+v, %v", res, err)
		}
		l.keeps("Ethernet0")
		l.keeps("Ethernet4")
		l.exact()
		l.clean()
		if release < sonictest.R202605 {
			l.sw.Hold(false) // nothing of it is carried out late
			l.exact()
			l.update(us...)
		} else { // what was sent is carried out, and before anything else is sent
			l.expect(us)
			l.sw.Hold(false)
			if res, err := l.Update(t.Context(), us, time.Second); err != nil || !res.Leased || res.Repaired != nil {
				t.Fatalf("after it: %+v, %v", res, err)
			}
			l.exact()
		}

		l.expect(old)
		l.sw.Mute = func(key string) bool { return strings.Contains(key, "Ethernet0") }
		l.session.patience = 2 * time.Second // Ethernet4 is answered
		_, err = l.Update(t.Context(), old, time.Second)
		l.session.patience = l.patience
		l.sw.Mute = nil
		if got := portErrors(err); len(got) != 1 || !errors.Is(got["Ethernet0"], ErrSilent) {
			t.Fatalf("mute: %v", err)
		}
		if err := portErrors(err)["Ethernet0"]; !strings.Contains(err.Error(), "outcome unknown") {
			t.Errorf("%v", err)
		}
		l.update(us...) // what was carried out is undone, though it was not answered

		l.expect(old)
		l.sw.Mute = func(key string) bool { return strings.Contains(key, "Ethernet0") }
		l.session.patience = 2 * time.Second
		if _, err = l.Update(t.Context(), old, time.Second); len(portErrors(err)) != 1 {
			t.Fatalf("mute: %v", err)
		}
		l.session.patience = l.patience
		l.sw.Mute = nil
		l.keeps("Ethernet0") // or something between that and the new
		if res := l.update(old...); res.Repaired != nil {
			t.Errorf("it reports a change by another process: %q", res.Repaired)
		}
		l.clean()
	})
}
