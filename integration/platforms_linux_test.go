package integration

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	bpf "github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/protocol/sonicmq"
	"github.com/csig-agent/csig/protocol/ssh/sshtest"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/comware/comwaretest"
	"github.com/csig-agent/csig/vendors/eos/eostest"
	"github.com/csig-agent/csig/vendors/iosxr/iosxrtest"
	"github.com/csig-agent/csig/vendors/junos/junostest"
	"github.com/csig-agent/csig/vendors/nxos/nxostest"
	"github.com/csig-agent/csig/vendors/openconfig/octest"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
	"github.com/csig-agent/csig/vendors/vrp/vrptest"
)

const platformsText = `
format: csig.fleet/v1
profile: {name: platforms, tpid: VALUE, interval: 6s, signals: {abw: {buckets: log-100M, initial_s: 30}}}
policy: {on_stale: conservative, schedule: "@every 1s"}
vlan_tpids: [0x8100]
devices:
  - name: linux
    platform: linux
    local: true
    management: {daemon: {socket: DIR/linux.sock}}
    ports: [{name: p2, speed: 100M, lm: 3}]
  - name: linux-ebpf
    platform: linux-ebpf
    management: {daemon: {socket: DIR/linux-ebpf.sock}}
    ports: [{name: p3, speed: 100M}]
`

// nxosClock is what NX-OS has of the time in its configuration, and csig in its record.
var nxosClock = regexp.MustCompile(`(?m)^(!.*| +\d+ remark csig-(set|record) .*)$`)

// Flows that csig leaves behind: what the operator's flows hand over to its tables has to leave
// them (docs/ovs.md, docs/openflow.md). The one of Open vSwitch was there, and has csig's cookie.
var (
	ovsMiss      = regexp.MustCompile(`cookie=0x\w+, (table=60, priority=0 )`)
	openflowSend = regexp.MustCompile(`(?m)^ cookie=0x63736f6600000000, table=10, priority=290,metadata=\w+/0xfff actions=output:\d+\n`)
)

// fakes is a fleet with one device of Linux by nftables and one by eBPF, of NX-OS, and with 0x88a8 of each other driver but
// IOS XR's, which does not take that TPID, with their agents at a host. Nothing answers for counters, so that no agent changes a
// configuration by itself.
type fakes struct {
	*operator
	t      *testing.T
	host   *fabric.Node
	text   strings.Builder          // the fleet file
	config map[string]func() string // of each device
}

func newFakes(t *testing.T, tpid string) *fakes {
	f := &fakes{t: t, host: newHost(t, "here"), config: map[string]func() string{}}
	for _, p := range []string{"p1", "p2"} {
		if out, err := f.host.Command("ip", "link", "add", p, "up", "type", "veth", "peer", p+"x").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	f.text.WriteString(strings.ReplaceAll(platformsText, "VALUE", tpid))
	if f.nxos(); tpid == "0x88a8" {
		f.setups()
		f.policies()
		f.openSwitches()
	} else {
		xr := iosxrtest.New("iosxr", "TenGigE0/0/0/1", "TenGigE0/0/0/2")
		f.cli("iosxr", sets, ", iosxr: {tag: outer}", "TenGigE0/0/0/2", xr.Shell, xr.Running)
	}
	f.operator = newOperator(t, f.host, f.text.String())
	writeFile(t, filepath.Join(f.dir, "community"), []byte("public\n"))
	f.config["linux"] = func() string {
		out, err := f.host.Command("nft", "-t", "list", "ruleset").CombinedOutput()
		if err != nil {
			t.Errorf("nft: %v: %s", err, out)
		}
		return string(out)
	}
	native := *f.operator // one agent drives the ports of a network namespace
	native.host = newHost(t, "native")
	if out, err := native.host.Command("ip", "link", "add", "p3", "up", "type", "veth", "peer", "p3x").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f.config["linux-ebpf"] = func() (names string) {
		if err := native.host.Do(func() error {
			p3, err := net.InterfaceByName("p3")
			if err != nil {
				return err
			}
			found, err := link.QueryPrograms(link.QueryOptions{Target: p3.Index, Attach: bpf.AttachTCXEgress})
			if err != nil {
				return err
			}
			for _, q := range found.Programs {
				p, err := bpf.NewProgramFromID(q.ID)
				if errors.Is(err, os.ErrNotExist) {
					continue // gone meanwhile
				}
				if err != nil {
					return err
				}
				info, err := p.Info()
				if err = errors.Join(err, p.Close()); err != nil {
					return err
				}
				names += info.Name + "\n"
			}
			return nil
		}); err != nil {
			t.Errorf("BPF programs of p3: %v", err)
		}
		return names
	}
	for name := range f.config {
		if name == "linux-ebpf" {
			native.agent(name)
		} else {
			f.agent(name)
		}
	}
	return f
}

// add puts a device with an agent elsewhere into the fleet file.
func (f *fakes) add(platform, address, keys, management, port string, config func() string) {
	fmt.Fprintf(&f.text, `  - name: %[1]s
    platform: %[1]s
    experimental: true
    address: %[2]s
    %[3]s
    management: {daemon: {at: here, socket: DIR/%[1]s.sock}, %[4]s}
    ports: [{name: %[5]s, speed: 100M}]
`, platform, address, keys, management, port)
	f.config[platform] = config
}

// silent is SNMP where nothing answers. Two devices have no one address.
func (f *fakes) silent() string {
	return fmt.Sprintf("counters: {source: snmp, snmp: {version: 2c, port: %d, timeout: 100ms, retries: 0, community: {file: DIR/community}}}", 20000+len(f.config))
}

// cli adds the fake of a command line.
func (f *fakes) cli(platform, keys, management, port string, open func() clitest.Shell, running func() string) {
	var s *clitest.Server
	if err := f.host.Do(func() error { s = clitest.New(f.t, open); return nil }); err != nil {
		f.t.Fatal(err)
	}
	login := fmt.Sprintf("ssh: {user: %s, port: %d, password: {file: %s}, known_hosts: %s}", s.Login.User, s.Login.Port, s.Login.Password.File, s.Login.KnownHosts)
	f.add(platform, "127.0.0.1", keys+"\n    "+f.silent(), login+management, port, running)
}

// sets is the level of platforms that csig only sets up.
const sets = `level: {is: passthrough, reason: "tags are bridged in VLAN 1"}`

func (f *fakes) nxos() {
	nxos := nxostest.New("nxos", "Ethernet1/1", "Ethernet1/2")
	f.cli("nxos", sets, ", nxos: {tag: outer}", "Ethernet1/2", nxos.Shell, func() string { return nxosClock.ReplaceAllString(nxos.Running(), "") })
}

// setups adds more platforms that csig only sets up.
func (f *fakes) setups() {
	junos := junostest.New("junos", "ether-options", "xe-0/0/1", "xe-0/0/2")
	f.cli("junos-qfx", sets, ", junos: {tag: outer}", "xe-0/0/2", junos.Shell, junos.Running)
	for platform, ports := range map[string][]string{"openconfig": {"Ethernet1", "Ethernet2"}, "srlinux": {"ethernet-1/1", "ethernet-1/2"}} {
		target := octest.New(ports...)
		if target.Native = platform == "srlinux"; target.Native {
			target.Most = 9500
		}
		if err := f.host.Do(func() error { target.Serve(f.t); return nil }); err != nil {
			f.t.Fatal(err)
		}
		_, at, err := net.SplitHostPort(target.Address)
		if err != nil {
			f.t.Fatal(err)
		}
		f.add(platform, "127.0.0.1", sets, "gnmi: {plaintext: true, port: "+at+"}", ports[1], target.Config)
	}
}

// policies adds those that update by their configuration.
func (f *fakes) policies() {
	const updates = "updates: cli\n    lease: none"
	comware := comwaretest.New("comware", "p1", "p2")
	f.cli("comware", updates, "", "p2", comware.Shell, comware.Running)
	vrp := vrptest.New("vrp", "p1", "p2")
	f.cli("vrp", updates, "", "p2", vrp.Shell, vrp.Running)
	eos := eostest.New("eos", "p1", "p2")
	f.cli("eos", updates, `, eos: {forwarding: [{in_port: p1, eth_dst: "02:00:00:00:00:02", port: p2}]}`, "p2", eos.Shell, eos.Running)
}

// openSwitches adds a real Open vSwitch, one behind OpenFlow 1.3, and SONiC with ZeroMQ; the
// first and the last over sshd.
func (f *fakes) openSwitches() {
	bridge := ovstest.Start(f.t, ovstest.Options{Dummy: true})
	bridge.AddBridge("csig")
	bridge.AddWire("csig", "p1", 1)
	bridge.AddWire("csig", "p2", 2)
	for _, flow := range []string{"in_port=1,actions=load:2->NXM_NX_REG15[],resubmit(,60)", "table=60,priority=0,actions=output:NXM_NX_REG15[]"} { // the operator's
		bridge.Ofctl("add-flow", "csig", flow)
	}
	redis := sonictest.StartRedis(f.t)
	sonic := sonictest.NewSwitch(f.t, redis, sonictest.R202605, "Ethernet0")
	sshd := sshtest.Start(f.t, sshtest.Options{Port: loopbackPort(), Links: map[string]string{sonicmq.Endpoint: sonic.Endpoint()}, Start: func(cmd *exec.Cmd) error { return f.host.Do(cmd.Start) }})
	login := fmt.Sprintf("ssh: {user: %s, key: %s, known_hosts: %s, port: %d}, ", sshd.Login.User, sshd.Login.Key, sshd.Login.KnownHosts, sshd.Login.Port)
	f.add("ovs", "127.0.0.1", f.silent(), login+"ovs: {bridge: csig, run_dir: "+bridge.Dir+"}", "p2", func() string {
		flows := ovsMiss.ReplaceAllString(bridge.Ofctl("dump-flows", "--no-stats", "csig"), "$1")
		return strings.Join(slices.Sorted(strings.Lines(flows)), "") + bridge.Ofctl("dump-groups", "csig")
	})

	sw := oftest.StartSwitch(f.t, 2)
	sw.Flow("add-flow", "table=0,priority=10,dl_dst=02:00:00:00:00:02,actions=write_metadata:2/0xfff,goto_table:10")
	_, port := proxyIn(f.t, f.host, oftest.Options{Bridge: sw.Path()})
	f.add("openflow", "127.0.0.1", f.silent(), "openflow: {port: "+port+", plaintext: true, ordinary_vlans: not-handed-over}", "p2", func() string {
		return openflowSend.ReplaceAllString(sw.Flow("dump-flows", "--no-stats"), "") + sw.Flow("dump-groups")
	})

	f.add("sonic", "127.0.0.1", f.silent(), login+"redis: {databases: "+redis.File+"}", "Ethernet0", func() string {
		text := fmt.Sprintf("%d tables, TPID 0x%04x\n", sonic.Tables(), sonic.TPID("Ethernet0"))
		for _, key := range slices.Sorted(slices.Values(redis.Keys(0, "P4RT*"))) {
			text += fmt.Sprintln(key, redis.Hash(0, key))
		}
		return text
	})
}

// now is every device's configuration.
func (f *fakes) now() map[string]string {
	out := map[string]string{}
	for name, config := range f.config {
		out[name] = config()
	}
	return out
}

// has checks every device's configuration.
func (f *fakes) has(want map[string]string, when string) {
	f.t.Helper()
	for name, is := range f.now() {
		if is != want[name] {
			f.t.Errorf("%s, device %s:\n%s\nwant:\n%s", when, name, is, want[name])
		}
	}
	if f.t.Failed() {
		f.t.FailNow()
	}
}

// killed runs csig, kills it at the beginning or end of a step, and goes on until it is
// complete; again is how, and nth the event to be killed at. After each kill a device has what
// the last event of its own means, and where a step has only begun, what it had before or after.
func (f *fakes) killed(before, after map[string]string, nth func(kill int) int, first, again []string) (kills int) {
	f.t.Helper()
	last := map[string]string{}
	cmd := f.command(first...)
	for killAt(f.t, cmd, nth(kills), func(e event) { last[e.Device] = e.Event }) {
		kills++
		for name := range f.config {
			is := ""
			if !within(patience, func() bool { // the agent completes what it was told to
				e := last[name]
				is = f.config[name]()
				return is == before[name] && !ends(e) || is == after[name] && (e != "" || first[0] == "off")
			}) {
				f.t.Fatalf("csig %s, kill %d: device %s, last event %q:\n%s", first[0], kills, name, last[name], is)
			}
		}
		cmd = f.command(again...)
	}
	f.has(after, "csig "+first[0]+", killed and resumed")
	return kills
}

// ends reports whether an event is the end of a step.
func ends(event string) bool { return event == "done" || event == "undone" }

// command is csig of the operator, with a line for each event.
func (f *fakes) command(args ...string) *fabric.Cmd {
	cmd := f.host.Command(csig, append(args, "--json", "--parallel", "1")...)
	cmd.Dir = f.dir
	return cmd
}

// allPlatforms is plan, apply in waves, rollback and off on a fleet of all platforms,
// and on one of IOS XR: Open vSwitch takes no other TPID than 0x88a8. csig is killed at
// every beginning of a step (TestLongKilledAtEveryStep: at every end, too), and resumed. Each device has
// then what it has had without kills, and in the end what it had before csig.
func allPlatforms(t *testing.T) {
	if !mayStrip(t) {
		return
	}
	for _, tpid := range []string{"0x88a8", "0x9100"} {
		t.Run(tpid, func(t *testing.T) {
			t.Parallel()
			everyPlatform(t, newFakes(t, tpid))
		})
	}
}

func everyPlatform(t *testing.T, f *fakes) {
	before := f.now()
	path := func(name string) string { return filepath.Join(f.dir, name) }
	plan := path("plan")
	apply := func(journal string) []string {
		return []string{"apply", plan, "--soak", "0s", "--journal", path(journal), "--allow-stale"} // nothing answers SNMP
	}
	f.run(2, "plan", "-i", f.fleet, "-o", plan)
	f.has(before, "csig plan")
	f.run(0, apply("whole")...)
	done := f.now()
	for name := range before {
		if done[name] == before[name] {
			t.Errorf("nothing was applied to %s", name)
		}
	}
	turns := func(kill int) int { return 1 + 2*min(kill, 1) } // past the step that is begun again
	count := func(what string, kills int) {
		if t.Logf("csig %s was killed %d times", what, kills); kills < len(before) {
			t.Errorf("csig %s: %d kills of %d devices", what, kills, len(before))
		}
	}
	count("rollback", f.killed(done, before, turns, []string{"rollback", path("whole")}, []string{"rollback", path("whole")}))

	// Half of it, which is undone.
	killAt(t, f.command(apply("half")...), len(before), func(event) {})
	f.run(0, "rollback", path("half"))
	f.has(before, "csig rollback of half a plan")

	count("apply", f.killed(before, done, turns, apply("killed"), []string{"apply", "--resume", path("killed"), "--soak", "0s", "--allow-stale"}))
	f.run(0, "plan", "-i", f.fleet)
	off := []string{"off", "-i", f.fleet}
	count("off", f.killed(done, before, func(kill int) int { return kill + 1 }, off, off)) // which reports ends alone
}
