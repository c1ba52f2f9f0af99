package sonic

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
	"github.com/csig-agent/csig/vlanrules"
)

var releases = []sonictest.Release{sonictest.R202311, sonictest.R202405, sonictest.R202511}

func eachRelease(t *testing.T, f func(t *testing.T, release sonictest.Release)) {
	for _, r := range releases {
		t.Run([]string{"202311", "202405", "202511", "202605"}[r], func(t *testing.T) { f(t, r) })
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
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		l := newLab(t, release, "Ethernet0", "Ethernet4")
		l.apply(setupOf(quantize.Draft00, "Ethernet0", "Ethernet4"))
		l.update(vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}, vendors.PortUpdate{Port: "Ethernet4", Intents: intents(6, 21, 10, 11)})
		for nth := range 8 {
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

// TestFull: in an ASIC without room for all, the ports with the worst news have
// their change, the others keep what they had, and nobody has half of one.
func TestFull(t *testing.T) {
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

// TestLyingRow: a row of an entry that the ASIC does not have, as a csig leaves
// that was killed over a refusal, is not believed.
func TestLyingRow(t *testing.T) {
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

// TestSilence: what orchagent does not fetch in time is taken back; what it
// fetched and said nothing about is looked up.
func TestSilence(t *testing.T) {
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		l := newLab(t, release, "Ethernet0", "Ethernet4")
		l.apply(setupOf(quantize.Draft00, "Ethernet0", "Ethernet4"))
		old := []vendors.PortUpdate{{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}, {Port: "Ethernet4", Intents: intents(6, 21, 10, 11)}}
		l.update(old...)
		us := []vendors.PortUpdate{{Port: "Ethernet0", Intents: intents(7, 10, 21, 20)}, {Port: "Ethernet4", Intents: intents(8, 9, 21, 20)}}

		l.sw.Hold(true)
		l.expect(us)
		l.talk.patience = 200 * time.Millisecond
		res, err := l.Update(t.Context(), us, time.Second)
		l.talk.patience = l.patience
		if got := portErrors(err); len(got) != 2 || !errors.Is(got["Ethernet0"], ErrSilent) || !res.Leased {
			t.Fatalf("%+v, %v", res, err)
		}
		l.keeps("Ethernet0")
		l.keeps("Ethernet4")
		l.exact()
		l.clean()
		l.sw.Hold(false) // nothing of it is carried out late
		l.exact()
		l.update(us...)

		l.expect(old)
		l.sw.Mute = func(key string) bool { return strings.Contains(key, "Ethernet0") }
		l.talk.patience = time.Second // Ethernet4 is answered
		_, err = l.Update(t.Context(), old, time.Second)
		l.talk.patience = l.patience
		l.sw.Mute = nil
		if got := portErrors(err); len(got) != 1 || !errors.Is(got["Ethernet0"], ErrSilent) {
			t.Fatalf("mute: %v", err)
		}
		l.keeps("Ethernet0") // or something between that and the new
		l.update(old...)
		l.clean()
	})
}

// TestOrchagentRestart: after a restart of the swss container, and of orchagent
// alone, the table and every entry are made anew.
func TestOrchagentRestart(t *testing.T) {
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		for name, restart := range map[string]func(sw *sonictest.Switch){
			"container": (*sonictest.Switch).Restart,
			"alone":     func(sw *sonictest.Switch) { sw.Stop(); sw.Forget(); sw.Start() }, // the rows stay, and lie
		} {
			t.Run(name, func(t *testing.T) {
				l := newLab(t, release, "Ethernet0")
				now := time.Now()
				l.cfg.Now = func() time.Time { return now }
				s := setupOf(quantize.Draft00, "Ethernet0")
				l.apply(s)
				u := vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}
				l.update(u)
				l.loose = true // the ASIC is empty meanwhile, and tags pass
				restart(l.sw)
				now = now.Add(recheck)
				res, err := l.Update(t.Context(), []vendors.PortUpdate{u}, time.Second)
				if err != nil || !res.Leased || res.Repaired == "" {
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

// TestRedisRestart: with Redis all data is lost, as at a boot.
func TestRedisRestart(t *testing.T) {
	l := newLab(t, sonictest.R202311, "Ethernet0")
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
}

// TestRepair: what somebody changes in our table is put right, and said.
func TestRepair(t *testing.T) {
	l := newLab(t, sonictest.R202311, "Ethernet0", "Ethernet4")
	now := time.Now()
	l.cfg.Now = func() time.Time { return now }
	l.apply(setupOf(quantize.Draft00, "Ethernet0"))
	u := vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}
	l.update(u)
	key := entryKey("Ethernet0", &l.ports[0].have[0])
	l.loose = true
	for name, harm := range map[string]rowOp{
		"an entry is deleted":          {key: key},
		"an entry is changed":          {key, []string{"action", setAction, paramVID, "0x7ff"}},
		"an entry of another port":     {entryKey("Ethernet4", &l.ports[0].have[0]), entryFields(&l.ports[0].have[0])},
		"an entry that csig never has": {aclTable + `:{"match/out_port":"Ethernet0","match/vlan_id":"0x001&0x001","priority":3}`, []string{"action", setAction, paramVID, "0x7ff"}},
	} {
		sub, err := l.db.Subscribe(t.Context(), responses, "APPL_DB")
		if err != nil {
			t.Fatal(err)
		}
		answers, err := l.db.Do(t.Context(), setRows(l.talk.channel, []rowOp{harm})...)
		if err == nil {
			err = firstError(answers)
		}
		if err != nil {
			t.Fatal(err)
		}
		<-sub.C // somebody's agent, not ours, waits for its answer
		sub.Close()
		now = now.Add(recheck)
		// The subscription has to be gone at the server, too.
		for end := time.Now().Add(5 * time.Second); ; {
			res, err := l.Update(t.Context(), []vendors.PortUpdate{u}, time.Second)
			if err == nil && res.Repaired != "" {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %+v, %v; refused %v", name, res, err, l.sw.Refusals())
			}
			now = now.Add(recheck)
		}
		l.exact()
		l.clean()
		if _, n := l.sw.Entries("Ethernet4"); n != 0 {
			t.Errorf("%s: %d entries of another port", name, n)
		}
	}
}

// TestTPIDRepair: so is a port's TPID that somebody changes, and a port that
// appears is taken in.
func TestTPIDRepair(t *testing.T) {
	l := newLab(t, sonictest.R202311, "Ethernet0", "Ethernet4")
	now := time.Now()
	l.cfg.Now = func() time.Time { return now }
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
	now = now.Add(recheck)
	res, err := l.Update(t.Context(), us, time.Second)
	if err != nil || !strings.Contains(res.Repaired, "0x9100") {
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

// TestNotOurs: csig does not write where nobody reads, nor beside another writer.
func TestNotOurs(t *testing.T) {
	s := setupOf(quantize.Draft00, "Ethernet0")
	t.Run("ZeroMQ", func(t *testing.T) {
		l := newLab(t, sonictest.R202605, "Ethernet0")
		var perm *vendors.PermanentError
		if err := l.Apply(t.Context(), s); !errors.As(err, &perm) || !strings.Contains(err.Error(), "ZeroMQ") {
			t.Errorf("%v", err)
		}
		f, err := l.Probe(t.Context())
		if err != nil || f.Update.Level != vlanrules.Refused || !strings.Contains(f.Update.Reason, "202605") {
			t.Errorf("%+v, %v", f.Update, err)
		}
		l.clean()
		if got := l.sw.Redis.Hash(4, "PORT|Ethernet0")["tpid"]; got != "" {
			t.Errorf("TPID %q", got)
		}
	})
	t.Run("p4rt_app", func(t *testing.T) {
		l := newLab(t, sonictest.R202311, "Ethernet0")
		c, err := redis.Dial("unix", l.sw.Redis.Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ps := redis.PubSubConn{Conn: c}
		if err := ps.Subscribe(responses); err != nil {
			t.Fatal(err)
		}
		ps.Receive()
		var perm *vendors.PermanentError
		if err := l.Apply(t.Context(), s); !errors.As(err, &perm) || !strings.Contains(err.Error(), "p4rt_app") {
			t.Errorf("%v", err)
		}
		l.clean()
	})
	t.Run("two of csig", func(t *testing.T) {
		l := newLab(t, sonictest.R202311, "Ethernet0")
		l.apply(s)
		other := Open(Config{Redis: clientOf(l.sw.Redis)})
		defer other.Close()
		if err := other.Apply(t.Context(), s); err == nil || !strings.Contains(err.Error(), "another csig") {
			t.Errorf("%v", err)
		}
		if have, err := other.Observe(t.Context()); err != nil || have.TPID != s.TPID { // looking is free
			t.Errorf("%+v, %v", have, err)
		}
		if f, err := other.Probe(t.Context()); err != nil || f.Update.Level == vlanrules.Refused {
			t.Errorf("%+v, %v", f.Update, err)
		}
	})
}

// TestProof: an answer is no proof where P4Orch reports what it has: one that is
// not followed by the report is an error, and the port is looked at anew.
func TestProof(t *testing.T) {
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

// TestProbe: what the switch says of itself.
func TestProbe(t *testing.T) {
	l := newLab(t, sonictest.R202311, "Ethernet0")
	r := l.sw.Redis
	r.Do(2, "HSET", "CRM:ACL_STATS:EGRESS:SWITCH", "crm_stats_acl_table_available", "3")
	r.Do(4, "HSET", "FLEX_COUNTER_TABLE|PORT", "POLL_INTERVAL", "1000")
	r.Do(4, "HSET", "DEVICE_METADATA|localhost", "hwsku", "ACS-X", "platform", "x86_64-x")
	r.Do(0, "HSET", "P4RT_TABLE:ACL_TABLE_DEFINITION_TABLE:ACL_OTHER", "stage", "EGRESS", "priority", "7")
	r.Do(0, "HSET", "P4RT_TABLE:ACL_TABLE_DEFINITION_TABLE:ACL_IN", "stage", "INGRESS", "priority", "8")
	f, err := l.Probe(t.Context())
	notes := strings.Join(f.Notes, "\n")
	if err != nil || f.Update.Level != vlanrules.Degraded || !strings.Contains(notes, "3 more ACL tables") || !strings.Contains(notes, "ACS-X") || !strings.Contains(notes, "1000 ms") ||
		!strings.Contains(notes, "ACL_OTHER at egress, with priority 7") || strings.Contains(notes, "ACL_IN") {
		t.Errorf("%+v, %v", f, err)
	}
	r.Do(2, "HSET", "CRM:ACL_STATS:EGRESS:SWITCH", "crm_stats_acl_table_available", "0")
	if f, err = l.Probe(t.Context()); err != nil || f.Update.Level != vlanrules.Refused || !strings.Contains(f.Update.Reason, "no room for another ACL table") {
		t.Errorf("%+v, %v", f.Update, err)
	}
	l.apply(setupOf(quantize.Draft00, "Ethernet0"))
	if f, err = l.Probe(t.Context()); err != nil || f.Update.Level == vlanrules.Refused {
		t.Errorf("with our own table: %+v, %v", f.Update, err)
	}
	// What ASIC_DB and CRM have of our table, beside another at egress.
	for oid, fields := range map[string][]any{
		"0x7000000000600": {"SAI_ACL_TABLE_ATTR_ACL_STAGE", "SAI_ACL_STAGE_EGRESS", "SAI_ACL_TABLE_ATTR_FIELD_OUT_PORT", "true", "SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_ID", "true", "SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_PRI", "true"},
		"0x7000000000601": {"SAI_ACL_TABLE_ATTR_ACL_STAGE", "SAI_ACL_STAGE_EGRESS", "SAI_ACL_TABLE_ATTR_FIELD_OUT_PORT", "true", "SAI_ACL_TABLE_ATTR_FIELD_DSCP", "true", "SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_ID", "true"},
	} {
		r.Do(1, "HSET", append([]any{asicTables + "oid:" + oid}, fields...)...)
	}
	if f, err = l.Probe(t.Context()); err != nil || f.Rules.Entries != 0 {
		t.Errorf("before CRM has polled: %+v, %v", f.Rules, err)
	}
	r.Do(2, "HSET", "CRM:ACL_TABLE_STATS:0x7000000000600", "crm_stats_acl_entry_used", 15, "crm_stats_acl_entry_available", 497)
	if f, err = l.Probe(t.Context()); err != nil || f.Rules.Entries != 512 || !f.Rules.Shared {
		t.Errorf("%+v, %v", f.Rules, err)
	}
	r.Do(6, "HSET", "SWITCH_CAPABILITY|switch", "PORT_TPID_CAPABLE", "false")
	if f, err = l.Probe(t.Context()); err != nil || f.Update.Level != vlanrules.Refused || !strings.Contains(f.Update.Reason, "PORT_TPID_CAPABLE") {
		t.Errorf("%+v, %v", f.Update, err)
	}
	l.sw.Stop()
	_ = l.Driver.Close()
	l.open()
	if _, err := l.Probe(t.Context()); !errors.Is(err, ErrSilent) {
		t.Errorf("without orchagent: %v", err)
	}
}

// TestHealth reads losses and MTUs.
func TestHealth(t *testing.T) {
	l := newLab(t, sonictest.R202311, "Ethernet0", "Ethernet4")
	r := l.sw.Redis
	r.Do(2, "HSET", "COUNTERS_PORT_NAME_MAP", "Ethernet0", "oid:0x1", "Ethernet4", "oid:0x2")
	r.Do(2, "HSET", "COUNTERS:oid:0x1", "SAI_PORT_STAT_IF_IN_ERRORS", 1, "SAI_PORT_STAT_IF_OUT_ERRORS", 2, "SAI_PORT_STAT_IF_IN_DISCARDS", 4, "SAI_PORT_STAT_IF_OUT_DISCARDS", 8)
	h, err := l.Health(t.Context())
	if err != nil || len(h) != 2 || h[0] != (vendors.PortHealth{Port: "Ethernet0", Errors: 3, Discards: 12}) || h[1] != (vendors.PortHealth{Port: "Ethernet4"}) {
		t.Errorf("%+v, %v", h, err)
	}
	if err := l.SetMTU(t.Context(), "Ethernet0", 9216); err != nil {
		t.Error(err)
	}
	mtus, err := l.MTUs(t.Context())
	if err != nil || len(mtus) != 2 || mtus["Ethernet0"] != 9216 || mtus["Ethernet4"] != 9100 {
		t.Errorf("%v, %v", mtus, err)
	}
	for port, mtu := range map[string]int{"Ethernet0": 9217, "Ethernet8": 9000} {
		if err := l.SetMTU(t.Context(), port, mtu); err == nil {
			t.Errorf("%s takes an MTU of %d", port, mtu)
		}
	}
	if len(r.Keys(4, "PORT|Ethernet8")) > 0 {
		t.Error("a port was made")
	}
}

// TestTableRefused: a SAI without such a table is a refusal with its words, and
// leaves the ports' TPIDs to be taken back.
func TestTableRefused(t *testing.T) {
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
	l := newLab(t, sonictest.R202311, "Ethernet0", "Ethernet4")
	now := time.Now()
	l.cfg.Now = func() time.Time { return now }
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
	if err := l.Apply(t.Context(), s); err != nil { // the agent tries its set-up again each second
		t.Fatal(err)
	}
	l.update(us...)
}

// TestSetupChanges goes through random setups, as the driver finds them and as it
// knows them: after each, the switch does what a fresh one would.
func TestSetupChanges(t *testing.T) {
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		all := []string{"Ethernet0", "Ethernet4", "Ethernet8", "Ethernet12"}
		l := newLab(t, release, all...)
		rnd := rand.New(rand.NewPCG(2, uint64(release)))
		for range 12 {
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
					l.now[p] = fallback(&s)
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

// TestLateRows: since SONiC 202405 rows are taken away and written anew after the
// answers. What is not there yet is not taken for what is not there.
func TestLateRows(t *testing.T) {
	for _, release := range []sonictest.Release{sonictest.R202405, sonictest.R202511} {
		l := newLab(t, release, "Ethernet0", "Ethernet4")
		l.sw.Late = func(string) { time.Sleep(2 * time.Millisecond) } // how far behind the thread is
		now := time.Now()
		l.cfg.Now = func() time.Time { return now }
		s := setupOf(quantize.Draft00, "Ethernet0", "Ethernet4")
		for i := range 3 {
			l.apply(s)
			l.update(vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, uint8(i), 11)}, vendors.PortUpdate{Port: "Ethernet4", Intents: intents(5, 7, 9, uint8(i))})
			l.clean()
			now = now.Add(recheck)
			if res := l.update(vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, uint8(i), 12)}); res.Repaired != "" {
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
		if bad := l.sw.Refusals(); len(bad) > 0 {
			for _, b := range bad {
				if !strings.Contains(b, "CREATE_ONLY") { // how it says that it has the table
					t.Errorf("refused %v", b)
				}
			}
		}
	}
}
