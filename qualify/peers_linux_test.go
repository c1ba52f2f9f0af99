package qualify_test

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/csig-agent/csig/counters/linux"
	"github.com/csig-agent/csig/integration/fabric"
	"github.com/csig-agent/csig/qualify"
	"github.com/csig-agent/csig/qualify/qualifytest"
	"github.com/csig-agent/csig/vendors"
	linuxdriver "github.com/csig-agent/csig/vendors/linux"
	"github.com/csig-agent/csig/vendors/ovs"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
)

// wantFound runs the experiments about rules, and wants these codes and no other.
func wantFound(t *testing.T, b *qualify.Bench, want string, experiments []qualify.Experiment) {
	t.Helper()
	r := run(t, b, qualify.Options{Experiments: experiments})
	for i := range r.Results {
		res := &r.Results[i]
		t.Logf("%s: %s (%.2f s) %s %v %v", res.ID, res.Outcome, res.Seconds, res.Found, res.Faults, res.Notes)
	}
	if got := found(r); got != want {
		t.Errorf("found %s\nwant  %s", got, want)
	}
}

// harmless are the experiments about rules that need no --destructive.
func harmless() []qualify.Experiment {
	return slices.DeleteFunc(qualify.Rules(), func(e qualify.Experiment) bool { return e.Needs.Destructive })
}

// TestRulesOfKernel has a bridge of the kernel with nftables rules.
func TestRulesOfKernel(t *testing.T) {
	bed := qualifytest.NewBed(t, 2)
	b := benchOf(t, bed)
	source, err := linux.New(linux.Config{NetNS: bed.Switch.FD(), Ports: []linux.Port{{Name: "swp1"}, {Name: "swp2"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { source.Close() })
	b.Means = qualify.Means{
		Every:    37,
		Counters: source,
		Reopen: func(context.Context) (vendors.Driver, error) {
			return linuxdriver.Open(linuxdriver.Config{NetNS: bed.Switch.FD()})
		},
	}
	wantFound(t, b, "", harmless())
}

// ovsBench is a bench at an Open vSwitch, whose ports p1 and p2 are in a namespace of
// their own.
func ovsBench(t *testing.T) (*qualify.Bench, *ovstest.Switch) {
	t.Helper()
	var f fabric.Fabric
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	host, err := f.AddHost("bench")
	if err != nil {
		t.Fatal(err)
	}
	node, err := f.AddHost("switch")
	if err != nil {
		t.Fatal(err)
	}
	var cards []*fabric.Port
	for i := range 2 {
		c, _, err := f.Connect(fabric.End{Node: host, Port: fmt.Sprint("c", i+1)}, fabric.End{Node: node, Port: fmt.Sprint("p", i+1)}, 0)
		if err != nil {
			t.Fatal(err)
		}
		cards = append(cards, c)
	}
	if err := f.WaitUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := ovstest.Start(t, ovstest.Options{Start: func(c *exec.Cmd) error {
		in := node.Command(c.Path)
		c.SysProcAttr = in.SysProcAttr
		in.Cmd = c
		return in.Start()
	}})
	fl := fleet(t)
	fl.Profile.TPID, fl.Profile.WideTPID, fl.Profile.Interval = 0x88a8, 0, time.Second
	b := &qualify.Bench{Device: fl.Devices[0], Profile: &fl.Profile, Policy: fl.Policy}
	err = host.Do(func() error {
		for i, c := range cards {
			p, err := qualify.OpenCard(fmt.Sprint("p", i+1), c.Name)
			if err != nil {
				return err
			}
			b.Ports = append(b.Ports, p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := b.Driver.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, s
}

// TestLongRulesOfOpenVSwitch has a real Open vSwitch under the ovs driver.
func TestLongRulesOfOpenVSwitch(t *testing.T) {
	b, s := ovsBench(t)
	s.AddBridge("csig")
	for i, port := range []string{"p1", "p2"} {
		s.Vsctl("add-port", "csig", port, "--", "set", "interface", port, fmt.Sprintf("ofport_request=%d", i+1))
	}
	// What forwards while csig has no flows there.
	s.Ofctl("add-flow", "csig", "table=60,priority=0,actions=output:NXM_NX_REG15[]")
	s.Ofctl("add-flow", "csig", "in_port=1,actions=load:2->NXM_NX_REG15[],resubmit(,60)")
	s.Ofctl("add-flow", "csig", "in_port=2,actions=load:1->NXM_NX_REG15[],resubmit(,60)")
	open := func(context.Context) (vendors.Driver, error) {
		return ovs.Open(ovs.Config{Bridge: "csig", RunDir: s.Dir})
	}
	var err error
	if b.Driver, err = open(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Means = qualify.Means{Every: 37, Reopen: open}
	wantFound(t, b, "counters", harmless())
}
