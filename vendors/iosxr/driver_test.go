package iosxr

import (
	"context"
	"errors"
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
	"github.com/csig-agent/csig/vendors/iosxr/iosxrtest"
	"github.com/csig-agent/csig/vendors/setuponly"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

const (
	te1 = "TenGigE0/0/0/1"
	te2 = "TenGigE0/0/0/2"
	te3 = "TenGigE0/0/0/3"
)

// bench is a fake router without a data plane, and its driver.
type bench struct {
	*iosxrtest.Router
	server *clitest.Server
	driver *setuponly.Driver
}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{}
	b.Router = iosxrtest.New("xr1", te1, te2, te3)
	b.Type("interface "+te2, "dot1q tunneling ethertype 0x9200", "mtu 9114", "description to spines")
	b.server = clitest.InMemory(t, b.Shell)
	b.driver = b.open(t)
	return b
}

// open opens another driver of the router.
func (b *bench) open(t testing.TB) *setuponly.Driver {
	d := setup.Open(Dialect, false, func(ctx context.Context) (*cli.Session, error) {
		cfg := Dialect.Session
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

// TestAnyOrder: each setup is one commit, and the last leaves what was there at first.
func TestAnyOrder(t *testing.T) {
	t.Parallel()
	vendorstest.AnyOrderInMemory(t, []vendorstest.Row{
		{Name: "nothing", Want: "8100 9200 8100"},
		{Name: "two ports", Setup: want(0x9100, te1, te2), Want: "9100 9100 8100"},
		{Name: "as it was found", Setup: want(0x9200, te2), Want: "8100 9200 8100"},
		{Name: "all", Setup: want(0x9200, te1, te2, te3), Want: "9200 9200 9200"},
	}, 6, func(t *testing.T) vendorstest.Lab {
		b := newBench(t)
		return vendorstest.Lab{
			Driver: b.driver,
			State:  func(testing.TB) string { return withoutRecord(b.Running()) },
			Writes: func(testing.TB) int { return b.Commits() },
			Frames: func(testing.TB, vendors.Setup) string { return tpids3(b.Running()) },
		}
	})
}

func tpids3(running string) string {
	var out []string
	for _, name := range []string{te1, te2, te3} {
		_, text, _ := strings.Cut(running, "interface "+name+"\n")
		text, _, _ = strings.Cut(text, "!")
		tpid := "8100"
		if _, after, ok := strings.Cut(text, "ethertype 0x"); ok {
			tpid = after[:4]
		}
		out = append(out, tpid)
	}
	return strings.Join(out, " ")
}

// withoutRecord is a configuration without csig's record, which has the generation.
func withoutRecord(running string) string {
	before, _, _ := strings.Cut(running, "ipv4 access-list csig-")
	return strings.TrimSuffix(before, "% No such configuration item(s)\n")
}

// TestCutOff: a commit that cuts csig off is not confirmed, and the router takes it back.
func TestCutOff(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t)
		before := b.Running()
		b.Cuts = true
		err := b.driver.Apply(t.Context(), want(0x9100, te1))
		if err == nil || !strings.Contains(err.Error(), "not confirmed, and the switch takes it back within 1m0s") || !b.Trial() || b.Running() == before {
			t.Fatalf("%v\n%s", err, b.Running())
		}
		vendorstest.OnTrial(t, b.driver, want(0x9100, te1))
		b.Restore()
		if b.Running() == before {
			t.Fatal("the trial has ended early")
		}
		vendorstest.OnTrial(t, b.driver, want(0x9100, te1))
		vendorstest.OnTrial(t, b.open(t), want(0x9100, te1)) // another process
		time.Sleep(time.Minute)
		if got := b.Running(); got != before || b.Trial() {
			t.Fatal(got)
		}
		if err := b.driver.Apply(t.Context(), want(0x9100, te1)); err != nil || b.Trial() {
			t.Errorf("%v, on trial: %v", err, b.Trial())
		}
		time.Sleep(time.Hour)
		if tpids3(b.Running()) != "9100 9200 8100" {
			t.Error(b.Running())
		}
		if err := b.driver.Remove(t.Context()); err != nil || b.Running() != before {
			t.Errorf("%v\n%s", err, b.Running())
		}
	})
}

// TestInterrupted ends the session at lines of a change, before and after it is carried out: a change is
// there as a whole, or not at all.
func TestInterrupted(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t)
		before := b.Running()
		for _, half := range []bool{false, true} {
			for n, done := 1, false; !done; n += 4 {
				seen := 0
				b.server.Set(clitest.Faults{Half: half, Drop: func(line string) bool {
					if strings.HasPrefix(line, "terminal") || strings.HasPrefix(line, "show") {
						return false
					}
					seen++
					return seen == n
				}})
				err := b.driver.Apply(t.Context(), want(0x9100, te1, te2))
				b.server.Set(clitest.Faults{})
				done = err == nil
				time.Sleep(time.Hour) // what is not confirmed is taken back
				if got := tpids3(b.Running()); got != "8100 9200 8100" && got != "9100 9100 8100" {
					t.Fatalf("cut off at line %d: %s", n, got)
				}
				if err := b.driver.Remove(t.Context()); err != nil || b.Running() != before {
					t.Fatalf("cut off at line %d: %v\n%s", n, err, b.Running())
				}
				if done && n < 12 {
					t.Errorf("%d lines only", n)
				}
			}
		}
	})
}

// TestRefuses: what cannot be is refused with its reason, and nothing is left of it.
func TestRefuses(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t)
		b.Type("interface "+te3, "bundle id 7 mode active")
		before := b.Running()
		refuse := func(says string, s vendors.Setup) {
			t.Helper()
			if err := b.driver.Apply(t.Context(), s); err == nil || !strings.Contains(err.Error(), says) || b.Running() != before {
				t.Errorf("%s: %v\n%s", says, err, b.Running())
			}
		}
		refuse("0x9100, 0x9200 beside 0x8100, and the domain's is 0x88a8", want(0x88a8, te1))
		refuse("member of Bundle-Ether7", want(0x9100, te1, te3))
		b.Refuses = "% Failed to commit one or more configuration items during a pseudo-atomic operation. All changes made have been reverted."
		refuse("Failed to commit", want(0x9100, te1))
		b.Refuses = ""
		// The session is of use, and another user's lock is an error until it ends.
		other := b.Shell()
		if answer, _ := other.Do("configure exclusive"); !strings.HasPrefix(answer, "Fri") {
			t.Fatal(answer)
		}
		if err := b.driver.Apply(t.Context(), want(0x9100, te1)); err == nil || b.Running() != before {
			t.Error(err)
		}
		other.Do("abort")
		if err := b.driver.Apply(t.Context(), want(0x9100, te1)); err != nil {
			t.Error(err)
		}
		_, err := b.driver.Update(t.Context(), []vendors.PortUpdate{{Port: te1, Intents: []vlanrules.Intent{{Action: vlanrules.Update}}}}, time.Minute)
		if perm := (*vendors.PermanentError)(nil); !errors.As(err, &perm) || !strings.Contains(err.Error(), noUpdate) {
			t.Error(err)
		}
	})
}

func TestProbe(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t)
		f, err := b.driver.Probe(t.Context())
		if err != nil || strings.Join(f.Ports, " ") != te1+" "+te2+" "+te3 {
			t.Errorf("%v, %v", f.Ports, err)
		}
		if want := (vendors.Identity{Maker: "Cisco", Model: "NCS-5500", Version: "7.3.2"}); f.Identity != want {
			t.Errorf("%+v", f.Identity)
		}
		before := b.Running()
		for _, to := range []int{1504, 9000} {
			if err := b.driver.SetMTU(t.Context(), te1, to); err != nil {
				t.Fatal(err)
			}
		}
		mtus, err := b.driver.MTUs(t.Context())
		if err != nil || mtus[te1] != 9000 || mtus[te2] != 9100 || mtus[te3] != 1500 || !strings.Contains(b.Running(), "mtu 9014") {
			t.Errorf("%v, %v", mtus, err)
		}
		if err := b.driver.Remove(t.Context()); err != nil || b.Running() != before {
			t.Errorf("%v\n%s", err, b.Running())
		}
	})
}

// TestForeignTrial: a change of another user's that is not confirmed is neither confirmed nor
// built upon.
func TestForeignTrial(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t)
		before := b.Running()
		other := b.Shell()
		for _, line := range []string{"configure terminal", "interface " + te3, "description theirs", "root", "commit confirmed 300"} {
			if answer, _ := other.Do(line); strings.Contains(answer, "%") {
				t.Fatal(line, answer)
			}
		}
		vendorstest.OnTrial(t, b.driver, want(0x9100, te1))
		if !b.Trial() || !strings.Contains(b.Running(), "theirs") {
			t.Fatal("it is not on trial any more")
		}
		time.Sleep(time.Hour)
		if b.Running() != before {
			t.Error(b.Running())
		}
		if err := b.driver.Apply(t.Context(), want(0x9100, te1)); err != nil {
			t.Error(err)
		}
	})
}
