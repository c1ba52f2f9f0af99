package qualify_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/linux"
	ofcounters "github.com/csig-agent/csig/counters/openflow"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/qualify"
	"github.com/csig-agent/csig/qualify/qualifytest"
	"github.com/csig-agent/csig/vendors"
	linuxdriver "github.com/csig-agent/csig/vendors/linux"
	"github.com/csig-agent/csig/vendors/openflow"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vendors/ovs"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// wantFound runs the experiments about rules, and wants these codes and no other.
func wantFound(t *testing.T, b *qualify.Bench, want string, experiments []qualify.Experiment) {
	t.Helper()
	r := runReal(t, b, qualify.Options{Experiments: experiments, About: qualify.About{Device: b.Device.Name, Platform: b.Device.Platform}})
	for i := range r.Results {
		res := &r.Results[i]
		t.Logf("%s: %s (%.2f s) %s %v %v", res.ID, res.Outcome, res.Took.Seconds(), res.Found, res.Faults, res.Notes)
	}
	if got := found(r); got != want {
		t.Errorf("found %s\nwant  %s", got, want)
	}
}

// harmless are the experiments about rules that need no --destructive.
func harmless() []qualify.Experiment {
	return slices.DeleteFunc(qualify.Rules(), func(e qualify.Experiment) bool { return e.Needs.Destructive })
}

// TestRulesOfKernel has a bridge of the kernel with nftables rules, and experiments that take few frames.
func TestRulesOfKernel(t *testing.T) { rulesOfKernel(t, "rule-key", "rewrite", "strip", "link-flap") }

func TestLongRulesOfKernel(t *testing.T) { rulesOfKernel(t) }

func rulesOfKernel(t *testing.T, ids ...string) {
	experiments := harmless()
	if len(ids) > 0 {
		experiments = only(ids...)
	}
	bed := qualifytest.NewBed(t, 2)
	b := benchOf(t, bed)
	source, err := linux.New(linux.Config{NetNS: bed.Switch.FD(), Ports: []linux.Port{{Name: "swp1"}, {Name: "swp2"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { source.Close() })
	b.Means = qualify.Means{
		Every:    map[bool]int{true: 149, false: 397}[vendorstest.Long(t)],
		Counters: source,
		Reopen: func(context.Context) (vendors.Driver, error) {
			return linuxdriver.Open(linuxdriver.Config{NetNS: bed.Switch.FD()})
		},
	}
	wantFound(t, b, "", experiments)
}

// ovsBench is a bench at an Open vSwitch, whose ports p1, p2 … are in a namespace of their
// own.
func ovsBench(t *testing.T, ports int) (b *qualify.Bench, s *ovstest.Switch, host, node *fabric.Node) {
	t.Helper()
	var f fabric.Fabric
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	var err error
	if host, err = f.AddHost("bench"); err != nil {
		t.Fatal(err)
	}
	if node, err = f.AddHost("switch"); err != nil {
		t.Fatal(err)
	}
	for i := range ports {
		_, _, err := f.Connect(fabric.End{Node: host, Port: fmt.Sprint("c", i+1)}, fabric.End{Node: node, Port: fmt.Sprint("p", i+1)}, 0)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.WaitUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = ovstest.Start(t, ovstest.Options{Start: func(c *exec.Cmd) error {
		in := node.Command(c.Path)
		c.SysProcAttr = in.SysProcAttr
		in.Cmd = c
		return in.Start()
	}})
	fl := fleet(t)
	fl.Profile.TPID, fl.Profile.WideTPID, fl.Profile.Interval = 0x88a8, 0, time.Second
	b = &qualify.Bench{Device: fl.Devices[0], Profile: &fl.Profile, Policy: fl.Policy}
	b.Ports = qualifytest.Cards(t, host, "c", []string{"p1", "p2", "p3", "p4"}[:ports]...)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if b.Driver == nil {
			return
		}
		if err := b.Driver.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, s, host, node
}

// TestLongThirdPort has a third port that a real Open vSwitch mirrors to, which forwards
// nothing else, and then a LAG of the second and the third.
func TestLongThirdPort(t *testing.T) {
	b, s, _, _ := ovsBench(t, 3)
	b.NoWay = "the test has none"
	s.AddBridge("br0")
	s.Vsctl("set-fail-mode", "br0", "standalone")
	s.Vsctl("add-port", "br0", "p1", "--", "add-port", "br0", "p2", "--", "add-port", "br0", "p3",
		"--", "--id=@p", "get", "port", "p1", "--", "--id=@o", "get", "port", "p3",
		"--", "--id=@m", "create", "mirror", "name=m", "select-src-port=@p", "output-port=@o", "--", "set", "bridge", "br0", "mirrors=@m")
	folder := filepath.Join(t.TempDir(), "out")
	wants := func(o qualify.Options, want ...string) {
		t.Helper()
		o.Experiments, o.Folder, b.Patience = qualify.Forwarding(), folder, time.Second
		r, got := runReal(t, b, o), []string{}
		for i := range r.Results {
			got = append(got, r.Results[i].ID+" "+string(r.Results[i].Outcome))
			for _, f := range r.Results[i].Faults {
				got = append(got, f.Code)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q\n%s", got, want, text(t, r))
		}
	}
	wants(qualify.Options{Only: []string{"mtu", "flooding", "mirror", "lag"}}, "mtu pass", "flooding not tested", "mirror pass", "lag not tested")
	s.Vsctl("clear", "bridge", "br0", "mirrors", "--", "del-port", "p2", "--", "del-port", "p3", "--", "add-bond", "br0", "bond0", "p2", "p3", "bond_mode=balance-slb")
	// It hashes the source address and the VLAN, which this TPID's tags are to it.
	wants(qualify.Options{Resume: true, Only: []string{"mtu", "lag"}}, "mtu pass", "flooding not tested", "mirror pass", "lag fail", "lag-hashes-VID")
	b.Profile.TPID = 0x9900
	folder = filepath.Join(t.TempDir(), "out")
	wants(qualify.Options{Only: []string{"lag"}}, "lag pass")
}

// TestLongRulesOfOpenVSwitch has a real Open vSwitch under the ovs driver.
func TestLongRulesOfOpenVSwitch(t *testing.T) {
	b, s, _, node := ovsBench(t, 2)
	s.AddBridge("csig")
	for i, port := range []string{"p1", "p2"} {
		s.Vsctl("add-port", "csig", port, "--", "set", "interface", port, fmt.Sprintf("ofport_request=%d", i+1))
	}
	forwards := func() { // what forwards while csig has no flows there
		s.Ofctl("add-flow", "csig", "table=60,priority=0,actions=output:NXM_NX_REG15[]")
		s.Ofctl("add-flow", "csig", "in_port=1,actions=load:2->NXM_NX_REG15[],resubmit(,60)")
		s.Ofctl("add-flow", "csig", "in_port=2,actions=load:1->NXM_NX_REG15[],resubmit(,60)")
	}
	forwards()
	open := func(context.Context) (vendors.Driver, error) {
		return ovs.Open(ovs.Config{Bridge: "csig", RunDir: s.Dir})
	}
	var err error
	if b.Driver, err = open(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Means = qualify.Means{Every: 149, Reopen: open, Counters: countersOf(t, s, "csig", ofp.Version14)}
	wantFound(t, b, "", harmless())

	b.Restart = func(context.Context) error { // as systemctl does, with the operator's flows
		s.StopSwitch()
		time.Sleep(500 * time.Millisecond) // or the interruption is too short to be noticed
		s.StartSwitch()
		forwards()
		return nil
	}
	collects(t, b, node, s, "csig")
	report := runReal(t, b, qualify.Options{Experiments: only("sflow", "restart", "entries"), Destructive: true})
	if r := report.Result("sflow"); r.Outcome != qualify.Pass {
		t.Errorf("%s %s %v", r.Outcome, r.Found, r.Numbers)
	}
	if r := report.Result("restart"); r.Outcome != qualify.Pass || len(r.Numbers) < 2 {
		t.Errorf("%s %s %v", r.Outcome, r.Found, r.Notes)
	}
	if r := report.Result("entries"); r.Outcome != qualify.NotTested || !strings.Contains(r.Found, "no limit that can be reached") {
		t.Errorf("%s %s", r.Outcome, r.Found)
	}
}

// countersOf reads the counters of an Open vSwitch's bridge by OpenFlow.
func countersOf(t *testing.T, s *ovstest.Switch, bridge string, version ofp.Version) counters.Source {
	t.Helper()
	connect, done := ofp.Dialed(func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(s.Dir, bridge+".mgmt"))
	}, version)
	source, err := ofcounters.New(ofcounters.Config{Switch: "bridge " + bridge, Ports: []string{"p1", "p2"}, Live: true, Connect: connect, Done: done})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := source.Close(); err != nil {
			t.Error(err)
		}
	})
	return source
}

// uncached has Open vSwitch, which is no hardware, forget its cached paths at each setup: of
// thousands that it corrects at once, one may keep its old actions for as long as frames take it.
type uncached struct {
	*openflow.Driver
	s *ovstest.Switch
}

func (u uncached) Apply(ctx context.Context, setup vendors.Setup) error {
	err := u.Driver.Apply(ctx, setup)
	u.s.Settled()
	return err
}

// TestLongRulesOfOpenFlow has the same Open vSwitch as a hardware switch of OpenFlow 1.3:
// behind a proxy that refuses what such a switch does not have.
func TestLongRulesOfOpenFlow(t *testing.T) {
	b, s, host, _ := ovsBench(t, 2)
	s.Vsctl("set", "Open_vSwitch", ".", "other_config:vlan-limit=2")
	s.AddBridge("hw0")
	s.Vsctl("set", "bridge", "hw0", "protocols=OpenFlow13")
	flow := func(text string) { s.Ofctl("-O", "OpenFlow13", "add-flow", "hw0", text) }
	for i, port := range []string{"p1", "p2"} {
		s.Vsctl("add-port", "hw0", port, "--", "set", "interface", port, fmt.Sprintf("ofport_request=%d", i+1))
	}
	var proxy *oftest.Proxy // on the bench's loopback
	if err := host.Do(func() error {
		proxy = oftest.Start(t, oftest.Options{Bridge: filepath.Join(s.Dir, "hw0.mgmt")}, oftest.Faults{})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	open := func(context.Context) (vendors.Driver, error) {
		connect, done := ofp.Dialed(func(ctx context.Context) (c net.Conn, err error) {
			err = host.Do(func() (err error) {
				c, err = (&net.Dialer{}).DialContext(ctx, "tcp", proxy.Addr())
				return err
			})
			return c, err
		}, ofp.Version13)
		d, err := openflow.Open(openflow.Config{OrdinaryVLANs: openflow.NotHandedOver, Connect: connect, Done: done})
		return uncached{d, s}, err
	}
	var err error
	if b.Driver, err = open(t.Context()); err != nil {
		t.Fatal(err)
	}
	// csig's tables send on what is handed over to them once a setup was there.
	if err := errors.Join(b.Driver.Apply(t.Context(), b.Setup(vlanrules.Passthrough)), b.Driver.Remove(t.Context())); err != nil {
		t.Fatal(err)
	}
	for i := range b.Ports { // the bench's addresses end with the number of the port
		flow(fmt.Sprintf("table=0,priority=10,dl_dst=02:c5:51:00:00:%02x/ff:ff:ff:00:00:ff,actions=write_metadata:%d/0xfff,goto_table:%d", i+1, i+1, openflow.DefaultTable))
		flow(fmt.Sprintf("table=0,priority=10,dl_dst=02:c5:52:00:00:%02x/ff:ff:ff:00:00:ff,actions=output:%d", 0x81+i, i+1))
	}
	b.Means = qualify.Means{Every: 149, Reopen: open, Counters: countersOf(t, s, "hw0", ofp.Version13)}
	wantFound(t, b, "", harmless())
	// Flows that hand over frames of ordinary VLANs, too, which the driver was told they do
	// not, are noticed.
	for i := range b.Ports {
		flow(fmt.Sprintf("table=0,priority=10,dl_dst=02:c5:52:00:00:%02x/ff:ff:ff:00:00:ff,actions=write_metadata:%d/0xfff,goto_table:%d", 0x81+i, i+1, openflow.DefaultTable))
	}
	wantFound(t, b, "untagged:frame-without-tag-altered", only("untagged"))
}
