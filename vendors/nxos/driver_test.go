package nxos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/setup"
	"github.com/csig-agent/csig/vendors/nxos/nxostest"
	"github.com/csig-agent/csig/vendors/setuponly"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

const (
	eth1 = "Ethernet1/1"
	eth2 = "Ethernet1/2"
	eth3 = "Ethernet1/3"
)

// bench is a fake switch without a data plane, and its driver.
type bench struct {
	*nxostest.Switch
	server *clitest.Server
	driver *setuponly.Driver
}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{Switch: nxostest.New("nx1", eth1, eth2, eth3)}
	b.server = clitest.InMemory(t, b.Shell)
	b.driver = b.open(t, true)
	return b
}

func (b *bench) open(t testing.TB, outer bool) *setuponly.Driver {
	d := setup.Open(Dialect, !outer, func(ctx context.Context) (*cli.Session, error) {
		cfg := Dialect.Session
		cfg.SSH = ssh.Config{Address: b.server.Address, Login: b.server.Login, Dial: b.server.Dial}
		return cli.Dial(ctx, cfg)
	})
	t.Cleanup(func() { d.Close() })
	return d
}

func want(tpid uint16, ports ...string) vendors.Setup {
	s := vendors.Setup{TPID: tpid, Signals: []quantize.Signal{quantize.MinABW, quantize.MaxPD}, OnStale: inventory.Conservative, Profile: strings.Repeat("5a", 32)}
	for _, p := range ports {
		s.Ports = append(s.Ports, vendors.PortSetup{Port: p, Action: vlanrules.Passthrough})
	}
	return s
}

func (b *bench) apply(t *testing.T, s vendors.Setup) {
	t.Helper()
	if err := b.driver.Apply(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	b.holds(t, s)
}

// holds is an error unless another driver finds a setup.
func (b *bench) holds(t *testing.T, s vendors.Setup) {
	t.Helper()
	d := b.open(t, true)
	have, err := d.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if left, err := d.Diff(have, s); err != nil || len(left) > 0 {
		t.Errorf("left: %+v, %v", left, err)
	}
}

// TestRestores: each port gets back exactly what it had, whatever other users do.
func TestRestores(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t)
		b.Type("interface "+eth2, "switchport dot1q ethertype 0x88a8", "description uplink", "exit", "ip access-list theirs", "10 permit ip any any", "exit")
		before := b.Running()
		b.apply(t, want(0x9100, eth1, eth2))
		if got := b.Running(); strings.Count(got, "switchport dot1q ethertype 0x9100") != 2 || !strings.Contains(got, "10 permit ip any any") {
			t.Fatal(got)
		}
		changes := b.Changes()
		b.apply(t, want(0x9100, eth1, eth2))
		if b.Changes() != changes {
			t.Error("the same setup is written again")
		}
		b.apply(t, want(0x9100, eth2, eth3))
		b.apply(t, want(0x88a8, eth3))
		b.apply(t, want(0x9100, eth1, eth2))
		for range 2 {
			if err := b.driver.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := b.Running(); got != before || b.Saves() != 0 {
				t.Fatalf("saved %d times\n%s", b.Saves(), got)
			}
		}
		// What another user gives a port meanwhile stays.
		b.apply(t, want(0x9100, eth1))
		b.Type("interface "+eth1, "switchport dot1q ethertype 0x88a8", "exit")
		theirs := strings.Count(b.Running(), "0x88a8")
		have, err := b.driver.Observe(t.Context())
		if err != nil || len(have.Ports) != 1 || !strings.Contains(have.Ports[0].Damaged, "0x88a8") {
			t.Errorf("%+v, %v", have, err)
		}
		if err := b.driver.Remove(t.Context()); err != nil || strings.Count(b.Running(), "0x88a8") != theirs {
			t.Errorf("%v\n%s", err, b.Running())
		}
	})
}

// TestInterrupted ends sessions at lines, before and after it is carried out: what a
// port had before is never lost.
func TestInterrupted(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t)
		b.Type("interface "+eth2, "switchport dot1q ethertype 0x88a8", "exit")
		before := b.Running()
		first, second := want(0x9100, eth1), want(0x88a8, eth2, eth3)
		for _, half := range []bool{false, true} {
			cut := 0
			for n, done := 1, false; !done; n += vendorstest.Every(t, 5) {
				if err := b.driver.Apply(t.Context(), first); err != nil {
					t.Fatal(err)
				}
				seen := 0
				b.server.Set(clitest.Faults{Half: half, Drop: func(line string) bool {
					if strings.HasPrefix(line, "terminal") || strings.HasPrefix(line, "show") {
						return false
					}
					seen++
					return seen == n
				}})
				err := b.driver.Apply(t.Context(), second)
				b.server.Set(clitest.Faults{})
				if done = err == nil; !done {
					cut++
				}
				if cut%2 == 0 { // another process ends it
					b.driver = b.open(t, true)
					if err := b.driver.Remove(t.Context()); err != nil {
						t.Fatal(err)
					}
					if got := b.Running(); got != before {
						t.Fatalf("cut off at line %d: %s", n, got)
					}
				} else {
					b.apply(t, second)
				}
				if err := b.driver.Remove(t.Context()); err != nil || b.Running() != before {
					t.Fatalf("cut off at line %d: %v\n%s", n, err, b.Running())
				}
			}
			if cut < 24/vendorstest.Every(t, 5) {
				t.Errorf("cut off at %d lines only", cut)
			}
		}
	})
}

// TestLongInterrupted is TestInterrupted at every line.
func TestLongInterrupted(t *testing.T) { TestInterrupted(t) }

// TestDamagedRecord: a record that is not whole is damage and no empty one: csig does not take
// its own TPID for what it found.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][]string{
		"a part is missing": {"no 40"},
		"a part differs":    {"no 40", "40 remark AAAA"},
		"the head differs":  {"no 10", "10 remark csig-record what"},
	} {
		clitest.Run(t, name, func(t *testing.T) {
			b := newBench(t)
			before := b.Running()
			s := want(0x9100, eth1)
			b.apply(t, s)
			b.Type(slices.Concat([]string{"ip access-list " + setup.Slots[0]}, lines, []string{"exit"})...)
			d := b.open(t, true)
			have, err := d.Observe(t.Context())
			if err != nil || !strings.Contains(have.Damaged, setup.Slots[0]) {
				t.Errorf("%+v, %v", have, err)
			}
			changes := b.Changes()
			if err := d.Apply(t.Context(), s); !errors.As(err, new(*vendors.PermanentError)) || b.Changes() != changes {
				t.Errorf("%v, %d changes", err, b.Changes()-changes)
			}
			if err := d.Remove(t.Context()); err == nil || !strings.Contains(err.Error(), "look at their TPID") || strings.Contains(b.Running(), "csig") {
				t.Errorf("%v\n%s", err, b.Running())
			}
			b.apply(t, s)
			if err := d.Remove(t.Context()); err != nil || b.Running() == before {
				t.Errorf("%v\n%s", err, b.Running())
			}
		})
	}
}

// TestRefusedLine: what the switch refuses at one port stops neither another's reassertion nor
// its end.
func TestRefusedLine(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t)
		before := b.Running()
		s := want(0x9100, eth1, eth2, eth3)
		b.apply(t, s)
		for _, port := range []string{eth1, eth2, eth3} {
			b.Flap(port)
		}
		port := ""
		b.server.Set(clitest.Faults{Answer: func(line string) (string, bool) {
			if p, ok := strings.CutPrefix(line, "interface "); ok {
				port = p
			}
			return "ERROR: Hardware programming failed\n", port == eth2 && strings.Contains(line, "dot1q ethertype")
		}})
		time.Sleep(time.Minute)
		res, err := b.driver.Update(t.Context(), nil, time.Minute)
		if err == nil || !strings.Contains(err.Error(), "port "+eth2) || strings.Contains(err.Error(), "port "+eth1) || !res.Leased || !strings.Contains(res.Repaired.String(), eth1) || !strings.Contains(res.Repaired.String(), eth3) || strings.Contains(res.Repaired.String(), eth2) {
			t.Errorf("%+v, %v", res, err)
		}
		if err := b.driver.Remove(t.Context()); err == nil || !strings.Contains(err.Error(), "port "+eth2) || strings.Count(b.Running(), "0x9100") != 1 {
			t.Errorf("%v\n%s", err, b.Running())
		}
		b.server.Set(clitest.Faults{})
		if err := b.driver.Remove(t.Context()); err != nil || b.Running() != before {
			t.Errorf("%v\n%s", err, b.Running())
		}
	})
}

// TestRefuses: what cannot be is refused with its reason, before anything is written.
func TestRefuses(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t)
		b.Type("interface "+eth2, "channel-group 7 mode active", "exit", "interface "+eth3, "no switchport", "exit")
		before := b.Running()
		action := func(a vlanrules.Action) vendors.Setup {
			s := want(0x9100, eth1)
			s.Ports[0].Action = a
			return s
		}
		for says, s := range map[string]vendors.Setup{
			"0x88a8, 0x9100 beside 0x8100, and the domain's is 0x9900": want(0x9900, eth1),
			"member of port-channel7":                                  want(0x9100, eth1, eth2),
			"routed port":                                              want(0x9100, eth1, eth3),
			"no such port that can":                                    want(0x9100, eth1, "Ethernet1/9"),
			"it cannot write one VID":                                  action(vlanrules.Update),
			"no command was found that take":                           action(vlanrules.Strip),
		} {
			err := b.driver.Apply(t.Context(), s)
			if perm := (*vendors.PermanentError)(nil); !errors.As(err, &perm) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", says, err)
			}
		}
		_, err := b.driver.Update(t.Context(), []vendors.PortUpdate{{Port: eth1, Intents: []vlanrules.Intent{{Action: vlanrules.Update}}}}, time.Minute)
		if perm := (*vendors.PermanentError)(nil); !errors.As(err, &perm) || perm.Port != eth1 || !strings.Contains(err.Error(), noUpdate) {
			t.Error(err)
		}
		b.Type("ip access-list "+setup.Slots[0], "10 permit ip any any", "exit")
		foreign := (*vendors.ForeignError)(nil)
		if err := b.driver.Apply(t.Context(), want(0x9100, eth1)); !errors.As(err, &foreign) {
			t.Error(err)
		}
		if err := b.driver.Remove(t.Context()); err != nil || !strings.Contains(b.Running(), "permit ip any any") {
			t.Error(err)
		}
		b.Type("no ip access-list " + setup.Slots[0])
		b.Locked = true
		if err := b.driver.Apply(t.Context(), want(0x9100, eth1)); err == nil || !strings.Contains(err.Error(), "configuration is locked") {
			t.Error(err)
		}
		if b.Running() != before {
			t.Error(b.Running())
		}
	})
}

// TestInnerTag: behind another tag a port needs nothing, and what csig set before goes.
func TestInnerTag(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t)
		before := b.Running()
		s := want(0x9900, eth1, eth2) // which no command takes
		inner := b.open(t, false)
		if left, err := inner.Diff(vendors.Setup{}, s); err != nil || len(left) > 0 {
			t.Errorf("%+v, %v", left, err)
		}
		if err := inner.Apply(t.Context(), s); err != nil || b.Changes() != 0 {
			t.Errorf("%v, %d changes", err, b.Changes())
		}
		if res, err := inner.Update(t.Context(), nil, time.Minute); err != nil || !res.Leased {
			t.Errorf("%+v, %v", res, err)
		}
		b.apply(t, want(0x9100, eth1))
		if err := inner.Apply(t.Context(), s); err != nil || b.Running() != before {
			t.Errorf("%v\n%s", err, b.Running())
		}
	})
}

func TestProbe(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t)
		b.Type("interface "+eth3, "no switchport", "exit")
		f, err := b.driver.Probe(t.Context())
		if err != nil || fmt.Sprint(f.Ports) != "[Ethernet1/1 Ethernet1/2 Ethernet1/3]" || len(f.PortIssues) != 1 || f.PortIssues[0].Port != eth3 {
			t.Errorf("%v, %+v, %v", f.Ports, f.PortIssues, err)
		}
		if want := (vendors.Identity{Maker: "Cisco", Model: "Nexus9000 C93180YC-FX", Version: "9.3(3)", Serial: "FDO00000AAA"}); f.Identity != want {
			t.Errorf("%+v", f.Identity)
		}
		mtus, err := b.driver.MTUs(t.Context())
		if err != nil || len(mtus) != 3 || mtus[eth1] != 1500 {
			t.Errorf("%v, %v", mtus, err)
		}
		if err := b.driver.SetMTU(t.Context(), eth1, 9216); err != nil {
			t.Error(err)
		}
		if err := b.driver.SetMTU(t.Context(), eth1, 1504); err == nil || !strings.Contains(err.Error(), "system jumbo MTU") {
			t.Error(err)
		}
		if mtus, err := b.driver.MTUs(t.Context()); err != nil || mtus[eth1] != 9216 || mtus[eth2] != 1500 {
			t.Errorf("%v, %v", mtus, err)
		}
	})
}

// TestDisruptive: a plan names what another TPID does to ordinary traffic.
func TestDisruptive(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		changes, err := Dialect.Platform.Diff(vendors.Setup{}, want(0x9100, eth1))
		if err != nil || len(changes) != 3 || changes[2].Port != eth1 || !strings.Contains(changes[2].Disruptive, "untagged") {
			t.Errorf("%+v, %v", changes, err)
		}
	})
}
