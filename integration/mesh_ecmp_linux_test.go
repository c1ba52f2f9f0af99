package integration

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/hosts/mesh"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
)

// startOVS makes every leaf a bridge of Open vSwitch whose own flows hand frames over to csig's tables (docs/ovs.md);
// its group chooses among the spines by a flow's addresses and UDP ports, whether or not it has a tag.
func (c *clos) startOVS() {
	c.t.Helper()
	c.ovs = make(map[string]*ovstest.Switch)
	for l := range c.leaves {
		leaf := fmt.Sprintf("leaf%d", l+1)
		sw := ovstest.Start(c.t, inNode(c.switches[leaf]))
		c.ovs[leaf] = sw
		var ports []string
		for _, p := range c.switches[leaf].Ports() {
			ports = append(ports, p.Name)
		}
		numbered(sw, ports...)
		sw.Ofctl("add-flow", "csig", "table=60,priority=0,actions=output:NXM_NX_REG15[]")
		group := "group_id=1,type=select,selection_method=hash,fields(ip_src,ip_dst,udp_src,udp_dst)"
		for s := range c.spines {
			group += fmt.Sprintf(",bucket=bucket_id:%d,%s", s, handOver(c.number(fmt.Sprintf("%s:up%d", leaf, s+1))))
		}
		sw.Ofctl("-O", "OpenFlow15", "add-group", "csig", group)
	}
}

// handOver is the actions that hand a frame over to csig's tables, for a port by its OpenFlow number.
func handOver(number int) string {
	return fmt.Sprintf("actions=load:%d->NXM_NX_REG15[],resubmit(,60)", number)
}

// number is the OpenFlow number of a port.
func (c *clos) number(ref string) int {
	device, port, _ := strings.Cut(ref, ":")
	return 1 + slices.IndexFunc(c.switches[device].Ports(), func(p *fabric.Port) bool { return p.Name == port })
}

// flow has a leaf do something with frames to an address.
func (c *clos) flow(leaf string, mac net.HardwareAddr, actions string) {
	c.t.Helper()
	c.ovs[leaf].Ofctl("add-flow", "csig", fmt.Sprintf("table=0,priority=10,dl_dst=%s,%s", mac, actions))
}

// spread has frames to an address go by all spines.
func (c *clos) spread(mac net.HardwareAddr, leaf string) { c.flow(leaf, mac, "actions=group:1") }

// wayOf is a pair of hosts by one source port, from 0.
type wayOf struct {
	from, to string
	port     int
}

// uplinks reads from the cables themselves by which uplink each pair's probes go, until all ways between leaves have
// been seen. One that goes by two uplinks is an error.
func (c *clos) uplinks(meshPort uint16) map[wayOf]string {
	c.t.Helper()
	names := make(map[netip.Addr]*closHost)
	want := 0
	for _, h := range c.hosts {
		names[netip.MustParseAddr(h.address)] = h
		want += (len(c.hosts) - c.each) * mesh.Ports
	}
	taps := make(map[string]*fabric.Tap)
	defer func() {
		for _, tap := range taps {
			if err := tap.Close(); err != nil {
				c.t.Error(err)
			}
		}
	}()
	for l := range c.leaves {
		for s := range c.spines {
			ref := fmt.Sprintf("leaf%d:up%d", l+1, s+1)
			tap, err := c.ports[ref].Tap()
			if err != nil {
				c.t.Fatal(err)
			}
			taps[ref] = tap
		}
	}
	seen, frames := make(map[wayOf]string), make(map[wayOf][2]int) // without a tag, with one
	done := func() bool {
		for ref, tap := range taps {
			for _, f := range tap.Read(nil) {
				b, tagged := f.Head[:], 0
				if binary.BigEndian.Uint16(b[12:]) == 0x88a8 {
					b, tagged = b[4:], 1
				}
				if binary.BigEndian.Uint16(b[12:]) != 0x0800 || b[14] != 0x45 || b[23] != 17 || binary.BigEndian.Uint16(b[36:]) != meshPort {
					continue
				}
				from, to := names[netip.AddrFrom4([4]byte(b[26:]))], names[netip.AddrFrom4([4]byte(b[30:]))]
				port := int(binary.BigEndian.Uint16(b[34:])) - int(meshPort) - 1
				if from == nil || to == nil || port < 0 || port >= mesh.Ports {
					continue // an answer
				}
				way := wayOf{from.name, to.name, port}
				if was, known := seen[way]; known && was != ref {
					c.t.Errorf("%+v goes by %s and by %s", way, was, ref)
				}
				seen[way] = ref
				n := frames[way]
				n[tagged]++
				frames[way] = n
			}
		}
		n := 0
		for _, f := range frames {
			if f[0] > 0 && f[1] > 0 {
				n++
			}
		}
		return n == want
	}
	if !within(patience, done) {
		c.t.Fatalf("of %d ways between leaves %d are seen: %v", want, len(seen), frames)
	}
	return seen
}

// TestLongMeshByFlow has leaves choose a spine for each flow, by a select group: the source ports of a pair go by
// both spines, and the mesh says which of them a full uplink limits.
func TestLongMeshByFlow(t *testing.T) {
	t.Parallel()
	c := newClos(t, closShape{leaves: 2, spines: 2, each: 2, ecmp: true})
	c.startAgents()
	c.startMesh(strings.NewReplacer())
	if !within(patience, func() bool { s := c.status(); return s != nil && s.States[mesh.StateCapable] == 4*3 }) {
		t.Fatalf("%+v", c.status())
	}
	// Frames that come together leave the userspace datapath flow by flow, and one with a tag is another flow's.
	known := findings.MeshReorders
	c.none(known)
	ways := c.uplinks(9917)
	both := 0 // pairs whose source ports take both
	for _, from := range c.hosts {
		for _, to := range c.hosts {
			if from.leaf != to.leaf {
				taken := map[string]bool{}
				for port := range mesh.Ports {
					taken[ways[wayOf{from.name, to.name, port}]] = true
				}
				if len(taken) == c.spines {
					both++
				}
			}
		}
	}
	t.Logf("%d of 8 pairs between leaves take both spines", both)
	if both < 4 {
		t.Errorf("%v", ways)
	}

	age := time.Duration(c.status().OldestNS)
	for _, ref := range []string{"leaf1:up1", "leaf1:up2", "leaf2:up1", "leaf2:up2"} {
		limited := make(map[[2]string]bool)
		for way, by := range ways {
			if by == ref {
				limited[[2]string{way.from, way.to}] = true
			}
		}
		c.load(ref, closSpeed*8/10)
		took := c.bottleneck(ref, len(limited), 2*age)
		t.Logf("%s, which %d pairs pass, is named first after %v", ref, len(limited), took.Round(time.Millisecond))
		for pair := range limited {
			c.reads(pair[0], pair[1], ref, ways)
		}
		c.load(ref, 0)
	}
	c.none(known)
}

// reads waits until the source ports of a pair that go by a full port read its locator, and the others do not.
func (c *clos) reads(from, to, full string, ways map[wayOf]string) {
	c.t.Helper()
	var why mesh.Why
	check := func() (err error) {
		out := exits(c.t, 0, c.hosts[0].node.Command(csig, "mesh", "why", from, to, "--socket", c.socket(), "--json"))
		why = mesh.Why{}
		if err := json.Unmarshal([]byte(out), &why); err != nil {
			c.t.Fatal(err)
		}
		if len(why.Paths) != 2*mesh.Ports {
			return fmt.Errorf("%d paths", len(why.Paths))
		}
		for _, p := range why.Paths {
			passes := ways[wayOf{from, to, p.Port}] == full
			switch {
			case p.Reading == nil:
				err = errors.Join(err, fmt.Errorf("source port %d reads no %s", p.Port+1, p.Signal))
			case passes != slices.Equal(p.Reading.Ports, []string{full}):
				err = errors.Join(err, fmt.Errorf("source port %d goes by %s, and reads %s at %v", p.Port+1, ways[wayOf{from, to, p.Port}], p.Signal, p.Reading.Ports))
			}
		}
		return err
	}
	var err error
	if !within(patience, func() bool { err = check(); return err == nil }) {
		c.t.Errorf("%s → %s with %s full: %v", from, to, full, err)
	}
}
