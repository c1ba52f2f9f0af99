// Package packets has sockets for the frames of one network device, as they are on
// the wire: the kernel takes the outermost VLAN tag out, and it is put back here.
package packets

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Wait is how long Receive waits for a frame.
const Wait = 20 * time.Millisecond

// Socket sends and receives frames of one device. Receive is for one goroutine at a
// time; the other methods are safe beside it.
type Socket struct {
	closing sync.RWMutex // Close waits until nothing uses fd
	fd      int          // -1: closed
	buf     []byte       // with room for a tag in front of a frame
	oob     [256]byte
}

// tagSize is the room for the tag that the kernel takes out.
const tagSize = 4

// Open opens a socket on a device in the calling thread's network namespace, which
// needs CAP_NET_RAW. It receives the frames that arrive there from then on and that
// filter lets through: it sees them without the outermost VLAN tag. Nil is all.
func Open(index int, filter []bpf.Instruction) (*Socket, error) {
	s, err := socket()
	if err == nil {
		s.buf = make([]byte, tagSize+1<<16)
		err = s.receiveFrom(index, filter)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// OpenSender opens a socket on a device that receives nothing.
func OpenSender(index int) (*Socket, error) {
	s, err := socket()
	if err == nil {
		err = os.NewSyscallError("bind", unix.Bind(s.fd, &unix.SockaddrLinklayer{Ifindex: index}))
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// socket is a socket without a protocol, which receives nothing.
func socket() (*Socket, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	return &Socket{fd: fd}, os.NewSyscallError("open a packet socket", err)
}

// receiveFrom binds the socket to a device, with its protocol as the last: what came in
// before the options are set would lose its tag.
func (s *Socket) receiveFrom(index int, filter []bpf.Instruction) error {
	if filter != nil {
		raw, err := bpf.Assemble(filter)
		if err != nil {
			return fmt.Errorf("assemble the filter: %w", err)
		}
		prog := make([]unix.SockFilter, len(raw))
		for i, r := range raw {
			prog[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
		}
		err = unix.SetsockoptSockFprog(s.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]})
		if err != nil {
			return os.NewSyscallError("attach the filter", err)
		}
	}
	wait := unix.NsecToTimeval(Wait.Nanoseconds())
	return errors.Join(
		os.NewSyscallError("PACKET_AUXDATA", unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1)),
		os.NewSyscallError("PACKET_IGNORE_OUTGOING", unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1)),
		os.NewSyscallError("SO_TIMESTAMPNS (needs Linux 5.1)", unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS_NEW, 1)),
		os.NewSyscallError("SO_RCVBUF", s.buffer()),
		os.NewSyscallError("SO_RCVTIMEO", unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait)),
		os.NewSyscallError("bind", unix.Bind(s.fd, &unix.SockaddrLinklayer{Protocol: binary.NativeEndian.Uint16([]byte{unix.ETH_P_ALL >> 8, unix.ETH_P_ALL}), Ifindex: index})),
	)
}

// buffer has the kernel keep a second of what a process that is kept from running has not read: more than the system's limit where
// the user may.
func (s *Socket) buffer() error {
	const bytes = 4 << 20
	if unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bytes) == nil {
		return nil
	}
	return unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bytes)
}

// use runs f with the socket, unless it is closed.
func (s *Socket) use(f func(fd int) error) error {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.fd < 0 {
		return net.ErrClosed
	}
	return f(s.fd)
}

// Receive returns the next frame, from its destination address on and without FCS,
// and when the kernel got it. It is valid until the next call, and nil where none
// came within Wait.
func (s *Socket) Receive() (frame []byte, at time.Time, err error) {
	var n, control int
	err = s.use(func(fd int) (err error) {
		n, control, _, _, err = unix.Recvmsg(fd, s.buf[tagSize:], s.oob[:], 0)
		return err
	})
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return nil, at, nil
	case err != nil:
		return nil, at, err
	}
	frame = s.buf[tagSize : tagSize+n]
	messages, err := unix.ParseSocketControlMessage(s.oob[:control])
	if err != nil {
		return nil, at, fmt.Errorf("control messages: %w", err)
	}
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS_NEW && len(m.Data) >= 16:
			at = time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
		case m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA:
			var aux unix.TpacketAuxdata
			if _, err := binary.Decode(m.Data, binary.NativeEndian, &aux); err != nil {
				return nil, at, fmt.Errorf("PACKET_AUXDATA: %w", err)
			}
			if aux.Status&unix.TP_STATUS_VLAN_VALID == 0 || n < 12 {
				continue
			}
			tpid := uint16(unix.ETH_P_8021Q)
			if aux.Status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
				tpid = aux.Vlan_tpid
			}
			frame = s.buf[:tagSize+n]
			copy(frame, frame[tagSize:tagSize+12])
			binary.BigEndian.PutUint16(frame[12:], tpid)
			binary.BigEndian.PutUint16(frame[14:], aux.Vlan_tci)
		}
	}
	return frame, at, nil
}

// Send sends a frame, from its destination address on and without FCS.
func (s *Socket) Send(frame []byte) error {
	return s.use(func(fd int) error {
		_, err := unix.Write(fd, frame)
		return err
	})
}

// Promiscuous has the device take frames for other addresses, too, until Close.
func (s *Socket) Promiscuous(index int) error {
	return s.use(func(fd int) error {
		return unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_PROMISC})
	})
}

// Drops is how many frames the kernel dropped since the last call, because Receive was
// not called often enough.
func (s *Socket) Drops() (n uint64, err error) {
	err = s.use(func(fd int) error {
		stats, err := unix.GetsockoptTpacketStats(fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
		if err == nil {
			n = uint64(stats.Drops)
		}
		return err
	})
	return n, err
}

// Close closes the socket; a waiting Receive returns before. It may be called twice.
func (s *Socket) Close() error {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.fd < 0 {
		return nil
	}
	fd := s.fd
	s.fd = -1
	return unix.Close(fd)
}
