package comware

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/comware/comwaretest"
)

// both is an update of both ports.
func both(s uint8) []vendors.PortUpdate { return append(to(xge1, s), to(xge2, s)...) }

// view is what the switch has.
func (b *bench) view(t testing.TB) *view {
	t.Helper()
	v, err := parse(strings.Split(b.Running(), "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// values are what a port's policy marks, in its order.
func (b *bench) values(t testing.TB, port string) string {
	t.Helper()
	var list []string
	for _, p := range b.view(t).policies[policyName(port)] {
		list = append(list, strings.TrimPrefix(p.behavior, prefix+"i"))
	}
	return strings.Join(list, " ")
}

func (b *bench) give(t testing.TB, u []vendors.PortUpdate) vendors.UpdateResult {
	t.Helper()
	res, err := b.driver.Update(t.Context(), u, time.Minute)
	if err != nil || !res.Leased {
		t.Fatalf("%+v, %v", res, err)
	}
	return res
}

// refusedPort gives both ports a bucket: the second has to say why not, and the first to
// have it.
func (b *bench) refusedPort(t testing.TB, s uint8, want string) {
	t.Helper()
	res, err := b.driver.Update(t.Context(), both(s), time.Minute)
	var named []string
	vendors.EachPort(err, func(port string, _ error) { named = append(named, port) })
	if fmt.Sprint(named) != "["+xge2+"]" || !res.Leased || !strings.Contains(err.Error(), want) {
		t.Errorf("%+v, %v, want %s", res, err, want)
	}
	first := fmt.Sprintf("%da", uint16(s)<<7|5)
	if got := b.values(t, xge1); got != first+" "+first {
		t.Errorf("the other port has %s", got)
	}
}

// TestNotInHardware: what the switch configures and has no room for is an error of the
// port for as long as it has none, and what was there before stays as long.
func TestNotInHardware(t *testing.T) {
	t.Parallel()
	b := quick(t)
	room := 2
	b.Changed = func(list []comwaretest.Port) []int {
		held := make([]int, len(list))
		for i := range list {
			held[i] = min(room, len(list[i].Outbound))
		}
		return held
	}
	b.apply(t, plain(xge1))
	for range 3 {
		_, err := b.driver.Update(t.Context(), to(xge1, 7), time.Minute)
		if p := (*vendors.PortError)(nil); !errors.As(err, &p) || p.Port != xge1 || !strings.Contains(err.Error(), "not in hardware") {
			t.Error(err)
		}
		if got := b.values(t, xge1); got != "125a 4093a 901a 901a" {
			t.Errorf("the port has %s", got)
		}
	}
	next := Open(b.driver.cfg) // it does not know what an earlier process was told
	defer next.Close()
	if _, err := next.Update(t.Context(), to(xge1, 7), time.Minute); err == nil || !strings.Contains(err.Error(), "not in hardware") {
		t.Error(err)
	}
	room = 4
	b.Settle()
	b.give(t, to(xge1, 7))
	if got := b.values(t, xge1); got != "901a 901a" {
		t.Errorf("the port has %s", got)
	}
	room = 1
	b.Settle()
	if err := b.driver.Apply(t.Context(), plain(xge1, xge2)); err == nil || !strings.Contains(err.Error(), "port "+xge2+": class") {
		t.Errorf("Apply: %v", err)
	}
}

// TestOneLineRefused: a line that the switch does not take is that of its port, in an
// update and in Apply.
func TestOneLineRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	within := ""
	refuse := clitest.Faults{Answer: func(line string) (string, bool) {
		if strings.HasPrefix(line, "qos policy ") {
			within = line
		}
		return "Error: not enough resources.\r\n", strings.HasPrefix(line, "classifier ") && within == "qos policy csig-"+xge2
	}}
	b.server.Set(refuse)
	err := b.driver.Apply(t.Context(), plain(xge2, xge1))
	if p := (*vendors.PortError)(nil); !errors.As(err, &p) || p.Port != xge2 || b.view(t).port(xge1).outbound == "" {
		t.Errorf("%v", err)
	}
	b.server.Set(clitest.Faults{})
	b.apply(t, plain(xge1, xge2))
	b.give(t, both(6))
	b.server.Set(refuse)
	for range 2 {
		b.refusedPort(t, 7, "not enough resources")
	}
	if got := b.values(t, xge2); got != "773a 773a" {
		t.Errorf("the port has %s", got)
	}
	b.server.Set(clitest.Faults{})
	b.give(t, both(7))
}

// TestRefusedRepair: what cannot be restored is an error of its port until it can, also
// where the configuration was not read again in between. A port where csig's policy is still
// in force has the fallback, and what another user made stays.
func TestRefusedRepair(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		want       string
		lines, end []string
	}{
		"another policy": {
			want:  "QoS policy theirs is applied",
			lines: []string{"qos policy theirs", "quit", "interface " + xge2, "undo qos apply policy outbound", "qos apply policy theirs outbound"},
			end:   []string{"interface " + xge2, "undo qos apply policy outbound"},
		},
		"a line in csig's": {
			want:  "csig-" + xge2 + " has a line that is not csig's",
			lines: []string{"qos policy csig-" + xge2, "classifier theirs behavior theirs mode qppb-manipulation"},
			end:   []string{"qos policy csig-" + xge2, "undo classifier theirs"},
		},
		"another policy in it": {
			want:  "service-instance 1, qos apply policy theirs outbound",
			lines: []string{"qos policy theirs", "quit", "interface " + xge2, "service-instance 1", "qos apply policy theirs outbound"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := quick(t)
			b.apply(t, plain(xge1, xge2))
			b.give(t, both(6))
			b.Type(tc.lines...)
			theirs, held, values := b.view(t).odd["csig-"+xge2], b.view(t).port(xge2), b.values(t, xge2)
			if held.outbound == policyName(xge2) {
				values = "125a 4093a"
			}
			b.clock += 2 * recheck
			b.refusedPort(t, 7, tc.want)
			b.refusedPort(t, 8, tc.want)
			if got := b.view(t); got.odd["csig-"+xge2] != theirs || fmt.Sprint(got.port(xge2)) != fmt.Sprint(held) || b.values(t, xge2) != values {
				t.Errorf("the port has %s, want %s:\n%s", b.values(t, xge2), values, b.Running())
			}
			if tc.end == nil {
				return
			}
			b.Type(tc.end...)
			b.clock += 2 * recheck
			b.give(t, both(9))
			if got := b.values(t, xge2); got != "1157a 1157a" {
				t.Errorf("the port has %s", got)
			}
		})
	}
	// A policy that is not csig's alone stays when csig goes, and is named.
	b := quick(t)
	b.apply(t, plain(xge1, xge2))
	b.Type("qos policy csig-"+xge2, "classifier theirs behavior theirs mode qppb-manipulation")
	err := b.driver.Remove(t.Context())
	if err == nil || !strings.Contains(err.Error(), "port "+xge2) || b.view(t).port(xge1).outbound != "" || b.view(t).port(xge2).outbound == "" {
		t.Errorf("%v\n%s", err, b.Running())
	}
}

// TestPoliciesElsewhere: a policy applied to what leaves ports, in each way that Comware
// has, is refused before anything is written, and named while csig updates.
func TestPoliciesElsewhere(t *testing.T) {
	t.Parallel()
	for want, lines := range map[string][]string{
		"qos apply policy theirs global outbound":                      {"qos apply policy theirs global outbound"},
		"qos vlan-policy theirs vlan 10 outbound":                      {"qos vlan-policy theirs vlan 10 outbound"},
		"user-profile staff, qos apply policy theirs outbound":         {"user-profile staff", "qos apply policy theirs outbound"},
		"service-instance 1, qos apply policy theirs outbound":         {"interface " + xge1, "service-instance 1", "qos apply policy theirs outbound"},
		"QoS policy theirs is applied at its outbound direction":       {"interface " + xge1, "qos apply policy theirs outbound dynamic"},
		"not csig's, so csig leaves it alone: remove the line (classi": {"qos policy csig-" + xge1, "classifier theirs behavior theirs mode qppb-manipulation"},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			b := quick(t)
			b.Type("qos policy theirs")
			b.Type(lines...)
			before := b.Running()
			var permanent *vendors.PermanentError
			var foreign *vendors.ForeignError
			if err := b.driver.Apply(t.Context(), plain(xge1)); !errors.As(err, &permanent) || !errors.As(err, &foreign) || permanent.Port != xge1 || !strings.Contains(err.Error(), want) || b.Running() != before {
				t.Errorf("%v", err)
			}
			f, err := b.driver.Probe(t.Context())
			if err != nil || len(f.PortIssues) == 0 || f.PortIssues[0].Port != xge1 || !strings.Contains(f.PortIssues[0].Reason, want) {
				t.Errorf("%+v, %v", f.PortIssues, err)
			}
		})
	}
	b := quick(t)
	b.Type("qos policy theirs", "quit", "qos apply policy theirs global inbound", "qos vlan-policy theirs vlan 10 inbound")
	b.apply(t, plain(xge1))
	b.Type("qos apply policy theirs global outbound")
	b.clock += 2 * recheck
	if _, err := b.driver.Update(t.Context(), to(xge1, 7), time.Minute); err == nil || !strings.Contains(err.Error(), "port "+xge1+": a QoS policy that is not csig's") || b.values(t, xge1) != "901a 901a" {
		t.Errorf("%v, %s", err, b.values(t, xge1))
	}
}

// TestSharedBehavior: one that several ports use and a user has edited is replaced at each
// by another that marks the same, and removed.
func TestSharedBehavior(t *testing.T) {
	t.Parallel()
	b := quick(t)
	b.apply(t, plain(xge1, xge2))
	b.give(t, both(7))
	for _, want := range []string{"901b 901b", "901a 901a"} { // the other bank, and back
		b.Type("traffic behavior csig-i901"+map[string]string{"901b 901b": "a", "901a 901a": "b"}[want], "remark customer-vlan-id 2")
		b.clock += 2 * recheck
		if res := b.give(t, both(7)); !strings.Contains(res.Repaired, "not as csig left them") || b.values(t, xge1) != want || b.values(t, xge2) != want {
			t.Errorf("%+v: the ports have %s and %s", res, b.values(t, xge1), b.values(t, xge2))
		}
	}
	// Where a user took both, the ports say which.
	b.give(t, both(8))
	b.Type("traffic behavior csig-i901a", "remark customer-vlan-id 2", "quit", "traffic behavior csig-i901b", "remark customer-vlan-id 2", "quit",
		"traffic classifier theirs", "quit", "traffic classifier theirs2", "quit", "qos policy theirs", "classifier theirs behavior csig-i901a", "classifier theirs2 behavior csig-i901b")
	b.clock += 2 * recheck
	if _, err := b.driver.Update(t.Context(), both(7), time.Minute); err == nil || !strings.Contains(err.Error(), "both behaviors for its next value are in use") || b.values(t, xge1) != "1029a 1029a" {
		t.Errorf("%v, %s", err, b.values(t, xge1))
	}
}

// TestObjectsAreBounded: changes leave a bounded number of classes and behaviors, on the
// switch too.
func TestObjectsAreBounded(t *testing.T) {
	t.Parallel()
	sw := comwaretest.New("H3C", xge1, xge2)
	sw.Type("qinq ethernet-type customer-tag 9900")
	d := Open(Config{})
	var lines []string
	d.offline = &lines
	type1 := func() {
		sw.Type(lines...)
		lines = lines[:0]
	}
	var err error
	if d.view, err = parse(strings.Split(sw.Running(), "\n")); err != nil {
		t.Fatal(err)
	}
	want := plain(xge1, xge2)
	d.start(&want)
	if err := d.program(t.Context(), &want); err != nil {
		t.Fatal(err)
	}
	type1()
	most, cost := 0, 0
	for i := range 10_000 {
		u := to([]string{xge1, xge2}[i&1], uint8(i*7%31))
		u[0].Intents[0].LM, u[0].Intents[1].LM = uint16(1+i/31%60), uint16(1+i/1000%60)
		if _, err := d.give(t.Context(), &u[0]); err != nil {
			t.Fatal(err)
		}
		most = max(most, len(d.view.classes)+len(d.view.behaviors))
		cost = max(cost, len(lines))
		if i < 200 {
			type1()
		}
		lines = lines[:0]
		if i == 199 {
			v, err := parse(strings.Split(sw.Running(), "\n"))
			if err != nil || fmt.Sprint(v.classes, v.behaviors, v.policies) != fmt.Sprint(d.view.classes, d.view.behaviors, d.view.policies) {
				t.Fatalf("the switch has something else than csig knows, %v", err)
			}
		}
	}
	// Two ports with a class and a behavior for each of two signals, those that are idle, the
	// record, and what a change has for a moment.
	if bound := 2*2*2 + 2*maxIdle + 1; most > bound || len(d.freed) > 2*bound {
		t.Errorf("%d objects, at most %d are to be; %d names", most, bound, len(d.freed))
	}
}

// TestCrash ends csig at every line of what leads from a setup to another: what it leaves,
// another process can finish, or remove without a trace.
func TestCrash(t *testing.T) {
	t.Parallel()
	stale := plain(xge1, xge2)
	stale.OnStale, stale.Signals = "passthrough", stale.Signals[:1]
	other := plain(xge1, xge2)
	other.TPID = 0x9901
	setups := []vendors.Setup{plain(xge1), stale, plain(xge2), other, plain()}
	for way := range 2 * (len(setups) + 1) {
		way, isOuter := way/2, way%2 == 1
		t.Run(fmt.Sprint(way, isOuter), func(t *testing.T) {
			t.Parallel()
			b, cut := near(t)
			b.driver.cfg.Outer = isOuter
			before := b.Running()
			for line, half := 0, false; ; {
				if way > 0 {
					b.apply(t, setups[way-1])
				}
				cut.left, cut.after = line, half
				d := Open(b.driver.cfg)
				var err error
				if way < len(setups) {
					err = d.Apply(t.Context(), setups[way])
				} else {
					err = d.Remove(t.Context())
				}
				done := cut.left >= 0
				if cut.left = -1; done != (err == nil) {
					t.Fatalf("line %d: %v", line, err)
				}
				// What it leaves is the new setup, or is seen not to be.
				if way < len(setups) && half {
					changes, err := Diff(b.view(t).setup(b.driver.at()), setups[way])
					before := b.Running()
					b.apply(t, setups[way])
					if err != nil || len(changes) == 0 && b.Running() != before {
						t.Fatalf("line %d: nothing is to do, %v, in\n%s\nand then it is\n%s", line, err, before, b.Running())
					}
				}
				if way < len(setups) && half {
					b.apply(t, setups[way])
					if have, err := b.driver.Observe(t.Context()); err != nil || have.Damaged != "" || len(have.Ports) != len(setups[way].Ports) || len(b.view(t).records()) != 1 {
						t.Fatalf("line %d, finished: %+v, %v", line, have, err)
					}
				}
				if err := Open(b.driver.cfg).Remove(t.Context()); err != nil || b.Running() != before {
					t.Fatalf("line %d: %v, left:\n%s", line, err, b.Running())
				}
				if half = !half; !half {
					line++
				}
				if done {
					if line < 4 {
						t.Errorf("it was ended at %d lines only", line)
					}
					break
				}
			}
		})
	}
}

// TestCardGone: what was at an interface that is not there any more is removed, too.
func TestCardGone(t *testing.T) {
	t.Parallel()
	b := quick(t)
	before := b.Running()
	b.apply(t, plain(xge1))
	b.Type("qos policy csig-Ten-GigabitEthernet9/0/1", "classifier csig-i0-128-4094a behavior csig-i125a", "quit", "qos policy csig-their-own", "classifier theirs behavior theirs")
	if err := b.driver.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Type("undo qos policy csig-their-own", "undo traffic classifier theirs", "undo traffic behavior theirs")
	if b.Running() != before {
		t.Errorf("left:\n%s", b.Running())
	}
	// In the middle of a change: it is that port's error.
	b.apply(t, plain(xge1))
	if _, err := b.driver.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone := plain(xge1, "Ten-GigabitEthernet9/0/1")
	if err := b.driver.program(t.Context(), &gone); err == nil || !strings.Contains(err.Error(), "no such interface any more") {
		t.Error(err)
	}
}

// TestFrozen: a series that does not let applied policies change says so, and the signal is
// not taken for written.
func TestFrozen(t *testing.T) {
	t.Parallel()
	b := quick(t)
	b.apply(t, plain(xge1))
	b.Frozen = true
	var refused *cli.RefusedError
	var port *vendors.PortError
	for range 2 {
		if res, err := b.driver.Update(t.Context(), to(xge1, 7), time.Minute); !errors.As(err, &refused) || !errors.As(err, &port) || !strings.Contains(refused.Answer, "cannot be modified") || res.Ops > 0 {
			t.Errorf("%+v, %v", res, err)
		}
	}
}

// TestTPID: csig sets the TPID where it is the default, changes its own, and gives back
// what it found. What another user has set stays.
func TestTPID(t *testing.T) {
	t.Parallel()
	for _, at := range []position{inner, outer} {
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			b := quick(t)
			b.driver.cfg.Outer = at == outer
			before := b.Running()
			is := func() uint16 {
				v := b.view(t)
				if at == outer {
					return v.port(xge1).service
				}
				return v.customer
			}
			set := func(tpid string) {
				if at == outer {
					b.Type("interface "+xge1, "qinq ethernet-type service-tag "+tpid)
				} else {
					b.Type("qinq ethernet-type customer-tag " + tpid)
				}
			}
			b.apply(t, plain(xge1, xge2))
			other := plain(xge1, xge2)
			other.TPID = 0x9901
			if is() != 0x9900 {
				t.Errorf("0x%04x", is())
			}
			if changes, err := b.driver.Diff(vendors.Setup{}, other); err != nil || changes[0].Disruptive == "" {
				t.Errorf("%+v, %v", changes, err)
			}
			b.apply(t, other)
			if is() != 0x9901 {
				t.Errorf("0x%04x", is())
			}
			set("8100") // another user gives it back: it is repaired
			b.clock += 2 * recheck
			if res := b.give(t, both(7)); is() != 0x9901 || res.Repaired == "" {
				t.Errorf("0x%04x, %+v", is(), res)
			}
			set("9700") // or takes it: that is refused, and stays
			b.clock += 2 * recheck
			if _, err := b.driver.Update(t.Context(), both(8), time.Minute); err == nil || !strings.Contains(err.Error(), "is 0x9700, which csig did not set") {
				t.Error(err)
			}
			if err := b.driver.Remove(t.Context()); err != nil || is() != 0x9700 || strings.Contains(b.Running(), prefix) {
				t.Errorf("%v, left:\n%s", err, b.Running())
			}
			set("8100")
			b.apply(t, plain(xge1, xge2))
			if err := b.driver.Remove(t.Context()); err != nil || b.Running() != before {
				t.Errorf("%v, left:\n%s", err, b.Running())
			}
			set("9900") // the operator has it already: it stays when csig goes
			before = b.Running()
			b.apply(t, plain(xge1))
			if err := b.driver.Remove(t.Context()); at == inner && (err != nil || b.Running() != before) {
				t.Errorf("%v, left:\n%s", err, b.Running())
			}
		})
	}
}
