package openflow

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestForeignFlows has flows appear in csig's tables that are not csig's: none is removed
// or overwritten, ports whose frames one may take fall back and say so, and others have
// their values.
func TestForeignFlows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLab(t, 4, oftest.Faults{})
		setup := setupFor(append(ports(vlanrules.Update, "p2", "p3"), ports(vlanrules.Passthrough, "p4")...)...)
		l.apply(t, setup)
		up := []vendors.PortUpdate{seven("p2"), nine("p3")}
		l.update(t, time.Minute, up...)
		for _, tc := range []struct {
			what, flow string
			ports      []string // that are refused
		}{
			{"below csig's", "table=11,priority=0,metadata=2/0xfff", nil},
			{"of a port that is not updated, below csig's", "table=10,priority=250,metadata=4/0xfff", nil},
			{"of no port that there is", "table=11,priority=500,metadata=7/0xfff", nil},
			{"above the live entries", "table=11,priority=500,metadata=2/0xfff,in_port=3", []string{"p2"}},
			{"beside the live entries", "table=11,priority=17,metadata=2/0x2,in_port=3", []string{"p2", "p3"}},
			{"in the place of what is below the live entries", "table=11,priority=1,metadata=2/0xfff", []string{"p2"}},
			{"in the place of the fallback", "table=12,priority=1,metadata=3/0xfff", []string{"p3"}},
			{"above the fallback", "table=12,priority=500,in_port=3", []string{"p2", "p3"}},
			{"above the lease", "table=10,priority=150,metadata=2/0xfff,in_port=3", []string{"p2"}},
			{"above what passes tags", "table=10,priority=400,metadata=4/0xfff,in_port=3", []string{"p4"}},
			{"to the live entries, above all of csig's", "table=10,priority=500,actions=goto_table:11", []string{"p2", "p3", "p4"}},
			{"to a port's live entries, above its fallback", "table=10,priority=250,metadata=3/0xfff,actions=goto_table:11", []string{"p3"}},
		} {
			was := constantOf(l.flows())
			if !strings.Contains(tc.flow, "actions=") {
				tc.flow += ",actions=drop"
			}
			l.Flow("add-flow", "cookie=0xbeef,"+tc.flow)
			theirs := l.Flow("dump-flows", "--no-stats", "cookie=0xbeef/-1")
			kept := func(when string) {
				t.Helper()
				if now := l.Flow("dump-flows", "--no-stats", "cookie=0xbeef/-1"); now != theirs {
					t.Errorf("%s: %s: the foreign flow is\n%s\nand was\n%s", tc.what, when, now, theirs)
				}
			}
			time.Sleep(pathEvery)
			res, err := l.driver.Update(t.Context(), up, time.Minute)
			var refused []string
			vendors.EachPort(err, func(port string, err error) {
				if refused = append(refused, port); !strings.Contains(err.Error(), "with priority") || !strings.Contains(err.Error(), "0xbeef") {
					t.Errorf("%s: port %s: it does not name the flow: %v", tc.what, port, err)
				}
			})
			if slices.Sort(refused); !slices.Equal(refused, tc.ports) || !res.Leased {
				t.Errorf("%s: ports %q are refused, want %q (%+v)", tc.what, refused, tc.ports, res)
			}
			if res.Repaired != nil {
				t.Errorf("%s: nothing is restored: %s", tc.what, res.Repaired)
			}
			if res.Facts == nil || !slices.ContainsFunc(res.Facts.Notes, func(n string) bool { return strings.Contains(n, "1 flow that is not csig's") }) {
				t.Errorf("%s: it is not noted: %+v", tc.what, res.Facts)
			}
			for port, value := range map[string]int{"p2": 7<<7 | 5, "p3": 9<<7 | 5} {
				if slices.Contains(tc.ports, port) {
					value = stale
				}
				if strings.Contains(tc.flow, "table=12,priority=1,") && port == "p3" {
					continue // its fallback is the foreign flow
				}
				l.is(t, tc.what, int(port[1]-'0'), value)
			}
			kept("Update")
			found, err := l.driver.Observe(t.Context())
			if err != nil {
				t.Errorf("%s: %v", tc.what, err)
			}
			for _, p := range found.Ports {
				if (p.Damaged != "") != slices.Contains(tc.ports, p.Port) {
					t.Errorf("%s: Observe: port %s: %q", tc.what, p.Port, p.Damaged)
				}
			}
			again := l.open(t, Config{OrdinaryVLANs: NotHandedOver})
			var applied []string
			vendors.EachPort(again.Apply(t.Context(), setup), func(port string, _ error) { applied = append(applied, port) })
			if slices.Sort(applied); !slices.Equal(applied, tc.ports) {
				t.Errorf("%s: Apply refuses %q, want %q", tc.what, applied, tc.ports)
			}
			kept("Apply")
			l.Flow("del-flows", "cookie=0xbeef/-1,table=255")
			time.Sleep(pathEvery)
			l.update(t, time.Minute, up...)
			l.is(t, tc.what+", deleted", 2, 7<<7|5)
			l.is(t, tc.what+", deleted", 3, 9<<7|5)
			if now := constantOf(l.flows()); now != was {
				t.Errorf("%s, deleted: the flows are\n%s\nand were\n%s", tc.what, now, was)
			}
		}

		// All ports need the lease.
		l.Flow("add-flow", "cookie=0xbeef,table=10,priority=101,actions=goto_table:11")
		time.Sleep(checkEvery)
		var foreign *vendors.ForeignError
		if res, err := l.driver.Update(t.Context(), up, time.Minute); !errors.As(err, &foreign) || res.Leased || !strings.Contains(err.Error(), "priority 101") {
			t.Errorf("in the place of the lease: %+v, %v", res, err)
		}
		l.is(t, "in the place of the lease", 2, stale)
		l.is(t, "in the place of the lease", 3, stale)
		l.Flow("add-flow", "cookie=0xbeef,table=10,priority=290,metadata=2/0xfff,actions=drop") // what Remove would write
		theirs := l.Flow("dump-flows", "--no-stats", "cookie=0xbeef/-1")
		if err := l.driver.Remove(t.Context()); err != nil {
			t.Error(err)
		}
		if now := l.Flow("dump-flows", "--no-stats", "cookie=0xbeef/-1"); now != theirs {
			t.Errorf("Remove: foreign flows are\n%s\nand were\n%s", now, theirs)
		}
	})
}

// TestNoCapacity: a port without room for any flow, its fallback's among them, falls back
// all the same, and others are renewed.
func TestNoCapacity(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLab(t, 4, oftest.Faults{})
		l.apply(t, setupFor(ports(vlanrules.Update, "p2", "p3", "p4")...))
		up := []vendors.PortUpdate{nine("p2"), seven("p3"), nine("p4")}
		l.update(t, time.Minute, up...)
		for what, change := range map[string]func(){
			"new values":     func() { up[0] = given("p2", intent(0, 20, 5), intent(2, 5, 6)) },
			"flows are gone": func() { l.Flow("del-flows", "table=11,metadata=2/0xfff,vlan_tci=0x1000/0x1000") },
		} {
			up[0] = nine("p2")
			time.Sleep(checkEvery)
			l.update(t, time.Minute, up...)
			l.is(t, what, 2, 9<<7|5)
			change()
			l.proxy.Set(func(f *oftest.Faults) {
				f.Refuse = func(m oftest.Message) *oftest.Refusal {
					if table, command, ok := flowMod(m); ok && command == 0 && table >= DefaultTable && portOfMod(m) == 2 {
						return &oftest.Refusal{Type: 5, Code: 1}
					}
					return nil
				}
			})
			time.Sleep(checkEvery)
			for range 3 {
				res, err := l.driver.Update(t.Context(), up, time.Minute)
				var port *vendors.PortError
				if !errors.As(err, &port) || port.Port != "p2" || !strings.Contains(err.Error(), "make room") || strings.Count(err.Error(), "TABLE_FULL") != 1 || !res.Leased {
					t.Errorf("%s: %+v, %v", what, res, err)
				}
				l.is(t, what, 2, stale)
				l.is(t, what, 3, 7<<7|5)
				l.is(t, what, 4, 9<<7|5)
				time.Sleep(checkEvery)
			}
			// Another process finds the port as it is, and does not have its tags pass.
			other := l.open(t, Config{OrdinaryVLANs: NotHandedOver})
			if res, err := other.Update(t.Context(), up[1:], time.Minute); !res.Leased {
				t.Errorf("%s: the next agent: %+v, %v", what, res, err)
			}
			l.is(t, what+": the next agent", 2, stale)
			l.is(t, what+": the next agent", 3, 7<<7|5)
			l.proxy.Set(func(f *oftest.Faults) { f.Refuse = nil })
			time.Sleep(checkEvery)
			l.update(t, time.Minute, up...)
			l.is(t, what+": there is room", 2, int(up[0].Intents[0].S)<<7|5)
		}
	})
}

// TestFlatForeignFlows is TestForeignFlows where csig's flows are beside the operator's.
func TestFlatForeignFlows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newFlatLab(t, false, nil)
		setup := flatWant(inventory.Conservative, "p1", "p2")
		l.apply(t, setup)
		up := []vendors.PortUpdate{seven("p2"), nine("p1")}
		l.update(t, time.Minute, up...)
		fallback := ""
		for line := range strings.Lines(l.Flow("dump-flows", "--no-stats", "table=0")) {
			if at, actions := strings.Index(line, "priority=30000,"), strings.Index(line, " actions="); at > 0 && strings.Contains(line, "output:2") {
				fallback = line[at:actions]
			}
		}
		if fallback == "" {
			t.Fatal("the port has no fallback")
		}
		for _, flow := range []string{"priority=30002,in_port=1", fallback} {
			l.Flow("add-flow", "cookie=0xbeef,table=0,"+flow+",actions=drop")
			theirs := l.Flow("dump-flows", "--no-stats", "cookie=0xbeef/-1")
			time.Sleep(checkEvery)
			for range 2 {
				res, err := l.driver.Update(t.Context(), up, time.Minute)
				var refused []string
				vendors.EachPort(err, func(port string, _ error) { refused = append(refused, port) })
				if !slices.Equal(refused, []string{"p2"}) || !strings.Contains(err.Error(), "cookie 0xbeef") || !res.Leased {
					t.Errorf("%s: %+v, %v", flow, res, err)
				}
				time.Sleep(time.Minute)
			}
			if found, err := l.driver.Observe(t.Context()); err != nil || found.Ports[0].Damaged != "" || found.Ports[1].Damaged == "" {
				t.Errorf("%s: %+v, %v", flow, found, err)
			}
			if err := l.open(t, nil).Apply(t.Context(), setup); err == nil || !strings.Contains(err.Error(), "port p2") || strings.Contains(err.Error(), "port p1") {
				t.Errorf("%s: Apply: %v", flow, err)
			}
			if now := l.Flow("dump-flows", "--no-stats", "cookie=0xbeef/-1"); now != theirs {
				t.Errorf("the foreign flow is\n%s\nand was\n%s", now, theirs)
			}
			l.Flow("del-flows", "cookie=0xbeef/-1,table=0")
			time.Sleep(checkEvery)
			l.update(t, time.Minute, up...)
			l.Settled()
			if got := l.leave(t, best); got[0] != 7<<7|5 {
				t.Errorf("%s, deleted: the best tag leaves as %04x", flow, got)
			}
		}
	})
}
