package ovs

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
	"github.com/csig-agent/csig/vlanrules"
)

// newHanded is a bridge with foreign flows only: nothing is in it yet.
func newHanded(t testing.TB) *sandwich {
	t.Helper()
	s := &sandwich{Switch: ovstest.Start(t, ovstest.Options{Dummy: true})}
	s.Together(func() {
		s.AddBridge("csig")
		s.in, s.out = s.AddWire("csig", "h1", 1), s.AddWire("csig", "swp1", 2)
	})
	s.driver = s.open(t, "csig")
	return s
}

// openAt is another process that drives the bridge, after the one before has
// ended, with a first table of its own.
func (s *sandwich) openAt(t testing.TB, table uint8) *Driver {
	t.Helper()
	if err := s.driver.Close(); err != nil {
		t.Fatal(err)
	}
	s.driver = s.openBy(t, Config{Bridge: "csig", Table: table})
	return s.driver
}

// TestTableMissOfOthers has foreign flows where csig's first table has
// the one that sends frames on: only one that does just that is no matter.
func TestTableMissOfOthers(t *testing.T) {
	t.Parallel()
	s := newHanded(t)
	s.Ofctl("add-flow", "csig", "cookie=5,table=0,priority=0,actions=load:2->NXM_NX_REG15[],resubmit(,60)")
	s.Ofctl("add-flow", "csig", "cookie=5,table=70,priority=0,actions=output:2")
	for _, tc := range []struct {
		name, flow string
		ours       bool
	}{
		{"on to another table", "priority=0,actions=resubmit(,70)", false},
		{"another register's port", "priority=0,actions=output:NXM_NX_REG14[]", false},
		{"more than sending on", "priority=0,actions=output:NXM_NX_REG15[],output:NXM_NX_REG14[]", false},
		{"and on to another table", "priority=0,actions=output:NXM_NX_REG15[],goto_table:71", false},
		{"with metadata", "priority=0,actions=output:NXM_NX_REG15[],write_metadata:7", false},
		{"of another priority", "priority=1,actions=output:NXM_NX_REG15[]", false},
		{"of a match", "priority=0,in_port=1,actions=output:NXM_NX_REG15[]", false},
		{"as documented", "priority=0,actions=output:NXM_NX_REG15[]", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.Ofctl("del-flows", "csig", "table=60")
			s.Ofctl("add-flow", "csig", "cookie=5,table=60,"+tc.flow)
			before := s.Ofctl("--no-stats", "dump-flows", "csig")
			_, observed := s.driver.Observe(t.Context())
			if tc.ours {
				if observed != nil {
					t.Error(observed)
				}
				return
			}
			for _, err := range []error{observed, s.driver.Apply(t.Context(), setupFor(quantize.Draft00, swp1))} {
				var foreign *vendors.ForeignError
				var p *vendors.PermanentError
				if !errors.As(err, &p) || !errors.As(err, &foreign) || !strings.Contains(err.Error(), "table 60") || !strings.Contains(err.Error(), "cookie 0x5") {
					t.Errorf("%v", err)
				}
			}
			if after := s.Ofctl("--no-stats", "dump-flows", "csig"); after != before {
				t.Errorf("it is refused, and yet\n%swas\n%s", after, before)
			}
		})
	}
	// The last one stays in place of csig's own.
	s.becomes(t, soon, []tag{best}, best)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	s.becomes(t, soon, []tag{best}, at7s)
	if err := s.driver.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.becomes(t, soon, []tag{best}, best)
}

// TestOtherTables gives csig other tables on a bridge whose flows hand frames to
// those of before: nothing is changed until they hand over to the new ones.
func TestOtherTables(t *testing.T) {
	t.Parallel()
	s := newHanded(t)
	hand := func(table string) {
		s.Ofctl("add-flow", "csig", "cookie=5,in_port=1,actions=load:2->NXM_NX_REG15[],resubmit(,"+table+")")
	}
	setup := setupFor(quantize.Draft00, swp1)
	apply(t, s.driver, setup)
	hand("60")
	update(t, s.driver, time.Minute, at7)
	s.becomes(t, soon, []tag{best}, at7s)

	moved := s.openAt(t, 100)
	f, err := moved.Probe(t.Context())
	if err != nil || f.Update.Level != vlanrules.Refused || !strings.Contains(f.Update.Reason, "hand frames to table 60") {
		t.Errorf("probed: %+v, %v", f.Update, err)
	}
	got, err := moved.Observe(t.Context())
	if err != nil || !strings.Contains(got.Damaged, "tables 60 to 65") || len(got.Ports) != 1 {
		t.Errorf("observed %+v, %v", got, err)
	}
	changes, err := Diff(got, setup)
	if err != nil || len(changes) != 1 || !strings.Contains(changes[0].Detail, "table 60 stays") {
		t.Errorf("%+v, %v", changes, err)
	}
	before := s.Ofctl("--no-stats", "dump-flows", "csig")
	var p *vendors.PermanentError
	if err := moved.Apply(t.Context(), setup); !errors.As(err, &p) || !strings.Contains(err.Error(), "leave table at 60") {
		t.Errorf("applied: %v", err)
	}
	if after := s.Ofctl("--no-stats", "dump-flows", "csig"); after != before {
		t.Errorf("it is refused, and yet\n%swas\n%s", after, before)
	}

	// As the refusal says: no frame is lost on the way.
	s.Ofctl("add-flow", "csig", "cookie=5,table=100,priority=0,actions=output:NXM_NX_REG15[]")
	hand("100")
	s.becomes(t, soon, []tag{best}, best)
	apply(t, moved, setup)
	if got, err := moved.Observe(t.Context()); err != nil || got.Damaged != "" {
		t.Errorf("observed %+v, %v", got, err)
	}
	update(t, moved, time.Minute, at7)
	s.becomes(t, soon, []tag{best}, at7s)
	if flows := s.Ofctl("dump-flows", "csig", "table=60"); strings.Count(flows, "cookie=") != 1 {
		t.Errorf("table 60 has\n%s", flows)
	}
	// Who still hands over to the old one is served, too.
	hand("60")
	s.becomes(t, soon, []tag{best}, best)
}

// TestOtherTablesOfASandwich moves the tables where csig itself hands over.
func TestOtherTablesOfASandwich(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	moved := s.openAt(t, 100)
	apply(t, moved, setupFor(quantize.Draft00, swp1))
	update(t, moved, time.Minute, at7)
	s.becomes(t, soon, []tag{best}, at7s)
	if got := s.pass(); !bytes.Equal(got, frame(1)) {
		t.Errorf("a frame without a tag leaves as %x", got)
	}
}

// TestRemoveOtherTables takes csig off with another table in the fleet file than
// the one in use.
func TestRemoveOtherTables(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	for _, table := range []uint8{40, 60, 62, 100} {
		apply(t, s.next(t), setupFor(quantize.Draft00, swp1))
		update(t, s.driver, time.Minute, at7)
		s.becomes(t, soon, []tag{best}, at7s)
		if err := s.openAt(t, table).Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.becomes(t, soon, []tag{best}, best)
		if flows := s.Ofctl("--no-stats", "dump-flows", "csig"); strings.Count(flows, "cookie=0x6373696700000001") != 3 {
			t.Errorf("table %d: it has\n%s", table, flows)
		}
	}
}

// TestWayOfFrames changes the flows of others under a running agent: within five
// seconds it is said that frames go past csig's tables, and that they no longer do.
func TestWayOfFrames(t *testing.T) {
	t.Parallel()
	s := newHanded(t)
	const hand = "cookie=5,in_port=1,actions=load:2->NXM_NX_REG15[],resubmit(,60)"
	s.Ofctl("add-flow", "csig", hand)
	if f, err := s.driver.Probe(t.Context()); err != nil || f.Update.Reason != losesR || f.Identity != (vendors.Identity{Model: "Open vSwitch", Version: s.driver.info.version}) {
		t.Fatalf("%+v, %+v, %v", f.Update, f.Identity, err)
	}
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	s.driver.checked = time.Time{} // it is time to look
	update(t, s.driver, time.Minute, at7)
	if aroundEvery > 5*time.Second {
		t.Errorf("flows of others are read every %v", aroundEvery)
	}
	s.becomes(t, soon, []tag{best}, at7s)
	for _, tc := range []struct {
		name    string
		do      []string
		level   vlanrules.Level
		wants   string // that is said of updates; "" nothing new
		refused bool   // the port is
	}{
		{"nothing", nil, vlanrules.Degraded, "", false},
		{"NORMAL", []string{"add-flow", "csig", "cookie=6,priority=50000,actions=NORMAL"}, vlanrules.Refused, "priority 50000 and cookie 0x6", true},
		{"still", nil, vlanrules.Refused, "", true},
		{"no NORMAL any more", []string{"del-flows", "csig", "cookie=6/-1"}, vlanrules.Degraded, losesR, false},
		{"no flow hands over", []string{"del-flows", "csig", "cookie=5/-1"}, vlanrules.Degraded, "hands frames to table 60 yet", false},
		{"past csig", []string{"add-flow", "csig", "cookie=6,in_port=1,actions=output:2"}, vlanrules.Degraded, "without handing them to table 60 (one is in table 0", false},
		{"two past csig", []string{"add-flow", "csig", "cookie=6,in_port=2,actions=output:1"}, vlanrules.Degraded, "", false},
		{"every flow is gone", []string{"del-flows", "csig"}, vlanrules.Degraded, "hands frames to table 60 yet", false},
		{"handed over again", []string{"add-flow", "csig", hand}, vlanrules.Degraded, losesR, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.do != nil {
				s.Ofctl(tc.do...)
			}
			var res vendors.UpdateResult
			var err error
			for _, read := range []time.Time{time.Now().Add(time.Hour), time.Now().Add(-aroundEvery)} { // it is not due, and it is
				if res.Facts != nil {
					t.Error("it is said before it was looked at")
				}
				s.driver.checked, s.driver.othersReadAt = time.Time{}, read
				res, err = s.driver.Update(t.Context(), []vendors.PortUpdate{at7}, time.Minute)
				if !res.Leased {
					t.Fatalf("%+v, %v", res, err)
				}
			}
			var p *vendors.PermanentError
			if errors.As(err, &p) != tc.refused || tc.refused && (p.Port != "swp1" || !strings.Contains(err.Error(), "switches by itself")) {
				t.Errorf("%v", err)
			}
			switch f := res.Facts; {
			case f == nil && tc.wants != "":
				t.Error("nothing is said")
			case f == nil:
			case tc.wants == "" || f.Update.Level != tc.level || !strings.Contains(f.Update.Reason, tc.wants) || f.Lease.Level == vlanrules.Refused:
				t.Errorf("said: %+v, lease %+v", f.Update, f.Lease)
			case tc.wants == losesR && f.Update.Reason != losesR:
				t.Errorf("said: %s", f.Update.Reason)
			}
		})
	}
	s.becomes(t, soon, []tag{best}, at7s)
}
