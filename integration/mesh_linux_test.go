package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/agent/api/tlstest"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/hosts/mesh"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
)

// clos is a leaf-spine fabric of switches with an agent each. Where those are the kernel's, every host has a spine of
// its own by which frames to it go: a kernel bridge spreads nothing.
type clos struct {
	*fabric.Fabric
	t        *testing.T
	dir      string
	text     string // the fleet file
	switches map[string]*fabric.Node
	ports    map[string]*fabric.Port // egress, DEVICE:PORT
	cables   []string                // egress ports, one of each cable
	hosts    []*closHost
	agents   map[string]*agent
	loads    map[string]*fabric.Load // by switch: from a host of its own
	loadMAC  map[string]net.HardwareAddr
	closShape
	ovs map[string]*ovstest.Switch // leaves, where ecmp
	ca  *tlstest.Authority
}

// closShape is what a fabric has: hosts per leaf have addresses of IPv4, or of IPv6; leaves are the kernel's, or
// bridges of Open vSwitch, which choose a spine by a select group for each flow. Native switches have shaped ports
// and measure what frames wait there.
type closShape struct {
	leaves, spines, each int
	six, ecmp, native    bool
}

type closHost struct {
	name, address string
	node          *fabric.Node
	nic           *fabric.Port
	leaf          string
	run           *agent // its csig mesh run; only its log and process
}

// closSpeed is what the fleet file says of every port; no port is that slow.
const closSpeed = 50_000_000

func newClos(t *testing.T, shape closShape) *clos {
	t.Helper()
	leaves, spines, each, six := shape.leaves, shape.spines, shape.each, shape.six
	c := &clos{closShape: shape, Fabric: newFabric(t), t: t, dir: t.TempDir(), switches: map[string]*fabric.Node{}, ports: map[string]*fabric.Port{}, agents: map[string]*agent{}, loads: map[string]*fabric.Load{}, loadMAC: map[string]net.HardwareAddr{}}
	peers := map[string][]string{} // of each switch, the lines of its ports
	connect := func(a fabric.End, b fabric.End) (*fabric.Port, *fabric.Port) {
		p, q, err := c.Connect(a, b, 1600)
		if err != nil {
			t.Fatal(err)
		}
		return p, q
	}
	add := func(name string, with func(string) (*fabric.Node, error)) {
		n, err := with(name)
		if err != nil {
			t.Fatal(err)
		}
		c.switches[name] = n
		host, err := c.AddHost("load-" + name)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := connect(fabric.End{Node: host, Port: "eth0"}, fabric.End{Node: n, Port: "load"})
		c.loadMAC[name] = net.HardwareAddr{2, 0xff, 0, 0, 0, byte(len(c.switches))}
		l, err := fabric.StartLoad(p, c.loadMAC[name], 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := l.Stop(); err != nil {
				t.Error(err)
			}
		})
		c.loads[name] = l
	}
	port := func(device, name, peer string, p *fabric.Port) {
		peers[device] = append(peers[device], fmt.Sprintf("      - {name: %s, speed: 50M, peer: %q}\n", name, peer))
		c.ports[device+":"+name] = p
	}
	for s := range spines {
		add(fmt.Sprintf("spine%d", s+1), c.AddSwitch)
	}
	for l := range leaves {
		leaf := fmt.Sprintf("leaf%d", l+1)
		if shape.ecmp {
			add(leaf, c.AddHost)
		} else {
			add(leaf, c.AddSwitch)
		}
		for s := range spines {
			spine := fmt.Sprintf("spine%d", s+1)
			up, down := fmt.Sprintf("up%d", s+1), fmt.Sprintf("down%d", l+1)
			p, q := connect(fabric.End{Node: c.switches[leaf], Port: up}, fabric.End{Node: c.switches[spine], Port: down})
			port(leaf, up, spine+":"+down, p)
			port(spine, down, leaf+":"+up, q)
			c.cables = append(c.cables, []string{leaf + ":" + up, spine + ":" + down}[(l+s)%2])
		}
		for h := range each {
			n := l*each + h + 1
			one := &closHost{name: fmt.Sprintf("h%d", n), address: fmt.Sprintf("10.0.0.%d", n), leaf: leaf}
			if six {
				one.address = fmt.Sprintf("fd00::%d", n)
			}
			var err error
			if one.node, err = c.AddHost(one.name); err != nil {
				t.Fatal(err)
			}
			down := fmt.Sprintf("host%d", h+1)
			var q *fabric.Port
			one.nic, q = connect(fabric.End{Node: one.node, Port: "eth0"}, fabric.End{Node: c.switches[leaf], Port: down})
			port(leaf, down, one.name, q)
			c.cables = append(c.cables, leaf+":"+down)
			c.hosts = append(c.hosts, one)
		}
	}
	if shape.ecmp {
		c.startOVS()
	}
	for i, h := range c.hosts {
		for l := range leaves {
			leaf := fmt.Sprintf("leaf%d", l+1)
			switch {
			case leaf == h.leaf:
				c.forward(h.nic.MAC, fmt.Sprintf("%s:host%d", leaf, i%each+1))
			case shape.ecmp:
				c.spread(h.nic.MAC, leaf)
			default:
				c.forward(h.nic.MAC, fmt.Sprintf("%s:up%d", leaf, i%spines+1))
			}
		}
		for s := range spines {
			c.forward(h.nic.MAC, fmt.Sprintf("spine%d:down%s", s+1, h.leaf[len("leaf"):]))
		}
		exits(t, 0, h.node.Command("ip", "link", "set", "dev", "eth0", "arp", "on"))
		if shape.ecmp { // the userspace datapath completes no checksum that a veth port leaves open
			exits(t, 0, h.node.Command("ethtool", "-K", "eth0", "tx", "off"))
		}
		bits := "/24"
		if six {
			bits = "/64"
			exits(t, 0, h.node.Command("sysctl", "-w", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.eth0.disable_ipv6=0"))
		}
		exits(t, 0, h.node.Command("ip", "address", "add", h.address+bits, "dev", "eth0", "nodad"))
		for _, other := range c.hosts {
			if other != h {
				exits(t, 0, h.node.Command("ip", "neighbour", "add", other.address, "lladdr", other.nic.MAC.String(), "dev", "eth0", "nud", "permanent"))
			}
		}
	}
	if err := c.WaitUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	signals := "    abw: {buckets: log-100M}\n    abwc: {buckets: log}\n"
	if shape.native {
		signals = "    abwc: {buckets: log, quantum: 1ppm}\n    pd: {buckets: log-10ms, quantum: 64ns}\n"
		for _, p := range c.ports {
			if err := p.Shape(closSpeed); err != nil {
				t.Fatal(err)
			}
		}
	}
	tpid, vlans, interval := "0x9900", "", "100ms"
	if six {
		interval = "1s" // in which loads of the kernel are even on a busy machine, too
	}
	if shape.native {
		tpid += "\n  wide_tpid: 0x9901"
	}
	if shape.ecmp {
		tpid, vlans, interval = "0x88a8", "vlan_tpids: [0x8100]\n", "500ms" // Open vSwitch forwards in a process
	}
	c.text = "format: csig.fleet/v1\nprofile:\n  name: clos\n  tpid: " + tpid + "\n  interval: " + interval + "\n  signals:\n" + signals + vlans + "devices:\n"
	for _, name := range slices.Sorted(maps.Keys(c.switches)) {
		platform, by := map[bool]string{false: "linux", true: "linux-ebpf"}[shape.native], ""
		if sw := c.ovs[name]; sw != nil {
			platform, by = "ovs", "ovs: {bridge: csig, run_dir: "+sw.Dir+"}, "
		}
		c.text += "  - name: " + name + "\n    platform: " + platform + "\n    management: {" + by + "daemon: {socket: " + filepath.Join(c.dir, name+".sock") + "}}\n    ports:\n" + strings.Join(peers[name], "")
	}
	writeFile(t, filepath.Join(c.dir, "mesh.key"), []byte("the key of a mesh, of a test\n"))
	c.text += "mesh: {key: {file: " + filepath.Join(c.dir, "mesh.key") + "}, interval: 250ms, collector: \"" + net.JoinHostPort(c.hosts[0].address, "9918") + "\"}\nhosts:\n"
	for _, h := range c.hosts {
		c.text += fmt.Sprintf("  - {name: %s, csig: true, address: %q}\n", h.name, h.address)
	}
	return c
}

// startAgents has every switch drive itself.
func (c *clos) startAgents() {
	c.t.Helper()
	for name, node := range c.switches {
		file, socket := filepath.Join(c.dir, name+".yaml"), filepath.Join(c.dir, name+".sock")
		writeFile(c.t, file, []byte(strings.Replace(c.text, "name: "+name+"\n", "name: "+name+"\n    local: true\n", 1)))
		c.agents[name] = launchIn(c.t, node.Command(csig, "agent", "-i", file, "--socket", socket), socket)
	}
	for name, a := range c.agents {
		a.await(name+"'s ports are live", func(s *api.Status) bool {
			return !slices.ContainsFunc(s.Ports, func(p api.Port) bool { return p.State != api.StateLive })
		})
	}
}

// startMesh has every host probe the others; the first one collects, by a fleet file that is changed.
func (c *clos) startMesh(changed *strings.Replacer) {
	c.t.Helper()
	for i, h := range c.hosts {
		if i == 0 {
			c.startHost(h, changed)
		} else {
			c.startHost(h, strings.NewReplacer())
		}
	}
}

// meshFile writes the fleet file of a host, changed.
func (c *clos) meshFile(h *closHost, changed *strings.Replacer) (file string) {
	c.t.Helper()
	file = filepath.Join(c.dir, h.name+".yaml")
	text := strings.Replace(c.text, "{name: "+h.name+",", "{name: "+h.name+", local: true, interface: eth0,", 1)
	writeFile(c.t, file+".new", []byte(changed.Replace(text)))
	if err := os.Rename(file+".new", file); err != nil {
		c.t.Fatal(err)
	}
	return file
}

// startHost has a host probe the others.
func (c *clos) startHost(h *closHost, changed *strings.Replacer) {
	c.t.Helper()
	if c.ca == nil {
		c.ca = tlstest.New(c.t)
	}
	cert, key := c.ca.Certify(h.name)
	args := []string{"mesh", "run", "-i", c.meshFile(h, changed), "--tls-cert", cert, "--tls-key", key, "--tls-ca", c.ca.CA}
	if h == c.hosts[0] {
		args = append(args, "--collect", "--agents", "--socket", c.socket(), "--tls-read", "ops.example.net")
	}
	h.run = launchIn(c.t, h.node.Command(csig, args...), c.socket())
}

func (c *clos) socket() string { return filepath.Join(c.dir, "mesh.sock") }

// status is what csig mesh status --json prints, nil while no collector answers.
func (c *clos) status() *mesh.Status {
	c.t.Helper()
	out, err := c.hosts[0].node.Command(csig, "mesh", "status", "--socket", c.socket(), "--json").Output()
	if err != nil {
		return nil
	}
	var s mesh.Status
	if err := json.Unmarshal(out, &s); err != nil {
		c.t.Fatal(err)
	}
	return &s
}

// fleet is the fleet file as it is read.
func (c *clos) fleet() *inventory.Fleet {
	c.t.Helper()
	f, err := inventory.Parse("clos.yaml", []byte(c.text))
	if err != nil {
		c.t.Fatal(err)
	}
	return f
}

// lm is the locator that a port writes for abwc.
func (c *clos) lm(ref string) int {
	c.t.Helper()
	device, port, _ := strings.Cut(ref, ":")
	d, _ := c.fleet().Device(device)
	p, _ := d.Port(port)
	return int(p.LM[quantize.MinABWC])
}

// means waits until the collector's first minute is over, and compares its histograms of what hosts read of a port with the
// loads that the port had, each since a time. An idle port writes nothing for abwc.
func (c *clos) means(ref string, sources []string, prefix string, loads []uint64, at []time.Time) {
	c.t.Helper()
	over := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", c.socket())
	}}}
	var h mesh.Histograms
	if !within(2*patience, func() bool {
		r, err := over.Get("http://mesh" + mesh.HistogramsPath) //nolint:noctx // it has a timeout
		if err != nil {
			c.t.Fatal(err)
		}
		defer r.Body.Close()
		if err := json.NewDecoder(r.Body).Decode(&h); err != nil {
			c.t.Fatal(err)
		}
		return len(h.Histograms) > 0
	}) {
		c.t.Fatal("the first minute does not end")
	}
	buckets := c.fleet().Profile.Signals[quantize.MinABWC].Buckets
	sum, all := 0.0, h.Until.Sub(at[0]).Seconds()
	for i, load := range loads {
		end := h.Until
		if i+1 < len(at) {
			end = at[i+1]
		}
		sum += float64(buckets.Bucket((closSpeed-load)*1_000_000/closSpeed)) * end.Sub(at[i]).Seconds()
	}
	for _, source := range sources {
		i := slices.IndexFunc(h.Histograms, func(h mesh.Histogram) bool {
			return h.Source == source && h.Destination == prefix && h.Signal == "abwc" && slices.Equal(h.Ports, []string{ref})
		})
		if i < 0 {
			c.t.Errorf("no histogram of %s and %s: %+v", source, ref, h.Histograms)
			continue
		}
		one, held := &h.Histograms[i], 0.0
		for _, ns := range one.HeldNS {
			held += float64(ns) / 1e9
		}
		paths := float64(c.each * mesh.Ports)
		c.t.Logf("%s: %s: the mean S is %.2f, of the loads %.2f; readings held for %.1f s of %.1f s on each path: %v", source, ref, one.MeanS, sum/all, held/paths, all, one.HeldNS)
		if math.Abs(one.MeanS-sum/all) > 1 || held/paths < all/2 || held/paths > all+2 {
			c.t.Errorf("%+v", one)
		}
	}
}

// forward has frames to an address leave a switch by a port.
func (c *clos) forward(mac net.HardwareAddr, ref string) {
	c.t.Helper()
	device, _, _ := strings.Cut(ref, ":")
	if c.ovs[device] != nil {
		c.flow(device, mac, handOver(c.number(ref)))
	} else if err := c.switches[device].Forward(mac, c.ports[ref]); err != nil {
		c.t.Fatal(err)
	}
}

// load has a port carry so many bit/s, from beside it.
func (c *clos) load(ref string, bps uint64) {
	c.t.Helper()
	device, _, _ := strings.Cut(ref, ":")
	c.forward(c.loadMAC[device], ref)
	if err := c.loads[device].SetRate(bps); err != nil {
		c.t.Fatal(err)
	}
}

// bottleneck waits until the mesh names a port first.
func (c *clos) bottleneck(ref string, pairs int, within time.Duration) (took time.Duration) {
	c.t.Helper()
	began := time.Now()
	for {
		s := c.status()
		took = time.Since(began)
		if s != nil && len(s.Bottlenecks) > 0 && slices.Equal(s.Bottlenecks[0].Ports, []string{ref}) && s.Bottlenecks[0].Pairs == pairs {
			return took
		}
		if took > within {
			c.t.Errorf("%s, which limits %d pairs, is not named first within %v: %s", ref, pairs, within, exits(c.t, 0, c.hosts[0].node.Command(csig, "mesh", "status", "--socket", c.socket(), "--matrix")))
			return took
		}
		time.Sleep(50 * time.Millisecond) // between looks
	}
}

// finds waits until the mesh has a finding at a place, or has it no more.
func (c *clos) finds(code findings.Code, place string, has bool) (f mesh.Finding) {
	c.t.Helper()
	var s *mesh.Status
	if !within(patience, func() bool {
		if s = c.status(); s == nil {
			return false
		}
		i := slices.IndexFunc(s.Findings, func(g mesh.Finding) bool { return g.Code == code && g.Place() == place })
		if i >= 0 {
			f = s.Findings[i]
		}
		return has == (i >= 0)
	}) {
		c.t.Errorf("%s at %s: want %v; %+v", code, place, has, s.Findings)
	}
	return f
}

// none waits until nothing is wrong but what is known.
func (c *clos) none(known ...findings.Code) {
	c.t.Helper()
	var s *mesh.Status
	if !within(2*patience, func() bool {
		s = c.status()
		return s != nil && !slices.ContainsFunc(s.Findings, func(f mesh.Finding) bool { return !slices.Contains(known, f.Code) })
	}) {
		c.t.Errorf("findings that stay: %+v", s.Findings)
	}
}

// limited is how many pairs of hosts pass a port.
func (c *clos) limited(ref string) (n int) {
	for i, from := range c.hosts {
		for j, to := range c.hosts {
			spine := j%c.spines + 1
			if i != j && (ref == fmt.Sprintf("%s:host%d", to.leaf, j%c.each+1) ||
				from.leaf != to.leaf && (ref == fmt.Sprintf("%s:up%d", from.leaf, spine) || ref == fmt.Sprintf("spine%d:down%s", spine, to.leaf[len("leaf"):]))) {
				n++
			}
		}
	}
	return n
}

// meshOfSixteen has 16 hosts of a fabric of six switches with 24 cables name what limits them, and what is wrong
// between them.
func meshOfSixteen(t *testing.T) {
	c := newClos(t, closShape{leaves: 4, spines: 2, each: 4})
	c.startAgents()
	c.startMesh(strings.NewReplacer())
	if !within(patience, func() bool { s := c.status(); return s != nil && s.States[mesh.StateCapable] == 16*15 }) {
		t.Fatalf("%+v", c.status())
	}
	c.none()

	age := time.Duration(c.status().OldestNS)
	var all []time.Duration
	for i, ref := range c.cables {
		c.load(ref, closSpeed*8/10)
		all = append(all, c.bottleneck(ref, c.limited(ref), 2*age))
		c.load(ref, 0)
		if i == 5 {
			t.Log(exits(t, 0, c.hosts[0].node.Command(csig, "mesh", "status", "--socket", c.socket())))
			t.Log(exits(t, 0, c.hosts[0].node.Command(csig, "mesh", "why", c.hosts[4].name, c.hosts[8].name, "--socket", c.socket())))
		}
	}
	slices.Sort(all)
	t.Logf("%d bottlenecks named first: median %v, the longest %v; a reading is up to %v old", len(all), all[len(all)/2].Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond), age)
	c.none()

	// A rule that is not csig's writes little bandwidth into every tag, beside csig's own.
	leaf := c.switches["leaf2"]
	lm := c.lm("leaf2:up1")
	exits(t, 0, leaf.Command("nft", fmt.Sprintf("table netdev wrong { chain out { type filter hook egress device up1 priority 500; ether type 0x9900 @ll,112,3 1 @ll,112,16 set %#x; }; }", 1<<13|2<<7|lm)))
	f := c.finds(findings.MeshNamesIdle, "leaf2:up1", true)
	t.Logf("%+v", f)
	exits(t, 0, leaf.Command("nft", "delete", "table", "netdev", "wrong"))
	c.none()

	// An agent stops: its rules expire, and its tags say so.
	a := c.agents["leaf3"]
	if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", c.finds(findings.MeshStale, "leaf3", true))
	t.Logf("%+v", c.finds(findings.MeshNoAgent, "leaf3", true))
	if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	c.none()

	// A switch drops tags.
	exits(t, 0, c.switches["leaf4"].Command("nft", "table bridge drops { chain forward { type filter hook forward priority 0; ether type 0x9900 drop; }; }"))
	t.Logf("%+v", c.finds(findings.MeshDropsTags, "leaf4", true))
	var s *mesh.Status
	if !within(patience, func() bool {
		s = c.status()
		return s != nil && s.States[mesh.StateCapable] == 12*11 && s.States[mesh.StateDropsTags] == 16*15-12*11
	}) {
		t.Errorf("%v pairs, want those of twelve hosts capable", s.States)
	}
	if out := exits(t, 2, c.hosts[0].node.Command(csig, "mesh", "status", "--socket", c.socket(), "--check")); !strings.HasPrefix(out, "CRITICAL: csig mesh: leaf4: 108 pairs: ") {
		t.Errorf("--check prints %s", out)
	}
	exits(t, 0, c.switches["leaf4"].Command("nft", "delete", "table", "bridge", "drops"))
	c.none()
}

// TestLongMeshOverIPv6 has hosts probe each other over IPv6, at no more than was promised; the histograms of the first minute
// are those of known loads. The collector's fleet file has two cables that are swapped.
func TestLongMeshOverIPv6(t *testing.T) {
	t.Parallel()
	c := newClos(t, closShape{leaves: 2, spines: 1, each: 2, six: true})
	c.startAgents()
	c.startMesh(strings.NewReplacer(`speed: 50M, peer: "h1"`, `speed: 50M, peer: "h2"`, `speed: 50M, peer: "h2"`, `speed: 50M, peer: "h1"`))
	loads, at := []uint64{closSpeed * 80 / 100, closSpeed * 20 / 100}, []time.Time{time.Now()} // in the middle of buckets
	c.load("leaf2:up1", loads[0])
	c.bottleneck("leaf2:up1", 4, patience)

	r, err := c.hosts[0].nic.Counters()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	before, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Second) // what is measured
	after, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	promised := float64(3*mesh.TrialBits) / 0.25
	got := after.L1Rate(before)
	t.Logf("a host sends %.0f bit/s, its answers to the others' rows included; promised are %.0f for probes and answers", got, promised)
	if got < promised/2 || got > 2*promised {
		t.Errorf("a host sends %.0f bit/s", got)
	}

	time.Sleep(time.Until(at[0].Add(28 * time.Second))) // half of the collector's first minute
	at = append(at, time.Now())
	c.load("leaf2:up1", loads[1])
	c.means("leaf2:up1", []string{"h3", "h4"}, "fd00::/64", loads, at)
	c.load("leaf2:up1", 0)

	c.load("leaf1:host2", closSpeed*8/10)
	var s *mesh.Status
	if !within(patience, func() bool { // idle ports are named, too
		s = c.status()
		return s != nil && slices.ContainsFunc(s.Findings, func(f mesh.Finding) bool {
			return f.Code == findings.MeshOffPath && strings.Contains(f.Reason, "leaf1:host2")
		})
	}) {
		t.Errorf("%+v", s.Findings)
	}
}

// TestLongMeshReloads has the fleet file of hosts that probe each other change: one joins, a mistake is refused, and
// the key is another one. Nothing is started again.
func TestLongMeshReloads(t *testing.T) {
	t.Parallel()
	c := newClos(t, closShape{leaves: 1, spines: 1, each: 3})
	nothing := strings.NewReplacer()
	states := func(what string, pairs int, of map[string]int) {
		t.Helper()
		var s *mesh.Status
		if !within(patience, func() bool {
			if s = c.status(); s == nil {
				return false
			}
			for state, n := range of {
				if s.States[state] != n {
					return false
				}
			}
			return len(s.Hosts)*(len(s.Hosts)-1) == pairs
		}) {
			t.Fatalf("%s: %+v", what, s)
		}
	}
	third := regexp.MustCompile(`(?m)^  - \{name: h3,.*\n`).FindString(c.text)
	without := strings.NewReplacer(third, "  - {name: h3}\n") // no address: it takes no part
	for _, h := range c.hosts[:2] {
		c.startHost(h, without)
	}
	states("two hosts", 2, map[string]int{mesh.StateCapable: 2})
	why := func() (w mesh.Why) {
		t.Helper()
		if err := json.Unmarshal([]byte(exits(t, 0, c.hosts[0].node.Command(csig, "mesh", "why", "h1", "h2", "--socket", c.socket(), "--json"))), &w); err != nil {
			t.Fatal(err)
		}
		return w
	}
	first := why().Changes[0]

	c.startHost(c.hosts[2], nothing)
	c.meshFile(c.hosts[1], nothing)
	c.meshFile(c.hosts[0], nothing)
	states("a third one joins", 6, map[string]int{mesh.StateCapable: 6})
	if w := why(); !w.Changes[0].Time.Equal(first.Time) {
		t.Errorf("the history of two hosts that stay began at %v, and is now since %v", first.Time, w.Changes[0].Time)
	}

	file := c.meshFile(c.hosts[0], strings.NewReplacer("interval: 250ms", "interval: never"))
	if !within(patience, func() bool {
		return strings.Contains(c.hosts[0].run.log.String(), "not reloaded: the mesh stays as it is")
	}) {
		t.Errorf("the log has no mistake of %s", file)
	}
	states("a mistake", 6, map[string]int{mesh.StateCapable: 6})
	if log := c.hosts[0].run.log.String(); !strings.Contains(log, file+":") {
		t.Errorf("the log has no place of the mistake:\n%s", log)
	}

	writeFile(t, filepath.Join(c.dir, "other.key"), []byte("another key of the same mesh\n"))
	another := strings.NewReplacer("mesh.key", "other.key", "interval: 250ms", "interval: 500ms")
	c.meshFile(c.hosts[0], another)
	states("one has another key", 6, map[string]int{mesh.StateUnreachable: 4, mesh.StateCapable: 2})
	c.meshFile(c.hosts[1], another)
	c.meshFile(c.hosts[2], another)
	states("all have it", 6, map[string]int{mesh.StateCapable: 6})
	if s := c.status(); s.IntervalNS != 5e8 {
		t.Errorf("the interval is %v", time.Duration(s.IntervalNS))
	}

	// The collector's network card goes, and comes again: it goes on, with what it knows.
	ip := func(args ...string) {
		exits(t, 0, c.hosts[0].node.Command("ip", append([]string{"link", "set", "eth0"}, args...)...))
	}
	ip("down")
	if !within(patience, func() bool {
		return strings.Contains(c.hosts[0].run.log.String(), "no tagged probes are received")
	}) {
		t.Errorf("the log has nothing of a card that is down:\n%s", c.hosts[0].run.log.String())
	}
	states("a card is down", 6, map[string]int{mesh.StateCapable: 0})
	ip("up")
	states("it is up again", 6, map[string]int{mesh.StateCapable: 6})
	if w := why(); !w.Changes[0].Time.Equal(first.Time) {
		t.Errorf("the history began at %v, and is now since %v", first.Time, w.Changes[0].Time)
	}

	// From another machine the collector answers a certificate that --tls-read names, and no other.
	for name, code := range map[string]int{"ops.example.net": 0, "h2": 1} {
		cert, key := c.ca.Certify(name)
		file := filepath.Join(c.dir, "remote.yaml")
		writeFile(t, file, []byte(strings.Replace(c.text, `:9918"}`, fmt.Sprintf(`:9918", tls: {ca: %s, cert: %s, key: %s}}`, c.ca.CA, cert, key), 1)))
		out := exits(t, code, c.hosts[1].node.Command(csig, "mesh", "status", "-i", file))
		if want := map[int]string{0: "mesh clos: 3 of 3 hosts live", 1: "(--tls-read)"}[code]; !strings.Contains(out, want) {
			t.Errorf("csig mesh status of %s: %s", name, out)
		}
	}
}
