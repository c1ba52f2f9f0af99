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

	"github.com/csig-agent/csig/vendors"
)

var _ vendors.LinkProber = (*Driver)(nil)

// linkListener takes in test frames by a packet socket of its own.
type linkListener struct {
	fd  int
	buf []byte
}

// ListenLink begins to take in the test frames that arrive at a port, before
// any bridge or filter has seen them. It needs CAP_NET_RAW.
func (d *Driver) ListenLink(ctx context.Context, port string) (vendors.LinkListener, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := &linkListener{fd: -1, buf: make([]byte, 4+1<<16)}
	err := d.strip.inside(func() error {
		i, err := net.InterfaceByName(port)
		if err != nil {
			return err
		}
		l.fd, err = packetsBy(i.Index, linkFilter())
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
		b, outgoing, err := receiveInto(l.fd, l.buf)
		if err != nil {
			return vendors.LinkFrame{}, fmt.Errorf("receive: %w", err)
		}
		if f, ok := parseLink(b); ok && !outgoing {
			f.Tag = append([]byte(nil), f.Tag...)
			return f, nil
		}
	}
}

// Close closes the socket.
func (l *linkListener) Close() error { return unix.Close(l.fd) }

// SendLink sends a test frame out of a port, through the port's own rules. It
// needs CAP_NET_RAW.
func (d *Driver) SendLink(ctx context.Context, port string, f vendors.LinkFrame) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(f.Tag) != 0 && len(f.Tag) != 4 && len(f.Tag) != 8 {
		return fmt.Errorf("port %s: a tag of %d bytes: want 4, 8 or none", port, len(f.Tag))
	}
	err := d.strip.inside(func() error {
		i, err := net.InterfaceByName(port)
		if err != nil {
			return err
		}
		var source [6]byte
		copy(source[:], i.HardwareAddr)
		return sendAnySize(i.Index, appendLink(nil, source, &f))
	})
	if err != nil {
		return fmt.Errorf("port %s: send a test frame of %d bytes: %w", port, f.Size, err)
	}
	return nil
}

// The layout of a TPACKET_V2 ring of one frame that goes out, which begins with
// a virtio_net_hdr (linux/if_packet.h, linux/virtio_net.h).
const (
	ringLen    = 4  // tpacket2_hdr.tp_len
	ringData   = 32 // behind the tpacket2_hdr
	virtioSize = 10
	virtioLen  = 2 // virtio_net_hdr.hdr_len
)

// sendAnySize sends a frame out of a device. A plain packet socket refuses a
// frame beyond the MTU, unless it is of an 802.1Q VLAN, while bridges leave
// room for any tag: one that sends from a ring, with an offload header that
// asks for nothing, leaves the length to the device.
func sendAnySize(index int, frame []byte) (err error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0) // protocol 0: it receives nothing
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	page := unix.Getpagesize()
	size := (ringData + virtioSize + len(frame) + page - 1) / page * page
	for _, step := range []error{
		unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: index}),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 1}),
		unix.SetsockoptTpacketReq(fd, unix.SOL_PACKET, unix.PACKET_TX_RING, &unix.TpacketReq{
			Block_size: uint32(size), Block_nr: 1, Frame_size: uint32(size), Frame_nr: 1,
		}),
	} {
		if step != nil {
			return step
		}
	}
	ring, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Munmap(ring)) }()
	// The whole frame is "header", so that the kernel copies it into one piece.
	binary.NativeEndian.PutUint16(ring[ringData+virtioLen:], uint16(len(frame)))
	copy(ring[ringData+virtioSize:], frame)
	binary.NativeEndian.PutUint32(ring[ringLen:], uint32(virtioSize+len(frame)))
	status := (*uint32)(unsafe.Pointer(&ring[0]))
	atomic.StoreUint32(status, unix.TP_STATUS_SEND_REQUEST)
	for {
		err = unix.Sendto(fd, nil, 0, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.ENOBUFS) {
		err = nil // the device dropped it: nothing arrives, and that is the answer
	}
	return err
}
