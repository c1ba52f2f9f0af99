package sonic

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
	"github.com/csig-agent/csig/vlanrules"
)

// refusedWhole wants a refusal of the whole switch with these words by Probe and
// Apply, and nothing of the ports or the table changed.
func (l *lab) refusedWhole(words string) {
	l.t.Helper()
	f, err := l.Probe(l.t.Context())
	if err != nil || f.Update.Level != vlanrules.Refused || !strings.Contains(f.Update.Reason, words) {
		l.t.Errorf("Probe: %+v, %v, want %q", f.Update, err, words)
	}
	var perm *vendors.PermanentError
	if err := l.Apply(l.t.Context(), setupOf(quantize.Draft00, "Ethernet0")); !errors.As(err, &perm) || !strings.Contains(err.Error(), words) {
		l.t.Errorf("Apply: %v, want %q", err, words)
	}
	if tpid := l.sw.TPID("Ethernet0"); tpid != 0x8100 || l.sw.Tables() != 0 || len(l.sw.Redis.Keys(6, recordKey)) != 0 {
		l.t.Errorf("TPID %04x, %d tables, record %v", tpid, l.sw.Tables(), l.sw.Redis.Keys(6, "*CSIG*"))
	}
}

// TestObstacles: a SAI that wants each table's actions listed, and another
// application's table bound to the whole switch, are refused before anything changes.
func TestObstacles(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202405, "Ethernet0")
	l.sw.Redis.Do(6, "HSET", stageCapability, "is_action_list_mandatory", "true", "action_list", "PACKET_ACTION")
	l.refusedWhole("is_action_list_mandatory")
	l.sw.Redis.Do(6, "HSET", stageCapability, "is_action_list_mandatory", "false")
	l.sw.Watchdog(true)
	l.refusedWhole("PFC watchdog")

	l.sw.Watchdog(false)
	l.apply(setupOf(quantize.Draft00, "Ethernet0"))
	u := vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}
	l.update(u)
	for name, bind := range map[string]bool{"PFC watchdog": true, "nothing is bound": false} {
		l.sw.Watchdog(bind)
		l.elapse(recount)
		res, err := l.Update(t.Context(), []vendors.PortUpdate{u}, time.Second)
		if err == nil || res.Leased || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "tags pass unchanged") {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
}

// TestFirstTable: a definition that orchagent did not answer is not sent again, by
// whatever csig, however often orchagent starts: it may be what ends it.
func TestFirstTable(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		l := newLab(t, release, "Ethernet0")
		l.patience = 300 * time.Millisecond
		sent := 0
		l.sw.Refuse = func(key string, del bool) string {
			if strings.HasPrefix(key, definitions) && !del {
				sent++
			}
			return ""
		}
		l.sw.Mute = func(key string) bool { return strings.HasPrefix(key, definitions) }
		s := setupOf(quantize.Draft00, "Ethernet0")
		have, err := l.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		changes, err := l.Diff(have, s)
		if err != nil || changes[0].Kind != vendors.Create || !strings.Contains(changes[0].Disruptive, "pre-ingress") {
			t.Errorf("the plan: %+v, %v", changes, err)
		}
		l.open()
		if err := l.Apply(t.Context(), s); !errors.Is(err, ErrSilent) {
			t.Fatalf("%v", err)
		}
		const words = "does not send it again"
		for range 2 {
			l.sw.Restart()
			if _, err := l.Update(t.Context(), []vendors.PortUpdate{{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}}, time.Second); err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("Update: %v", err)
			}
			l.open()
			if err := l.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.refusedWhole(words)
		}
		if sent != 1 {
			t.Errorf("the definition was sent %d times", sent)
		}
		l.sw.Mute = nil
		l.sw.Redis.Do(6, "DEL", firstKey) // as the refusal says
		l.patience = time.Minute
		l.open()
		l.apply(s)
		if row := l.sw.Redis.Hash(6, firstKey); row[firstAnswered] == "" || len(row) != 1 {
			t.Errorf("the note is %v", row)
		}
		if err := l.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := l.sw.Redis.Keys(6, "*CSIG*"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// TestRefusedTPID: a TPID that SAI does not take is an error of its port each time,
// and shows when the switch is looked at.
func TestRefusedTPID(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202511, "Ethernet0", "Ethernet4")
	l.sw.RefuseTPID = func(port string) bool { return port == "Ethernet4" }
	l.patience = time.Second
	l.open()
	for range 2 {
		err := l.Apply(t.Context(), setupOf(quantize.Draft00, "Ethernet0", "Ethernet4"))
		if got := portErrors(err); len(got) != 1 || got["Ethernet4"] == nil || !strings.Contains(got["Ethernet4"].Error(), "SAI does not take it") {
			t.Fatalf("%v", err)
		}
		have, err := l.Observe(t.Context())
		if err != nil || have.Ports[0].Damaged != "" || !strings.Contains(have.Ports[1].Damaged, "the ASIC 0x8100") {
			t.Errorf("%+v, %v", have.Ports, err)
		}
	}
}

// TestSentTwice: a note that was untrue once is believed the second time, though the row
// is still there: nothing shows that orchagent has looked at it.
func TestSentTwice(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202405, "Ethernet0")
	s := setupOf(quantize.Draft00, "Ethernet0")
	row := []any{rows + definedTable}
	for _, w := range (definition{size: tableSize(&s), priority: tablePriority}).row().words() {
		row = append(row, w)
	}
	for _, again := range []bool{false, true} {
		l.sw.Redis.Do(0, "HSET", row...)
		l.sw.Redis.Do(6, "HSET", firstKey, firstSent, "2026-01-01T00:00:00Z")
		if again {
			l.sw.Redis.Do(6, "HSET", firstKey, firstAgain, "2026-01-01T00:01:00Z")
		}
		v, err := l.readRows(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if why, err := l.pendingFirstTable(t.Context(), v); err != nil || (why != "") != again {
			t.Errorf("again %v: %q, %v", again, why, err)
		}
		// One of before a cold start has no row any more.
		l.sw.Redis.Do(0, "DEL", rows+definedTable)
		if v, err = l.readRows(t.Context()); err != nil {
			t.Fatal(err)
		}
		if why, err := l.pendingFirstTable(t.Context(), v); err != nil || why == "" {
			t.Errorf("without a row: %q, %v", why, err)
		}
		// Nor does a row prove anything while orchagent is starting.
		l.sw.Redis.Do(0, "HSET", row...)
		if v, err = l.readRows(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.sw.Redis.Do(0, "DEL", portInit)
		if why, err := l.pendingFirstTable(t.Context(), v); err != nil || why == "" {
			t.Errorf("while it starts: %q, %v", why, err)
		}
		l.sw.Redis.Do(0, "HSET", portInit, "lanes", "0")
	}
}

// TestLaterTable: orchagent has answered a definition since the switch started. One that it
// does not answer later is no reason to keep the next one back.
func TestLaterTable(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202405, "Ethernet0")
	l.patience = 300 * time.Millisecond
	s := setupOf(quantize.Draft00, "Ethernet0")
	l.apply(s)
	if err := l.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.sw.Redis.Do(6, "HSET", firstKey, firstAnswered, "2026-01-01T00:00:00Z")
	l.sw.Mute = func(key string) bool { return strings.HasPrefix(key, definitions) }
	l.open()
	if err := l.Apply(t.Context(), s); err == nil {
		t.Fatal("a definition without an answer is taken for one that was answered")
	}
	if row := l.sw.Redis.Hash(6, firstKey); row[firstSent] != "" {
		t.Errorf("the note of a later table is %v", row)
	}
	l.sw.Mute = nil
	l.patience = time.Minute
	l.open()
	if err := l.Apply(t.Context(), s); err != nil {
		t.Error(err)
	}
}
