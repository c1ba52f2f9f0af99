package mesh

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/hosts/internal/offer"
	"github.com/csig-agent/csig/protocol/packets"
	"github.com/csig-agent/csig/quantize"
)

// routeAge is how long a route and the next hop's address are used before the kernel is asked again.
const routeAge = 5 * time.Second

// Sockets are Packets of this machine: an ordinary UDP socket at the mesh's port; and for probes either ordinary ones, too,
// where csig host run inserts and removes tags, or packet sockets, which need CAP_NET_RAW.
type Sockets struct {
	profile *quantize.Profile
	self    netip.Addr
	port    uint16
	host    string // socket of csig host run's signals
	udp     *net.UDPConn
	oob     []byte

	mu       sync.Mutex
	routes   map[netip.Addr]*route
	senders  map[int]*packets.Socket // by the interface's index
	buf      []byte
	ordinary [Ports]*ordinary // by the source port's number, once they are needed

	offer  *offer.Client   // of csig host run, which inserts and removes tags; nil: it does not
	in     *packets.Socket // tagged frames, where offer is nil
	closed bool
}

// ordinary is a socket of UDP that asks for tags.
type ordinary struct {
	*net.UDPConn
	raw  syscall.RawConn
	asks int // its SO_PRIORITY
}

// route is how frames to a peer leave.
type route struct {
	index  int
	source net.HardwareAddr
	next   net.HardwareAddr // nil: the kernel does not know it yet
	asked  time.Time
}

// OpenSockets opens the sockets of the host with an address, in the calling thread's network namespace. host is the socket of
// csig host run's signals, "" the usual one.
func OpenSockets(profile *quantize.Profile, self netip.Addr, port uint16, host string) (*Sockets, error) {
	s := &Sockets{profile: profile, self: self, port: port, host: host, routes: make(map[netip.Addr]*route), senders: make(map[int]*packets.Socket), oob: make([]byte, 256)}
	if _, err := interfaceOf(self); err != nil {
		return nil, err
	}
	var err error
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
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVMARK, 1) // where the kernel has no such option it has no csig host run
		})
		err = errors.Join(err, failed)
	}
	if err == nil {
		err = s.choose()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Kind is SocketsPacket, SocketsOrdinary or SocketsNone.
func (s *Sockets) Kind() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.offer != nil:
		return SocketsOrdinary
	case s.in != nil:
		return SocketsPacket
	}
	return SocketsNone
}

// choose has probes use ordinary sockets where csig host run inserts and removes their tags, else packet sockets.
func (s *Sockets) choose() error {
	o, err := s.ask()
	if err == nil {
		return s.use(o, nil)
	}
	own, failed := interfaceOf(s.self)
	if failed == nil && own.Flags&net.FlagUp == 0 {
		failed = fmt.Errorf("%s is down", own.Name)
	}
	if failed != nil {
		return failed
	}
	in, failed := s.openTagged(own)
	if failed != nil {
		return fmt.Errorf("open a packet socket (needs root, or CAP_NET_RAW): %w; without it tags need csig host run on this machine, and: %w", failed, err)
	}
	return s.use(nil, in)
}

// ask asks csig host run whether it inserts and removes the tags of this mesh.
func (s *Sockets) ask() (*offer.Client, error) {
	if s.profile.TPID != offer.TPID {
		return nil, fmt.Errorf("the profile has tpid: 0x%04x (csig host run inserts tags of it)", offer.TPID)
	}
	if slices.Contains(s.profile.Carried(), quantize.MaxNQD) {
		return nil, errors.New("the profile has nqd, which no program without privilege may ask csig host run for")
	}
	o, err := offer.Ask(s.host)
	if err != nil {
		return nil, err
	}
	if o.Mesh != s.port {
		return nil, errors.Join(fmt.Errorf("csig host run has a fleet file without this mesh (mesh: port %d)", s.port), o.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.ordinary {
		if err := s.openOrdinary(i); err != nil {
			return nil, errors.Join(err, o.Close())
		}
	}
	return o, nil
}

// openOrdinary opens the ordinary socket of a source port, unless it is open.
func (s *Sockets) openOrdinary(i int) error {
	if s.ordinary[i] != nil || s.closed {
		return nil
	}
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(s.self, s.port+1+uint16(i))))
	if err != nil {
		return fmt.Errorf("a source port of probes: %w", err)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return errors.Join(err, c.Close())
	}
	s.ordinary[i] = &ordinary{UDPConn: c, raw: raw}
	return nil
}

// use replaces what tags are sent and received by.
func (s *Sockets) use(o *offer.Client, in *packets.Socket) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		err = net.ErrClosed
		if o != nil {
			err = errors.Join(err, o.Close())
		}
		if in != nil {
			err = errors.Join(err, in.Close())
		}
		return err
	}
	if s.offer != nil {
		_ = s.offer.Close()
	}
	if s.in != nil {
		_ = s.in.Close() // it may have failed
	}
	s.offer, s.in = o, in
	return nil
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
	if s.offer != nil {
		return s.sendOrdinary(to, port, tag, payload)
	}
	err := s.sendFrame(to, port, tag, payload)
	if errors.Is(err, unix.EPERM) && tag.TPID == 0 { // until csig host run is back, or for what has no tag ever
		err = s.sendOrdinary(to, port, tag, payload)
	}
	return err
}

// sendOrdinary sends a datagram whose tag csig host run inserts.
func (s *Sockets) sendOrdinary(to netip.Addr, port int, tag quantize.Tag, payload []byte) error {
	if err := s.openOrdinary(port); err != nil {
		return err
	}
	one, asks := s.ordinary[port], 0
	if one == nil {
		return net.ErrClosed
	}
	if tag.TPID != 0 {
		asks = offer.Priority(int(tag.T))
	}
	if asks != one.asks {
		var err error
		if failed := one.raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PRIORITY, asks) }); failed != nil || err != nil {
			return errors.Join(failed, err)
		}
		one.asks = asks
	}
	_, err := one.WriteToUDPAddrPort(payload, netip.AddrPortFrom(to, s.port))
	return err
}

// sendFrame sends a frame by a packet socket.
func (s *Sockets) sendFrame(to netip.Addr, port int, tag quantize.Tag, payload []byte) error {
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

// Receive hands a prober what arrives, until ctx ends. An interface may go and come again, and so may csig host run: changed is
// called when tagged probes cannot be received any more, and with nil when they are again, or by sockets of the other kind.
func (s *Sockets) Receive(ctx context.Context, p *Prober, changed func(error)) error {
	ended := make(chan error, 2)
	go func() {
		for {
			kind := s.Kind()
			err := s.receiveTagged(ctx, p)
			missed := false
			for ctx.Err() == nil {
				failed := s.choose()
				if failed == nil {
					break
				}
				if !missed {
					_ = s.use(nil, nil) // Close closes what is used from now on
					changed(fmt.Errorf("receive tagged probes: %w", errors.Join(err, failed)))
				}
				missed = true
				if wait(ctx, time.Second) != nil {
					break
				}
			}
			if ctx.Err() != nil {
				ended <- context.Cause(ctx)
				return
			}
			if missed || s.Kind() != kind {
				changed(nil)
			}
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

// receiveTagged hands over tagged probes until they come another way.
func (s *Sockets) receiveTagged(ctx context.Context, p *Prober) error {
	s.mu.Lock()
	host, in := s.offer, s.in
	s.mu.Unlock()
	if host != nil { // receiveUDP has the tags
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-host.Ended():
			return errors.New("csig host run has ended")
		}
	}
	looked := time.Now()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Since(looked) >= time.Second {
			o, err := s.ask()
			if err == nil {
				return s.use(o, nil)
			}
			looked = time.Now()
		}
		frame, at, err := in.Receive()
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
		if tci, ok := offer.Tag(s.oob[:control]); ok && n > 0 {
			p.Asked(from.Addr().Unmap(), at, binary.BigEndian.AppendUint16(nil, tci), buf[:n])
		} else if n > 0 {
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
	if s.offer != nil {
		err = errors.Join(err, s.offer.Close())
	}
	for _, out := range s.ordinary {
		if out != nil {
			err = errors.Join(err, out.Close())
		}
	}
	for _, out := range s.senders {
		err = errors.Join(err, out.Close())
	}
	return err
}
