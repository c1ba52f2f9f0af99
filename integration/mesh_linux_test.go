package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/agent/api/tlstest"
	"github.com/csig-agent/csig/hosts/mesh"
	"github.com/csig-agent/csig/integration/fabric"
)

// clos is a leaf-spine fabric of kernel switches with an agent each. Every host, and every switch, has a spine of
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
}

type closHost struct {
	name, address string
	node          *fabric.Node
	nic           *fabric.Port
	leaf          string
}

// closSpeed is what the fleet file says of every port; no port is that slow.
const closSpeed = 50_000_000

// newClos builds one with so many leaves, spines and hosts a leaf.
func newClos(t *testing.T, leaves, spines, each int) *clos {
	t.Helper()
	c := &clos{Fabric: newFabric(t), t: t, dir: t.TempDir(), switches: map[string]*fabric.Node{}, ports: map[string]*fabric.Port{}, agents: map[string]*agent{}, loads: map[string]*fabric.Load{}, loadMAC: map[string]net.HardwareAddr{}}
	peers := map[string][]string{} // of each switch, the lines of its ports
	connect := func(a fabric.End, b fabric.End) (*fabric.Port, *fabric.Port) {
		p, q, err := c.Connect(a, b, 1600)
		if err != nil {
			t.Fatal(err)
		}
		return p, q
	}
	add := func(name string) {
		n, err := c.AddSwitch(name)
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
		add(fmt.Sprintf("spine%d", s+1))
	}
	for l := range leaves {
		leaf := fmt.Sprintf("leaf%d", l+1)
		add(leaf)
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
	for i, h := range c.hosts {
		for leaf, node := range c.switches {
			if strings.HasPrefix(leaf, "spine") {
				continue
			}
			out := c.ports[fmt.Sprintf("%s:up%d", leaf, i%spines+1)]
			if leaf == h.leaf {
				out = c.ports[fmt.Sprintf("%s:host%d", leaf, i%each+1)]
			}
			if err := node.Forward(h.nic.MAC, out); err != nil {
				t.Fatal(err)
			}
		}
		for s := range spines {
			if err := c.switches[fmt.Sprintf("spine%d", s+1)].Forward(h.nic.MAC, c.ports[fmt.Sprintf("spine%d:down%s", s+1, h.leaf[len("leaf"):])]); err != nil {
				t.Fatal(err)
			}
		}
		exits(t, 0, h.node.Command("ip", "link", "set", "dev", "eth0", "arp", "on"))
		exits(t, 0, h.node.Command("ip", "address", "add", h.address+"/24", "dev", "eth0"))
		for _, other := range c.hosts {
			if other != h {
				exits(t, 0, h.node.Command("ip", "neighbour", "add", other.address, "lladdr", other.nic.MAC.String(), "dev", "eth0", "nud", "permanent"))
			}
		}
	}
	if err := c.WaitUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.text = "format: csig.fleet/v1\nprofile:\n  name: clos\n  tpid: 0x9900\n  interval: 100ms\n  signals:\n    abw: {buckets: log-100M}\n    abwc: {buckets: log}\ndevices:\n"
	for _, name := range slices.Sorted(maps.Keys(c.switches)) {
		c.text += "  - name: " + name + "\n    platform: linux\n    ports:\n" + strings.Join(peers[name], "")
	}
	writeFile(t, filepath.Join(c.dir, "mesh.key"), []byte("the key of a mesh, of a test\n"))
	c.text += "mesh: {key: {file: " + filepath.Join(c.dir, "mesh.key") + "}, interval: 250ms, collector: \"10.0.0.1:9918\"}\nhosts:\n"
	for _, h := range c.hosts {
		c.text += fmt.Sprintf("  - {name: %s, csig: true, address: %s}\n", h.name, h.address)
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

// startMesh has every host probe the others; the first one collects.
func (c *clos) startMesh() {
	c.t.Helper()
	ca := tlstest.New(c.t)
	for i, h := range c.hosts {
		file := filepath.Join(c.dir, h.name+".yaml")
		cert, key := ca.Certify(h.name)
		writeFile(c.t, file, []byte(strings.Replace(c.text, "{name: "+h.name+",", "{name: "+h.name+", local: true, interface: eth0,", 1)))
		args := []string{"mesh", "run", "-i", file, "--tls-cert", cert, "--tls-key", key, "--tls-ca", ca.CA}
		if i == 0 {
			args = append(args, "--collect", "--socket", c.socket())
		}
		launchIn(c.t, h.node.Command(csig, args...), c.socket())
	}
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

// load has a port carry so many bit/s, from beside it.
func (c *clos) load(ref string, bps uint64) {
	c.t.Helper()
	device, _, _ := strings.Cut(ref, ":")
	if err := c.switches[device].Forward(c.loadMAC[device], c.ports[ref]); err != nil {
		c.t.Fatal(err)
	}
	if err := c.loads[device].SetRate(bps); err != nil {
		c.t.Fatal(err)
	}
}

// TestLongMesh has the hosts of a small fabric name the port that limits them.
func TestLongMesh(t *testing.T) {
	t.Parallel()
	c := newClos(t, 2, 1, 2)
	c.startAgents()
	c.startMesh()
	c.load("leaf1:up1", closSpeed*8/10)
	var s *mesh.Status
	if !within(patience, func() bool {
		s = c.status()
		return s != nil && len(s.Bottlenecks) > 0 && slices.Equal(s.Bottlenecks[0].Ports, []string{"leaf1:up1"}) && s.Bottlenecks[0].Pairs == 4
	}) {
		t.Fatalf("%+v", s)
	}
	t.Log(exits(t, 0, c.hosts[0].node.Command(csig, "mesh", "status", "--socket", c.socket())))
}
