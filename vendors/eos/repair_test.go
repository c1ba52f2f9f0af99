package eos

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/reconcile"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestRefusedLine: a line that the switch does not take is its port's error, and the others
// go on, also when the signal ends and where the setup is repaired.
func TestRefusedLine(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.apply(t, setupFor(ports[1], ports[2]))
		give := func(s uint8) (string, error) {
			t.Helper()
			res, err := b.driver.Update(t.Context(), append(to(ports[1], s), to(ports[2], s)...), time.Minute)
			if !res.Leased {
				t.Fatalf("%+v, %v", res, err)
			}
			return named(err), err
		}
		if _, err := give(9); err != nil {
			t.Fatal(err)
		}
		refuse := func(command string) {
			b.server.Set(clitest.Faults{Answer: func(line string) (string, bool) {
				return "% Invalid input\r\n", strings.HasPrefix(line, command+" csig-"+b.driver.cfg.Forwarding[1].id())
			}})
		}
		for _, command := range []string{"flow", "no flow"} {
			refuse(command)
			s := uint8(11)
			if command == "no flow" {
				s = 13
			}
			if got, err := give(s); got != ports[2] {
				t.Errorf("%s: %v", command, err)
			}
			b.has(t, ports[1], to(ports[1], s)[0].Intents)
			b.server.Set(clitest.Faults{})
			if _, err := give(s); err != nil {
				t.Error(err)
			}
			b.has(t, ports[2], to(ports[2], s)[0].Intents)
		}
		// Both ports have to be repaired, and one of them cannot.
		refuse("flow")
		v, err := parse(strings.Split(b.Running(), "\n"))
		if err != nil {
			t.Fatal(err)
		}
		for _, port := range ports[1:] {
			held, _, _ := b.driver.held(v, port)
			b.Type("directflow", "flow "+sorted(held)[0], "action set vlan 9")
		}
		time.Sleep(2 * reconcile.Every)
		err = b.driver.Release(t.Context())
		if got := named(err); got != ports[2] {
			t.Error(err)
		}
		b.has(t, ports[1], b.driver.Want.Fallback())
		b.server.Set(clitest.Faults{})
		if err := b.driver.Release(t.Context()); err != nil {
			t.Error(err)
		}
		b.has(t, ports[2], b.driver.Want.Fallback())
	})
}

// TestWrittenOtherwise: where the switch writes csig's lines otherwise than it was given them,
// and would take that for an edit at every update, nothing is written.
func TestWrittenOtherwise(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.Shown = func(line string) string { return strings.Replace(line, " 0xf80", " mask 0xf80", 1) }
		before := b.Running()
		if err := b.driver.Apply(t.Context(), setupFor(ports[1])); err == nil || !strings.Contains(err.Error(), `"match vlan 128 mask 0xf80", which csig did not give`) || b.Running() != before {
			t.Error(err)
		}
	})
}

// named are the ports that an error names, each once.
func named(err error) string {
	var names []string
	vendors.EachPort(err, func(port string, _ error) { names = append(names, port) })
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " ")
}

// has compares a port's flows with intents.
func (b *bench) has(t testing.TB, port string, intents []vlanrules.Intent) {
	t.Helper()
	v, err := parse(strings.Split(b.Running(), "\n"))
	if err != nil {
		t.Fatal(err)
	}
	held, damaged, _ := b.driver.held(v, port)
	table, err := b.driver.covers(intents)
	if err != nil || len(damaged) > 0 || !b.driver.same(port, table, held) {
		t.Errorf("%s has %v %v, %v; want %+v", port, sorted(held), damaged, err, intents)
	}
}

// TestForeignNear: ports that cannot have their setup as the switch is configured now
// advertise no bucket any more, neither by an update nor when the signal ends; others go on.
func TestForeignNear(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lines, undo []string
		all         bool
	}{
		"a flow over csig's": {[]string{"directflow", "flow theirs", "priority 30003"}, []string{"directflow", "no flow theirs"}, true},
		"shut down":          {[]string{"directflow", "shutdown"}, []string{"directflow", "no shutdown"}, true},
		"a VLAN gone":        {[]string{"vlan 5-3999"}, []string{"vlan 2-4094"}, true},
		"no trunk":           {[]string{"interface " + ports[2], "no switchport mode"}, []string{"interface " + ports[2], "switchport mode trunk"}, false},
		"a TPID":             {[]string{"no mac access-list csig-tpid-Ethernet3_1", "interface " + ports[2], "switchport dot1q ethertype 0x88a8"}, []string{"interface " + ports[2], "no switchport dot1q ethertype"}, false},
	} {
		for _, release := range []bool{false, true} {
			clitest.Run(t, fmt.Sprintf("%s, release %t", name, release), func(t *testing.T) {
				b := newBench(t, nil)
				setup := setupFor(ports[1], ports[2])
				setup.Signals = setup.Signals[:1]
				b.apply(t, setup)
				list := func(s uint8) []vendors.PortUpdate { // S > s is one flow for these
					out := append(to(ports[1], s), to(ports[2], s)...)
					for i := range out {
						out[i].Intents = out[i].Intents[:1]
					}
					return out
				}
				if _, err := b.driver.Update(t.Context(), list(15), time.Minute); err != nil {
					t.Fatal(err)
				}
				b.Type(tc.lines...)
				before := b.Running()
				time.Sleep(2 * reconcile.Every)
				err, want := error(nil), b.driver.Want.Fallback()
				if release {
					err = b.driver.Release(t.Context())
				} else {
					_, err = b.driver.Update(t.Context(), list(23), time.Minute)
				}
				failed := ports[2]
				if tc.all {
					failed = ports[1] + " " + ports[2]
				} else if !release {
					want = list(23)[0].Intents
				}
				if permanent := (*vendors.PermanentError)(nil); named(err) != failed || !errors.As(err, &permanent) {
					t.Errorf("%s: %v", name, err)
				}
				b.has(t, ports[1], want)
				b.has(t, ports[2], b.driver.Want.Fallback())
				if name == "a TPID" && !strings.Contains(b.Running(), "0x88a8") {
					t.Errorf("%s: csig took it, of\n%s", name, before)
				}
				b.Type(tc.undo...)
				time.Sleep(2 * reconcile.Every)
				if _, err := b.driver.Update(t.Context(), list(23), time.Minute); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				b.has(t, ports[2], list(23)[1].Intents)
			})
		}
	}
}

// TestInterrupted ends the session at lines of a change, before it is carried out and
// after: the next update finds what is there and finishes it, and no configuration session stays.
func TestInterrupted(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		setup := setupFor(ports[1])
		b.apply(t, setup)
		give := func(s uint8) error {
			_, err := b.driver.Update(t.Context(), to(ports[1], s), time.Minute)
			return err
		}
		if err := give(7); err != nil {
			t.Fatal(err)
		}
		b.server.Forget()
		if err := give(9); err != nil {
			t.Fatal(err)
		}
		lines := len(b.server.Lines())
		for n := 0; n < lines; n += vendorstest.Every(t, 7) {
			bucket := 10 + uint8(n)%16
			left := n
			b.server.Set(clitest.Faults{Half: n%2 == 1, Drop: func(string) bool { left--; return left < 0 }})
			if err := give(bucket); err == nil && left < 0 {
				t.Errorf("line %d: the session ended, and nothing was said", n)
			}
			b.server.Set(clitest.Faults{})
			if err := give(bucket); err != nil {
				t.Fatalf("line %d: %v", n, err)
			}
			b.has(t, ports[1], to(ports[1], bucket)[0].Intents)
			if s := b.Sessions(); len(s) > 0 || t.Failed() {
				t.Fatalf("line %d: %v stay", n, s)
			}
		}
		if err := b.driver.Remove(t.Context()); err != nil || strings.Contains(b.Running(), prefix) {
			t.Errorf("%v: %s", err, b.Running())
		}
	})
}

// TestLongInterrupted is TestInterrupted at every line.
func TestLongInterrupted(t *testing.T) { TestInterrupted(t) }

// TestAtTheSameTime: what another user changes while a session is open is not undone by it.
func TestAtTheSameTime(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.apply(t, setupFor(ports[1]))
		once := true
		b.server.Set(clitest.Faults{After: func(line string) {
			if strings.HasPrefix(line, "configure session") && once {
				once = false
				b.Type("interface Ethernet3/1", "description theirs")
			}
		}})
		_, err := b.driver.Update(t.Context(), to(ports[1], 7), time.Minute)
		if err == nil || !strings.Contains(err.Error(), "another user") || len(b.Sessions()) > 0 {
			t.Errorf("%v, %v", err, b.Sessions())
		}
		if _, err := b.driver.Update(t.Context(), to(ports[1], 7), time.Minute); err != nil || !strings.Contains(b.Running(), "description theirs") {
			t.Errorf("%v\n%s", err, b.Running())
		}
	})
}

// TestRepair: what another user changes is seen, and restored by the next update that looks.
func TestRepair(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][]string{
		"an input's TPID": {"interface Ethernet1", "no switchport dot1q ethertype"},
		"an edited flow":  {"directflow", "flow FLOW", "action set vlan 9"},
		"the setup's":     {"no mac access-list csig-setup-9900-draft-00-5-c"},
		"a TPID":          {"interface Ethernet2", "no switchport dot1q ethertype"},
		"a flow gone":     {"directflow", "no flow FLOW"},
		"a port's record": {"no mac access-list csig-update-Ethernet2"},
		"an orphan":       {"directflow", "flow csig-01234567-t0-128-3968-125-b0", "priority 30000"},
	} {
		clitest.Run(t, name, func(t *testing.T) {
			b := newBench(t, nil)
			b.apply(t, setupFor(ports[1]))
			give := func() {
				t.Helper()
				if res, err := b.driver.Update(t.Context(), to(ports[1], 7), time.Minute); err != nil || !res.Leased {
					t.Fatalf("%+v, %v", res, err)
				}
			}
			give()
			ours := func() string {
				v, err := parse(strings.Split(b.Running(), "\n"))
				if err != nil {
					t.Fatal(err)
				}
				held, damaged, _ := b.driver.held(v, ports[1])
				var rules []string
				for _, r := range held {
					r.band = 0
					rules = append(rules, r.name())
				}
				slices.Sort(rules)
				return fmt.Sprint(v.records, rules, damaged, b.driver.orphans(v), v.ports)
			}
			want := ours()
			flow := b.driver.forwardedFlow(t)
			for i := range lines {
				lines[i] = strings.ReplaceAll(lines[i], "FLOW", flow)
			}
			b.Type(lines...)
			if ours() == want {
				t.Fatal("nothing was broken")
			}
			time.Sleep(2 * reconcile.Every)
			give()
			if got := ours(); got != want {
				t.Errorf("%s\nwant %s", got, want)
			}
		})
	}
}

// forwardedFlow is the name of one of csig's flows.
func (d *Driver) forwardedFlow(t testing.TB) string {
	t.Helper()
	v, err := d.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sorted(v.flows) {
		if strings.HasPrefix(name, prefix) {
			return name
		}
	}
	t.Fatal("there is none")
	return ""
}
