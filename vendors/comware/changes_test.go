package comware

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vendors/comware/comwaretest"
	"github.com/csig-agent/csig/vendors/reconcile"
	"github.com/csig-agent/csig/vendors/vendorstest"
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
	for _, p := range b.view(t).Policies[qos.PolicyName(port)] {
		list = append(list, strings.TrimPrefix(p.Behavior, qos.Prefix+"i"))
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
	clitest.Virtual(t, func(t *testing.T) {
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
	})
}

// TestHardwareLosesLater: what was in hardware and is not any more is its port's error, a minute
// later at most, without a change of its values.
func TestHardwareLosesLater(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := quick(t)
		b.apply(t, plain(xge1, xge2))
		b.give(t, both(7))
		b.Changed = func(list []comwaretest.Port) []int { return make([]int, len(list)) }
		b.Settle()
		time.Sleep(reconcile.Every)
		if _, err := b.driver.Update(t.Context(), both(7), time.Minute); err == nil || !strings.Contains(err.Error(), "port "+xge1+": class") || !strings.Contains(err.Error(), "port "+xge2+": class") {
			t.Error(err)
		}
		b.Changed = nil
		b.Settle()
		b.give(t, both(7))
	})
}

// TestOneLineRefused: a line that the switch does not take is that of its port, in an
// update and in Apply.
func TestOneLineRefused(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
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
		if p := (*vendors.PortError)(nil); !errors.As(err, &p) || p.Port != xge2 || outbound(b.view(t).Port(xge1)) == "" {
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
	})
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
		clitest.Run(t, name, func(t *testing.T) {
			b := quick(t)
			b.apply(t, plain(xge1, xge2))
			b.give(t, both(6))
			b.Type(tc.lines...)
			theirs, held, values := b.view(t).Odd["csig-"+xge2], b.view(t).Port(xge2), b.values(t, xge2)
			if outbound(held) == qos.PolicyName(xge2) {
				values = "125a 4093a"
			}
			time.Sleep(2 * reconcile.Every)
			b.refusedPort(t, 7, tc.want)
			b.refusedPort(t, 8, tc.want)
			if got := b.view(t); got.Odd["csig-"+xge2] != theirs || fmt.Sprint(*got.Port(xge2)) != fmt.Sprint(*held) || b.values(t, xge2) != values {
				t.Errorf("the port has %s, want %s:\n%s", b.values(t, xge2), values, b.Running())
			}
			if tc.end == nil {
				return
			}
			b.Type(tc.end...)
			time.Sleep(2 * reconcile.Every)
			b.give(t, both(9))
			if got := b.values(t, xge2); got != "1157a 1157a" {
				t.Errorf("the port has %s", got)
			}
		})
	}
	// A policy that is not csig's alone stays when csig goes, and is named.
	clitest.Run(t, "removed", func(t *testing.T) {
		b := quick(t)
		b.apply(t, plain(xge1, xge2))
		b.Type("qos policy csig-"+xge2, "classifier theirs behavior theirs mode qppb-manipulation")
		err := b.driver.Remove(t.Context())
		if err == nil || !strings.Contains(err.Error(), "port "+xge2) || outbound(b.view(t).Port(xge1)) != "" || outbound(b.view(t).Port(xge2)) == "" {
			t.Errorf("%v\n%s", err, b.Running())
		}
	})
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
		clitest.Run(t, want, func(t *testing.T) {
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
	clitest.Run(t, "while csig updates", func(t *testing.T) {
		b := quick(t)
		b.Type("qos policy theirs", "quit", "qos apply policy theirs global inbound", "qos vlan-policy theirs vlan 10 inbound")
		b.apply(t, plain(xge1))
		b.Type("qos apply policy theirs global outbound")
		time.Sleep(2 * reconcile.Every)
		if _, err := b.driver.Update(t.Context(), to(xge1, 7), time.Minute); err == nil || !strings.Contains(err.Error(), "port "+xge1+": a QoS policy that is not csig's") || b.values(t, xge1) != "901a 901a" {
			t.Errorf("%v, %s", err, b.values(t, xge1))
		}
	})
}

// TestSharedBehavior: one that several ports use and a user has edited is replaced at each
// by another that marks the same, and removed.
func TestSharedBehavior(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := quick(t)
		b.apply(t, plain(xge1, xge2))
		b.give(t, both(7))
		for _, want := range []string{"901b 901b", "901a 901a"} { // the other bank, and back
			b.Type("traffic behavior csig-i901"+map[string]string{"901b 901b": "a", "901a 901a": "b"}[want], "remark customer-vlan-id 2")
			time.Sleep(2 * reconcile.Every)
			if res := b.give(t, both(7)); !strings.Contains(res.Repaired.String(), "not as csig left them") || b.values(t, xge1) != want || b.values(t, xge2) != want {
				t.Errorf("%+v: the ports have %s and %s", res, b.values(t, xge1), b.values(t, xge2))
			}
		}
		// Where a user took both, the ports say which.
		b.give(t, both(8))
		b.Type("traffic behavior csig-i901a", "remark customer-vlan-id 2", "quit", "traffic behavior csig-i901b", "remark customer-vlan-id 2", "quit",
			"traffic classifier theirs", "quit", "traffic classifier theirs2", "quit", "qos policy theirs", "classifier theirs behavior csig-i901a", "classifier theirs2 behavior csig-i901b")
		time.Sleep(2 * reconcile.Every)
		if _, err := b.driver.Update(t.Context(), both(7), time.Minute); err == nil || !strings.Contains(err.Error(), "both behaviors for its next value are in use") || b.values(t, xge1) != "1029a 1029a" {
			t.Errorf("%v, %s", err, b.values(t, xge1))
		}
	})
}

// TestObjectsAreBounded: changes leave a bounded number of classes and behaviors, on the
// switch too.
func TestObjectsAreBounded(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := quick(t)
		b.Type("qinq ethernet-type customer-tag 9900")
		b.apply(t, plain(xge1, xge2))
		most := 0
		for i := range 4_000 / vendorstest.Every(t, 13) {
			u := to([]string{xge1, xge2}[i&1], uint8(i*7%31))
			u[0].Intents[0].LM, u[0].Intents[1].LM = uint16(1+i/31%60), uint16(1+i/1000%60)
			b.give(t, u)
			v := b.driver.View
			most = max(most, len(v.Classes)+len(v.Behaviors))
			if i == 199 {
				if has := b.view(t); fmt.Sprint(has.Classes, has.Behaviors, has.Policies) != fmt.Sprint(v.Classes, v.Behaviors, v.Policies) {
					t.Fatal("the switch has something else than csig knows")
				}
			}
		}
		// Two ports with a class and a behavior for each of two signals, those that are idle, the
		// record, and what a change has for a moment.
		if bound := 2*2*2 + 2*qos.MaxIdle + 1; most > bound || len(b.driver.Freed) > 2*bound {
			t.Errorf("%d objects, at most %d are to be; %d names", most, bound, len(b.driver.Freed))
		}
	})
}

// TestLongObjectsAreBounded is TestObjectsAreBounded in more changes.
func TestLongObjectsAreBounded(t *testing.T) { TestObjectsAreBounded(t) }

// TestUsersLine: a line of a user's in csig's policy stays, whatever csig does, and its port
// has the fallback and is refused by name.
func TestUsersLine(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := quick(t)
		b.apply(t, plain(xge1, xge2))
		b.give(t, both(7))
		b.Type("traffic classifier theirs operator and", "quit", "traffic behavior theirs", "quit", "qos policy csig-"+xge1, "classifier theirs behavior theirs")
		time.Sleep(2 * reconcile.Every)
		const line = "classifier theirs behavior theirs"
		refused := func(what string, err error) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), "port "+xge1) || !strings.Contains(err.Error(), "remove the line ("+line+")") || !strings.Contains(b.Running(), line) {
				t.Errorf("%s: %v\n%s", what, err, b.Running())
			}
		}
		_, err := b.driver.Update(t.Context(), both(8), time.Minute)
		refused("updated", err)
		if got := b.values(t, xge2); got == b.values(t, xge1) {
			t.Errorf("both ports have %s", got)
		}
		refused("applied", b.driver.Apply(t.Context(), plain(xge1, xge2)))
		refused("removed", b.driver.Remove(t.Context()))
	})
}

// TestComparedEachMinute: a port that fails at every update keeps no other from being compared
// with the setup.
func TestComparedEachMinute(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := quick(t)
		b.apply(t, plain(xge1, xge2))
		b.give(t, both(7))
		b.Changed = func(list []comwaretest.Port) []int { // the second port's table is full
			held := make([]int, len(list))
			for i := range list {
				if held[i] = len(list[i].Outbound); list[i].Name == xge2 {
					held[i] = 0
				}
			}
			return held
		}
		b.Settle()
		b.Type("qinq ethernet-type customer-tag 88a8")
		var err error
		for n := range 8 {
			time.Sleep(reconcile.Every / 4)
			_, err = b.driver.Update(t.Context(), both(uint8(8+n%2)), time.Minute)
		}
		if err == nil || !strings.Contains(err.Error(), "88a8") {
			t.Errorf("after two minutes: %v", err)
		}
	})
}
