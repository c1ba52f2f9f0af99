package ovs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ovs/openflow"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
	"github.com/csig-agent/csig/vlanrules"
)

// at7 is the update of the tests that need one: abw at bucket 7, locator 5.
var at7 = vendors.PortUpdate{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MinABW, 7, 5)}}

var (
	best  = tag{tpidCSIG, 31<<7 | 126} // as a sender sends it
	at7s  = tag{tpidCSIG, 7<<7 | 5}
	stale = tag{tpidCSIG, 0<<7 | 125}
)

// pass sends a frame and returns it as it arrives, nil where it does not.
func (s *sandwich) pass(tags ...tag) []byte { return s.passWithin(soon, tags...) }

// passWithin is pass where a frame may well be lost. Each frame has a number of its
// own, lest one that comes late is taken for the next; what is returned has 1, as
// frame(1) has.
func (s *sandwich) passWithin(patience time.Duration, tags ...tag) []byte {
	number := 1<<31 | rand.Uint32()
	s.in.Send(frame(number, tags...))
	for {
		b := s.out.Receive(patience)
		if b == nil {
			return nil
		}
		if seqOf(b) == number {
			return numbered(1, b)
		}
	}
}

// numbered is a frame with another number.
func numbered(seq uint32, b []byte) []byte {
	b = bytes.Clone(b)
	binary.BigEndian.PutUint32(b[len(b)-18:], seq)
	return b
}

// becomes waits until frames with these tags leave with those.
func (s *sandwich) becomes(t testing.TB, limit time.Duration, sent []tag, want ...tag) time.Duration {
	t.Helper()
	start := time.Now()
	var got []byte
	for time.Since(start) < limit {
		if got = s.passWithin(300*time.Millisecond, sent...); bytes.Equal(got, frame(1, want...)) {
			return time.Since(start)
		}
	}
	t.Fatalf("after %v frames leave as %x, want %x\n%s", limit, got, frame(1, want...), s.Ofctl("dump-flows", "csig"))
	return 0
}

// keep sends updates as an agent does, until done.
func keep(t testing.TB, d *Driver, done <-chan struct{}, lease time.Duration, updates ...vendors.PortUpdate) (repaired []string) {
	t.Helper()
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for {
		res, _ := d.Update(context.Background(), updates, lease) // some of them fail, in some tests
		if res.Repaired != "" {
			repaired = append(repaired, res.Repaired)
		}
		select {
		case <-done:
			return repaired
		case <-every.C:
		}
	}
}

// TestLease lets the lease run out, under each policy.
func TestLease(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		policy inventory.OnStale
		want   []tag
	}{
		{inventory.Conservative, []tag{stale}},
		{inventory.StalePassthrough, []tag{best}},
		{inventory.StaleStrip, nil},
	} {
		t.Run(string(tc.policy), func(t *testing.T) {
			t.Parallel()
			s := newSandwich(t)
			setup := setupFor(quantize.Draft00, swp1)
			setup.OnStale = tc.policy
			apply(t, s.driver, setup)
			s.becomes(t, soon, []tag{best}, tc.want...) // no agent yet
			var start time.Time
			for try := 0; ; try++ { // a busy machine may see nothing of so short a lease
				start = time.Now()
				res, err := s.driver.Update(t.Context(), []vendors.PortUpdate{at7}, 300*time.Millisecond)
				if err == nil && res.Lease != time.Second {
					t.Errorf("300 ms are a lease of %v", res.Lease)
				}
				if err == nil && bytes.Equal(s.pass(best), frame(1, at7s)) {
					break
				}
				if try == 100 {
					t.Fatalf("a lease of a second changes nothing: %v\n%s", err, s.Ofctl("dump-flows", "csig"))
				}
			}
			s.becomes(t, soon, []tag{best}, tc.want...)
			// A second, rounded up from 300 ms, and up to one more until it is looked at;
			// a slow machine may take three times as long.
			if took := time.Since(start); took < 700*time.Millisecond || took > 6*time.Second {
				t.Errorf("a lease of 1 s ended after %v", took)
			}
			update(t, s.driver, time.Minute, at7)
			s.becomes(t, soon, []tag{best}, at7s)
			if err := s.driver.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.becomes(t, soon, []tag{best}, tc.want...)
		})
	}
}

func TestStrip(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, vendors.PortSetup{Port: "swp1", Action: vlanrules.Strip}))
	s.becomes(t, soon, []tag{best})
	for _, tc := range []struct{ sent, want []tag }{
		{[]tag{{tpidCSIG, 3<<13 | 5}}, nil},
		{[]tag{{tpidVLAN, 31<<7 | 126}}, []tag{{tpidVLAN, 31<<7 | 126}}},
		{[]tag{{tpidVLAN, 77}, best}, []tag{{tpidVLAN, 77}}},
		{[]tag{{tpidVLAN, 77}, {tpidVLAN, 78}}, []tag{{tpidVLAN, 77}, {tpidVLAN, 78}}},
		{nil, nil},
	} {
		if got := s.pass(tc.sent...); !bytes.Equal(got, frame(1, tc.want...)) {
			t.Errorf("%x leaves as %x", frame(1, tc.sent...), got)
		}
	}
	wide := setupFor(quantize.Draft00, vendors.PortSetup{Port: "swp1", Action: vlanrules.Strip})
	wide.WideTPID = 0x9901
	var p *vendors.PermanentError
	if err := s.driver.Apply(t.Context(), wide); !errors.As(err, &p) || p.Port != "swp1" {
		t.Errorf("strip of wide tags: %v", err)
	}
}

// TestRestartOfTheSwitch kills ovs-vswitchd, and with it every flow: until the
// agent has made them anew no frame leaves.
func TestRestartOfTheSwitch(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	s.becomes(t, soon, []tag{best}, at7s)
	s.StopSwitch()
	if _, err := s.driver.Update(t.Context(), []vendors.PortUpdate{at7}, time.Minute); err == nil {
		t.Error("an update of a bridge that is gone succeeds")
	}
	s.StartSwitch()
	s.Ofctl("add-flow", "br0", "actions=NORMAL")
	for range 3 {
		if got := s.passWithin(300*time.Millisecond, best); got != nil && !bytes.Equal(got, frame(1, at7s)) {
			t.Errorf("a frame leaves as %x before csig is back", got)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.becomes(t, soon, []tag{best}, at7s)
	}()
	keep(t, s.driver, done, time.Minute, at7)
	if got, err := s.driver.Observe(t.Context()); err != nil || got.Damaged != "" || got.Ports[0] != swp1 {
		t.Errorf("observed %+v, %v", got, err)
	}
}

// TestRestartOfTheDatabase kills ovsdb-server. ovs-vswitchd without it answers
// nobody, and the userspace datapath forwards nothing; afterwards all goes on.
func TestRestartOfTheDatabase(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	s.becomes(t, soon, []tag{best}, at7s)
	s.StopDatabase()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	nine := vendors.PortUpdate{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MinABW, 9, 5)}}
	if res, err := s.driver.Update(ctx, []vendors.PortUpdate{nine}, time.Minute); err == nil || res.Leased {
		t.Errorf("an update that nobody answered: %+v, %v", res, err)
	}
	if got := s.passWithin(300*time.Millisecond, best); got != nil && !bytes.Equal(got, frame(1, at7s)) && !bytes.Equal(got, frame(1, tag{tpidCSIG, 9<<7 | 5})) {
		t.Errorf("a frame leaves as %x", got)
	}
	s.StartDatabase()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.becomes(t, soon, []tag{best}, tag{tpidCSIG, 9<<7 | 5})
	}()
	keep(t, s.driver, done, time.Minute, nine)
}

// TestDatabaseThatHangs stops ovsdb-server without ending it: cycles go on, and
// take its answer in when it comes.
func TestDatabaseThatHangs(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	s.PauseDatabase(true)
	slowest := time.Duration(0)
	for i := range 20 {
		s.driver.checked = time.Time{} // it is time to look
		start := time.Now()
		in := bucket(quantize.MinABW, uint8(i), 5)
		update(t, s.driver, time.Minute, vendors.PortUpdate{Port: "swp1", Intents: []vlanrules.Intent{in}})
		slowest = max(slowest, time.Since(start))
	}
	if slowest > 3*time.Second { // one that waits for the database takes 5
		t.Errorf("a cycle took %v", slowest)
	}
	s.becomes(t, soon, []tag{best}, tag{tpidCSIG, 19<<7 | 5})
	if s.driver.late == nil {
		t.Error("somebody has answered")
	}
	limited, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := s.driver.Observe(limited); err == nil || !strings.Contains(err.Error(), "ovsdb-server") {
		t.Errorf("observed without the database: %v", err)
	}
	s.PauseDatabase(false)
	s.Vsctl("set", "Open_vSwitch", ".", "other_config:vlan-limit=2")
	for start := time.Now(); ; {
		s.driver.checked = time.Time{}
		_, err := s.driver.Update(t.Context(), []vendors.PortUpdate{at7}, time.Minute)
		if err != nil && strings.Contains(err.Error(), "vlan-limit is 2") {
			break
		}
		if time.Since(start) > soon {
			t.Fatalf("what the database says is not taken in: %v", err)
		}
	}
	s.PauseDatabase(true)
	_ = s.driver.glance(t.Context()) // a question that nobody will answer
	start := time.Now()
	if err := s.driver.Close(); err != nil || time.Since(start) > 3*time.Second {
		t.Errorf("closed after %v: %v", time.Since(start), err)
	}
	s.PauseDatabase(false)
}

// TestHandsOff has people and programs change what is csig's, and what is not.
func TestHandsOff(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	s.Ofctl("add-flow", "csig", "cookie=0x1,table=9,priority=5,actions=drop")
	s.Ofctl("add-flow", "csig", "cookie=0x1,table=0,priority=5,in_port=77,actions=drop")
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	s.becomes(t, soon, []tag{best}, at7s)
	for _, tc := range []struct {
		name, want string
		do         []string
	}{
		{"nothing", "", nil},
		{"every flow of csig's tables is deleted", "missing or changed", []string{"del-flows", "csig", "cookie=0x6373696700000001/-1"}},
		{"the lease is deleted", "the lease was gone", []string{"--strict", "del-flows", "csig", "table=61,priority=100"}},
		{"a live flow is deleted", "port swp1: flows of table 62", []string{"del-flows", "csig", "table=62,reg15=1"}},
		{"a live flow has other actions", "port swp1: flows of table 62", []string{"mod-flows", "csig", "table=62,reg15=1,actions=drop"}},
		{"a constant flow has other actions", "table 64", []string{"mod-flows", "csig", "table=64,actions=drop"}},
		{"a foreign flow in csig's tables", "was not csig's", []string{"add-flow", "csig", "table=62,priority=60000,actions=drop"}},
		{"a foreign flow with a match of its own", "a flow of table 60 was not csig's", []string{"add-flow", "csig", "table=60,priority=0,dl_dst=02:00:00:00:0c:0c,actions=drop"}},
		{"one with many fields", "a flow of table 62 was not csig's", []string{"add-flow", "csig", "table=62,priority=0,ct_state=-trk,tcp6,vlan_tci=0x1005/0x1fff,ipv6_src=2001:db8::/32,tp_dst=0x50/0xfff0,metadata=0x7/0xf,reg14=1,tun_id=3,actions=drop"}},
		{"one in place of the lease's miss, without a tag", "a flow of table 61 was not csig's", []string{"add-flow", "csig", "table=61,priority=0,vlan_tci=0x0000/0x1fff,actions=drop"}},
		{"one in place of csig's", "missing or changed", []string{"add-flow", "csig", "cookie=7,table=60,priority=200,reg15=1,vlan_tci=0x1000/0x1000,actions=drop"}},
		{"a hook is deleted", "port swp1", []string{"del-flows", "csig", "table=0,cookie=0x6373696700000001/-1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.do != nil {
				s.Ofctl(append(tc.do[:1:1], tc.do[1:]...)...)
			}
			s.driver.checked = time.Time{} // it is time to look
			res := update(t, s.driver, time.Minute, at7)
			if (tc.want == "") != (res.Repaired == "") || !strings.Contains(res.Repaired, tc.want) {
				t.Errorf("repaired %q, want %q", res.Repaired, tc.want)
			}
			s.becomes(t, soon, []tag{best}, at7s)
			if got := s.pass(); !bytes.Equal(got, frame(1)) {
				t.Errorf("a frame without a tag leaves as %x", got)
			}
			s.driver.checked = time.Time{}
			if res := update(t, s.driver, time.Minute, at7); res.Repaired != "" {
				t.Errorf("and again: %q\n%s", res.Repaired, s.Ofctl("dump-flows", "csig"))
			}
		})
	}
	if flows := s.Ofctl("dump-flows", "csig"); strings.Count(flows, "cookie=0x1,") != 2 {
		t.Errorf("somebody else's flows are gone:\n%s", flows)
	}
	if err := s.driver.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.becomes(t, soon, []tag{best}, best)
	flows := s.Ofctl("--no-stats", "dump-flows", "csig")
	if strings.Count(flows, "cookie=0x1,") != 2 || strings.Count(flows, "cookie=0x6373696700000001") != 3 {
		t.Errorf("removed, it has\n%s", flows)
	}
	if got, err := s.driver.Observe(t.Context()); err != nil || got.TPID != 0 || len(got.Ports) != 0 {
		t.Errorf("removed, it is %+v, %v", got, err)
	}
}

// TestFlowThatStays has a foreign flow whose deletion the bridge refuses: what is
// csig's is put right all the same, and it is said.
func TestFlowThatStays(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	s.Ofctl("--strict", "del-flows", "csig", "table=60,priority=0")
	state, err := s.driver.read(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	// A TCP port of frames that are no TCP (OFPBMC_BAD_PREREQ).
	state.foreign = append(state.foreign, openflow.Flow{Table: 60, Match: openflow.Match{Else: "\x80\x00\x1c\x02\x00\x50"}})
	changes, err := s.driver.sync(t.Context(), state, true)
	if err != nil || len(changes) != 1 || !strings.Contains(changes[0].Detail, "is not csig's, and stays") {
		t.Errorf("%+v, %v", changes, err)
	}
	update(t, s.driver, time.Minute, at7)
	s.becomes(t, soon, []tag{best}, at7s)
	if got := s.pass(); !bytes.Equal(got, frame(1)) {
		t.Errorf("a frame without a tag leaves as %x", got)
	}
}

// TestSecondAgent has two agents with different values on one bridge: frames
// have the value of one of them.
func TestSecondAgent(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	other := s.open(t, "csig")
	apply(t, other, setupFor(quantize.Draft00, swp1))
	repaired := ""
	for range 20 {
		s.driver.checked, other.checked = time.Time{}, time.Time{}
		repaired += update(t, s.driver, time.Minute, at7).Repaired
		repaired += update(t, other, time.Minute, vendors.PortUpdate{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MinABW, 9, 6)}}).Repaired
		if got := s.pass(best); !bytes.Equal(got, frame(1, at7s)) && !bytes.Equal(got, frame(1, tag{tpidCSIG, 9<<7 | 6})) && !bytes.Equal(got, frame(1, stale)) {
			t.Fatalf("a frame leaves as %x", got)
		}
	}
	if repaired == "" {
		t.Error("neither of them says that somebody else is there")
	}
}

// TestTakesOver restarts the agent: what is programmed stays without a flap.
func TestTakesOver(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	setup := setupFor(quantize.Draft00, swp1)
	setup.Profile = strings.Repeat("ab", 32)
	apply(t, s.driver, setup)
	update(t, s.driver, time.Minute, at7)
	s.becomes(t, soon, []tag{best}, at7s)
	again := s.open(t, "csig")
	apply(t, again, setup)
	if len(again.mods) != 0 {
		t.Errorf("the same setup is %d changes", len(again.mods))
	}
	if got := s.pass(best); !bytes.Equal(got, frame(1, at7s)) {
		t.Errorf("a frame leaves as %x", got)
	}
	third := s.open(t, "csig")
	if res := update(t, third, time.Minute, at7); res.Ops != 0 || res.Repaired != "" {
		t.Errorf("the same update is %+v", res)
	}
	got, err := third.Observe(t.Context())
	if err != nil || got.Profile != setup.Profile {
		t.Errorf("profile %q, %v", got.Profile, err)
	}
	if changes, err := Diff(got, setup); err != nil || len(changes) != 0 {
		t.Errorf("%+v, %v", changes, err)
	}
}

// TestRefused has bridges that csig must not, or cannot, program.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	s.AddBridge("plain")
	s.AddWire("plain", "p1", 1)
	update := setupFor(quantize.Draft00, vendors.PortSetup{Port: "p1", Action: vlanrules.Update})
	for _, tc := range []struct {
		name, flow, want string
		level            vlanrules.Level // of Probe's Update
		applied          bool
	}{
		{"nobody hands frames over", "priority=1,actions=drop", "hands frames to table 60", vlanrules.Degraded, true},
		{"NORMAL", "actions=NORMAL", "switches by itself", vlanrules.Refused, false},
		{"flooding", "actions=clone(flood)", "switches by itself", vlanrules.Refused, false},
		{"past csig's tables", "actions=output:1", "without handing them", vlanrules.Degraded, true},
		{"a register's port", "actions=output:NXM_NX_REG3[]", "does not look into", vlanrules.Degraded, true},
		{"the hook", "actions=load:1->NXM_NX_REG15[],resubmit(,60)", losesR, vlanrules.Degraded, true},
		{"csig's tables are somebody's", "table=61,actions=drop", "not csig's", vlanrules.Degraded, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.Ofctl("del-flows", "plain")
			s.Ofctl("add-flow", "plain", tc.flow)
			d := s.open(t, "plain")
			f, err := d.Probe(t.Context())
			if err != nil || f.Update.Level != tc.level {
				t.Fatalf("%+v, %v", f.Update, err)
			}
			if !slices.Contains(f.Ports, "p1") || slices.Contains(f.Ports, "swp1") {
				t.Errorf("its ports are %v", f.Ports)
			}
			err = d.Apply(t.Context(), update)
			if (err == nil) != tc.applied {
				t.Fatalf("applied: %v", err)
			}
			var p *vendors.PermanentError
			if text := f.Update.Reason + fmt.Sprint(err); !strings.Contains(text, tc.want) || err != nil && !errors.As(err, &p) {
				t.Errorf("%s, want %s", text, tc.want)
			}
		})
	}
	s.Vsctl("set", "Open_vSwitch", ".", "other_config:vlan-limit=2")
	s.Ofctl("del-flows", "plain")
	d := s.open(t, "plain")
	if err := d.Apply(t.Context(), update); err == nil || !strings.Contains(err.Error(), "vlan-limit is 2") {
		t.Errorf("vlan-limit: %v", err)
	}
	s.Vsctl("set", "bridge", "plain", "protocols=OpenFlow13")
	var p *vendors.PermanentError
	if _, err := s.open(t, "plain").Observe(t.Context()); !errors.As(err, &p) || !strings.Contains(err.Error(), "does not speak OpenFlow 1.4") {
		t.Errorf("OpenFlow 1.3 alone: %v", err)
	}
	s.Vsctl("clear", "bridge", "plain", "protocols")
	for name, err := range map[string]error{
		"no bridge": func() error { _, err := s.open(t, "br9").Observe(t.Context()); return err }(),
		"no name":   func() error { _, err := Open(Config{}); return err }(),
		"table":     func() error { _, err := Open(Config{Bridge: "b", Table: 250}); return err }(),
	} {
		if err == nil {
			t.Error(name)
		}
	}
	if _, err := s.open(t, "plain").Update(t.Context(), nil, time.Minute); err == nil || !strings.Contains(err.Error(), "call Apply first") {
		t.Errorf("without a setup: %v", err)
	}
}

// TestFull fills a table: what there is room for is done port by port, the most
// congested first, and the rest has the fallback until there is room.
func TestFull(t *testing.T) {
	t.Parallel()
	s := &sandwich{Switch: ovstest.Start(t, ovstest.Options{Dummy: true})}
	s.AddBridge("csig")
	s.in, s.out = s.AddWire("csig", "h1", 1), s.AddWire("csig", "swp1", 2)
	second := &sandwich{Switch: s.Switch, in: s.in, out: s.AddWire("csig", "swp2", 3)}
	s.driver = s.open(t, "csig")
	apply(t, s.driver, setupFor(quantize.Draft00, swp1, vendors.PortSetup{Port: "swp2", Action: vlanrules.Update}))
	to := func(port string) {
		s.Ofctl("add-flow", "csig", "in_port=1,actions=load:"+port+"->NXM_NX_REG15[],resubmit(,60)")
	}
	both := func(a, b uint8) []vendors.PortUpdate {
		return []vendors.PortUpdate{{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MinABW, a, 5)}},
			{Port: "swp2", Intents: []vlanrules.Intent{bucket(quantize.MinABW, b, 6)}}}
	}
	update(t, s.driver, time.Minute, both(31, 31)...) // no live flows at all
	flows := strings.Count(s.Ofctl("dump-flows", "csig", "table=62"), "priority")
	s.Vsctl("--", "--id=@t", "create", "Flow_Table", fmt.Sprintf("flow_limit=%d", flows+7), "--", "set", "bridge", "csig", "flow_tables:62=@t")
	for round := range 3 { // swp2 is the more congested; both have six flows
		s.driver.checked = time.Time{}
		res, err := s.driver.Update(t.Context(), both(9, 6), time.Minute)
		var p *vendors.PortError
		if !res.Leased || !errors.As(err, &p) || p.Port != "swp1" || !strings.Contains(err.Error(), "OFPFMFC_TABLE_FULL") || strings.Contains(err.Error(), "port swp2") || res.Repaired != "" {
			t.Fatalf("round %d: %+v, %v", round, res, err)
		}
	}
	if got, err := s.open(t, "csig").Observe(t.Context()); err != nil || got.Damaged != "" || got.Ports[0].Damaged != "" || got.Ports[1].Damaged != "" {
		t.Errorf("a port without room is seen as %+v, %v", got, err)
	}
	to("3")
	second.becomes(t, soon, []tag{best}, tag{tpidCSIG, 6<<7 | 6})
	to("2")
	s.becomes(t, soon, []tag{best}, stale)
	s.becomes(t, soon, []tag{{tpidVLAN, 77}, best}, tag{tpidVLAN, 77}, stale)

	s.Vsctl("clear", "bridge", "csig", "flow_tables")
	if res := update(t, s.driver, time.Minute, both(7, 6)...); res.Ports != 1 {
		t.Errorf("%+v", res)
	}
	s.becomes(t, soon, []tag{best}, at7s)
	s.becomes(t, soon, []tag{{tpidVLAN, 77}, best}, tag{tpidVLAN, 77}, at7s)
	s.driver.checked = time.Time{}
	if res := update(t, s.driver, time.Minute, both(7, 6)...); res.Repaired != "" || res.Ops != 0 {
		t.Errorf("%+v", res)
	}
}

// TestHook has a controller's flows hand frames over: for one port, and by a
// group for two.
func TestHook(t *testing.T) {
	t.Parallel()
	s := &sandwich{Switch: ovstest.Start(t, ovstest.Options{Dummy: true})}
	s.AddBridge("csig")
	s.in, s.out = s.AddWire("csig", "h1", 1), s.AddWire("csig", "swp1", 2)
	second := s.AddWire("csig", "swp2", 3)
	s.driver = s.open(t, "csig")
	apply(t, s.driver, setupFor(quantize.Draft00, swp1, vendors.PortSetup{Port: "swp2", Action: vlanrules.Update}))
	update(t, s.driver, time.Minute, at7, vendors.PortUpdate{Port: "swp2", Intents: []vlanrules.Intent{bucket(quantize.MinABW, 9, 6)}})
	s.Ofctl("add-flow", "csig", "in_port=1,actions=load:2->NXM_NX_REG15[],resubmit(,60)")
	s.becomes(t, soon, []tag{best}, at7s)
	s.Ofctl("add-group", "csig", "group_id=1,type=all,bucket=load:2->NXM_NX_REG15[],resubmit(,60),bucket=load:3->NXM_NX_REG15[],resubmit(,60)")
	s.Ofctl("add-flow", "csig", "in_port=1,actions=group:1")
	s.both(t, second)
}

// both sends frames to two ports, of which each writes what is its own.
func (s *sandwich) both(t *testing.T, second *ovstest.Wire) {
	t.Helper()
	s.settle()
	for _, behind := range []bool{false, true} {
		front := []tag{}
		if behind {
			front = append(front, tag{tpidVLAN, 77})
		}
		s.becomes(t, soon, slices.Concat(front, []tag{best}), slices.Concat(front, []tag{at7s})...)
		want := frame(1, slices.Concat(front, []tag{{tpidCSIG, 9<<7 | 6}})...)
		for {
			b := second.Receive(soon)
			if b != nil && bytes.Equal(numbered(1, b), want) {
				break
			}
			if b == nil {
				t.Fatalf("swp2 does not send its own value, behind a VLAN %t\n%s", behind, s.Appctl("dpctl/dump-flows"))
			}
		}
	}
}

// TestFlood has NORMAL send a frame out of two ports.
func TestFlood(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	s.AddPatch("br0", "p-swp2", "csig", "i-swp2")
	s.Vsctl("set", "interface", "i-swp2", "external_ids:csig-port=swp2", "--", "set", "port", "p-swp2", "vlan_mode=dot1q-tunnel", "tag=1")
	second := s.AddWire("csig", "swp2", 7)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	// It is in no setup, and joined all the same.
	third := &sandwich{Switch: s.Switch, in: s.in, out: second}
	third.becomes(t, soon, []tag{best}, best)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1, vendors.PortSetup{Port: "swp2", Action: vlanrules.Update}))
	update(t, s.driver, time.Minute, at7, vendors.PortUpdate{Port: "swp2", Intents: []vlanrules.Intent{bucket(quantize.MinABW, 9, 6)}})
	s.both(t, second)

	// Its number is another's: what joined the old one goes.
	s.Vsctl("set", "interface", "swp2", "ofport_request=9")
	s.driver.checked = time.Time{}
	if res := update(t, s.driver, time.Minute, at7); !strings.Contains(res.Repaired, "port swp2") || strings.Contains(s.Ofctl("dump-flows", "csig"), "in_port=7") {
		t.Errorf("repaired %q\n%s", res.Repaired, s.Ofctl("dump-flows", "csig", "table=0"))
	}
	s.both(t, second)
}

// TestCommands carries out what plan --commands prints: the bridge is as Apply
// leaves it.
func TestCommands(t *testing.T) {
	t.Parallel()
	s := &sandwich{Switch: ovstest.Start(t, ovstest.Options{Dummy: true})}
	s.AddBridge("csig")
	s.AddWire("csig", "swp1", 2)
	s.AddWire("csig", "swp2", 3)
	for _, policy := range []inventory.OnStale{inventory.Conservative, inventory.StaleStrip} {
		want := setupFor(quantize.UEC, swp1, vendors.PortSetup{Port: "swp2", Action: vlanrules.Strip})
		want.OnStale, want.Profile = policy, strings.Repeat("cd", 32)
		text, err := Commands(vendors.Setup{}, want)
		if err != nil {
			t.Fatal(err)
		}
		s.Script(string(text), "csig")
		d := s.open(t, "csig")
		got, err := d.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if changes, err := Diff(got, want); err != nil || len(changes) != 0 {
			t.Errorf("%s: %+v, %v\n%s", policy, changes, err, text)
		}
		apply(t, d, want)
		if changes := len(d.mods); changes > max(1, len(d.pipe.stale)) { // the fallback of the live table
			for _, m := range d.mods {
				t.Log(m.Kind, flowText(m.Flow))
			}
			t.Errorf("%s: Apply has %d changes more", policy, changes)
		}
	}
	if text, err := Commands(setupFor(quantize.UEC, swp1), setupFor(quantize.UEC, swp1)); err != nil || text != nil {
		t.Errorf("nothing to do: %s, %v", text, err)
	}
}

// TestLeaseOfManyFlows lets the lease run out with hundreds of flows in the
// datapath's cache, as other buckets left them there: none of them goes on.
func TestLeaseOfManyFlows(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	var tags []uint16
	for v := uint16(1); v < 31; v++ {
		for lm := uint16(1); lm <= 10; lm++ {
			tags = append(tags, v<<7|lm)
		}
	}
	one := func(tci uint16) []tag { return []tag{{tpidCSIG, tci}} }
	for _, b := range []uint8{20, 3, 31, 12} {
		update(t, s.driver, 3*time.Second, vendors.PortUpdate{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MinABW, b, 5)}})
		s.exchange(t, tags, one)
	}
	s.becomes(t, soon, []tag{best}, stale)
	for start := time.Now(); ; {
		wrong := 0
		for i, got := range s.exchange(t, tags, one) {
			if !bytes.Equal(got, frame(uint32(i), stale)) {
				wrong++
			}
		}
		if wrong == 0 {
			break
		}
		if time.Since(start) > 10*time.Second { // the switch goes through its cache twice a second
			t.Fatalf("%d of %d tags still have another value than the fallback", wrong, len(tags))
		}
	}
}

// TestChangeOfSetupUnderALease changes what tags mean, or what a port is for,
// while the lease runs: frames have the fallback until somebody says what is so.
func TestChangeOfSetupUnderALease(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, vendors.PortSetup{Port: "swp1", Action: vlanrules.Passthrough}))
	update(t, s.driver, time.Minute)
	s.becomes(t, soon, []tag{best}, best)
	apply(t, s.open(t, "csig"), setupFor(quantize.Draft00, swp1))
	s.settle()
	if got := s.pass(best); !bytes.Equal(got, frame(1, stale)) {
		t.Errorf("a port that begins to update sends %x", got)
	}
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	s.becomes(t, soon, []tag{best}, at7s)
	apply(t, s.open(t, "csig"), setupFor(quantize.UEC, swp1))
	s.settle()
	if got := s.pass(best); !bytes.Equal(got, frame(1, tag{tpidCSIG, 0<<7 | 61<<1})) {
		t.Errorf("after a change of layout a frame leaves as %x", got)
	}
}

// TestRecord has set-ups whose record just fits, and just does not.
func TestRecord(t *testing.T) {
	t.Parallel()
	s := ovstest.Start(t, ovstest.Options{Dummy: true})
	s.AddBridge("csig")
	d := (&sandwich{Switch: s}).open(t, "csig")
	setup := setupFor(quantize.Draft00)
	size := func() int { return len((&pipeline{setup: &setup}).record().Actions) }
	for i := 0; size() <= maxRecord; i++ {
		for range 1 + (maxRecord-min(maxRecord, size()))/200 { // names that have nothing in common
			setup.Ports = append(setup.Ports, vendors.PortSetup{Port: fmt.Sprintf("v%08x%d", uint32(len(setup.Ports))*2654435761, i%7), Action: vlanrules.Passthrough})
		}
	}
	for _, do := range []func() error{
		func() error { return d.Apply(t.Context(), setup) },
		func() error { _, err := Diff(vendors.Setup{}, setup); return err },
	} {
		var p *vendors.PermanentError
		if err := do(); !errors.As(err, &p) || !strings.Contains(err.Error(), "bytes, and a flow has room for") {
			t.Errorf("%d ports, %d bytes: %v", len(setup.Ports), size(), err)
		}
	}
	setup.Ports = setup.Ports[:len(setup.Ports)-1]
	if size() > maxRecord || size() < maxRecord-200 {
		t.Fatalf("%d bytes", size())
	}
	if err := d.Apply(t.Context(), setup); !strings.Contains(fmt.Sprint(err), "no such port") {
		t.Fatal(err)
	}
	got, err := (&sandwich{Switch: s}).open(t, "csig").Observe(t.Context())
	if err != nil || len(got.Ports) != len(setup.Ports) || got.Damaged != "" {
		t.Errorf("%d ports are read as %d: %s, %v", len(setup.Ports), len(got.Ports), got.Damaged, err)
	}
}

// TestBundleWithWhatIsNoFlow has a change that the switch cannot even read: the
// others of its bundle are not carried out either.
func TestBundleWithWhatIsNoFlow(t *testing.T) {
	t.Parallel()
	s := ovstest.Start(t, ovstest.Options{Dummy: true})
	s.AddBridge("csig")
	d := (&sandwich{Switch: s}).open(t, "csig")
	if _, err := d.Observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	good, bad := openflow.Flow{Table: 9, Actions: out()}, openflow.Flow{Table: 10, Actions: openflow.Actions{0, 99, 0, 8, 0, 0, 0, 0}}
	err := d.of.Commit(t.Context(), []openflow.Mod{{Flow: &good, Name: "good"}, {Flow: &bad, Name: "bad"}})
	var refused *openflow.Error
	if !errors.As(err, &refused) || refused.Name != "bad" {
		t.Errorf("%v", err)
	}
	if flows := s.Ofctl("dump-flows", "csig"); strings.Contains(flows, "table=9") {
		t.Errorf("half a bundle:\n%s", flows)
	}
	if err := d.of.Commit(t.Context(), []openflow.Mod{{Flow: &good}}); err != nil {
		t.Errorf("the next bundle: %v", err)
	}
}
