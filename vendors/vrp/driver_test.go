package vrp

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vendors/reconcile"
	"github.com/csig-agent/csig/vendors/vrp/vrptest"
	"github.com/csig-agent/csig/vlanrules"
)

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
		time.Sleep(2 * reconcile.Every)
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
	clitest.Virtual(t, func(t *testing.T) {
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
	})
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
			if classes := strings.Count(b.Running(), "traffic classifier csig-"); classes > qos.MaxIdle+5 {
				t.Fatalf("%d classifiers", classes)
			}
		}
		if lines > walks*f.ConfigUpdates.Lines {
			t.Errorf("%d lines for %d changes", lines, walks)
		}
	})
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
			noteStates(v, p.status(lines))
			v.Setup(at)
			v.Idle()
			for _, port := range v.Ports {
				v.Table(nil, port.Name, at)
				v.Damage(port.Name, 0x9100, at)
			}
			p.identity(lines)
		}
	})
}
