package fabric

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// DefaultMTU fits a full-size payload with a wide CSIG tag behind
// VLAN tags: switches drop longer frames without a word.
const DefaultMTU = 1600

// bridgeName is the interface name of every switch's bridge, in its own
// namespace.
const bridgeName = "switch"

// Fabric is a set of hosts and switches with cables between them. The zero
// value is an empty fabric. It is safe for concurrent use.
type Fabric struct {
	mu    sync.Mutex
	nodes []*Node
}

// Node is a host or a switch: a network namespace with ports.
type Node struct {
	*NS
	number int
	bridge int // ifindex of the bridge, 0 in a host

	mu    sync.Mutex
	ports []*Port
}

// Port is one end of a cable: a veth interface of a node.
type Port struct {
	Name string           // of the interface in its node's namespace
	MAC  net.HardwareAddr // fixed when the cable was made

	node  *Node
	index int
	mtu   int
}

// End is where an end of a cable goes.
type End struct {
	Node *Node
	Port string           // interface name, at most 15 bytes
	MAC  net.HardwareAddr // one of the fabric's own making where nil
}

// AddHost adds a host: a namespace without addresses or routes.
func (f *Fabric) AddHost(name string) (*Node, error) { return f.add(name, false) }

// AddSwitch adds a switch: a namespace with a bridge that forwards from the
// first moment (no spanning tree), is silent itself, and sends frames only
// where Forward sends them: it neither learns addresses nor floods unknown ones, so
// that a port carries exactly the traffic meant for it.
func (f *Fabric) AddSwitch(name string) (*Node, error) { return f.add(name, true) }

func (f *Fabric) add(name string, isSwitch bool) (*Node, error) {
	ns, err := NewNS(name)
	if err != nil {
		return nil, err
	}
	n := &Node{NS: ns}
	if isSwitch {
		if err := ns.Do(n.addBridge); err != nil {
			return nil, errors.Join(fmt.Errorf("switch %s: %w", name, err), ns.Close())
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes = append(f.nodes, n)
	n.number = len(f.nodes)
	return n, nil
}

func (n *Node) addBridge() error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = bridgeName
	snooping := false
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}); err != nil {
		return fmt.Errorf("add a bridge: %w", err)
	}
	br, err := netlink.LinkByName(bridgeName)
	if err != nil {
		return fmt.Errorf("find the bridge: %w", err)
	}
	if err := silence(br); err != nil {
		return fmt.Errorf("bridge: %w", err)
	}
	n.bridge = br.Attrs().Index
	return nil
}

// silence brings an interface up such that it sends nothing by itself.
func silence(l netlink.Link) error {
	if err := netlink.LinkSetARPOff(l); err != nil {
		return fmt.Errorf("switch ARP off: %w", err)
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return fmt.Errorf("bring it up: %w", err)
	}
	return nil
}

// IsSwitch reports whether the node is a switch.
func (n *Node) IsSwitch() bool { return n.bridge != 0 }

// Ports lists the node's ports in the order they were made.
func (n *Node) Ports() []*Port {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]*Port(nil), n.ports...)
}

// Node is the host or switch the port belongs to.
func (p *Port) Node() *Node { return p.node }

// Index is the port's interface index in its node's namespace.
func (p *Port) Index() int { return p.index }

// String is node:port.
func (p *Port) String() string { return p.node.Name() + ":" + p.Name }

// Connect lays a cable between two nodes: a veth pair with the given MTU
// (DefaultMTU where 0), up, without segmentation offloads. On a switch the end
// becomes a port of the bridge. Speed is per direction: see Port.Shape.
func (f *Fabric) Connect(a, b End, mtu int) (*Port, *Port, error) {
	if mtu == 0 {
		mtu = DefaultMTU
	}
	for _, e := range []*End{&a, &b} {
		if e.MAC == nil {
			e.Node.mu.Lock()
			number := len(e.Node.ports) + 1
			e.Node.mu.Unlock()
			e.MAC = net.HardwareAddr{0x02, 0xc5, 0x16, byte(e.Node.number >> 8), byte(e.Node.number), byte(number)}
		}
	}
	err := a.Node.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU, attrs.HardwareAddr = a.Port, mtu, a.MAC
		attrs.NumTxQueues, attrs.NumRxQueues = 1, 1
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: attrs,
			PeerName:  b.Port, PeerHardwareAddr: b.MAC, PeerMTU: uint32(mtu),
			PeerNumTxQueues: 1, PeerNumRxQueues: 1,
			PeerNamespace: netlink.NsFd(b.Node.FD()),
		})
	})
	if err != nil {
		return nil, nil, fmt.Errorf("cable %s:%s to %s:%s: add a veth pair: %w", a.Node.Name(), a.Port, b.Node.Name(), b.Port, err)
	}
	pa, err := a.plug(mtu)
	if err != nil {
		return nil, nil, err
	}
	pb, err := b.plug(mtu)
	if err != nil {
		return nil, nil, err
	}
	return pa, pb, nil
}

// plug configures one end of a new cable.
func (e End) plug(mtu int) (*Port, error) {
	p := &Port{Name: e.Port, MAC: e.MAC, node: e.Node, mtu: mtu}
	err := e.Node.Do(func() error {
		l, err := netlink.LinkByName(e.Port)
		if err != nil {
			return fmt.Errorf("find it: %w", err)
		}
		p.index = l.Attrs().Index
		if err := offloadsOff(e.Port); err != nil {
			return err
		}
		if e.Node.IsSwitch() {
			if err := netlink.LinkSetMasterByIndex(l, e.Node.bridge); err != nil {
				return fmt.Errorf("make it a port of the bridge: %w", err)
			}
			if err := netlink.LinkSetLearning(l, false); err != nil {
				return fmt.Errorf("switch learning off: %w", err)
			}
			if err := netlink.LinkSetFlood(l, false); err != nil {
				return fmt.Errorf("switch flooding off: %w", err)
			}
		}
		return silence(l)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p, err)
	}
	e.Node.mu.Lock()
	e.Node.ports = append(e.Node.ports, p)
	e.Node.mu.Unlock()
	return p, nil
}

// offloadsOff makes the kernel cut data into frames before the port counts
// them: a super-frame would be one packet in the counters, and a shaper would
// drop it.
func offloadsOff(name string) error {
	return off(name, feature{"TSO", unix.ETHTOOL_STSO}, feature{"GSO", unix.ETHTOOL_SGSO}, feature{"GRO", unix.ETHTOOL_SGRO})
}

// feature is one of a network device that ethtool switches.
type feature struct {
	name string
	cmd  uint32
}

func off(name string, features ...feature) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket for ethtool: %w", err)
	}
	defer unix.Close(fd)
	for _, feature := range features {
		value := struct{ cmd, data uint32 }{cmd: feature.cmd}
		var request struct {
			name [unix.IFNAMSIZ]byte
			data unsafe.Pointer
			_    [24 - unsafe.Sizeof(uintptr(0))]byte // the union of struct ifreq
		}
		copy(request.name[:unix.IFNAMSIZ-1], name)
		request.data = unsafe.Pointer(&value)
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
			return fmt.Errorf("switch %s off: %w", feature.name, errno)
		}
	}
	return nil
}

// Forward has frames to mac leave the switch by port out: a static
// entry of its forwarding table. A second call for the same address moves it.
func (n *Node) Forward(mac net.HardwareAddr, out *Port) error {
	if !n.IsSwitch() || out.node != n {
		return fmt.Errorf("%s: forward %s by %s: want a port of this switch", n.Name(), mac, out)
	}
	err := n.Do(func() error {
		return netlink.NeighSet(&netlink.Neigh{
			Family: unix.AF_BRIDGE, LinkIndex: out.index, HardwareAddr: mac,
			State: unix.NUD_NOARP, Flags: unix.NTF_MASTER,
		})
	})
	if err != nil {
		return fmt.Errorf("%s: forward %s by %s: %w", n.Name(), mac, out.Name, err)
	}
	return nil
}

// WaitUp returns when every port carries frames: the kernel brings cables up
// asynchronously, up to a second after they were laid. A bridge without spanning
// tree forwards by a port as soon as that is up.
func (f *Fabric) WaitUp(ctx context.Context) error {
	f.mu.Lock()
	nodes := append([]*Node(nil), f.nodes...)
	f.mu.Unlock()
	for _, n := range nodes {
		for _, p := range n.Ports() {
			if err := p.WaitUp(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// WaitUp returns when the port carries frames.
func (p *Port) WaitUp(ctx context.Context) error {
	return p.node.Do(func() error {
		if err := AwaitUp(ctx, p.index); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		return nil
	})
}

// AwaitUp returns when the kernel reports a network device of the thread's namespace as up, which is
// a while after its link is.
func AwaitUp(ctx context.Context, index int) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		l, err := netlink.LinkByIndex(index)
		if err != nil {
			return fmt.Errorf("read its state: %w", err)
		}
		if l.Attrs().OperState == netlink.OperUp {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not up yet: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// Close takes the fabric down: processes started in its nodes are killed, and
// the kernel removes interfaces and namespaces.
func (f *Fabric) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, n := range f.nodes {
		errs = append(errs, n.NS.Close())
	}
	f.nodes = nil
	return errors.Join(errs...)
}
