package vrp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vendors/ssh"
	"github.com/csig-agent/csig/vendors/vrp/vrptest"
	"github.com/csig-agent/csig/vlanrules"
)

// bench is a fake switch without a data plane, and its driver.
type bench struct {
	*vrptest.Switch
	platform string
	p1, p2   string // ports
	server   *clitest.Server
	driver   *Driver
	clock    atomic.Int64 // nanoseconds that both are ahead

	mu   sync.Mutex     // guards full: the switch has a goroutine of its own
	full map[string]int // rules of each port that hardware has room for
}

// pass has time pass.
func (b *bench) pass(d time.Duration) { b.clock.Add(int64(d)) }

// room is how many rules of a port hardware has room for; 0: all.
func (b *bench) room(port string, rules int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.full[port] = rules
}

func newBench(t testing.TB, platform string, change func(*Config)) *bench {
	t.Helper()
	b := &bench{platform: platform, p1: "XGigabitEthernet0/0/1", p2: "XGigabitEthernet0/0/2", full: map[string]int{}}
	if platform == SSeries {
		b.Switch = vrptest.New("HUAWEI", b.p1, b.p2)
	} else {
		b.p1, b.p2 = "100GE1/0/1", "100GE1/0/2"
		b.Switch = vrptest.NewCloudEngine("HUAWEI", b.p1, b.p2)
		b.Type("traffic-policy atomic-update-mode")
	}
	now := func() time.Time { return time.Now().Add(time.Duration(b.clock.Load())) }
	b.Now = now
	b.Changed = func(list []vrptest.Port) []int {
		b.mu.Lock()
		defer b.mu.Unlock()
		held := make([]int, len(list))
		for i := range list {
			if held[i] = len(list[i].Outbound); b.full[list[i].Name] > 0 {
				held[i] = min(held[i], b.full[list[i].Name])
			}
		}
		return held
	}
	b.server = clitest.New(t, b.Shell)
	cfg := Config{Platform: platform, Updates: true, Now: now, Settle: 10 * time.Millisecond, Dial: func(ctx context.Context) (*cli.Session, error) {
		return Dial(ctx, platform, ssh.Config{Address: b.server.Address, Login: b.server.Login})
	}}
	if change != nil {
		change(&cfg)
	}
	b.driver = Open(cfg)
	t.Cleanup(func() { b.driver.Close() })
	return b
}

// both runs a test on either platform.
func both(t *testing.T, test func(t *testing.T, platform string)) {
	t.Parallel()
	for _, platform := range []string{SSeries, CloudEngine} {
		t.Run(platform, func(t *testing.T) {
			t.Parallel()
			test(t, platform)
		})
	}
}

// plain is a setup that updates both signals at these ports.
func plain(names ...string) vendors.Setup {
	s := vendors.Setup{TPID: 0x9100, Signals: []quantize.Signal{quantize.MinABW, quantize.MaxPD}, OnStale: inventory.Conservative}
	for _, name := range names {
		s.Ports = append(s.Ports, vendors.PortSetup{Port: name, Action: vlanrules.Update})
	}
	return s
}

// to is an update of ports.
func to(s uint8, ports ...string) (list []vendors.PortUpdate) {
	for _, port := range ports {
		list = append(list, vendors.PortUpdate{Port: port, Intents: []vlanrules.Intent{
			{Signal: quantize.MinABW, Action: vlanrules.Update, S: s, LM: 5}, {Signal: quantize.MaxPD, Action: vlanrules.Update, S: s, LM: 5},
		}})
	}
	return list
}

func (b *bench) setUp(t testing.TB, ports ...string) {
	t.Helper()
	if err := b.driver.Apply(t.Context(), plain(ports...)); err != nil {
		t.Fatal(err)
	}
}

// table is what a port's policy does, in no order.
func (b *bench) table(t testing.TB, port string) string {
	t.Helper()
	v, err := profiles[b.platform].parse(strings.Split(b.Running(), "\n"))
	if err != nil {
		t.Fatal(err)
	}
	table, strays := v.Table(nil, port, at)
	var rows []string
	for _, e := range table {
		rows = append(rows, fmt.Sprintf("%d: %d-%d > %d", e.Match.PCP.Value, e.Match.VID.First, e.Match.VID.Last, e.VID))
	}
	slices.Sort(rows)
	return fmt.Sprint(rows, strays, v.Port(port).Applied, v.Records())
}

// want is the table of a port that advertises bucket s of both signals, or of one that falls
// back.
func (b *bench) want(port string, s uint8) string {
	return fmt.Sprintf("[[0: %d-4094 > %d 2: 1-%d > %d] [] [csig-%s] [csig-setup-9100-5-c-o]]", (int(s)+1)<<7, int(s)<<7|5, int(s)<<7-1, int(s)<<7|5, port)[1:]
}

func (b *bench) has(t testing.TB, port string, s uint8) {
	t.Helper()
	if got, want := b.table(t, port), strings.TrimSuffix(b.want(port, s), "]"); got != want {
		t.Errorf("%s, %s:\n%s, want\n%s", b.platform, port, got, want)
	}
}

// TestRefused: what a switch cannot have is refused before anything is written.
func TestRefused(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		b.Type("traffic policy theirs", "quit", "interface "+b.p2, "traffic-policy theirs outbound")
		before := b.Running()
		with := func(change func(*vendors.Setup)) vendors.Setup {
			s := plain(b.p1)
			change(&s)
			return s
		}
		rows := map[string]vendors.Setup{
			"traffic policy theirs is applied":         plain(b.p1, b.p2),
			"no such interface":                        plain(b.p1, "XGigabitEthernet0/0/9"),
			"31 bytes":                                 plain(strings.Repeat("x", 27)),
			"as the switch writes it":                  plain("xge 1; reboot"),
			"sub-interface":                            plain(b.p1 + ".100"),
			"layout uec":                               with(func(s *vendors.Setup) { s.Layout = quantize.UEC }),
			"removes no tag":                           with(func(s *vendors.Setup) { s.Ports[0].Action = vlanrules.Strip }),
			"on_stale: strip is not possible here":     with(func(s *vendors.Setup) { s.OnStale = inventory.StaleStrip }),
			"signal abw of the setup is unknown or na": with(func(s *vendors.Setup) { s.Signals[1] = s.Signals[0] }),
		}
		if platform == CloudEngine {
			rows["qinq protocol takes the TPIDs 0x88a8 and 0x9100"] = with(func(s *vendors.Setup) { s.TPID = 0x9900 })
		}
		for want, s := range rows {
			err := b.driver.Apply(t.Context(), s)
			if permanent := (*vendors.PermanentError)(nil); !errors.As(err, &permanent) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		if b.Running() != before {
			t.Error("something was written")
		}
		f, err := b.driver.Probe(t.Context())
		model := map[string]vendors.Identity{SSeries: {Maker: "Huawei", Model: "S6720-30C-EI-24S-AC", Version: "V200R019C10SPC500"}, CloudEngine: {Maker: "Huawei", Model: "CE6866-48S8CQ-P", Version: "V300R023C00SPC500"}}
		if err != nil || len(f.PortIssues) != 1 || f.Identity != model[platform] {
			t.Errorf("%+v %+v, %v", f.Identity, f.PortIssues, err)
		}
		// The foreign policy stays when csig goes.
		b.setUp(t, b.p1)
		if err := b.driver.Remove(t.Context()); err != nil || b.Running() != before {
			t.Errorf("%v, left:\n%s", err, b.Running())
		}
	})
}

// TestTPID: csig sets the TPID where there is the default, and gives that back; what it did
// not set stays.
func TestTPID(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		b.Type("interface "+b.p2, "qinq protocol 9100")
		before := b.Running()
		tpids := func(want string) {
			t.Helper()
			v, err := profiles[platform].parse(strings.Split(b.Running(), "\n"))
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%04x %04x", v.Port(b.p1).TPID, v.Port(b.p2).TPID); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		apply := func(tpid uint16, ports ...string) error {
			s := plain(ports...)
			s.TPID = tpid
			return b.driver.Apply(t.Context(), s)
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		must(apply(0x9100, b.p1, b.p2))
		tpids("9100 9100")
		must(apply(0x9100, b.p2))
		tpids("8100 9100")
		must(apply(0x9100, b.p1))
		must(apply(0x88a8, b.p1))
		tpids("88a8 9100")
		must(b.driver.Remove(t.Context()))
		if got := b.Running(); got != before {
			t.Errorf("left:\n%s", got)
		}
		err := apply(0x88a8, b.p1, b.p2)
		if permanent := (*vendors.PermanentError)(nil); !errors.As(err, &permanent) || permanent.Port != b.p2 || !strings.Contains(err.Error(), "is 0x9100, which csig did not set") || b.Running() != before {
			t.Error(err)
		}
		// What another user gives the port meanwhile stays, and is its error.
		must(apply(0x88a8, b.p1))
		b.Type("interface "+b.p1, "qinq protocol 9100")
		b.pass(2 * recheck)
		if _, err := b.driver.Update(t.Context(), to(7, b.p1), time.Minute); err == nil || !strings.Contains(err.Error(), "which csig did not set") {
			t.Error(err)
		}
		must(b.driver.Remove(t.Context()))
		if tpids("9100 9100"); strings.Contains(b.Running(), qos.Prefix) {
			t.Error(b.Running())
		}
		changes, err := b.driver.Diff(vendors.Setup{}, plain(b.p1))
		if err != nil || changes[0].Disruptive == "" {
			t.Errorf("%+v, %v", changes, err)
		}
	})
}

// TestForeign: a policy of another owner is found in every place where it would be in force,
// and refused.
func TestForeign(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		rows := map[string][]string{
			"system view has":         {"traffic policy theirs", "quit", "traffic-policy theirs global outbound"},
			"vlan 7 has":              {"traffic policy theirs", "quit", "vlan 7", "traffic-policy theirs outbound"},
			"a member of Eth-Trunk3":  {"interface %s", "eth-trunk 3"},
			"changes VLAN tags other": {"interface %s", "port vlan-mapping vlan 2 map-vlan 3"},
		}
		if platform == SSeries {
			rows["traffic-filter outbound acl 3000"] = []string{"interface %s", "traffic-filter outbound acl 3000"}
		}
		for want, lines := range rows {
			b := newBench(t, platform, nil)
			for i := range lines {
				lines[i] = strings.ReplaceAll(lines[i], "%s", b.p1)
			}
			b.Type(lines...)
			before := b.Running()
			if err := b.driver.Apply(t.Context(), plain(b.p1)); err == nil || !strings.Contains(err.Error(), want) || b.Running() != before {
				t.Errorf("%s: %v", want, err)
			}
		}
	})
}

// TestOtherSoftware: each platform is refused on the other's switches.
func TestOtherSoftware(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, func(c *Config) { c.Platform = profiles[platform].other })
		_, err := b.driver.Probe(t.Context())
		if permanent := (*vendors.PermanentError)(nil); !errors.As(err, &permanent) || !strings.Contains(err.Error(), "its platform is "+platform) {
			t.Error(err)
		}
	})
}

// TestOptIn: without the operator's word an update writes nothing.
func TestOptIn(t *testing.T) {
	t.Parallel()
	b := newBench(t, SSeries, func(c *Config) { c.Updates = false })
	b.setUp(t, b.p1)
	before := b.Running()
	if res, err := b.driver.Update(t.Context(), to(7, b.p1), time.Minute); err == nil || res.Leased || !strings.Contains(err.Error(), "updates: cli") || b.Running() != before {
		t.Errorf("%+v, %v", res, err)
	}
	f, err := b.driver.Probe(t.Context())
	if why := f.UpdatesRefused(&inventory.Device{}); err != nil || !strings.Contains(why, "updates: cli") {
		t.Errorf("%s, %v", why, err)
	}
	if err := b.driver.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestLines: the change of one bucket writes what the facts say, at most.
func TestLines(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		b.setUp(t, b.p1)
		give := func(s uint8) int {
			t.Helper()
			u := to(7, b.p1)
			u[0].Intents[0].S = s
			b.server.Forget()
			if _, err := b.driver.Update(t.Context(), u, time.Minute); err != nil {
				t.Fatal(err)
			}
			return len(b.server.Lines())
		}
		give(7)
		f := b.driver.profile.facts()
		first := give(8)
		if first+2 != f.ConfigUpdates.Lines { // objects that go are counted
			t.Errorf("%d lines: %q", first, b.server.Lines())
		}
		if again := give(7); again != first-7 {
			t.Errorf("%d lines where it has been there: %q", again, b.server.Lines())
		}
		if none := give(7); none != 0 {
			t.Errorf("%d lines for nothing: %q", none, b.server.Lines())
		}
		// What no policy needs is bounded, in number and in lines.
		lines := 0
		const walks = 16
		for i := range walks {
			lines += give(uint8(9 + i))
			if classes := strings.Count(b.Running(), "traffic classifier csig-"); classes > maxIdle+5 {
				t.Fatalf("%d classifiers", classes)
			}
		}
		if lines > walks*f.ConfigUpdates.Lines {
			t.Errorf("%d lines for %d changes", lines, walks)
		}
	})
}

// TestNotInHardware: where the switch has no room for what is new, the port keeps what it had
// and it is that port's error; others go on.
func TestNotInHardware(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		b.setUp(t, b.p1, b.p2)
		give := func(s uint8) error {
			res, err := b.driver.Update(t.Context(), to(s, b.p1, b.p2), time.Minute)
			if !res.Leased {
				t.Fatalf("%+v, %v", res, err)
			}
			return err
		}
		if err := give(7); err != nil {
			t.Fatal(err)
		}
		b.room(b.p1, 3) // beside two there is room for one
		for range 2 {
			err := give(8)
			if p := (*vendors.PortError)(nil); !errors.As(err, &p) || p.Port != b.p1 || !strings.Contains(err.Error(), "not in hardware: fail") || strings.Contains(err.Error(), b.p2) {
				t.Error(err)
			}
			b.has(t, b.p1, 7)
			b.has(t, b.p2, 8)
		}
		b.room(b.p1, 0)
		if err := give(8); err != nil {
			t.Error(err)
		}
		b.has(t, b.p1, 8)
		// A port without room for any keeps nothing.
		b.room(b.p2, 1)
		if err := b.driver.Apply(t.Context(), plain(b.p1)); err != nil {
			t.Fatal(err)
		}
		err := b.driver.Apply(t.Context(), plain(b.p1, b.p2))
		if p := (*vendors.PortError)(nil); !errors.As(err, &p) || p.Port != b.p2 || strings.Contains(b.Running(), "traffic policy csig-"+b.p2) {
			t.Error(err)
		}
		b.has(t, b.p1, 8)
		b.tpids(t, 0x9100, 0x8100) // nor has it the TPID
	})
}

// tpids compares those of the two ports.
func (b *bench) tpids(t testing.TB, first, second uint16) {
	t.Helper()
	v, err := profiles[b.platform].parse(strings.Split(b.Running(), "\n"))
	if err != nil {
		t.Fatal(err)
	}
	if one, two := v.Port(b.p1).TPID, v.Port(b.p2).TPID; one != first || two != second {
		t.Errorf("TPIDs %04x and %04x, want %04x and %04x", one, two, first, second)
	}
}

// TestTPIDTakenBack: a port whose policy the switch refuses, or does not take into hardware,
// has the TPID of before.
func TestTPIDTakenBack(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		b.setUp(t, b.p1)
		b.server.Set(clitest.Faults{Answer: func(line string) (string, bool) {
			return "Error: The operation failed.\r\n", strings.HasPrefix(line, "traffic-policy csig-"+b.p2)
		}})
		err := b.driver.Apply(t.Context(), plain(b.p1, b.p2))
		if p := (*vendors.PortError)(nil); !errors.As(err, &p) || p.Port != b.p2 {
			t.Error(err)
		}
		b.tpids(t, 0x9100, 0x8100)
		// Another TPID for all, and no space beside the policy of one port.
		b.server.Set(clitest.Faults{})
		if _, err := b.driver.Update(t.Context(), to(7, b.p1), time.Minute); err != nil {
			t.Fatal(err)
		}
		b.room(b.p1, 3)
		other := plain(b.p1, b.p2)
		other.TPID = 0x88a8
		if err := b.driver.Apply(t.Context(), other); err == nil || strings.Contains(err.Error(), "port "+b.p2) {
			t.Error(err)
		}
		b.tpids(t, 0x9100, 0x88a8)
	})
}

// TestLateStatus: what the switch reports at once after a change may be the success of before.
func TestLateStatus(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, func(c *Config) { c.Settle = 200 * time.Millisecond })
		b.setUp(t, b.p1)
		b.Late = 100 * time.Millisecond
		b.room(b.p1, 3)
		_, err := b.driver.Update(t.Context(), to(7, b.p1), time.Minute)
		if p := (*vendors.PortError)(nil); !errors.As(err, &p) || p.Port != b.p1 || !strings.HasPrefix(b.table(t, b.p1), fallback) {
			t.Errorf("%v, %s", err, b.table(t, b.p1))
		}
	})
}

// TestLostBySecondHalf: the old entries that go have the whole policy delivered again, and where
// that fails it is the port's error at once.
func TestLostBySecondHalf(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		b.setUp(t, b.p1)
		grown := false
		b.Changed = func(list []vrptest.Port) (held []int) {
			for i := range list {
				n := len(list[i].Outbound)
				if list[i].Name == b.p1 {
					if grown = grown || n == 4; grown && n == 2 {
						n = 0
					}
				}
				held = append(held, n)
			}
			return held
		}
		_, err := b.driver.Update(t.Context(), to(7, b.p1), time.Minute)
		if p := (*vendors.PortError)(nil); !errors.As(err, &p) || p.Port != b.p1 || !strings.Contains(err.Error(), "not in hardware") {
			t.Error(err)
		}
	})
}

// TestCardGone: a port that goes while others are changed is its own error.
func TestCardGone(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		b.setUp(t, b.p1, b.p2)
		once := true
		b.server.Set(clitest.Faults{Answer: func(line string) (string, bool) {
			if once && line == "traffic policy csig-"+b.p1 { // csig reads the configuration again
				once = false
				b.Pull(b.p2)
				return "Error: The operation failed.\r\n", true
			}
			return "", false
		}})
		_, err := b.driver.Update(t.Context(), to(7, b.p1, b.p2), time.Minute)
		var names []string
		vendors.EachPort(err, func(port string, _ error) { names = append(names, port) })
		if slices.Sort(names); !slices.Contains(names, b.p1) || !slices.Contains(names, b.p2) {
			t.Error(err)
		}
	})
}

// TestLostFromHardware: what falls out of hardware later is an error of the port, as long as
// it lasts.
func TestLostFromHardware(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		b.setUp(t, b.p1, b.p2)
		give := func() (vendors.UpdateResult, error) {
			return b.driver.Update(t.Context(), to(7, b.p1, b.p2), time.Minute)
		}
		if _, err := give(); err != nil {
			t.Fatal(err)
		}
		b.room(b.p1, 1)
		b.Type("traffic classifier other") // the switch delivers again
		b.pass(2 * recheck)
		for range 2 {
			res, err := give()
			if p := (*vendors.PortError)(nil); !errors.As(err, &p) || p.Port != b.p1 || !res.Leased || res.Repaired != "" || strings.Contains(err.Error(), b.p2) {
				t.Errorf("%+v, %v", res, err)
			}
		}
		have, err := b.driver.Observe(t.Context())
		if err != nil || !strings.Contains(have.Ports[0].Damaged, "not in hardware") || have.Ports[1].Damaged != "" {
			t.Errorf("%+v, %v", have, err)
		}
	})
}

// TestRefusedLine: a line that the switch does not take is an error of its port, and others
// go on; on a CloudEngine nothing of what was not committed stays.
func TestRefusedLine(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		b.setUp(t, b.p1, b.p2)
		if _, err := b.driver.Update(t.Context(), to(7, b.p1, b.p2), time.Minute); err != nil {
			t.Fatal(err)
		}
		b.server.Set(clitest.Faults{Answer: func(line string) (string, bool) {
			return "Error: The operation failed.\r\n", line == "traffic policy csig-"+b.p1
		}})
		res, err := b.driver.Update(t.Context(), to(8, b.p1, b.p2), time.Minute)
		if p := (*vendors.PortError)(nil); !errors.As(err, &p) || p.Port != b.p1 || !res.Leased || res.Ports != 1 || strings.Contains(err.Error(), "port "+b.p2) {
			t.Errorf("%+v, %v", res, err)
		}
		b.has(t, b.p1, 7)
		b.has(t, b.p2, 8)
		b.server.Set(clitest.Faults{})
		if _, err := b.driver.Update(t.Context(), to(8, b.p1, b.p2), time.Minute); err != nil {
			t.Error(err)
		}
		b.has(t, b.p1, 8)
	})
}

// TestRefusedCommit: which port a commit fails by is found out.
func TestRefusedCommit(t *testing.T) {
	t.Parallel()
	b := newBench(t, CloudEngine, nil)
	b.setUp(t, b.p1, b.p2)
	if _, err := b.driver.Update(t.Context(), to(7, b.p1, b.p2), time.Minute); err != nil {
		t.Fatal(err)
	}
	bad := false
	b.server.Set(clitest.Faults{Answer: func(line string) (string, bool) {
		bad = bad && line != "clear configuration candidate" || line == "traffic policy csig-"+b.p1
		if line == "commit" && bad {
			return "Error: The system is busy.\r\n", true
		}
		return "", false
	}})
	res, err := b.driver.Update(t.Context(), to(8, b.p1, b.p2), time.Minute)
	if p := (*vendors.PortError)(nil); !errors.As(err, &p) || p.Port != b.p1 || !res.Leased || strings.Contains(err.Error(), "port "+b.p2) {
		t.Errorf("%+v, %v", res, err)
	}
	b.has(t, b.p1, 7)
	b.has(t, b.p2, 8)
}

// TestInterrupted ends the session at every line of a change, before it is carried out and
// after: the next update finds what is there and finishes it.
func TestInterrupted(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		b.setUp(t, b.p1)
		give := func(s uint8) error {
			_, err := b.driver.Update(t.Context(), to(s, b.p1), time.Minute)
			return err
		}
		if err := give(7); err != nil {
			t.Fatal(err)
		}
		b.server.Forget()
		if err := give(8); err != nil {
			t.Fatal(err)
		}
		lines := len(b.server.Lines())
		step := 5
		if strings.HasPrefix(t.Name(), "TestLong") {
			step = 1
		}
		for n := 0; n < lines; n += step {
			bucket := 9 + uint8(n)%20
			var given atomic.Int32
			b.server.Set(clitest.Faults{Half: n%2 == 1, Drop: func(string) bool { return int(given.Add(1)) > n }})
			if err := give(bucket); err == nil && int(given.Load()) > n {
				t.Errorf("line %d: the session ended, and nothing was said", n)
			}
			b.server.Set(clitest.Faults{})
			if err := give(bucket); err != nil {
				t.Errorf("line %d: %v", n, err)
			}
			b.has(t, b.p1, bucket)
		}
		if err := b.driver.Remove(t.Context()); err != nil || strings.Contains(b.Running(), qos.Prefix) {
			t.Errorf("%v: %s", err, b.Running())
		}
	})
}

// TestLongInterrupted is TestInterrupted at every line.
func TestLongInterrupted(t *testing.T) { TestInterrupted(t) }

// TestReleaseAfterFailedApply: ports fall back also where the last Apply broke off.
func TestReleaseAfterFailedApply(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		b.setUp(t, b.p1)
		if _, err := b.driver.Update(t.Context(), to(7, b.p1), time.Minute); err != nil {
			t.Fatal(err)
		}
		b.server.Set(clitest.Faults{Drop: func(line string) bool { return line == "interface "+b.p2 }})
		if err := b.driver.Apply(t.Context(), plain(b.p1, b.p2)); err == nil {
			t.Fatal("the session did not end")
		}
		b.server.Set(clitest.Faults{})
		if err := b.driver.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := b.table(t, b.p1); !strings.HasPrefix(got, fallback) {
			t.Errorf("the port does not fall back: %s", got)
		}
	})
}

// fallback is how the table of a port begins that falls back.
const fallback = "[0: 128-4094 > 125 2: 1-3967 > 4093]"

// TestForeignNear: a port near which another user has configured what csig's policy cannot be
// beside advertises no bucket any more, neither by an update nor when the signal ends.
func TestForeignNear(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		for name, near := range map[string]struct{ lines, undo []string }{
			"a VLAN's policy": {[]string{"traffic policy theirs", "quit", "vlan 7", "traffic-policy theirs outbound"}, []string{"vlan 7", "undo traffic-policy theirs outbound"}},
			"a mapping":       {[]string{"interface " + "%s", "port vlan-mapping vlan 2 map-vlan 3"}, nil},
		} {
			for _, release := range []bool{false, true} {
				b := newBench(t, platform, nil)
				b.setUp(t, b.p1)
				if _, err := b.driver.Update(t.Context(), to(7, b.p1), time.Minute); err != nil {
					t.Fatal(err)
				}
				lines := slices.Clone(near.lines)
				for i := range lines {
					lines[i] = strings.ReplaceAll(lines[i], "%s", b.p1)
				}
				b.Type(lines...)
				b.pass(2 * recheck)
				var err error
				if release {
					err = b.driver.Release(t.Context())
				} else {
					_, err = b.driver.Update(t.Context(), to(9, b.p1), time.Minute)
				}
				if permanent := (*vendors.PermanentError)(nil); !errors.As(err, &permanent) || permanent.Port != b.p1 {
					t.Errorf("%s: %v", name, err)
				}
				if got := b.table(t, b.p1); !strings.HasPrefix(got, fallback) {
					t.Errorf("%s, release %t: %s", name, release, got)
				}
				if near.undo == nil {
					continue
				}
				b.Type(near.undo...)
				b.pass(4 * recheck)
				if _, err := b.driver.Update(t.Context(), to(9, b.p1), time.Minute); err != nil {
					t.Error(err)
				}
				b.has(t, b.p1, 9)
			}
		}
	})
}

// TestRepair: what another user changes is seen, and restored by the next update that looks;
// what csig did not make is left alone, and the port's error.
func TestRepair(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		vid, mark := "if-match vlan-id", "remark vlan-id"
		if platform == CloudEngine {
			vid, mark = "if-match vlan", "vlan-mapping vlan"
		}
		for i, tc := range []struct {
			name    string
			lines   []string
			foreign string
		}{
			{name: "not applied", lines: []string{"interface %s", "undo traffic-policy csig-%s outbound"}},
			{name: "an edit", lines: []string{"traffic behavior csig-o901a", mark + " 2"}},
			{name: "an edited one", lines: []string{"traffic classifier csig-o0-1024-4094a", vid + " 5"}},
			{name: "an entry gone", lines: []string{"traffic policy csig-%s", "undo classifier csig-o0-1024-4094a"}},
			{name: "no record", lines: []string{"undo traffic behavior csig-setup-9100-5-c-o"}},
			{"a classifier", []string{"traffic classifier theirs", "quit", "traffic behavior theirs", "quit", "traffic policy csig-%s", "classifier theirs behavior theirs"}, "which csig did not make"},
			{"a policy", []string{"traffic policy theirs", "quit", "interface %s", "undo traffic-policy csig-%s outbound", "traffic-policy theirs outbound"}, "traffic policy theirs is applied"},
		} {
			if i%2 == 0 == (platform == SSeries) && !strings.HasPrefix(t.Name(), "TestLong") {
				continue // on the other platform
			}
			name := tc.name
			b := newBench(t, platform, nil)
			b.setUp(t, b.p1, b.p2)
			give := func() (vendors.UpdateResult, error) {
				t.Helper()
				res, err := b.driver.Update(t.Context(), to(7, b.p1, b.p2), time.Minute)
				if !res.Leased {
					t.Fatalf("%s: %+v, %v", name, res, err)
				}
				return res, err
			}
			if _, err := give(); err != nil {
				t.Fatal(err)
			}
			lines := slices.Clone(tc.lines)
			for i := range lines {
				lines[i] = strings.ReplaceAll(lines[i], "%s", b.p1)
			}
			b.Type(lines...)
			broken := b.table(t, b.p1)
			b.pass(2 * recheck)
			res, err := give()
			permanent := (*vendors.PermanentError)(nil)
			switch {
			case tc.foreign == "" && (err != nil || res.Repaired == "" && res.Ops == 0):
				t.Errorf("%s: %+v, %v", name, res, err)
			case tc.foreign == "":
				b.has(t, b.p1, 7)
			case !errors.As(err, &permanent) || permanent.Port != b.p1 || !strings.Contains(err.Error(), tc.foreign):
				t.Errorf("%s: %v", name, err)
			case b.table(t, b.p1) != broken: // where csig's policy is in force it has the fallback
				if got := b.table(t, b.p1); tc.name != "a classifier" || !strings.HasPrefix(got, fallback) || !strings.Contains(got, "[theirs]") {
					t.Errorf("%s: %s", name, got)
				}
			case tc.name == "a classifier":
				t.Error("the last bucket stays advertised")
			}
			b.has(t, b.p2, 7)
		}
	})
}

// TestLongRepair is TestRepair with every row on either platform.
func TestLongRepair(t *testing.T) { TestRepair(t) }

// TestTakeOver: another process finds the setup and goes on, without a line that is not
// needed.
func TestTakeOver(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		b.setUp(t, b.p1, b.p2)
		if _, err := b.driver.Update(t.Context(), to(7, b.p1), time.Minute); err != nil {
			t.Fatal(err)
		}
		next := Open(b.driver.cfg)
		defer next.Close()
		b.server.Forget()
		res, err := next.Update(t.Context(), to(7, b.p1), time.Minute)
		if err != nil || !res.Leased || res.Ops != 0 {
			t.Errorf("%+v, %v", res, err)
		}
		if slices.Contains(b.server.Lines(), "system-view") {
			t.Errorf("%q", b.server.Lines())
		}
		empty := newBench(t, platform, nil)
		if _, err := empty.driver.Update(t.Context(), to(7, b.p1), time.Minute); err == nil || !strings.Contains(err.Error(), "call Apply first") {
			t.Error(err)
		}
	})
}

// TestUncommitted: a commit of another login in the middle of csig's lines fails csig's
// commit, which the next update repeats.
func TestUncommitted(t *testing.T) {
	t.Parallel()
	b := newBench(t, CloudEngine, nil)
	b.setUp(t, b.p1)
	first := true
	b.server.Set(clitest.Faults{After: func(line string) {
		if line == "system-view" && first {
			first = false
			b.Type("traffic classifier theirs")
		}
	}})
	_, err := b.driver.Update(t.Context(), to(7, b.p1), time.Minute)
	if p := (*vendors.PortError)(nil); !errors.As(err, &p) || p.Port != b.p1 || !strings.Contains(err.Error(), "changed by another session") {
		t.Error(err)
	}
	if _, err := b.driver.Update(t.Context(), to(7, b.p1), time.Minute); err != nil {
		t.Error(err)
	}
	if b.has(t, b.p1, 7); !strings.Contains(b.Running(), "traffic classifier theirs") {
		t.Error("the other's change is gone")
	}
}

// TestTrial: what is not confirmed in time the switch takes back.
func TestTrial(t *testing.T) {
	t.Parallel()
	b := newBench(t, CloudEngine, nil)
	before := b.Running()
	start := func() string {
		t.Helper()
		token, err := b.driver.StartRevert(t.Context(), 90*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		b.setUp(t, b.p1)
		if !strings.Contains(b.Running(), "csig-") {
			t.Fatal("nothing was applied")
		}
		return token
	}
	other := Open(b.driver.cfg)
	defer other.Close()
	token := start()
	pending := (*vendors.PendingRevertError)(nil)
	if err := other.PendingRevert(t.Context()); !errors.As(err, &pending) || pending.Left <= 0 || pending.Left > 90*time.Second {
		t.Error(err)
	}
	if err := other.Apply(t.Context(), plain(b.p1, b.p2)); !errors.As(err, &pending) {
		t.Error(err)
	}
	b.pass(91 * time.Second)
	if b.Running() != before {
		t.Errorf("it was not taken back: %s", b.Running())
	}
	if err := b.driver.Confirm(t.Context(), token); !errors.Is(err, vendors.ErrReverted) {
		t.Error(err)
	}
	// Over another connection, in time.
	token = start()
	if err := other.Confirm(t.Context(), token); err != nil {
		t.Error(err)
	}
	b.pass(time.Hour)
	if err := other.PendingRevert(t.Context()); err != nil || !strings.Contains(b.Running(), "csig-") {
		t.Error(err)
	}
	// A second start confirms the first.
	b.driver.Close()
	b.driver = other
	one := start()
	two := start()
	if err := b.driver.Confirm(t.Context(), two); err != nil || one == two {
		t.Error(err)
	}
	s := newBench(t, SSeries, nil)
	if _, err := s.driver.StartRevert(t.Context(), time.Minute); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if err := s.driver.PendingRevert(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCutOff: an Apply after which no new login comes is taken back by the switch.
func TestCutOff(t *testing.T) {
	t.Parallel()
	dial, cut := (func(context.Context) (*cli.Session, error))(nil), false
	b := newBench(t, CloudEngine, func(c *Config) {
		dial = c.Dial
		c.Dial = func(ctx context.Context) (*cli.Session, error) {
			if cut {
				return nil, errors.New("no route to host")
			}
			return dial(ctx)
		}
	})
	before := b.Running()
	if _, err := b.driver.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	cut = true
	if err := b.driver.Apply(t.Context(), plain(b.p1)); err == nil || !strings.Contains(err.Error(), "takes back within 2m0s: no route") {
		t.Error(err)
	}
	b.pass(applyWithin + time.Second)
	if b.Running() != before {
		t.Errorf("it was not taken back: %s", b.Running())
	}
	cut = false
	b.setUp(t, b.p1)
	b.pass(time.Hour)
	if !strings.Contains(b.Running(), "traffic policy csig-"+b.p1) {
		t.Error("what was confirmed is taken back")
	}
}

// TestCommands: what plan --commands prints is what a switch takes.
func TestCommands(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		before := b.Running()
		run := func(have, want vendors.Setup) string {
			t.Helper()
			text, err := Commands(platform, have, want)
			if err != nil {
				t.Fatal(err)
			}
			sh := b.Shell()
			for line := range strings.Lines(string(text)) {
				if answer, _ := sh.Do(strings.TrimSpace(line)); strings.Contains(answer, "Error") {
					t.Errorf("%s: %s\n%s", strings.TrimSpace(line), answer, text)
				}
			}
			return string(text)
		}
		one, two := plain(b.p1), plain(b.p1, b.p2)
		run(vendors.Setup{}, two)
		have, err := b.driver.Observe(t.Context())
		if changes, bad := Diff(platform, have, two); err != nil || bad != nil || len(changes) != 0 {
			t.Errorf("%+v, %v, %v", changes, err, bad)
		}
		if text := run(two, one); strings.Contains(text, "if-match") {
			t.Errorf("what stays is written again:\n%s", text)
		}
		if text, err := Commands(platform, one, one); err != nil || text != nil {
			t.Errorf("%s, %v", text, err)
		}
		if err := b.driver.Remove(t.Context()); err != nil || b.Running() != before {
			t.Errorf("%v, left:\n%s", err, b.Running())
		}
	})
}

// FuzzParse reads configurations and reports of any content.
func FuzzParse(f *testing.F) {
	f.Add(vrptest.New("HUAWEI", "XGigabitEthernet0/0/1").Running())
	f.Add("#\ntraffic classifier csig-o0-1-2a operator and\n if-match 8021p 0\n#\ntraffic policy csig-x\n classifier a behavior b precedence 5\n#\ninterface x\n traffic-policy csig-x outbound\n")
	f.Add("csig-100GE1/0/1 100GE1/0/1(OUT) 1 fail(4)\nFail reason:\n 4 -- none\n *interface x\n traffic-policy csig-x outbound\n slot 0 : success\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Split(text, "\n")
		for _, p := range profiles {
			v, err := p.parse(lines)
			if err != nil {
				return
			}
			v.states = p.status(lines)
			v.setup()
			v.Idle()
			for _, port := range v.Ports {
				v.Table(nil, port.Name, at)
				v.damage(port.Name, 0x9100)
			}
			p.identity(lines)
		}
	})
}
