package sonic

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
)

// TestLyingRow: a row of an entry that the ASIC does not have, as a csig leaves
// that was killed over a refusal, is not believed.
func TestLyingRow(t *testing.T) {
	t.Parallel()
	for _, release := range []sonictest.Release{sonictest.R202405, sonictest.R202511} {
		l := newLab(t, release, "Ethernet0")
		l.apply(setupOf(quantize.Draft00, "Ethernet0"))
		u := vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}
		l.update(u)
		l.loose = true
		for i := range l.ports[0].have {
			if e := &l.ports[0].have[i]; e.Match.PCP.Value == 1 {
				l.sw.Lose(entryKey("Ethernet0", e))
			}
		}
		l.open()
		l.update(u)
		l.clean()
	}
}

// TestOrchagentRestart: after a restart of the swss container, and of orchagent
// alone, the table and every entry are restored.
func TestOrchagentRestart(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		for name, restart := range map[string]func(sw *sonictest.Switch){
			"container": (*sonictest.Switch).Restart,
			"alone":     func(sw *sonictest.Switch) { sw.Stop(); sw.Forget(); sw.Start() }, // the rows stay, and lie
		} {
			t.Run(name, func(t *testing.T) {
				l := newLab(t, release, "Ethernet0")
				l.settle = settleTime / 10
				s := setupOf(quantize.Draft00, "Ethernet0")
				l.apply(s)
				u := vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}
				l.update(u)
				l.loose = true // the ASIC is empty meanwhile, and tags pass
				restart(l.sw)
				l.elapse(recheck)
				res, err := l.Update(t.Context(), []vendors.PortUpdate{u}, time.Second)
				if err != nil || !res.Leased || res.Repaired == nil {
					t.Fatalf("%+v, %v; refused %v", res, err, l.sw.Refusals())
				}
				l.exact()
				l.clean()
				if have, err := l.Observe(t.Context()); err != nil || have.Damaged != "" {
					t.Errorf("%+v, %v", have, err)
				}
			})
		}
	})
}

// TestEntriesGone: a table that is there without its entries does not pass as sound,
// whatever the rows say: after a warm restart, which the databases tell of, nor where
// nothing does but the ASIC's count.
func TestEntriesGone(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		for name, test := range map[string]struct {
			lose  func(l *lab)
			looks int // of so many, one notices
		}{
			"warm restart": {func(l *lab) { l.sw.WarmRestart() }, 1},
			"all without a word": {func(l *lab) {
				for _, p := range l.ports {
					for i := range p.have {
						l.sw.Lose(entryKey(p.name, &p.have[i]))
					}
				}
			}, int(recount/recheck) + 1},
			"the last one without a word": {func(l *lab) {
				p := l.ports[1]
				l.sw.Lose(entryKey(p.name, &p.have[len(p.have)-1]))
			}, int(recount/recheck) + 1},
		} {
			t.Run(name, func(t *testing.T) {
				l := newLab(t, release, "Ethernet0", "Ethernet4")
				l.settle = settleTime / 10
				l.apply(setupOf(quantize.Draft00, "Ethernet0", "Ethernet4"))
				us := []vendors.PortUpdate{{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}, {Port: "Ethernet4", Intents: intents(5, 20, 9, 12)}}
				l.update(us...)
				l.sw.Settle()
				l.elapse(recheck)
				l.update(us...) // and it has counted
				all, _ := l.sw.Entries("")
				l.loose = true
				test.lose(l)
				if n, _ := l.sw.Entries(""); n == all || l.sw.Tables() != 1 {
					t.Fatalf("%d of %d entries, %d tables", n, all, l.sw.Tables())
				}
				said := ""
				for range test.looks {
					l.elapse(recheck)
					res, err := l.Update(t.Context(), us, time.Second)
					if err != nil || !res.Leased {
						t.Fatalf("%+v, %v; refused %v", res, err, l.sw.Refusals())
					}
					said += res.Repaired.String()
				}
				if n, _ := l.sw.Entries(""); n != all || said == "" {
					t.Errorf("%d of %d entries, repaired %q", n, all, said)
				}
				l.exact()
				l.clean()
				l.elapse(recount)
				if res := l.update(us...); res.Repaired != nil {
					t.Errorf("then: %q", res.Repaired)
				}
			})
		}
	})
}

// TestWarmRestartUnseen: a csig that is started after orchagent came back does not
// believe the rows, those of APPL_STATE_DB neither.
func TestWarmRestartUnseen(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		l := newLab(t, release, "Ethernet0")
		l.apply(setupOf(quantize.Draft00, "Ethernet0"))
		u := vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}
		l.update(u)
		l.sw.Settle()
		l.loose = true
		_ = l.Driver.Close()
		l.sw.WarmRestart()
		l.open()
		l.update(u)
		l.clean()
	})
}

// TestNeverCounted: where the ASIC goes on having fewer entries than orchagent
// answers, that is an error of every cycle that looks.
func TestNeverCounted(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202405, "Ethernet0")
	l.settle = settleTime / 20
	l.apply(setupOf(quantize.Draft00, "Ethernet0"))
	u := vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}
	l.update(u)
	keys := l.sw.Redis.Keys(1, asicEntries+"*")
	l.sw.Redis.Do(1, "DEL", keys[0])
	l.elapse(recount)
	for range 2 {
		for range 2 {
			res, err := l.Update(t.Context(), []vendors.PortUpdate{u}, time.Second)
			if err == nil || res.Leased || !strings.Contains(err.Error(), "ASIC_DB has") {
				t.Errorf("%+v, %v", res, err)
			}
		}
		l.elapse(recheck)
	}
	l.sw.Redis.Do(1, "HSET", keys[0], "SAI_ACL_ENTRY_ATTR_TABLE_ID", l.tableObject())
	l.elapse(recheck)
	l.update(u)
	l.elapse(recheck)
	if res := l.update(u); res.Repaired != nil {
		t.Errorf("repaired %q", res.Repaired)
	}
}

// tableObject is that of our table in ASIC_DB.
func (l *lab) tableObject() string {
	l.t.Helper()
	v, err := l.lookASIC(l.t.Context())
	if err != nil || v.table == "" {
		l.t.Fatalf("%+v, %v", v, err)
	}
	return v.table
}

// TestRedisRestart: with Redis all data is lost, as at a boot.
func TestRedisRestart(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		l := newLab(t, release, "Ethernet0")
		l.settle = settleTime / 10
		l.apply(setupOf(quantize.Draft00, "Ethernet0"))
		u := vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}
		l.update(u)
		l.loose = true
		l.sw.Redis.Stop()
		l.sw.Stop()
		if res, err := l.Update(t.Context(), []vendors.PortUpdate{u}, time.Second); err == nil || res.Leased {
			t.Fatalf("without Redis: %+v, %v", res, err)
		}
		l.sw.Forget()
		l.sw.Redis.Start()
		// Redis is up, and swss not yet.
		if res, err := l.Update(t.Context(), []vendors.PortUpdate{u}, time.Second); !errors.Is(err, ErrSilent) || res.Leased {
			t.Fatalf("without orchagent: %+v, %v", res, err)
		}
		l.sw.Boot()
		res, err := l.Update(t.Context(), []vendors.PortUpdate{u}, time.Second)
		if err != nil || !res.Leased {
			t.Fatalf("%+v, %v; refused %v", res, err, l.sw.Refusals())
		}
		l.exact()
		if got := l.sw.Redis.Hash(4, "PORT|Ethernet0")["tpid"]; got != "0x88a8" {
			t.Errorf("TPID %q", got)
		}
	})
}

// TestProof: an answer is no proof where P4Orch reports what it has: one that is
// not followed by the report is an error, and the port is read again.
func TestProof(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202311, "Ethernet0", "Ethernet4")
	l.apply(setupOf(quantize.Draft00, "Ethernet0", "Ethernet4"))
	us := []vendors.PortUpdate{{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}, {Port: "Ethernet4", Intents: intents(6, 21, 10, 11)}}
	l.update(us...)
	next := []vendors.PortUpdate{{Port: "Ethernet0", Intents: intents(5, 22, 10, 11)}, {Port: "Ethernet4", Intents: intents(6, 22, 10, 11)}}
	lies := 0
	l.sw.Lie = func(key string) bool {
		if strings.Contains(key, "Ethernet0") {
			lies++
		}
		return lies == 1 && strings.Contains(key, "Ethernet0")
	}
	l.expect(next)
	l.loose = true
	res, err := l.Update(t.Context(), next, time.Second)
	if got := portErrors(err); len(got) != 1 || got["Ethernet0"] == nil || !strings.Contains(got["Ethernet0"].Error(), "APPL_STATE_DB") || lies == 0 {
		t.Fatalf("%+v, %v; %d lies", res, err, lies)
	}
	l.update(next...)
	l.clean()
}

// TestLateRows: since SONiC 202405 rows are taken away and written again after the
// answers. What is not there yet is not taken for what is not there.
func TestLateRows(t *testing.T) {
	t.Parallel()
	for _, release := range []sonictest.Release{sonictest.R202405, sonictest.R202511} {
		l := newLab(t, release, "Ethernet0", "Ethernet4")
		l.sw.Late = func(string) { time.Sleep(2 * time.Millisecond) } // how far behind the thread is
		s := setupOf(quantize.Draft00, "Ethernet0", "Ethernet4")
		for i := range 3 {
			l.apply(s)
			l.update(vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, uint8(i), 11)}, vendors.PortUpdate{Port: "Ethernet4", Intents: intents(5, 7, 9, uint8(i))})
			l.clean()
			l.elapse(recheck)
			if res := l.update(vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, uint8(i), 12)}); res.Repaired != nil {
				t.Errorf("repaired %q", res.Repaired)
			}
			s.Profile = strings.Repeat(strconv.Itoa(i), 64) // the table stays, the entries do not
		}
		if err := l.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, _ := l.sw.Entries(""); n != 0 || l.sw.Tables() != 0 {
			t.Errorf("%d entries, %d tables left", n, l.sw.Tables())
		}
		l.didAll()
	}
}

// TestReboot: everything but CONFIG_DB is gone, which is as it was saved: with
// csig's TPIDs or without. A csig that starts before orchagent gets nowhere, and
// then makes all of it; what it restores in the end is what it knows, and the
// default where that is unknown.
func TestReboot(t *testing.T) {
	t.Parallel()
	for name, saved := range map[string]bool{"saved": true, "not saved": false} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, sonictest.R202405, "Ethernet0", "Ethernet4", "Ethernet8")
			r := l.sw.Redis
			l.sw.Join("PortChannel7", "Ethernet4", "Ethernet8")
			r.Do(4, "HSET", "PORT|Ethernet0", "tpid", "0x9100")
			config := func() map[string]map[string]string {
				rows := map[string]map[string]string{}
				for _, k := range r.Keys(4, "*") {
					rows[k] = r.Hash(4, k)
				}
				return rows
			}
			disk := config()
			s := setupOf(quantize.Draft00, "Ethernet0", "Ethernet4", "Ethernet8")
			l.apply(s)
			us := []vendors.PortUpdate{{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}, {Port: "Ethernet4", Intents: intents(6, 22, 10, 11)}, {Port: "Ethernet8", Intents: intents(7, 23, 10, 11)}}
			l.update(us...)
			if saved {
				disk = config()
			}

			_ = l.Driver.Close()
			r.Stop()
			l.sw.Stop()
			l.sw.Forget()
			r.Start()
			for k, row := range disk {
				for f, v := range row {
					r.Do(4, "HSET", k, f, v)
				}
			}
			l.open()
			if have, err := l.Observe(t.Context()); err != nil || have.TPID != 0 || have.Damaged != "" {
				t.Errorf("%+v, %v", have, err)
			}
			if err := l.Apply(t.Context(), s); !errors.Is(err, ErrSilent) {
				t.Fatalf("before orchagent: %v", err)
			}
			l.sw.Boot()
			f, err := l.Probe(t.Context())
			off := strings.Join(f.Off, "\n")
			if err != nil || strings.Contains(off, "TPID 0x88a8 for Ethernet0, PortChannel7,") != saved || strings.Contains(off, "TPID 0x9100 for Ethernet0,") == saved {
				t.Errorf("%s, %v", off, err)
			}
			have, err := l.Observe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			changes, err := l.Diff(have, s)
			if err != nil || len(changes) != 4 {
				t.Fatalf("%+v, %v", changes, err)
			}
			for _, c := range changes[1:] { // the plan does not take the loss for one to come
				if strings.Contains(c.Detail, "off gives it 0x8100") != saved || (c.Disruptive == "") != saved {
					t.Errorf("%+v", c)
				}
			}
			l.loose = false
			l.apply(s)
			l.update(us...)
			l.clean()
			if f, err = l.Probe(t.Context()); err != nil || saved && (len(f.Off) != 1 || !strings.HasPrefix(f.Off[0], "what TPID Ethernet0, PortChannel7 had")) || !saved && len(f.Off) != 0 {
				t.Errorf("%q, %v", f.Off, err)
			}
			if have, err = l.Observe(t.Context()); err != nil {
				t.Fatal(err)
			}
			rest := s
			rest.Ports = rest.Ports[1:2]
			if changes, err = l.Diff(have, rest); err != nil || len(changes) != 2 {
				t.Fatalf("%+v, %v", changes, err)
			}
			for _, c := range changes {
				if strings.Contains(c.Disruptive, "not known") != saved || !strings.HasPrefix(c.Disruptive, restores) {
					t.Errorf("%+v", c)
				}
			}

			if err := l.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"PORT|Ethernet0": "0x9100", "PORTCHANNEL|PortChannel7": "0x8100"}
			if saved {
				want = map[string]string{"PORT|Ethernet0": "0x8100", "PORTCHANNEL|PortChannel7": "0x8100"}
			}
			for key, tpid := range want {
				if got := r.Hash(4, key)["tpid"]; got != tpid {
					t.Errorf("%s: TPID %q, want %q", key, got, tpid)
				}
			}
			if n, _ := l.sw.Entries(""); n != 0 || l.sw.Tables() != 0 {
				t.Errorf("%d entries, %d tables left", n, l.sw.Tables())
			}
		})
	}
}
