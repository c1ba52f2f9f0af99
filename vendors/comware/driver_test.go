package comware

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/memnet"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vendors/comware/comwaretest"
	"github.com/csig-agent/csig/vendors/reconcile"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// bench is a fake switch without a data plane, and its driver.
type bench struct {
	*comwaretest.Switch
	server  *clitest.Server
	driver  *Driver
	network memnet.Packets // that probes go by
}

// listen is the Listen of a Config.
func (b *bench) listen(_, address string) (net.PacketConn, error) { return b.network.Listen(address) }

// probe sends a datagram to an address, and reports whether it comes back.
func (b *bench) probe(address string) bool {
	c, err := b.network.Dial(context.Background(), "udp", address)
	if err != nil {
		return false
	}
	defer c.Close()
	if err := c.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		return false
	}
	if _, err := c.Write([]byte("probe")); err != nil {
		return false
	}
	n, err := c.Read(make([]byte, 10))
	return err == nil && n == 5
}

func newBench(t testing.TB, change func(*Config)) *bench {
	t.Helper()
	b := &bench{Switch: comwaretest.New("H3C", "Ten-GigabitEthernet1/0/1", "Ten-GigabitEthernet1/0/2", "Bridge-Aggregation1")}
	b.Type("qinq ethernet-type customer-tag 9900")
	b.server = clitest.InMemory(t, b.Shell)
	cfg := Config{Updates: true, Listen: b.listen, Dial: func(ctx context.Context) (qos.Session, error) {
		return Dial(ctx, ssh.Config{Address: b.server.Address, Login: b.server.Login, Dial: b.server.Dial}, nil)
	}}
	if change != nil {
		change(&cfg)
	}
	b.driver = Open(cfg)
	t.Cleanup(func() { b.driver.Close() })
	return b
}

const (
	xge1 = "Ten-GigabitEthernet1/0/1"
	xge2 = "Ten-GigabitEthernet1/0/2"
)

// plain is a setup that updates both signals at these ports.
func plain(names ...string) vendors.Setup {
	s := vendors.Setup{TPID: 0x9900, Signals: []quantize.Signal{quantize.MinABW, quantize.MaxPD}, OnStale: inventory.Conservative}
	for _, name := range names {
		s.Ports = append(s.Ports, vendors.PortSetup{Port: name, Action: vlanrules.Update})
	}
	return s
}

// to is an update of one port.
func to(port string, s uint8) []vendors.PortUpdate {
	return []vendors.PortUpdate{{Port: port, Intents: []vlanrules.Intent{
		{Signal: quantize.MinABW, Action: vlanrules.Update, S: s, LM: 5}, {Signal: quantize.MaxPD, Action: vlanrules.Update, S: s, LM: 5},
	}}}
}

func (b *bench) apply(t testing.TB, s vendors.Setup) {
	t.Helper()
	if err := b.driver.Apply(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

// TestRefused: what a switch cannot have is refused before anything is written.
func TestRefused(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.Type("qos policy theirs", "quit", "interface "+xge2, "qos apply policy theirs outbound")
		before := b.Running()
		with := func(change func(*vendors.Setup)) vendors.Setup {
			s := plain(xge1)
			change(&s)
			return s
		}
		for want, s := range map[string]vendors.Setup{
			"QoS policy theirs is applied":             plain(xge1, xge2),
			"no such interface":                        plain(xge1, "Ten-GigabitEthernet1/0/9"),
			"an aggregate's inbound direction alone":   plain(xge1, "Bridge-Aggregation1"),
			"31 bytes":                                 plain(strings.Repeat("x", 27)),
			"as Comware writes it":                     plain("xge 1; reboot"),
			"layout uec":                               with(func(s *vendors.Setup) { s.Layout = quantize.UEC }),
			"removes no tag":                           with(func(s *vendors.Setup) { s.Ports[0].Action = vlanrules.Strip }),
			"on_stale: strip is not possible here":     with(func(s *vendors.Setup) { s.OnStale = inventory.StaleStrip }),
			"is 0x9900, which csig did not set":        with(func(s *vendors.Setup) { s.TPID = 0x9800 }),
			"tpid 0x8863: Comware takes that type for": with(func(s *vendors.Setup) { s.TPID = 0x8863 }),
			"signal abw of the setup is unknown or na": with(func(s *vendors.Setup) { s.Signals[1] = s.Signals[0] }),
		} {
			err := b.driver.Apply(t.Context(), s)
			if permanent := (*vendors.PermanentError)(nil); !errors.As(err, &permanent) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		if b.Running() != before {
			t.Error("something was written")
		}
		f, err := b.driver.Probe(t.Context())
		if err != nil || len(f.PortIssues) != 2 || f.Identity != (vendors.Identity{Maker: "H3C", Model: "S5130S-28S-HI", Version: "7.1.070 Release 3507P02"}) {
			t.Errorf("%+v %+v, %v", f.Identity, f.PortIssues, err)
		}
		// The foreign policy stays when csig goes.
		b.apply(t, plain(xge1))
		if err := b.driver.Remove(t.Context()); err != nil || b.Running() != before {
			t.Errorf("%v, left:\n%s", err, b.Running())
		}
	})
}

// TestOptIn: without the operator's word an update writes nothing.
func TestOptIn(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, func(c *Config) { c.Updates = false })
		b.apply(t, plain(xge1))
		before := b.Running()
		if res, err := b.driver.Update(t.Context(), to(xge1, 7), time.Minute); err == nil || res.Leased || !strings.Contains(err.Error(), "updates: cli") || b.Running() != before {
			t.Errorf("%+v, %v", res, err)
		}
		f, err := b.driver.Probe(t.Context())
		if why := f.UpdatesRefused(&inventory.Device{}); err != nil || !strings.Contains(why, "updates: cli") {
			t.Errorf("%s, %v", why, err)
		}
		if err := b.driver.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestLines: the change of one bucket writes what the facts say, at most.
func TestLines(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.apply(t, plain(xge1))
		give := func(s uint8, want int) {
			t.Helper()
			u := to(xge1, 7)
			u[0].Intents[0].S = s
			b.server.Forget()
			if _, err := b.driver.Update(t.Context(), u, time.Minute); err != nil {
				t.Fatal(err)
			}
			if got := b.server.Lines(); len(got) != want {
				t.Errorf("%d lines, want %d: %q", len(got), want, got)
			}
		}
		if _, err := b.driver.Update(t.Context(), to(xge1, 7), time.Minute); err != nil {
			t.Fatal(err)
		}
		give(8, changeLines-2)
		give(7, changeLines-2-7) // it has been there
		give(7, 0)
		for s := uint8(9); s < 9+qos.MaxIdle-3; s++ {
			give(s, changeLines-2)
		}
		give(1, changeLines-1)
		give(2, changeLines) // what was in use last the longest ago goes
		give(3, changeLines)
	})
}

// TestInterrupted ends the session at lines of a change, before it is carried out and
// after: the next update finds what is there and finishes it.
func TestInterrupted(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b, cut := near(t)
		b.apply(t, plain(xge1))
		bucket := 0
		for line, half := 0, false; ; {
			bucket++
			s := uint8(1 + bucket*7%30)
			cut.left, cut.after = line, half
			_, err := b.driver.Update(t.Context(), to(xge1, s), time.Minute)
			done := cut.left >= 0
			if done != (err == nil) {
				t.Fatalf("line %d: %v", line, err)
			}
			cut.left = -1
			b.give(t, to(xge1, s))
			want := fmt.Sprint(uint16(s)<<7|5, "a")
			if got := b.values(t, xge1); got != want+" "+want {
				t.Fatalf("line %d: the port has %s, want %s", line, got, want)
			}
			if half = !half; !half {
				line += vendorstest.Every(t, 5)
			}
			if done {
				if line < changeLines-4 {
					t.Errorf("it was interrupted at %d lines only", line)
				}
				break
			}
		}
		if err := b.driver.Remove(t.Context()); err != nil || strings.Contains(b.Running(), qos.Prefix) {
			t.Errorf("%v: %s", err, b.Running())
		}
	})
}

// TestLongInterrupted is TestInterrupted at every line.
func TestLongInterrupted(t *testing.T) { TestInterrupted(t) }

// TestEnded ends real sessions in the midst of a change: how far it came is read back.
func TestEnded(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.apply(t, plain(xge1))
		for i, head := range []string{"if-match", "classifier", "display qos", "undo classifier"} {
			b.server.Set(clitest.Faults{Half: i%2 == 1, Drop: func(line string) bool { return strings.HasPrefix(line, head) }})
			if _, err := b.driver.Update(t.Context(), to(xge1, uint8(7+i)), time.Minute); err == nil {
				t.Errorf("%s: the session ended, and nothing was said", head)
			}
			b.server.Set(clitest.Faults{})
			b.give(t, to(xge1, uint8(7+i)))
		}
	})
}

// TestReleaseAfterFailedApply: ports fall back also where the last Apply broke off.
func TestReleaseAfterFailedApply(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.apply(t, plain(xge1))
		if _, err := b.driver.Update(t.Context(), to(xge1, 7), time.Minute); err != nil {
			t.Fatal(err)
		}
		b.server.Set(clitest.Faults{Drop: func(line string) bool { return strings.HasPrefix(line, "qos apply") }})
		if err := b.driver.Apply(t.Context(), plain(xge1, xge2)); err == nil {
			t.Fatal("the session did not end")
		}
		b.server.Set(clitest.Faults{})
		if err := b.driver.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := b.Running(); !strings.Contains(got, "classifier csig-i0-128-4094a behavior csig-i125a") || strings.Contains(got, "classifier csig-i0-1024-4094a behavior") {
			t.Errorf("the port does not fall back:\n%s", got)
		}
	})
}

// TestRepair: what another user changes is seen, and restored by the next update that looks.
func TestRepair(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][]string{
		"not applied":   {"interface " + xge1, "undo qos apply policy outbound"},
		"an edit":       {"traffic behavior csig-i901a", "remark customer-vlan-id 2"},
		"an edited one": {"traffic classifier csig-i0-1024-4094a", "if-match customer-vlan-id 5"},
		"an entry gone": {"qos policy csig-" + xge1, "undo classifier csig-i0-1024-4094a"},
		"no record":     {"undo traffic behavior csig-setup-9900-5-c-i"},
	} {
		clitest.Run(t, name, func(t *testing.T) {
			b := quick(t)
			b.apply(t, plain(xge1))
			give := func() vendors.UpdateResult {
				t.Helper()
				res, err := b.driver.Update(t.Context(), to(xge1, 7), time.Minute)
				if err != nil || !res.Leased {
					t.Fatalf("%+v, %v", res, err)
				}
				return res
			}
			give()
			policies := func() string {
				v, err := parse(strings.Split(b.Running(), "\n"))
				if err != nil {
					t.Fatal(err)
				}
				table, strays := v.Table(nil, xge1, qos.Inner)
				for i := range table {
					table[i].ID, table[i].Priority = 0, 0
				}
				slices.SortFunc(table, func(a, b vlanrules.Entry) int { return int(a.Match.PCP.Value) - int(b.Match.PCP.Value) })
				return fmt.Sprint(outbound(v.Port(xge1)), v.Records(), table, strays)
			}
			want := policies()
			b.Type(lines...)
			if policies() == want {
				t.Fatal("nothing was broken")
			}
			time.Sleep(2 * reconcile.Every)
			give()
			if got := policies(); got != want {
				t.Errorf("%s\nwant %s", got, want)
			}
		})
	}
}

// TestTakeOver: another process finds the setup and goes on, without a line that is not
// needed.
func TestTakeOver(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.apply(t, plain(xge1, xge2))
		if _, err := b.driver.Update(t.Context(), to(xge1, 7), time.Minute); err != nil {
			t.Fatal(err)
		}
		next := Open(b.driver.cfg)
		defer next.Close()
		b.server.Forget()
		res, err := next.Update(t.Context(), to(xge1, 7), time.Minute)
		if err != nil || !res.Leased || res.Ops != 0 {
			t.Errorf("%+v, %v", res, err)
		}
		if slices.Contains(b.server.Lines(), "system-view") {
			t.Errorf("%q", b.server.Lines())
		}
		empty := newBench(t, nil)
		if _, err := empty.driver.Update(t.Context(), to(xge1, 7), time.Minute); err == nil || !strings.Contains(err.Error(), "call Apply first") {
			t.Error(err)
		}
	})
}

// TestNames: names of what csig has replaced are read back, fit, and no other name is one; the
// others are vendors/cli/qos's.
func TestNames(t *testing.T) {
	for _, f := range []qos.Found{{At: qos.Inner, Was: 0x8100, Now: 0x9900}, {At: qos.Outer, Was: 0x8100, Now: 0x9900, Port: qos.HashOf(xge1)}} {
		if got, ok := qos.ParseFound(f.Behavior()); !ok || got != f || len(f.Behavior()) > qos.MaxName {
			t.Errorf("%s: %+v %v", f.Behavior(), got, ok)
		}
	}
	for _, foreign := range []string{"csig-", "csig-was-", "csig-was-i8100", "csig-was-x8100-9900", "csig-was-o8100-9900", "csig-was-i8100-9900-0000000001", "csig-was-i8100-990", "csig-setup-9900-5-c-i"} {
		if _, ok := qos.ParseFound(foreign); ok {
			t.Errorf("%s is csig's", foreign)
		}
	}
}

func TestCommands(t *testing.T) {
	got, err := Commands(Config{}, vendors.Setup{}, plain(xge1))
	want := `system-view
 traffic behavior csig-setup-9900-5-c-i
 quit
 traffic behavior csig-was-i8100-9900
 quit
 qinq ethernet-type customer-tag 9900
 traffic classifier csig-i0-128-4094a operator and
  if-match customer-dot1p 0
  if-match customer-vlan-id 128 to 4094
 quit
`
	if err != nil || !strings.HasPrefix(string(got), want) || !strings.Contains(string(got), "  qos apply policy csig-"+xge1+" outbound\n") {
		t.Errorf("%s\n%v", got, err)
	}
	if got, err := Commands(Config{}, plain(xge1), plain(xge1)); err != nil || got != nil {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := Commands(Config{}, plain(xge1), plain()); err != nil || !strings.Contains(string(got), "undo qos policy csig-"+xge1) || strings.Contains(string(got), "if-match") {
		t.Errorf("%s, %v", got, err)
	}
}

// FuzzParse reads configurations of any content.
func FuzzParse(f *testing.F) {
	f.Add(comwaretest.New("H3C", xge1).Running())
	f.Add("#\ntraffic classifier csig-i0-1-2a operator and\n if-match customer-dot1p 0\n#\nqos policy csig-x\n classifier a behavior b\n#\ninterface x\n qos apply policy csig-x outbound\n")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := parse(strings.Split(text, "\n"))
		if err != nil {
			return
		}
		v.Setup(qos.Inner)
		v.Idle()
		for _, p := range v.Ports {
			v.Table(nil, p.Name, qos.Outer)
		}
	})
}
