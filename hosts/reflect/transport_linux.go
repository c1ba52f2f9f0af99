package reflect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/hosts/internal/offer"
	"github.com/csig-agent/csig/quantize"
)

// When a Transport tags and reflects: as csig host run does for TCP.
const (
	fresh      = 200 * time.Millisecond // after a reflection each datagram has a tag
	probeEvery = time.Second            // else one in this time, and in twice as long after each that brings none
	mostMissed = 7                      // that lengthen the wait: to 64 times
	expires    = 500 * time.Millisecond // an older tag is not reflected
	mostPeers  = 1024                   // of which something is known: of more, the one that was silent the longest is forgotten
)

// The header in front of each payload (draft-00 §4.2.2, figure 4): flags, and the data fields of a tag.
const (
	headerSize  = 3
	flagValid   = 1 << 7 // the fields are those of a tag
	flagUnknown = ^byte(flagValid)
)

// ErrHeader is the error for a datagram that is not a Transport's.
var ErrHeader = errors.New("not a datagram with a reflection header")

// Transport is UDP whose datagrams reflect the tags of the other end: an example of a transport that reads the signal of its
// own paths. The other end is a Transport, too, and both hosts' fleet files list the other and a port (tcp: to and udp).
// Without csig host run datagrams go without tags. All methods are safe beside each other, but Receive is for one goroutine.
type Transport struct {
	layout  quantize.Layout
	signals []quantize.Signal
	oob     []byte
	in      []byte

	mu    sync.Mutex
	conn  *net.UDPConn
	raw   interface{ Control(func(fd uintptr)) error }
	asks  int // SO_PRIORITY now
	peers map[netip.AddrPort]*peer
	out   []byte
}

// peer is what is known of the flow with a remote end.
type peer struct {
	seen              time.Time
	tagged, reflected time.Time
	tags              uint64
	missed, turn      int
	next              int // the T that is reflected next
	received, learned [offer.Readings]stamped
}

type stamped struct {
	at  time.Time
	tci uint16
}

// Listen opens a Transport at an address. The layout and the signals are those of the fleet file's profile; signals are asked for in turns.
func Listen(local netip.AddrPort, layout quantize.Layout, signals []quantize.Signal) (*Transport, error) {
	for _, s := range signals {
		if s >= offer.Readings {
			return nil, fmt.Errorf("T %d is no signal of tags", s)
		}
	}
	if len(signals) == 0 {
		return nil, errors.New("no signals to ask for: name those of the profile")
	}
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(local))
	if err != nil {
		return nil, err
	}
	t := &Transport{layout: layout, signals: signals, oob: make([]byte, 128), in: make([]byte, 1<<16), conn: conn, peers: make(map[netip.AddrPort]*peer)}
	raw, err := conn.SyscallConn()
	if err == nil {
		t.raw = raw
		var failed error
		err = errors.Join(raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVMARK, 1) }), failed)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ask for the marks of datagrams (Linux 5.19 or newer): %w", err), conn.Close())
	}
	return t, nil
}

// LocalAddr is where it receives.
func (t *Transport) LocalAddr() netip.AddrPort { return t.conn.LocalAddr().(*net.UDPAddr).AddrPort() }

// Close closes the socket.
func (t *Transport) Close() error { return t.conn.Close() }

// of is what is known of a peer.
func (t *Transport) of(addr netip.AddrPort, now time.Time) *peer {
	addr = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
	p := t.peers[addr]
	if p == nil {
		if len(t.peers) >= mostPeers {
			var oldest netip.AddrPort
			for a, q := range t.peers {
				if o := t.peers[oldest]; o == nil || q.seen.Before(o.seen) {
					oldest = a
				}
			}
			delete(t.peers, oldest)
		}
		p = &peer{}
		t.peers[addr] = p
	}
	p.seen = now
	return p
}

// Send sends a payload, with a tag where the peer's reflections are fresh.
func (t *Transport) Send(to netip.AddrPort, payload []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	p := t.of(to, now)
	asks := 0
	if p.mayTag(now) {
		asks = offer.Priority(int(t.signals[p.turn%len(t.signals)]))
	}
	if asks != t.asks {
		var err error
		if failed := t.raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PRIORITY, asks) }); failed != nil || err != nil {
			return errors.Join(failed, err)
		}
		t.asks = asks
	}
	t.out = append(t.out[:0], 0, 0, 0)
	if tci, ok := p.reflects(now); ok {
		t.out[0] = flagValid
		binary.BigEndian.PutUint16(t.out[1:], tci)
	}
	t.out = append(t.out, payload...)
	if _, err := t.conn.WriteToUDPAddrPort(t.out, to); err != nil {
		return err
	}
	if asks != 0 {
		p.turn++
		p.tags++
		p.tagged = now
	}
	return nil
}

// mayTag is the rule that keeps a flow alive where its path drops tags: they leave while reflections come back.
func (p *peer) mayTag(now time.Time) bool {
	if !p.reflected.IsZero() && now.Sub(p.reflected) < fresh {
		return true
	}
	if p.tags > 0 && now.Sub(p.tagged) < probeEvery<<max(0, p.missed-1) {
		return false
	}
	p.missed = min(p.missed+1, mostMissed)
	return true
}

// reflects is the tag to reflect: the T's in turns, and none that is old.
func (p *peer) reflects(now time.Time) (uint16, bool) {
	for i := range p.received {
		t := (p.next + i) % len(p.received)
		if r := p.received[t]; !r.at.IsZero() && now.Sub(r.at) < expires {
			p.next = t + 1
			return r.tci, true
		}
	}
	return 0, false
}

// Receive returns the payload of the next datagram, which is good until the next call. A datagram without the header is ErrHeader.
func (t *Transport) Receive() (payload []byte, from netip.AddrPort, err error) {
	n, control, _, from, err := t.conn.ReadMsgUDPAddrPort(t.in, t.oob)
	if err != nil {
		return nil, from, err
	}
	if n < headerSize || t.in[0]&flagUnknown != 0 {
		return nil, from, ErrHeader
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	p := t.of(from, now)
	if tci, ok := offer.Tag(t.oob[:control]); ok {
		t.note(&p.received, tci, now)
	}
	if t.in[0]&flagValid != 0 && t.note(&p.learned, binary.BigEndian.Uint16(t.in[1:]), now) {
		p.reflected, p.missed = now, 0
	}
	return t.in[headerSize:n], from, nil
}

// note keeps the newest tag of each T that is asked for.
func (t *Transport) note(to *[offer.Readings]stamped, tci uint16, now time.Time) bool {
	for _, s := range t.signals {
		if quantize.Signal(tci>>13) == s {
			to[s] = stamped{now, tci}
			return true
		}
	}
	return false
}

// Signals is what is known of the flow with a remote end: of datagrams that came, and of those that left, as it has reflected them.
func (t *Transport) Signals(remote netip.AddrPort) (c Connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port())]
	if p == nil {
		return c
	}
	for _, side := range []struct {
		from *[offer.Readings]stamped
		to   *[]Reading
	}{{&p.received, &c.Received}, {&p.learned, &c.Learned}} {
		for _, one := range side.from {
			if !one.at.IsZero() {
				tag := t.layout.Unpack(quantize.TCI(one.tci))
				*side.to = append(*side.to, Reading{T: tag.T, S: uint8(tag.S), LM: tag.LM, Age: time.Since(one.at)})
			}
		}
	}
	return c
}
