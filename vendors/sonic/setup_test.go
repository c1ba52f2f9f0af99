package sonic

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestRepair: a foreign change of our table is restored, and reported.
func TestRepair(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		l := newLab(t, release, "Ethernet0", "Ethernet4")
		l.settle = settleTime / 10
		l.apply(setupOf(quantize.Draft00, "Ethernet0"))
		u := vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}
		l.update(u)
		key := entryKey("Ethernet0", &l.ports[0].have[0])
		l.loose = true
		for name, harm := range map[string]rowOp{
			"an entry is deleted":          {key: key},
			"an entry is changed":          {key: key, to: row{"action": setAction, paramVID: "0x7ff"}},
			"an entry of another port":     {key: entryKey("Ethernet4", &l.ports[0].have[0]), to: entryRow(&l.ports[0].have[0])},
			"an entry that csig never has": {key: aclTable + `:{"match/out_port":"Ethernet0","match/vlan_id":"0x001&0x001","priority":3}`, to: row{"action": setAction, paramVID: "0x7ff"}},
		} {
			l.asOther(harm)
			l.elapse(recheck)
			if res, err := l.Update(t.Context(), []vendors.PortUpdate{u}, time.Second); err != nil || res.Repaired == nil {
				t.Fatalf("%s: %+v, %v; refused %v", name, res, err, l.sw.Refusals())
			}
			l.exact()
			l.clean()
			if _, n := l.sw.Entries("Ethernet4"); n != 0 {
				t.Errorf("%s: %d entries of another port", name, n)
			}
		}
	})
}

// TestTPIDRepair: so is a port's TPID that another process changes, and a port that
// appears is programmed.
func TestTPIDRepair(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202311, "Ethernet0", "Ethernet4")
	row := l.sw.Redis.Hash(4, "PORT|Ethernet4")
	l.sw.Redis.Do(4, "DEL", "PORT|Ethernet4")
	if err := l.Apply(t.Context(), setupOf(quantize.Draft00, "Ethernet0", "Ethernet4")); len(portErrors(err)) != 1 {
		t.Fatal(err)
	}
	us := []vendors.PortUpdate{{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}, {Port: "Ethernet4", Intents: intents(6, 21, 10, 11)}}
	l.loose = true
	l.expect(us)
	if _, err := l.Update(t.Context(), us, time.Second); len(portErrors(err)) != 1 {
		t.Fatal(err)
	}
	l.sw.Redis.Do(4, "HSET", "PORT|Ethernet0", "tpid", "0x9100")
	for f, v := range row {
		l.sw.Redis.Do(4, "HSET", "PORT|Ethernet4", f, v)
	}
	l.elapse(recheck)
	res, err := l.Update(t.Context(), us, time.Second)
	if err != nil || !strings.Contains(res.Repaired.String(), "0x9100") {
		t.Fatalf("%+v, %v", res, err)
	}
	for _, p := range []string{"Ethernet0", "Ethernet4"} {
		if got := l.sw.Redis.Hash(4, "PORT|"+p)["tpid"]; got != "0x88a8" {
			t.Errorf("%s: TPID %q", p, got)
		}
	}
	l.exact()
	l.clean()
}

// TestTPIDOfOthers: one that another process gave a port since is not removed with
// csig, and one that did not take effect is reported.
func TestTPIDOfOthers(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202405, "Ethernet0", "Ethernet4")
	l.apply(setupOf(quantize.Draft00, "Ethernet0", "Ethernet4"))
	l.sw.Redis.Do(0, "HSET", "PORT_TABLE:Ethernet4", "tpid", "0x8100")
	if have, err := l.Observe(t.Context()); err != nil || have.Ports[0].Damaged != "" || have.Ports[1].Damaged != "its TPID in APPL_DB is still 0x8100" {
		t.Errorf("%+v, %v", have, err)
	}
	l.sw.Redis.Do(4, "HSET", "PORT|Ethernet0", "tpid", "0x9200")
	if err := l.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	for port, want := range map[string]string{"Ethernet0": "0x9200", "Ethernet4": "0x8100"} {
		if got := l.sw.Redis.Hash(4, "PORT|"+port)["tpid"]; got != want {
			t.Errorf("%s: TPID %q, want %q", port, got, want)
		}
	}
}

// TestTableRefused: a SAI without such a table is a refusal with its words, and
// leaves the ports' TPIDs to be taken back.
func TestTableRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202311, "Ethernet0")
	l.sw.Refuse = func(key string, del bool) string {
		if strings.HasPrefix(key, definitions) && !del {
			return "SWSS_RC_UNIMPLEMENTED"
		}
		return ""
	}
	for range 2 { // what the refused row leaves in APPL_DB is no table
		var perm *vendors.PermanentError
		err := l.Apply(t.Context(), setupOf(quantize.Draft00, "Ethernet0"))
		if !errors.As(err, &perm) || !strings.Contains(err.Error(), "SWSS_RC_UNIMPLEMENTED") {
			t.Fatalf("%v", err)
		}
	}
	if err := l.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := l.sw.Redis.Hash(4, "PORT|Ethernet0")["tpid"]; got != "0x8100" {
		t.Errorf("TPID %q", got)
	}
	if left := l.sw.Redis.Keys(0, "*CSIG*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestMissingPort: a port that CONFIG_DB does not have is its own error, and is
// programmed when it appears.
func TestMissingPort(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202311, "Ethernet0", "Ethernet4")
	row := l.sw.Redis.Hash(4, "PORT|Ethernet4")
	l.sw.Redis.Do(4, "DEL", "PORT|Ethernet4")
	s := setupOf(quantize.Draft00, "Ethernet0", "Ethernet4")
	err := l.Apply(t.Context(), s)
	var pe *vendors.PortError
	if got := portErrors(err); len(got) != 1 || got["Ethernet4"] == nil || !errors.As(err, &pe) {
		t.Fatalf("%v", err)
	}
	us := []vendors.PortUpdate{{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}, {Port: "Ethernet4", Intents: intents(6, 21, 10, 11)}}
	l.loose = true
	l.expect(us)
	res, err := l.Update(t.Context(), us, time.Second)
	if got := portErrors(err); len(got) != 1 || got["Ethernet4"] == nil || !res.Leased {
		t.Fatalf("%+v, %v", res, err)
	}
	for f, v := range row {
		l.sw.Redis.Do(4, "HSET", "PORT|Ethernet4", f, v)
	}
	if err := l.Apply(t.Context(), s); err != nil { // the agent tries its setup again each second
		t.Fatal(err)
	}
	l.update(us...)
}

// TestSetupChanges goes through random setups, as the driver finds them and as it
// knows them: after each, the switch does what a fresh one would.
func TestSetupChanges(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		all := []string{"Ethernet0", "Ethernet4", "Ethernet8", "Ethernet12"}
		l := newLab(t, release, all...)
		rnd := rand.New(rand.NewPCG(2, uint64(release)))
		for range sized(t, 4, 12) {
			s := vendors.Setup{TPID: tpids[rnd.IntN(3)], Layout: quantize.Layout(rnd.IntN(2)), OnStale: "conservative"}
			if rnd.IntN(3) == 0 {
				s.OnStale = "passthrough"
			}
			s.Signals = quantize.Signals[:1+rnd.IntN(3)]
			for _, p := range all {
				if rnd.IntN(4) > 0 {
					s.Ports = append(s.Ports, vendors.PortSetup{Port: p, Action: vlanrules.Action(rnd.IntN(2))})
				}
			}
			if rnd.IntN(2) == 0 {
				l.open()
			}
			have, err := l.Observe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			changes, err := l.Diff(have, s)
			if err != nil {
				t.Fatal(err)
			}
			l.mu.Lock()
			l.loose, l.layout = true, s.Layout
			l.mu.Unlock()
			if err := l.Apply(t.Context(), s); err != nil {
				t.Fatalf("%+v: %v; refused %v", s, err, l.sw.Refusals())
			}
			l.mu.Lock()
			l.loose = false
			old := l.now
			l.now, l.was = map[string][]vlanrules.Intent{}, map[string][]vlanrules.Intent{}
			var us []vendors.PortUpdate
			for _, p := range all {
				l.now[p] = nil
				if i := indexOf(s, p); i >= 0 && s.Ports[i].Action == vlanrules.Update {
					l.now[p] = s.Fallback()
					if len(changes) == 0 || have.TPID != 0 && describe(&have) == describe(&s) && indexOf(have, p) >= 0 && have.Ports[indexOf(have, p)].Action == vlanrules.Update && tableSize(&have) >= tableSize(&s) {
						l.now[p] = old[p] // undisturbed
					}
					us = append(us, vendors.PortUpdate{Port: p, Intents: intents(uint16(1+rnd.IntN(9)), uint8(rnd.IntN(32)), uint8(rnd.IntN(32)), uint8(rnd.IntN(32)))[:len(s.Signals)]})
				}
				l.was[p] = l.now[p]
			}
			l.mu.Unlock()
			l.exact()
			l.clean()
			if again, err := l.Observe(t.Context()); err != nil {
				t.Fatal(err)
			} else if changes, err := l.Diff(again, s); err != nil || len(changes) > 0 {
				t.Fatalf("after Apply: %+v, %v", changes, err)
			}
			if len(us) > 0 {
				l.update(us...)
			}
		}
		if err := l.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if got := l.sw.Redis.Hash(4, "PORT|"+p)["tpid"]; got != "" && got != "0x8100" {
				t.Errorf("%s: TPID %q", p, got)
			}
		}
	})
}

func indexOf(s vendors.Setup, port string) int {
	for i := range s.Ports {
		if s.Ports[i].Port == port {
			return i
		}
	}
	return -1
}

// TestNeighbour: another application's table of P4Orch stays as it is, rows and
// entries, whatever becomes of csig's: when it is made, filled, repaired, rebuilt
// and removed.
func TestNeighbour(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		l := newLab(t, release, "Ethernet0", "Ethernet4", "Ethernet8")
		const other = "ACL_OTHER_EGRESS_TABLE"
		l.asOther(rowOp{key: definitions + ":" + other, to: definition{size: 64, priority: 7}.row()})
		entry := other + `:{"match/out_port":"Ethernet8","match/vlan_id":"0x800&0x800","priority":3}`
		l.asOther(rowOp{key: entry, to: row{"action": setAction, paramVID: "0x123"}})
		stays := func(when string) {
			t.Helper()
			l.sw.Settle()
			if n, of := l.sw.Entries("Ethernet8"); of != 1 || n < 1 {
				t.Errorf("%s: %d entries of the neighbour's", when, of)
			}
			if got := l.sw.EgressAll("Ethernet8", []quantize.TCI{0x0fff})[0]; got != 0x0123 {
				t.Errorf("%s: the neighbour's tag leaves as %04x", when, got)
			}
			if row := l.sw.Redis.Hash(0, rows+entry); len(row) != 2 || len(l.sw.Redis.Hash(0, rows+definitions+":"+other)) == 0 {
				t.Errorf("%s: the neighbour's rows are %v", when, row)
			}
		}
		stays("before csig")
		l.apply(setupOf(quantize.Draft00, "Ethernet0"))
		stays("with csig's table")
		u := vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}
		l.update(u)
		l.loose = true
		l.asOther(rowOp{key: entryKey("Ethernet4", &l.ports[0].have[0]), to: entryRow(&l.ports[0].have[0])}) // a stranger in csig's
		l.elapse(recheck)
		l.update(u)
		stays("after a repair")
		names := []string{"Ethernet0", "Ethernet4"}
		for i := range 30 { // ports that are not there yet, for which the table has to grow
			names = append(names, fmt.Sprintf("Ethernet%d", 100+4*i))
		}
		if err := l.Apply(t.Context(), setupOf(quantize.Draft00, names...)); len(portErrors(err)) != 30 {
			t.Fatal(err)
		}
		stays("when csig's table was rebuilt")
		if err := l.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		stays("after csig")
		if n, _ := l.sw.Entries(""); n != 1 || l.sw.Tables() != 1 {
			t.Errorf("%d entries, %d tables", n, l.sw.Tables())
		}
	})
}
