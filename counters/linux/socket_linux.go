package linux

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// socket is a netlink socket that is read without copying or allocating: the
// library opens it, and each datagram is received into one buffer.
type socket struct {
	conn *netlink.Conn
	raw  syscall.RawConn
	buf  []byte
	seq  uint32

	// The system calls' arguments and results live here, and the callbacks are
	// made once, because a closure per call would be an allocation per call.
	out         []byte
	n           int
	err         error
	write, recv func(fd uintptr) bool
	interrupted bool // the last dump saw interfaces come or go
}

// bufferSize holds any datagram of a dump: the kernel fills at most 32 KiB.
const bufferSize = 64 << 10

var errLostMessages = errors.New("messages were lost")

func dial(netns int, groups ...uint32) (*socket, error) {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{NetNS: netns})
	if err != nil {
		return nil, fmt.Errorf("opening a route netlink socket: %w", err)
	}
	s := &socket{conn: conn, buf: make([]byte, bufferSize)}
	for _, g := range groups {
		if err := conn.JoinGroup(g); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("joining netlink group %d: %w", g, err)
		}
	}
	if s.raw, err = conn.SyscallConn(); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("netlink socket: %w", err)
	}
	s.write = func(fd uintptr) bool {
		for {
			if _, s.err = unix.Write(int(fd), s.out); !errors.Is(s.err, unix.EINTR) {
				return true
			}
		}
	}
	s.recv = func(fd uintptr) bool {
		for {
			// The socket does not block; the kernel queues the next part of a
			// dump before the call that asks for it returns.
			s.n, s.err = unix.Read(int(fd), s.buf)
			if !errors.Is(s.err, unix.EINTR) {
				return true
			}
		}
	}
	return s, nil
}

func (s *socket) close() error { return s.conn.Close() }

// send sends one request.
func (s *socket) send(request []byte) error {
	s.seq++
	native.PutUint32(request[8:], s.seq)
	s.out = request
	if err := s.raw.Write(s.write); err != nil {
		return err
	}
	return s.err
}

// receive returns the next datagram, which the next call overwrites;
// unix.EAGAIN says that there is none.
func (s *socket) receive() ([]byte, error) {
	if err := s.raw.Read(s.recv); err != nil {
		return nil, err
	}
	if s.err != nil {
		return nil, s.err
	}
	return s.buf[:s.n], nil
}

// instant is when the kernel produced a message: at, give or take within.
type instant struct {
	at     time.Time
	within time.Duration
}

// dump sends a request and calls each with every message of the answer and the
// midpoint of the system call in which the kernel produced it. It always reads
// the answer to its end, so that the next dump finds the socket idle.
func (s *socket) dump(ctx context.Context, request []byte, each func(m message, at instant)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.interrupted = false
	before := time.Now()
	if err := s.send(request); err != nil {
		return fmt.Errorf("sending a dump request: %w", err)
	}
	after := time.Now()
	for {
		// The kernel fills the first datagram while it takes the request, and
		// every other while it hands out the one before.
		within := after.Sub(before) / 2
		at := instant{before.Add(within), within}
		b, err := s.receive()
		if err != nil {
			s.flush()
			return fmt.Errorf("reading a dump: %w", err)
		}
		before, after = after, time.Now()
		for len(b) > 0 {
			m, rest, ok := nextMessage(b)
			if !ok {
				s.flush()
				return fmt.Errorf("reading a dump: %w", errLostMessages)
			}
			b = rest
			if m.seq != s.seq {
				continue
			}
			s.interrupted = s.interrupted || m.flags&unix.NLM_F_DUMP_INTR != 0
			if m.typ != unix.NLMSG_DONE && m.typ != unix.NLMSG_ERROR {
				each(m, at)
				continue
			}
			if n := errno(m.body); n != 0 {
				s.flush()
				return fmt.Errorf("the kernel refused a dump: %w", syscall.Errno(n))
			}
			return nil
		}
	}
}

// flush reads a dump that went wrong to its end; until then the kernel refuses
// another.
func (s *socket) flush() {
	for {
		if _, err := s.receive(); err != nil && !errors.Is(err, unix.ENOBUFS) {
			return
		}
	}
}

// header returns a dump request of this type with a zeroed body of n bytes.
func header(typ uint16, n int) []byte {
	b := make([]byte, unix.SizeofNlMsghdr+n)
	native.PutUint32(b, uint32(len(b)))
	native.PutUint16(b[4:], typ)
	native.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	return b
}

func statsRequest() []byte {
	b := header(unix.RTM_GETSTATS, sizeofStatsMsg)
	native.PutUint32(b[unix.SizeofNlMsghdr+8:], 1<<(unix.IFLA_STATS_LINK_64-1))
	return b
}

func qdiscRequest() []byte { return header(unix.RTM_GETQDISC, nl.SizeofTcMsg) }

// linkRequest asks for every interface, without the statistics that make up
// most of the answer.
func linkRequest() []byte {
	b := header(unix.RTM_GETLINK, unix.SizeofIfInfomsg+8)
	attr := b[unix.SizeofNlMsghdr+unix.SizeofIfInfomsg:]
	native.PutUint16(attr, 8)
	native.PutUint16(attr[2:], unix.IFLA_EXT_MASK)
	native.PutUint32(attr[4:], skipStatsInExt)
	return b
}
