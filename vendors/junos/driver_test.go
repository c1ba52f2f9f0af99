package junos

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/csig-agent/csig/vendors/junos/junostest"
	"github.com/csig-agent/csig/vendors/setuponly"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

const (
	xe1 = "xe-0/0/1"
	xe2 = "xe-0/0/2"
	ae0 = "ae0"
)

// bench is a fake device without a data plane, and its driver.
type bench struct {
	*junostest.Router
	server  *clitest.Server
	dialect *setup.Dialect
	driver  *setuponly.Driver
}

func newBench(t testing.TB, name string) *bench {
	t.Helper()
	b := &bench{}
	options := "ether-options"
	if name == "junos-mx" {
		options = "gigether-options"
	}
	b.Router = junostest.New("j1", options, xe1, xe2, ae0)
	b.Type("set interfaces "+xe2+" "+options+" ethernet-switch-profile tag-protocol-id 0x8100", "set interfaces "+xe2+" mtu 9114")
	b.server = clitest.InMemory(t, b.Shell)
	for _, p := range All {
		if p.Platform.Name == name {
			b.dialect = p.Dialect
		}
	}
	b.driver = b.open(t, b.dialect)
	return b
}

// open opens another driver of the device.
func (b *bench) open(t testing.TB, of *setup.Dialect) *setuponly.Driver {
	d := setup.Open(of, false, func(ctx context.Context) (*cli.Session, error) {
		cfg := of.Session
		cfg.SSH = ssh.Config{Address: b.server.Address, Login: b.server.Login, Dial: b.server.Dial}
		return cli.Dial(ctx, cfg)
	})
	t.Cleanup(func() { d.Close() })
	return d
}

func want(tpid uint16, ports ...string) vendors.Setup {
	s := vendors.Setup{TPID: tpid, Signals: []quantize.Signal{quantize.MinABW}, OnStale: inventory.Conservative, Profile: strings.Repeat("5a", 32)}
	for _, p := range ports {
		s.Ports = append(s.Ports, vendors.PortSetup{Port: p, Action: vlanrules.Passthrough})
	}
	return s
}

// tagsOf are the TPIDs of the three ports.
func tagsOf(running string) string {
	out := map[string][]string{}
	for line := range strings.Lines(running) {
		if w := strings.Fields(line); len(w) == 7 && w[5] == "tag-protocol-id" {
			out[w[2]] = append(out[w[2]], w[6][2:])
		}
	}
	return fmt.Sprint(out[xe1], out[xe2], out[ae0])
}

// TestAnyOrder: each setup is one commit, and the last leaves what was there at first.
func TestAnyOrder(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]uint16{"junos-qfx": 0x88a8, "junos-mx": 0x9900} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			theirs := fmt.Sprintf("[8100 %04x]", other)
			vendorstest.AnyOrderInMemory(t, []vendorstest.Row{
				{Name: "nothing", Want: "[] [8100] []"},
				{Name: "two ports", Setup: want(0x9100, xe1, xe2), Want: "[8100 9100] [8100 9100] []"},
				{Name: "all", Setup: want(other, xe1, xe2, ae0), Want: theirs + " " + theirs + " " + theirs},
			}, 4, func(t *testing.T) vendorstest.Lab {
				b := newBench(t, name)
				return vendorstest.Lab{
					Driver: b.driver,
					State:  func(testing.TB) string { return withoutRecord(b.Running()) },
					Writes: func(testing.TB) int { return b.Commits() },
					Frames: func(testing.TB, vendors.Setup) string { return tagsOf(b.Running()) },
				}
			})
		})
	}
}

// withoutRecord is a configuration without csig's record, which has the generation.
func withoutRecord(running string) (out string) {
	for line := range strings.Lines(running + "\n") {
		if !strings.HasPrefix(line, "set apply-macro csig-") {
			out += line
		}
	}
	return out
}

// TestCutOff: a commit that cuts csig off is not confirmed, and the device takes it back.
func TestCutOff(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, "junos-ex")
		before := b.Running()
		b.Cuts = true
		err := b.driver.Apply(t.Context(), want(0x9100, xe1))
		if err == nil || !strings.Contains(err.Error(), "not confirmed, and the switch takes it back within 1m0s") || !b.Trial() {
			t.Fatalf("%v\n%s", err, b.Running())
		}
		vendorstest.OnTrial(t, b.driver, want(0x9100, xe1))
		b.Restore()
		vendorstest.OnTrial(t, b.driver, want(0x9100, xe1))
		vendorstest.OnTrial(t, b.open(t, b.dialect), want(0x9100, xe1)) // another process
		if !b.Trial() {
			t.Fatal("the trial has ended early")
		}
		time.Sleep(time.Minute)
		if got := b.Running(); got != before || b.Trial() {
			t.Fatal(got)
		}
		if err := b.driver.Apply(t.Context(), want(0x9100, xe1)); err != nil || b.Trial() {
			t.Errorf("%v, on trial: %v", err, b.Trial())
		}
		time.Sleep(time.Hour)
		if got := tagsOf(b.Running()); got != "[8100 9100] [8100] []" {
			t.Error(got)
		}
		if err := b.driver.Remove(t.Context()); err != nil || b.Running() != before {
			t.Errorf("%v\n%s", err, b.Running())
		}
	})
}

// TestInterrupted ends the session at lines of a change, before and after it is carried out: a
// change is there as a whole, or not at all.
func TestInterrupted(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, "junos-qfx")
		before := b.Running()
		for _, half := range []bool{false, true} {
			for n, done := 1, false; !done; n += 2 {
				seen := 0
				b.server.Set(clitest.Faults{Half: half, Drop: func(line string) bool {
					if strings.HasPrefix(line, "set cli") || strings.HasPrefix(line, "show") {
						return false
					}
					seen++
					return seen == n
				}})
				err := b.driver.Apply(t.Context(), want(0x9100, xe1, xe2))
				b.server.Set(clitest.Faults{})
				done = err == nil
				time.Sleep(time.Hour) // what is not confirmed is taken back
				if got := tagsOf(b.Running()); got != "[] [8100] []" && got != "[8100 9100] [8100 9100] []" {
					t.Fatalf("cut off at line %d: %s", n, got)
				}
				if err := b.driver.Remove(t.Context()); err != nil || b.Running() != before {
					t.Fatalf("cut off at line %d: %v\n%s", n, err, b.Running())
				}
				if done && n < 9 {
					t.Errorf("%d lines only", n)
				}
			}
		}
	})
}

// TestRefuses: what cannot be is refused with its reason, and nothing is left of it.
func TestRefuses(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, "junos-qfx")
		b.Type("set interfaces ae0 aggregated-ether-options ethernet-switch-profile tag-protocol-id [ 0x8100 0x9200 ]", "set interfaces "+xe2+" ether-options 802.3ad ae0")
		before := b.Running()
		refuse := func(says string, s vendors.Setup) {
			t.Helper()
			if err := b.driver.Apply(t.Context(), s); err == nil || !strings.Contains(err.Error(), says) || b.Running() != before {
				t.Errorf("%s: %v\n%s", says, err, b.Running())
			}
		}
		refuse("0x88a8, 0x9100, 0x9200 beside 0x8100, and the domain's is 0x9900", want(0x9900, xe1))
		refuse("TPIDs of its own (0x8100 0x9200)", want(0x9100, xe1, ae0))
		refuse("member of ae0", want(0x9100, xe1, xe2))
		b.Refuses = "[edit interfaces xe-0/0/1]\n  'ether-options'\n    error: tag-protocol-id is not supported\nerror: configuration check-out failed"
		refuse("not supported", want(0x9100, xe1))
		b.Refuses = ""
		other := b.Shell()
		if answer, _ := other.Do("configure exclusive"); !strings.Contains(answer, "Entering") {
			t.Fatal(answer)
		}
		if err := b.driver.Apply(t.Context(), want(0x9100, xe1)); err == nil || b.Running() != before {
			t.Error(err)
		}
		other.Do("exit configuration-mode")
		if err := b.driver.Apply(t.Context(), want(0x9100, xe1)); err != nil {
			t.Error(err)
		}
		_, err := b.driver.Update(t.Context(), []vendors.PortUpdate{{Port: xe1, Intents: []vlanrules.Intent{{Action: vlanrules.Update}}}}, time.Minute)
		if perm := (*vendors.PermanentError)(nil); !errors.As(err, &perm) || !strings.Contains(err.Error(), "no action of theirs rewrites a VID") {
			t.Error(err)
		}
	})
}

func TestProbe(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, "junos-ex")
		f, err := b.driver.Probe(t.Context())
		if err != nil || strings.Join(f.Ports, " ") != xe1+" "+xe2+" "+ae0 || len(f.PortIssues) != 0 {
			t.Errorf("%v, %+v, %v", f.Ports, f.PortIssues, err)
		}
		if want := (vendors.Identity{Maker: "Juniper", Model: "qfx5120-48y-8c", Version: "22.4R1.10"}); f.Identity != want {
			t.Errorf("%+v", f.Identity)
		}
		before := b.Running()
		for _, port := range []string{xe1, xe2} {
			if err := b.driver.SetMTU(t.Context(), port, 9000); err != nil {
				t.Fatal(err)
			}
		}
		mtus, err := b.driver.MTUs(t.Context())
		if err != nil || mtus[xe1] != 9000 || mtus[xe2] != 9000 || mtus[ae0] != 1500 || !strings.Contains(b.Running(), xe1+" mtu 9014") {
			t.Errorf("%v, %v\n%s", mtus, err, b.Running())
		}
		if err := b.driver.Remove(t.Context()); err != nil || b.Running() != before {
			t.Errorf("%v\n%s", err, b.Running())
		}
	})
}

// TestTakenBack: a change that does not read back is taken back at once, and so is one that reads
// back too late to confirm it.
func TestTakenBack(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, "junos-qfx")
		b.Engines = true
		before := b.Running()
		for name, f := range map[string]clitest.Faults{
			"another": {Answer: func(line string) (string, bool) {
				return "set interfaces xe-0/0/1 mtu 1700\n", strings.HasPrefix(line, "show configuration interfaces") && b.Trial()
			}},
			"late": {After: func(line string) {
				if line == "show version" && b.Trial() {
					time.Sleep(b.dialect.Commit.Within)
				}
			}},
		} {
			b.server.Set(f)
			err := b.open(t, b.dialect).Apply(t.Context(), want(0x9100, xe1))
			b.server.Set(clitest.Faults{})
			if err == nil || name == "another" && (!strings.Contains(err.Error(), "not confirmed, and taken back") || b.Trial()) {
				t.Errorf("%s: %v\n%s", name, err, b.Running())
			}
			time.Sleep(time.Minute) // the late one is too late to take it back, too
			if b.Running() != before {
				t.Errorf("%s: %s", name, b.Running())
			}
		}
		if err := b.driver.Apply(t.Context(), want(0x9100, xe1)); err != nil || b.Trial() {
			t.Error(err)
		}
	})
}

// TestForeignTrial: a change of another user's that is not confirmed is neither confirmed nor
// built upon.
func TestForeignTrial(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, "junos-mx")
		before := b.Running()
		theirs := func() {
			other := b.Shell()
			for _, line := range []string{"configure exclusive", "set interfaces ae0 mtu 4000", "commit confirmed 1", "exit configuration-mode"} {
				if answer, _ := other.Do(line); strings.Contains(answer, "error") {
					t.Fatal(line, answer)
				}
			}
		}
		theirs()
		vendorstest.OnTrial(t, b.driver, want(0x9100, xe1))
		if !b.Trial() || !strings.Contains(b.Running(), "ae0 mtu 4000") {
			t.Fatal("it is not on trial any more")
		}
		time.Sleep(time.Minute)
		// And one that begins after csig has read.
		once := false
		b.server.Set(clitest.Faults{After: func(line string) {
			if line == "show system commit" && !once {
				once = true
				theirs()
			}
		}})
		if err := b.driver.Apply(t.Context(), want(0x9100, xe1)); !errors.Is(err, cli.ErrPending) || !b.Trial() {
			t.Errorf("%v, on trial: %v", err, b.Trial())
		}
		time.Sleep(time.Minute)
		if b.Running() != before {
			t.Error(b.Running())
		}
		if err := b.driver.Apply(t.Context(), want(0x9100, xe1)); err != nil {
			t.Error(err)
		}
	})
}

// TestInactive: TPIDs that a port does not have by its own statement, in force, are not csig's to
// change, and no other port waits for it.
func TestInactive(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		statement := " ether-options ethernet-switch-profile tag-protocol-id"
		for name, tc := range map[string]struct {
			lines []string
			says  string
		}{
			"the port":       {[]string{"deactivate interfaces xe-0/0/2"}, "inactive"},
			"the options":    {[]string{"deactivate interfaces xe-0/0/2 ether-options"}, "inactive"},
			"the statement":  {[]string{"deactivate interfaces xe-0/0/2" + statement}, "inactive"},
			"inherited":      {[]string{"set interfaces interface-range up member xe-0/0/2", "set interfaces interface-range up" + statement + " 0x9200"}, "inherits TPIDs"},
			"another's MTU":  {[]string{"deactivate interfaces xe-0/0/2 mtu"}, ""},
			"another's port": {[]string{"deactivate interfaces xe-0/0/1 unit 0"}, ""},
		} {
			b := newBench(t, "junos-ex")
			b.Type(tc.lines...)
			err := b.driver.Apply(t.Context(), want(0x9100, xe2))
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: %v", name, err)
			}
			if tc.says != "" {
				continue
			}
			// What another user makes inactive later is damage of that port.
			b.Type("deactivate interfaces xe-0/0/2" + statement)
			have, err := b.driver.Observe(t.Context())
			if err != nil || !strings.Contains(have.Ports[0].Damaged, "inactive") {
				t.Errorf("%s: %+v, %v", name, have.Ports, err)
			}
		}
	})
}

// TestCardOut: a port whose card is out is configured still, and csig off gives it back what it had.
func TestCardOut(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, "junos-ex")
		before := b.Running()
		if err := b.driver.Apply(t.Context(), want(0x9100, xe1, xe2)); err != nil {
			t.Fatal(err)
		}
		b.Pull(xe2)
		if err := b.driver.Remove(t.Context()); err != nil || b.Running() != before {
			t.Errorf("%v\n%s", err, b.Running())
		}
	})
}
