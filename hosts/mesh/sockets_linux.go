package mesh

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/linux/packets"
)

// routeAge is how long a route and the next hop's address are used before the kernel is asked again.
const routeAge = 5 * time.Second

// Sockets are Packets of this machine: an ordinary UDP socket at the mesh's port, and packet sockets, which
// need CAP_NET_RAW, for probes: they alone send and see tags.
type Sockets struct {
	profile *quantize.Profile
	self    netip.Addr
	port    uint16
	udp     *net.UDPConn
	oob     []byte

	mu      sync.Mutex
	routes  map[netip.Addr]*route
	senders map[int]*packets.Socket // by the interface's index
	buf     []byte

	in     *packets.Socket // tagged frames
	closed bool
}

// route is how frames to a peer leave.
type route struct {
	index  int
	source net.HardwareAddr
	next   net.HardwareAddr // nil: the kernel does not know it yet
	asked  time.Time
}

// OpenSockets opens the sockets of the host with an address, in the calling thread's network namespace.
func OpenSockets(profile *quantize.Profile, self netip.Addr, port uint16) (*Sockets, error) {
	s := &Sockets{profile: profile, self: self, port: port, routes: make(map[netip.Addr]*route), senders: make(map[int]*packets.Socket), oob: make([]byte, 256)}
	own, err := interfaceOf(self)
	if err != nil {
		return nil, err
	}
	if s.udp, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(self, port))); err != nil {
		if errors.Is(err, unix.EADDRINUSE) {
			err = fmt.Errorf("%d of %s: %w, perhaps by another csig mesh run (ss -lunp shows it): stop that, or give all hosts another one (mesh: port)", port, self, unix.EADDRINUSE)
		}
		return nil, fmt.Errorf("the mesh's port: %w", err)
	}
	raw, err := s.udp.SyscallConn()
	if err == nil {
		var failed error
		err = raw.Control(func(fd uintptr) {
			failed = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS_NEW, 1), unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1<<20))
		})
		err = errors.Join(err, failed)
	}
	if err == nil {
		s.in, err = s.openTagged(own)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a packet socket (needs root, or CAP_NET_RAW): %w", err), s.Close())
	}
	return s, nil
}

func (s *Sockets) openTagged(own *net.Interface) (*packets.Socket, error) {
	return packets.Open(own.Index, taggedFilter(s.profile.TPIDs(), s.self, s.port))
}

// interfaceOf is the network interface that has an address.
func interfaceOf(self netip.Addr) (*net.Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for i := range all {
		addrs, err := all[i].Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap() == self {
				return &all[i], nil
			}
		}
	}
	return nil, fmt.Errorf("no interface of this machine, or of this network namespace, has the address %s (ip address shows them)", self)
}

// taggedFilter lets through frames with a CSIG tag and a UDP datagram for the mesh's port behind it: real
// traffic with tags costs no copy. The kernel has taken the tag out where it takes the TPID for a VLAN's.
func taggedFilter(tpids quantize.TPIDs, self netip.Addr, port uint16) []bpf.Instruction {
	// at checks an IP packet whose ethertype is at an offset.
	at := func(offset uint32) []bpf.Instruction {
		if self.Is4() {
			return []bpf.Instruction{
				bpf.LoadAbsolute{Off: offset, Size: 2}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: typeIPv4, SkipTrue: 6},
				bpf.LoadAbsolute{Off: offset + 2 + 9, Size: 1}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: protocolUDP, SkipTrue: 4},
				bpf.LoadMemShift{Off: offset + 2}, bpf.LoadIndirect{Off: offset + 2 + 2, Size: 2},
				bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(port), SkipTrue: 1},
				bpf.RetConstant{Val: 1 << 16}, bpf.RetConstant{Val: 0},
			}
		}
		return []bpf.Instruction{
			bpf.LoadAbsolute{Off: offset, Size: 2}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: typeIPv6, SkipTrue: 5},
			bpf.LoadAbsolute{Off: offset + 2 + 6, Size: 1}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: protocolUDP, SkipTrue: 3},
			bpf.LoadAbsolute{Off: offset + 2 + headIPv6 + 2, Size: 2}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(port), SkipTrue: 1},
			bpf.RetConstant{Val: 1 << 16}, bpf.RetConstant{Val: 0},
		}
	}
	taken, compact, wide := at(12), at(16), at(20)
	prog := []bpf.Instruction{bpf.LoadExtension{Num: bpf.ExtVLANTagPresent}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: uint8(len(taken) + 2)}}
	// A VLAN tag that was taken out is CSIG's where its TPID is.
	prog = append(prog, bpf.LoadExtension{Num: bpf.ExtVLANProto}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(tpids.Compact), SkipTrue: uint8(len(taken))})
	prog = append(prog, taken...)
	prog = append(prog, bpf.LoadAbsolute{Off: 12, Size: 2}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(tpids.Compact), SkipTrue: uint8(len(compact))})
	prog = append(prog, compact...)
	if tpids.Wide != 0 {
		prog = append(prog, bpf.LoadAbsolute{Off: 12, Size: 2}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(tpids.Wide), SkipTrue: uint8(len(wide))})
		prog = append(prog, wide...)
	}
	return append(prog, bpf.RetConstant{Val: 0})
}

// Send implements Packets.
func (s *Sockets) Send(to netip.Addr, port int, tag quantize.Tag, payload []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.route(to)
	if err != nil {
		return err
	}
	out := s.senders[r.index]
	if out == nil {
		if out, err = packets.OpenSender(r.index); err != nil {
			return err
		}
		s.senders[r.index] = out
	}
	p := packet{to: r.next, from: r.source, tag: tag, src: netip.AddrPortFrom(s.self, s.port+1+uint16(port)), dst: netip.AddrPortFrom(to, s.port), payload: payload}
	if s.buf, err = p.appendTo(s.buf[:0], s.profile.Layout); err != nil {
		return err
	}
	return out.Send(s.buf)
}

// errNoNeighbour is that of a peer whose next hop has not answered the kernel.
var errNoNeighbour = errors.New("the kernel does not know the next hop's Ethernet address (yet)")

// route is how frames to a peer leave, by the kernel's tables.
func (s *Sockets) route(to netip.Addr) (*route, error) {
	r := s.routes[to]
	if r != nil && r.next != nil && time.Since(r.asked) < routeAge {
		return r, nil
	}
	r = &route{asked: time.Now()}
	s.routes[to] = r
	found, err := netlink.RouteGet(to.AsSlice())
	if err != nil || len(found) == 0 {
		return nil, fmt.Errorf("route to %s: %w", to, err)
	}
	link, err := netlink.LinkByIndex(found[0].LinkIndex)
	if err != nil {
		return nil, fmt.Errorf("route to %s: %w", to, err)
	}
	r.index, r.source = found[0].LinkIndex, link.Attrs().HardwareAddr
	if len(r.source) != 6 {
		return nil, fmt.Errorf("route to %s: it leaves through %s, which is no Ethernet", to, link.Attrs().Name)
	}
	hop := to
	if gw, ok := netip.AddrFromSlice(found[0].Gw); ok {
		hop = gw.Unmap()
	}
	family := netlink.FAMILY_V4
	if hop.Is6() {
		family = netlink.FAMILY_V6
	}
	all, err := netlink.NeighList(r.index, family)
	if err != nil {
		return nil, fmt.Errorf("neighbours of %s: %w", link.Attrs().Name, err)
	}
	for _, n := range all {
		if ip, ok := netip.AddrFromSlice(n.IP); ok && ip.Unmap() == hop && len(n.HardwareAddr) == 6 && n.State&(netlink.NUD_INCOMPLETE|netlink.NUD_FAILED) == 0 {
			r.next = n.HardwareAddr
			return r, nil
		}
	}
	// An empty datagram has the kernel ask.
	_, err = s.udp.WriteToUDPAddrPort(nil, netip.AddrPortFrom(to, s.port))
	return nil, errors.Join(errNoNeighbour, err)
}

// Answer implements Packets.
func (s *Sockets) Answer(to netip.Addr, payload []byte) error {
	_, err := s.udp.WriteToUDPAddrPort(payload, netip.AddrPortFrom(to, s.port))
	return err
}

// Receive hands a prober what arrives, until ctx ends. An interface may go and come again: lost is called when tagged
// frames cannot be received any more, and with nil when they are again.
func (s *Sockets) Receive(ctx context.Context, p *Prober, lost func(error)) error {
	ended := make(chan error, 2)
	go func() {
		for {
			err := s.receiveTagged(ctx, p)
			if ctx.Err() == nil {
				lost(fmt.Errorf("receive tagged probes: %w", err))
				err = s.reopen(ctx)
			}
			if err != nil {
				ended <- err
				return
			}
			lost(nil)
		}
	}()
	go func() { ended <- s.receiveUDP(p) }()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-ended:
		return err
	}
}

func (s *Sockets) receiveTagged(ctx context.Context, p *Prober) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		frame, at, err := s.in.Receive()
		if err != nil {
			return err
		}
		if frame == nil {
			continue
		}
		a, err := parseTagged(frame, s.profile.TPIDs())
		if err != nil || a.dst != netip.AddrPortFrom(s.self, s.port) {
			continue
		}
		size := compactFields
		if a.wide {
			size = wideFields
		}
		p.Asked(a.src.Addr(), at, a.fields[:size], a.payload)
	}
}

// reopen opens the socket of tagged frames again, once the interface with the host's address is up.
func (s *Sockets) reopen(ctx context.Context) error {
	for {
		if err := wait(ctx, time.Second); err != nil {
			return err
		}
		own, err := interfaceOf(s.self)
		if err != nil || own.Flags&net.FlagUp == 0 {
			continue
		}
		in, err := s.openTagged(own)
		if err != nil {
			continue
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return errors.Join(net.ErrClosed, in.Close())
		}
		old := s.in
		s.in = in
		s.mu.Unlock()
		_ = old.Close() // it has failed
		return nil
	}
}

func (s *Sockets) receiveUDP(p *Prober) error {
	buf := make([]byte, 2048)
	for {
		n, control, _, from, err := s.udp.ReadMsgUDPAddrPort(buf, s.oob)
		if err != nil {
			return fmt.Errorf("receive at the mesh's port: %w", err)
		}
		at := time.Now()
		messages, err := unix.ParseSocketControlMessage(s.oob[:control])
		if err != nil {
			continue
		}
		for _, m := range messages {
			if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS_NEW && len(m.Data) >= 16 {
				at = time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
			}
		}
		if n > 0 {
			p.Datagram(from.Addr().Unmap(), at, buf[:n])
		}
	}
}

// Close closes all sockets.
func (s *Sockets) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	err := s.udp.Close()
	if s.in != nil {
		err = errors.Join(err, s.in.Close())
	}
	for _, out := range s.senders {
		err = errors.Join(err, out.Close())
	}
	return err
}
