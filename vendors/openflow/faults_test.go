package openflow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vlanrules"
)

const (
	best  = 31<<7 | 126
	stale = 0<<7 | 125
)

// seven and nine are intents of a port.
func seven(port string) vendors.PortUpdate {
	return given(port, intent(quantize.MinABW, 7, 5), intent(quantize.MaxPD, 9, 6))
}

func nine(port string) vendors.PortUpdate {
	return given(port, intent(quantize.MinABW, 9, 5), intent(quantize.MaxPD, 3, 6))
}

// falls checks that the best tag's frames leave as they did until so much time has passed, and then with the fallback.
func (l *lab) falls(t testing.TB, what string, port, was int, after time.Duration) {
	t.Helper()
	time.Sleep(after - time.Millisecond)
	l.is(t, what+", a moment before", port, was)
	time.Sleep(time.Millisecond)
	l.is(t, what, port, stale)
}

// is checks the best tag's frames now.
func (l *lab) is(t testing.TB, what string, port, want int) {
	t.Helper()
	l.Settled()
	if got := l.leaves(t, port, best); got != want {
		t.Errorf("%s: port %d: the best tag leaves as %04x, want %04x\n%s", what, port, got, want, l.flows())
	}
}

// table and command of a flow_mod (§7.3.4.1).
func flowMod(m oftest.Message) (table, command byte, ok bool) {
	if m.Type() != oftest.TypeFlowMod || len(m) < 48 {
		return 0, 0, false
	}
	return m[24], m[25], true
}

// portOfMod is the metadata that a flow_mod of csig's matches, which comes first.
func portOfMod(m oftest.Message) uint64 {
	if len(m) < 64 {
		return 0
	}
	return binary.BigEndian.Uint64(m[56:])
}

// TestLease: without an agent every port falls back by hard_timeout, and values of an
// earlier lease do not come back under the next one.
func TestLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLab(t, 3, oftest.Faults{})
		l.apply(t, setupFor(ports(vlanrules.Update, "p2", "p3")...))
		if res := l.update(t, 300*time.Millisecond, seven("p2"), nine("p3")); res.Lease != time.Second {
			t.Errorf("the lease has %v", res.Lease)
		}
		for range 8 { // longer than one lease: the flows are renewed in turns
			time.Sleep(200 * time.Millisecond)
			l.update(t, 900*time.Millisecond, seven("p2"), nine("p3"))
			l.is(t, "an agent renews", 2, 7<<7|5)
		}
		for slot := range leases {
			if want := fmt.Sprintf("priority=%d actions=goto_table:11", priorityLease+slot); !strings.Contains(l.flows(), want) {
				t.Errorf("one of the flows of the lease is not renewed: no %s in\n%s", want, l.flows())
			}
		}
		seen, err := l.driver.Look(t.Context())
		if err != nil || seen.Signal != vendors.SignalWritten || seen.Left > time.Second {
			t.Errorf("%+v, %v", seen, err)
		}
		l.falls(t, "no agent", 2, 7<<7|5, time.Second)
		l.is(t, "no agent", 3, stale)
		if seen, err := l.driver.Look(t.Context()); err != nil || seen.Signal != vendors.SignalFallback {
			t.Errorf("%+v, %v", seen, err)
		}
		l.update(t, time.Minute, seven("p2"))
		l.is(t, "a new lease", 2, 7<<7|5)
		l.is(t, "a new lease, and no value of this port", 3, stale)
		l.update(t, time.Minute, nine("p3"))
		l.is(t, "a value", 3, 9<<7|5)
		l.is(t, "a port that is not in this update", 2, 7<<7|5)

		l.update(t, time.Second, seven("p2"), nine("p3"))
		l.is(t, "a shorter lease", 2, 7<<7|5)
		l.falls(t, "the shorter lease has ended, and with it the longer one before", 2, 7<<7|5, time.Second)
		l.update(t, time.Minute, seven("p2"), nine("p3"))

		// Another process takes over what it finds, while the lease lasts.
		other := l.open(t, Config{OrdinaryVLANs: NotHandedOver})
		if res, err := other.Update(t.Context(), []vendors.PortUpdate{nine("p2")}, time.Minute); err != nil || !res.Leased {
			t.Fatalf("%+v, %v", res, err)
		}
		l.is(t, "the next agent", 2, 9<<7|5)
		l.is(t, "the next agent, before this port's value", 3, 9<<7|5)
		shorter := l.open(t, Config{OrdinaryVLANs: NotHandedOver})
		if _, err := shorter.Update(t.Context(), []vendors.PortUpdate{nine("p2")}, time.Second); err != nil {
			t.Fatal(err)
		}
		l.falls(t, "an agent with a shorter lease than the one before, when it is gone", 2, 9<<7|5, time.Second)
		if err := other.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.is(t, "the lease was given back", 2, stale)
	})
}

// TestLateRefusal has the switch refuse changes after it has acknowledged them: the port
// falls back or has its values, and never something else for long.
func TestLateRefusal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLab(t, 3, oftest.Faults{})
		l.apply(t, setupFor(ports(vlanrules.Update, "p2", "p3")...))
		l.update(t, time.Minute, seven("p2"), nine("p3"))
		for _, after := range []time.Duration{0, 20 * time.Millisecond} {
			refusals := 0
			var cleared atomic.Bool // its statistics may say that all is there
			l.proxy.Set(func(f *oftest.Faults) {
				f.After = func(m oftest.Message) {
					if table, command, ok := flowMod(m); ok && table == DefaultTable+tableLive && command == 3 && portOfMod(m) == 2 {
						cleared.Store(true)
					}
				}
				f.RejectLate = func(m oftest.Message) *oftest.Late {
					// A change of p2's live flows: its number is in the metadata.
					if table, _, ok := flowMod(m); ok && refusals == 0 && table == DefaultTable+tableLive && portOfMod(m) == 2 {
						refusals++
						return &oftest.Late{Refusal: oftest.Refusal{Type: 5, Code: 1}, After: after}
					}
					return nil
				}
			})
			told := ""
			up := []vendors.PortUpdate{nine("p2"), seven("p3")}
			for limit := time.Now().Add(time.Second); told == ""; time.Sleep(5 * time.Millisecond) {
				res, err := l.driver.Update(t.Context(), up, time.Minute)
				if err != nil {
					told = err.Error()
				}
				if !res.Leased {
					t.Fatalf("after %v: not leased: %v", after, err)
				}
				if time.Now().After(limit) {
					t.Fatalf("after %v: the refusal is not reported (%d sent)", after, refusals)
				}
			}
			if !strings.Contains(told, "p2") || !strings.Contains(told, "OFPFMFC_TABLE_FULL") {
				t.Errorf("after %v: %s", after, told)
			}
			for range 2 { // what is written again at once may be refused as late
				time.Sleep(checkEvery)
				res, err := l.driver.Update(t.Context(), up, time.Minute)
				if res.Repaired != nil || !res.Leased || err == nil || !strings.Contains(err.Error(), "it has the fallback") {
					t.Errorf("after %v: %+v, %v", after, res, err)
				}
				l.is(t, "while it is held", 2, stale)
				l.is(t, "while another is held", 3, 7<<7|5)
			}
			time.Sleep(lateHold)
			for range 2 {
				if res := l.update(t, time.Minute, up...); res.Repaired != nil {
					t.Errorf("after %v: no other process has changed anything: %s", after, res.Repaired)
				}
			}
			l.is(t, "after the refusal", 2, 9<<7|5)
			if !cleared.Load() {
				t.Errorf("after %v: what the port has is not written again from the beginning", after)
			}
			l.is(t, "after the refusal of another port", 3, 7<<7|5)
			l.update(t, time.Minute, seven("p2"), nine("p3"))
			l.is(t, "back", 2, 7<<7|5)
		}
	})
}

// TestLateLease: a renewal of the lease that is refused late is reported as that, and not
// as another process's doing.
func TestLateLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLab(t, 2, oftest.Faults{})
		l.apply(t, setupFor(ports(vlanrules.Update, "p2")...))
		l.update(t, time.Second, seven("p2"))
		if time.Sleep(time.Second); strings.Contains(l.flows(), "hard_timeout") {
			t.Fatal("the lease does not expire")
		}
		var refused atomic.Int32
		l.proxy.Set(func(f *oftest.Faults) {
			f.RejectLate = func(m oftest.Message) *oftest.Late {
				if table, command, ok := flowMod(m); ok && table == DefaultTable && command == 0 && m[28]|m[29] != 0 { // hard_timeout
					refused.Add(1)
					return &oftest.Late{Refusal: oftest.NotPermitted, After: time.Millisecond}
				}
				return nil
			}
		})
		told := ""
		for limit := time.Now().Add(4 * checkEvery); !strings.Contains(told, "acknowledged it"); {
			if time.Now().After(limit) {
				t.Fatalf("the refusal is not reported (%d sent): %s", refused.Load(), told)
			}
			time.Sleep(checkEvery)
			res, err := l.driver.Update(t.Context(), []vendors.PortUpdate{seven("p2")}, time.Minute)
			if res.Repaired != nil {
				t.Errorf("no other process has changed anything: %s", res.Repaired)
			}
			told = fmt.Sprint(err)
		}
		if !strings.Contains(told, "OFPFMFC_EPERM") {
			t.Error(told)
		}
	})
}

// TestFullTable: a port without room falls back and says so, others go on, and it has
// its values when there is room.
func TestFullTable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLab(t, 4, oftest.Faults{})
		l.apply(t, setupFor(ports(vlanrules.Update, "p2", "p3", "p4")...))
		l.update(t, time.Minute, seven("p2"))
		used := strings.Count(l.flows(), fmt.Sprintf("table=%d,", DefaultTable+tableLive))
		l.Limit(DefaultTable+tableLive, used+2)
		res, err := l.driver.Update(t.Context(), []vendors.PortUpdate{seven("p2"), nine("p3")}, time.Minute)
		var port *vendors.PortError
		if !errors.As(err, &port) || port.Port != "p3" || !strings.Contains(err.Error(), "make room") || strings.Contains(err.Error(), "more") || !res.Leased {
			t.Fatalf("%+v, %v", res, err)
		}
		l.is(t, "the port that was there", 2, 7<<7|5)
		l.is(t, "the port without room", 3, stale)
		if s, err := l.driver.Observe(t.Context()); err != nil || s.IsDamaged() {
			t.Errorf("a port that falls back is not damaged: %+v, %v", s, err)
		}
		if _, err := l.driver.Update(t.Context(), []vendors.PortUpdate{nine("p2"), nine("p3")}, time.Minute); !errors.As(err, &port) || port.Port != "p3" {
			t.Errorf("%v", err)
		}
		l.is(t, "the port that was there", 2, 9<<7|5)
		l.Limit(DefaultTable+tableLive, 1000)
		time.Sleep(checkEvery)
		l.update(t, time.Minute, nine("p2"), nine("p3"))
		l.is(t, "there is room", 3, 9<<7|5)
	})
}

// TestOthersChange: what another process does to csig's flows is restored and reported,
// and the operator's own stay.
func TestOthersChange(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLab(t, 3, oftest.Faults{})
		foreign := fmt.Sprintf("table=%d,priority=500,in_port=1,actions=drop", DefaultTable+tableLive)
		setup := setupFor(ports(vlanrules.Update, "p2")...)
		l.Flow("add-flow", foreign)
		var theirs *vendors.ForeignError
		if err := l.driver.Apply(t.Context(), setup); !errors.As(err, &theirs) || !strings.Contains(err.Error(), "table 11") {
			t.Fatalf("foreign flows in csig's table: %v", err)
		}
		l.Flow("del-flows", "--strict", fmt.Sprintf("table=%d,priority=500,in_port=1", DefaultTable+tableLive))
		l.apply(t, setup)
		l.update(t, time.Minute, seven("p2"))
		operators := l.Flow("dump-flows", "--no-stats", "table=0")
		was := l.flows()
		for what, change := range map[string]func(){
			"a value":              func() { l.Flow("mod-flows", "table=11,metadata=2/0xfff,actions=output:2") },
			"live flows":           func() { l.Flow("del-flows", "table=11,metadata=2/0xfff") },
			"the fallback":         func() { l.Flow("del-flows", "table=12") },
			"the record":           func() { l.Flow("del-flows", "table=10,metadata=0xfff/0xfff") },
			"everything of csig's": func() { l.Flow("del-flows", "cookie=0x63736f6600000000/0xffffffff00000000,table=255") },
			"a port that falls back": func() {
				l.Flow("add-flow", "cookie=0x63736f6600000000,table=10,priority=200,metadata=2/0xfff,actions=goto_table:12")
			},
			"a port that is passed": func() {
				l.Flow("add-flow", "cookie=0x63736f6600000000,table=10,priority=300,metadata=2/0xfff,actions=output:2")
			},
			"another port's default": func() { l.Flow("del-flows", "table=10,metadata=3/0xfff") },
		} {
			change()
			if l.flows() == was {
				t.Fatalf("%s: nothing changed", what)
			}
			time.Sleep(checkEvery)
			res := l.update(t, time.Minute, seven("p2"))
			if res.Restarted {
				t.Errorf("%s: the switch has not restarted", what)
			}
			if res.Repaired == nil && what != "another port's default" {
				t.Errorf("%s: it is not reported", what)
			}
			now := l.flows()
			if got, want := constantOf(now), constantOf(was); got != want {
				t.Errorf("%s: the flows are\n%s\nand were\n%s", what, got, want)
			}
			l.is(t, what, 2, 7<<7|5)
			if res := l.update(t, time.Minute, seven("p2")); res.Repaired != nil {
				t.Errorf("%s: repaired twice: %s", what, res.Repaired)
			}
		}
		if now := l.Flow("dump-flows", "--no-stats", "table=0"); now != operators {
			t.Errorf("the operator's flows are\n%s\nand were\n%s", now, operators)
		}
	})
}

// constantOf leaves out what updates write.
func constantOf(flows string) string {
	var out []string
	for line := range strings.Lines(flows) {
		if !strings.Contains(line, "priority=101 ") && !strings.Contains(line, "priority=102 ") && (!strings.Contains(line, "table=11,") || strings.Contains(line, "priority=1,")) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return strings.Join(out, "\n")
}

// TestConnectionLost: the switch restarts without its flows, or the connection breaks in
// the middle.
func TestConnectionLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLab(t, 3, oftest.Faults{})
		l.apply(t, setupFor(ports(vlanrules.Update, "p2")...))
		l.update(t, time.Minute, seven("p2"))
		up := []vendors.PortUpdate{nine("p2")}
		eventually := func(what string) {
			t.Helper()
			synctest.Wait() // the connection has ended
			res := l.update(t, time.Minute, up...)
			if empty := what == "the switch restarted"; res.Restarted != empty || (res.Repaired != nil) != empty {
				t.Errorf("%s: %+v", what, res)
			}
		}
		l.proxy.Cut()
		eventually("the connection was cut")
		l.is(t, "the connection was cut", 2, 9<<7|5)
		l.StopSwitch()
		if _, err := l.driver.Update(t.Context(), up, time.Minute); err == nil {
			t.Error("an update of a switch that is gone succeeds")
		}
		l.StartSwitch()
		l.handOver(3)
		eventually("the switch restarted")
		l.is(t, "the switch restarted", 2, 9<<7|5)
		l.StopSwitch()
		l.StartSwitch()
		l.handOver(3)
		up = nil // the agent has no value after the restart
		eventually("the switch restarted")
		l.is(t, "the switch restarted, and there is no value", 2, stale)
	})
}

// TestTablesThatCannot refuses tables by number and by what they cannot do, before
// anything is written.
func TestTablesThatCannot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLab(t, 2, oftest.Faults{})
		in := func(table uint8, change func(*oftest.TableFeatures)) func(*oftest.Faults) {
			return func(f *oftest.Faults) {
				f.Features = func(t *oftest.TableFeatures) {
					if t.ID == table {
						change(t)
					}
				}
			}
		}
		setup := setupFor(ports(vlanrules.Update, "p2")...)
		for want, fault := range map[string]func(*oftest.Faults){
			"cannot mask VLAN_VID":                    in(11, func(t *oftest.TableFeatures) { t.Unmask(oftest.FieldVLANVID) }),
			"cannot match VLAN_PCP":                   in(12, func(t *oftest.TableFeatures) { t.Drop(oftest.FieldVLANPCP) }),
			"cannot set VLAN_VID":                     in(11, func(t *oftest.TableFeatures) { t.DropSet(oftest.FieldVLANVID) }),
			"cannot match the bits 0xfff of METADATA": func(f *oftest.Faults) { f.NoMetadata = true },
			"cannot lead to other":                    in(10, func(t *oftest.TableFeatures) { t.DropInstruction(1) }),
			"cannot apply actions":                    in(12, func(t *oftest.TableFeatures) { t.DropInstruction(4) }),
		} {
			l.proxy.Set(func(f *oftest.Faults) { *f = oftest.Faults{}; fault(f) })
			l.proxy.Cut()
			d := l.open(t, Config{OrdinaryVLANs: NotHandedOver})
			l.proxy.Reset()
			err := d.Apply(t.Context(), setup)
			var permanent *vendors.PermanentError
			if !errors.As(err, &permanent) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "table 1") {
				t.Errorf("%s: %v", want, err)
			}
			if c := l.proxy.Counts(); c.FlowMods > 0 {
				t.Errorf("%s: %d flows were written", want, c.FlowMods)
			}
			if f, err := d.Probe(t.Context()); err != nil || f.Update.Level != vlanrules.Refused || !strings.Contains(f.Update.Reason, want) {
				t.Errorf("%s: %+v, %v", want, f.Update, err)
			}
		}
		l.proxy.Set(func(f *oftest.Faults) { *f = oftest.Faults{NoFeatures: true} })
		l.proxy.Cut()
		d := l.open(t, Config{OrdinaryVLANs: NotHandedOver})
		if err := d.Apply(t.Context(), setup); err != nil {
			t.Errorf("a switch that does not report it: %v", err)
		}
		if f, err := d.Probe(t.Context()); err != nil || f.Update.Level != vlanrules.Degraded || !strings.Contains(f.Update.Reason, "does not report what its tables can do") {
			t.Errorf("a switch that does not report it: %+v, %v", f.Update, err)
		}
	})
}

// TestHandOver is what csig says of the operator's flows.
func TestHandOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLab(t, 2, oftest.Faults{})
		setup := setupFor(ports(vlanrules.Update, "p2")...)
		undeclared := l.open(t, Config{})
		if err := undeclared.Apply(t.Context(), setup); err == nil || !strings.Contains(err.Error(), "ordinary_vlans: not-handed-over") {
			t.Errorf("no word about ordinary VLANs: %v", err)
		}
		if err := undeclared.Apply(t.Context(), setupFor(ports(vlanrules.Passthrough, "p2")...)); err != nil {
			t.Errorf("a setup that looks at no tag: %v", err)
		}
		for _, tc := range []struct {
			flow, group, want string
			refused           bool
		}{
			{"", "", "", false},
			{"in_port=2,actions=NORMAL", "", "NORMAL, FLOOD or ALL", true},
			{"in_port=2,actions=output:1", "", "1 flow outputs to ports and bypasses table 10 (one is in table 0 with priority 77", false},
			{"in_port=2,actions=group:5", "group_id=5,type=all,bucket=output:1", "bypasses table 10", false},
			{"in_port=2,actions=goto_table:10", "", "without write_metadata", false},
			{"in_port=2,actions=write_metadata:1/0xfff,goto_table:11", "", "behind table 10", false},
			{"in_port=2,vlan_tci=0x1064/0x1fff,actions=write_metadata:1/0xfff,goto_table:10", "", "matches frames by a VLAN's VID", false},
			{"in_port=2,actions=push_vlan:0x8100,write_metadata:1/0xfff,goto_table:10", "", "pushes a tag of 0x8100", false},
			{"in_port=2,actions=CONTROLLER", "", "", false},
		} {
			if tc.group != "" {
				l.Flow("add-group", tc.group)
			}
			if tc.flow != "" {
				l.Flow("add-flow", "table=0,priority=77,"+tc.flow)
			}
			f, err := l.driver.Probe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if (f.Update.Level == vlanrules.Refused) != tc.refused || !strings.Contains(f.Update.Reason, tc.want) {
				t.Errorf("%s: %+v", tc.flow, f.Update)
			}
			if tc.want == "" && strings.Contains(f.Update.Reason, "docs/openflow.md") {
				t.Errorf("%s: %+v", tc.flow, f.Update)
			}
			if err := l.driver.Apply(t.Context(), setup); (err != nil) != tc.refused {
				t.Errorf("%s: %v", tc.flow, err)
			}
			if tc.flow != "" {
				l.Flow("del-flows", "table=0,in_port=2")
			}
		}
	})
}
