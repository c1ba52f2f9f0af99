package demo

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/inventory"
)

// hop is one switch on the path and the cable behind its egress port.
type hop struct {
	name    string // "s1:swp3", as the locator decodes
	device  *inventory.Device
	port    *inventory.Port
	node    *fabric.Node
	egress  *fabric.Port
	loadNIC *fabric.Port     // of the host whose traffic crosses only this hop's cable
	sink    net.HardwareAddr // where that traffic goes
	load    *fabric.Load
}

// path is the demo's fabric:
//
//	h1 ── s1 ───── s2 ───── s3 ── h2      probes go from h1 to h2
//	      │      ╱ │      ╱ │
//	      l1   k1  l2   k2  l3            li loads the cable behind si
//
// The cable behind each switch's egress port is shaped to the capacity in the
// fleet file. Traffic of li leaves the path again at the next switch, to ki;
// that of the last one ends at h2.
type path struct {
	fabric.Fabric
	sender, receiver *fabric.Port
	hops             []*hop
	hosts            map[string]*fabric.Port // network cards, by the host's name
	delay            time.Duration           // of h1's cable, each way
	relay            *fabric.Relay           // that has it; nil: none
}

func buildPath(fleet *inventory.Fleet) (*path, error) {
	p := &path{hosts: make(map[string]*fabric.Port)}
	if err := p.build(fleet); err != nil {
		return nil, errors.Join(fmt.Errorf("building the fabric: %w", err), p.Close())
	}
	return p, nil
}

func (p *path) build(fleet *inventory.Fleet) error {
	h1, err := p.AddHost("h1")
	if err != nil {
		return err
	}
	h2, err := p.AddHost("h2")
	if err != nil {
		return err
	}
	for i := range fleet.Devices {
		dev := &fleet.Devices[i]
		node, err := p.AddSwitch(dev.Name)
		if err != nil {
			return err
		}
		p.hops = append(p.hops, &hop{
			name: dev.Name + ":" + dev.Ports[0].Name, device: dev, port: &dev.Ports[0], node: node,
		})
	}
	first, last := p.hops[0], p.hops[len(p.hops)-1]
	if err := p.connectSender(h1, first.node); err != nil {
		return err
	}
	for i, h := range p.hops {
		next, nextPort := h2, "eth0"
		if h != last {
			next, nextPort = p.hops[i+1].node, "swp1"
		}
		if h.egress, p.receiver, err = p.Connect(fabric.End{Node: h.node, Port: h.port.Name}, fabric.End{Node: next, Port: nextPort}, 0); err != nil {
			return err
		}
		if err := h.egress.Shape(h.port.Speed); err != nil {
			return err
		}
	}
	for i, h := range p.hops {
		if err := h.node.Forward(p.receiver.MAC, h.egress); err != nil {
			return err
		}
		source, err := p.AddHost(fmt.Sprintf("l%d", i+1))
		if err != nil {
			return err
		}
		if h.loadNIC, _, err = p.Connect(fabric.End{Node: source, Port: "eth0"}, fabric.End{Node: h.node, Port: "swp2"}, 0); err != nil {
			return err
		}
		h.sink = p.receiver.MAC
		if h == last {
			continue
		}
		sink, err := p.AddHost(fmt.Sprintf("k%d", i+1))
		if err != nil {
			return err
		}
		next := p.hops[i+1].node
		nic, out, err := p.Connect(fabric.End{Node: sink, Port: "eth0"}, fabric.End{Node: next, Port: "swp4"}, 0)
		if err != nil {
			return err
		}
		h.sink, p.hosts[sink.Name()] = nic.MAC, nic
		if err := errors.Join(h.node.Forward(h.sink, h.egress), next.Forward(h.sink, out)); err != nil {
			return err
		}
	}
	p.hosts["h1"], p.hosts["h2"] = p.sender, p.receiver
	return nil
}

// connectSender has a cable from h1 to the first switch, a long one where there is a delay.
func (p *path) connectSender(h1, s1 *fabric.Node) (err error) {
	at := fabric.End{Node: s1, Port: "swp1"}
	if p.delay == 0 {
		p.sender, _, err = p.Connect(fabric.End{Node: h1, Port: "eth0"}, at, 0)
		return err
	}
	between, err := p.AddHost("relay")
	if err != nil {
		return err
	}
	var near, far *fabric.Port
	if p.sender, near, err = p.Connect(fabric.End{Node: h1, Port: "eth0"}, fabric.End{Node: between, Port: "near"}, 0); err != nil {
		return err
	}
	if far, _, err = p.Connect(fabric.End{Node: between, Port: "far"}, at, 0); err != nil {
		return err
	}
	p.relay, err = fabric.StartRelay(near, far, p.delay)
	return err
}

// Close takes the fabric down.
func (p *path) Close() (err error) {
	if p.relay != nil {
		err = p.relay.Stop()
	}
	return errors.Join(err, p.Fabric.Close())
}

// setLoads changes the background load on every hop's cable, in bit/s.
func (p *path) setLoads(bps []uint64) error {
	for i, h := range p.hops {
		var err error
		if h.load == nil {
			h.load, err = fabric.StartLoad(h.loadNIC, h.sink, bps[i])
		} else {
			err = h.load.SetRate(bps[i])
		}
		if err != nil {
			return fmt.Errorf("background load behind %s: %w", h.name, err)
		}
	}
	return nil
}

func (p *path) stopLoads() error {
	var errs []error
	for _, h := range p.hops {
		if h.load != nil {
			errs = append(errs, h.load.Stop())
		}
	}
	return errors.Join(errs...)
}

// Enter runs this program once more in namespaces of its own, in which alone the demo makes its network (fabric.Enter).
func Enter() (inside bool, status int, err error) { return fabric.Enter() }
