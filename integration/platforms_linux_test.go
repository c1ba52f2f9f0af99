package integration

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/integration/fabric"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/comware/comwaretest"
	"github.com/csig-agent/csig/vendors/eos/eostest"
	"github.com/csig-agent/csig/vendors/iosxr/iosxrtest"
	"github.com/csig-agent/csig/vendors/junos/junostest"
	"github.com/csig-agent/csig/vendors/nxos/nxostest"
	"github.com/csig-agent/csig/vendors/openconfig/octest"
	"github.com/csig-agent/csig/vendors/vrp/vrptest"
)

const platformsText = `
format: csig.fleet/v1
profile: {name: platforms, tpid: 0x9100, interval: 6s, signals: {abw: {buckets: log-100M, initial_s: 30}}}
policy: {on_stale: conservative, schedule: "@every 1s"}
vlan_tpids: [0x8100]
devices:
  - name: linux
    platform: linux
    local: true
    management: {daemon: {socket: DIR/linux.sock}}
    ports: [{name: p2, speed: 100M, lm: 3}]
`

// nxosClock is what NX-OS has of the time in its configuration, and csig in its record.
var nxosClock = regexp.MustCompile(`(?m)^(!.*| +\d+ remark csig-(set|record) .*)$`)

// fakes is a fleet with one device of every platform that has a command line or gNMI, and one
// of Linux, with their agents at a host. Nothing answers for counters, so that no agent
// changes a configuration by itself.
type fakes struct {
	*operator
	config map[string]func() string // of each device
}

// add puts a device with an agent elsewhere into the fleet file.
func (f *fakes) add(text *strings.Builder, platform, address, keys, management, port string, config func() string) {
	fmt.Fprintf(text, `  - name: %[1]s
    platform: %[1]s
    experimental: true
    address: %[2]s
    %[3]s
    management: {daemon: {at: here, socket: DIR/%[1]s.sock}, %[4]s}
    ports: [{name: %[5]s, speed: 100M}]
`, platform, address, keys, management, port)
	f.config[platform] = config
}

func newFakes(t *testing.T) *fakes {
	f := &fakes{config: map[string]func() string{}}
	here := newHost(t, "here")
	for _, p := range []string{"p1", "p2"} {
		if out, err := here.Command("ip", "link", "add", p, "up", "type", "veth", "peer", p+"x").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	const (
		updates = "updates: cli\n    lease: none"
		sets    = `level: {is: passthrough, reason: "tags are bridged in VLAN 1"}`
	)
	var text strings.Builder
	text.WriteString(platformsText)
	cli := func(platform, keys, management, port string, open func() clitest.Shell, running func() string) {
		var s *clitest.Server
		if err := here.Do(func() error { s = clitest.New(t, open); return nil }); err != nil {
			t.Fatal(err)
		}
		keys += fmt.Sprintf("\n    counters: {source: snmp, snmp: {version: 2c, port: %d, timeout: 100ms, retries: 0, community: {file: DIR/community}}}", 20000+len(f.config)) // two devices have no one address
		login := fmt.Sprintf("ssh: {user: %s, port: %d, password: {file: %s}, known_hosts: %s}", s.Login.User, s.Login.Port, s.Login.Password.File, s.Login.KnownHosts)
		f.add(&text, platform, "127.0.0.1", keys, login+management, port, running)
	}
	comware := comwaretest.New("comware", "p1", "p2")
	cli("comware", updates, "", "p2", comware.Shell, comware.Running)
	vrp := vrptest.New("vrp", "p1", "p2")
	cli("vrp", updates, "", "p2", vrp.Shell, vrp.Running)
	eos := eostest.New("eos", "p1", "p2")
	cli("eos", updates, `, eos: {forwarding: [{in_port: p1, eth_dst: "02:00:00:00:00:02", port: p2}]}`, "p2", eos.Shell, eos.Running)
	nxos := nxostest.New("nxos", "Ethernet1/1", "Ethernet1/2")
	cli("nxos", sets, ", nxos: {tag: outer}", "Ethernet1/2", nxos.Shell, func() string { return nxosClock.ReplaceAllString(nxos.Running(), "") })
	xr := iosxrtest.New("iosxr", nil, "TenGigE0/0/0/1", "TenGigE0/0/0/2")
	cli("iosxr", sets, ", iosxr: {tag: outer}", "TenGigE0/0/0/2", xr.Shell, xr.Running)
	junos := junostest.New("junos", "ether-options", nil, "xe-0/0/1", "xe-0/0/2")
	cli("junos-qfx", sets, ", junos: {tag: outer}", "xe-0/0/2", junos.Shell, junos.Running)
	for platform, ports := range map[string][]string{"openconfig": {"Ethernet1", "Ethernet2"}, "srlinux": {"ethernet-1/1", "ethernet-1/2"}} {
		target := octest.New(ports...)
		address := "127.0.0.1"
		if target.Native = platform == "srlinux"; target.Native {
			target.Most, address = 9500, "localhost"
		}
		if err := here.Do(func() error { target.Serve(t); return nil }); err != nil {
			t.Fatal(err)
		}
		_, at, err := net.SplitHostPort(target.Address)
		if err != nil {
			t.Fatal(err)
		}
		f.add(&text, platform, address, sets, "gnmi: {plaintext: true, port: "+at+"}", ports[1], target.Config)
	}
	f.operator = newOperator(t, here, text.String())
	if err := os.WriteFile(filepath.Join(f.dir, "community"), []byte("public\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.config["linux"] = func() string {
		out, err := here.Command("nft", "-t", "list", "ruleset").CombinedOutput()
		if err != nil {
			t.Errorf("nft: %v: %s", err, out)
		}
		return string(out)
	}
	for name := range f.config {
		f.agent(name)
	}
	return f
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
			for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) { // the agent completes what it was told to
				is = f.config[name]()
				if e := last[name]; is == before[name] && !ends(e) || is == after[name] && (e != "" || first[0] == "off") {
					break
				}
				if time.Now().After(deadline) {
					f.t.Fatalf("csig %s, kill %d: device %s, last event %q:\n%s", first[0], kills, name, last[name], is)
				}
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

// TestLongEveryPlatform is plan, apply in waves, rollback and off on a fleet of all platforms.
// csig is killed at every beginning and end of a step, and resumed. Each device has then what
// it has had without kills, and in the end what it had before csig.
func TestLongEveryPlatform(t *testing.T) {
	if !mayStrip(t) {
		return
	}
	f := newFakes(t)
	before := f.now()
	path := func(name string) string { return filepath.Join(f.dir, name) }
	plan := path("plan")
	apply := func(journal string) []string {
		return []string{"apply", plan, "--soak", "0s", "--journal", path(journal)}
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
	turns := func(kill int) int { return 1 + kill%2 }
	count := func(what string, kills, each int) { // csig off reports ends alone
		if t.Logf("csig %s was killed %d times", what, kills); kills < each*len(before) {
			t.Errorf("csig %s: %d kills of %d devices", what, kills, len(before))
		}
	}
	count("rollback", f.killed(done, before, turns, []string{"rollback", path("whole")}, []string{"rollback", path("whole")}), 2)

	// Half of it, which is undone.
	killAt(t, f.command(apply("half")...), len(before), func(event) {})
	f.run(0, "rollback", path("half"))
	f.has(before, "csig rollback of half a plan")

	count("apply", f.killed(before, done, turns, apply("killed"), []string{"apply", "--resume", path("killed"), "--soak", "0s"}), 2)
	f.run(0, "plan", "-i", f.fleet)
	off := []string{"off", "-i", f.fleet}
	count("off", f.killed(done, before, func(kill int) int { return kill + 1 }, off, off), 1)
}
