package linux

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/protocol/packets"
	"github.com/csig-agent/csig/vendors"
)

var _ vendors.LinkProber = (*Driver)(nil)

// linkListener takes in test frames by a packet socket of its own.
type linkListener struct{ socket *packets.Socket }

// ListenLink begins to take in the test frames that arrive at a port, before
// any bridge or filter has seen them. It needs CAP_NET_RAW.
func (d *Driver) ListenLink(ctx context.Context, port string) (vendors.LinkListener, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := &linkListener{}
	err := d.Do(func() error {
		i, err := net.InterfaceByName(port)
		if err != nil {
			return err
		}
		l.socket, err = packets.Open(i.Index, linkFilter())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("port %s: packet socket: %w", port, err)
	}
	return l, nil
}

// linkFilter lets frames to linkGroup through.
func linkFilter() []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: 0, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: binary.BigEndian.Uint32(linkGroup[:]), SkipTrue: 3},
		bpf.LoadAbsolute{Off: 4, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(binary.BigEndian.Uint16(linkGroup[4:])), SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 18},
		bpf.RetConstant{Val: 0},
	}
}

// Next waits for the next test frame.
func (l *linkListener) Next(ctx context.Context) (vendors.LinkFrame, error) {
	for {
		if err := ctx.Err(); err != nil {
			return vendors.LinkFrame{}, err
		}
		b, _, err := l.socket.Receive()
		if err != nil {
			return vendors.LinkFrame{}, fmt.Errorf("receive: %w", err)
		}
		if f, ok := parseLink(b); ok {
			f.Tag = append([]byte(nil), f.Tag...)
			return f, nil
		}
	}
}

// Close closes the socket, aside as with linkSender.
func (l *linkListener) Close() error {
	go func() { _ = l.socket.Close() }()
	return nil
}

// SendLink sends a test frame out of a port, through the port's own rules. It
// needs CAP_NET_RAW.
func (d *Driver) SendLink(ctx context.Context, port string, f vendors.LinkFrame) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(f.Tag) != 0 && len(f.Tag) != 4 && len(f.Tag) != 8 {
		return fmt.Errorf("port %s: a tag of %d bytes: want 4, 8 or none", port, len(f.Tag))
	}
	err := d.Do(func() error {
		i, err := net.InterfaceByName(port)
		if err != nil {
			return err
		}
		var source [6]byte
		copy(source[:], i.HardwareAddr)
		frame := appendLink(nil, source, &f)
		if len(frame) <= i.MTU+etherHeader {
			return sendPlain(i.Index, frame)
		}
		if d.sender == nil || !d.sender.holds(len(frame)) {
			d.sender.close()
			if d.sender, err = newLinkSender(len(frame)); err != nil {
				return err
			}
		}
		return d.sender.send(i.Index, frame)
	})
	if err != nil {
		return fmt.Errorf("port %s: send a test frame of %d bytes: %w", port, f.Size, err)
	}
	return nil
}

// sendPlain sends a frame that the device's MTU allows, without the wait that
// setting up a ring takes.
func sendPlain(index int, frame []byte) error {
	s, err := packets.OpenSender(index)
	if err != nil {
		return err
	}
	defer func() { go s.Close() }() //nolint:errcheck // it has sent
	err = s.Send(frame)
	if errors.Is(err, unix.ENOBUFS) {
		return nil // the device dropped it: nothing arrives, and that is the answer
	}
	return err
}

// linkSender sends frames of any length. A plain packet socket refuses a frame
// beyond the MTU, unless it is of an 802.1Q VLAN, while bridges leave room for
// any tag: one that sends from a ring, with an offload header that asks for
// nothing, leaves the length to the device.
type linkSender struct {
	fd   int
	ring []byte // of one frame
}

// The layout of a TPACKET_V2 ring of one frame that goes out, which begins with
// a virtio_net_hdr (linux/if_packet.h, linux/virtio_net.h).
const (
	ringLen    = 4  // tpacket2_hdr.tp_len
	ringData   = 32 // behind the tpacket2_hdr
	virtioSize = 10
	virtioLen  = 2 // virtio_net_hdr.hdr_len
)

func newLinkSender(longest int) (*linkSender, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0) // protocol 0: it receives nothing
	if err != nil {
		return nil, err
	}
	page := unix.Getpagesize()
	size := (max(longest, 1<<12) + ringData + virtioSize + page - 1) / page * page
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 1}),
		unix.SetsockoptTpacketReq(fd, unix.SOL_PACKET, unix.PACKET_TX_RING, &unix.TpacketReq{
			Block_size: uint32(size), Block_nr: 1, Frame_size: uint32(size), Frame_nr: 1,
		}),
	)
	s := &linkSender{fd: fd}
	if err == nil {
		s.ring, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return s, nil
}

// holds reports whether a frame of that length fits.
func (s *linkSender) holds(frame int) bool { return ringData+virtioSize+frame <= len(s.ring) }

// send sends a frame out of a device. That the device drops it is no error.
func (s *linkSender) send(index int, frame []byte) error {
	// The whole frame is "header", so that the kernel copies it, and the ring is
	// free again at once.
	clear(s.ring[:ringData+virtioSize])
	binary.NativeEndian.PutUint16(s.ring[ringData+virtioLen:], uint16(len(frame)))
	copy(s.ring[ringData+virtioSize:], frame)
	binary.NativeEndian.PutUint32(s.ring[ringLen:], uint32(virtioSize+len(frame)))
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&s.ring[0])), unix.TP_STATUS_SEND_REQUEST)
	for {
		err := unix.Sendto(s.fd, nil, 0, &unix.SockaddrLinklayer{Ifindex: index, Protocol: uint16(networkOrder(unix.ETH_P_ALL))})
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOBUFS):
			return nil // the device dropped it: nothing arrives, and that is the answer
		default:
			return err
		}
	}
}

// close closes the socket, if there is one, aside: the kernel waits for all
// processors with it, which takes longer than a test frame.
func (s *linkSender) close() {
	if s == nil {
		return
	}
	go func() {
		_ = unix.Munmap(s.ring) // ours alone
		_ = unix.Close(s.fd)
	}()
}
