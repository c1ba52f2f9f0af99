package fabric

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Left is one frame that left a port, behind its queue.
type Left struct {
	At    int64  // CLOCK_REALTIME, ns: when the kernel gave it to the device
	Bytes uint32 // from the destination address, without FCS and an offloaded VLAN tag
	Head  [RecordHead]byte
}

// L1Bits is what the frame occupies of the wire, in bits.
func (f *Left) L1Bits() uint64 { return 8 * (uint64(f.Bytes) + L1Overhead) }

// Tap keeps the time of every frame that leaves a port, behind its shaper, by the kernel's
// own stamp: a process that is kept from running loses none of them. It needs no right that
// the fabric does not have. Methods are for one goroutine at a time.
type Tap struct {
	port *Port
	fd   int
	ring []byte
	next int
	lost uint64
}

const (
	tapFrame  = 256     // header, address and RecordHead bytes
	tapFrames = 1 << 15 // a second of 32,000 frames
	tapBlock  = 1 << 16
)

// Tap opens a tap; close it after use.
func (p *Port) Tap() (_ *Tap, err error) {
	t := &Tap{port: p, fd: -1}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: tap: %w", p, err), t.Close())
		}
	}()
	err = p.node.Do(func() (err error) {
		t.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := unix.SetsockoptInt(t.fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2); err != nil {
		return nil, err
	}
	req := unix.TpacketReq{Block_size: tapBlock, Block_nr: tapFrame * tapFrames / tapBlock, Frame_size: tapFrame, Frame_nr: tapFrames}
	if err := unix.SetsockoptTpacketReq(t.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &req); err != nil {
		return nil, err
	}
	if t.ring, err = unix.Mmap(t.fd, 0, tapFrame*tapFrames, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, err
	}
	all := binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})
	return t, unix.Bind(t.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: p.index})
}

// Read appends the frames that have left since the last call, in order.
func (t *Tap) Read(dst []Left) []Left {
	for {
		b := t.ring[t.next*tapFrame:][:tapFrame]
		status := (*uint32)(unsafe.Pointer(&b[0]))
		if atomic.LoadUint32(status)&unix.TP_STATUS_USER == 0 {
			return dst
		}
		h := (*unix.Tpacket2Hdr)(unsafe.Pointer(&b[0]))
		from := (*unix.RawSockaddrLinklayer)(unsafe.Pointer(&b[(unix.SizeofTpacket2Hdr+unix.TPACKET_ALIGNMENT-1)&^(unix.TPACKET_ALIGNMENT-1)]))
		if from.Pkttype == unix.PACKET_OUTGOING {
			f := Left{At: int64(h.Sec)*1e9 + int64(h.Nsec), Bytes: h.Len}
			copy(f.Head[:], b[h.Mac:int(h.Mac)+min(int(h.Snaplen), tapFrame-int(h.Mac))])
			dst = append(dst, f)
		}
		atomic.StoreUint32(status, unix.TP_STATUS_KERNEL)
		t.next = (t.next + 1) % tapFrames
	}
}

// Lost is how many frames have passed since the beginning that nothing could be kept of.
func (t *Tap) Lost() (uint64, error) {
	s, err := unix.GetsockoptTpacketStats(t.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0, fmt.Errorf("%s: count lost frames: %w", t.port, err)
	}
	t.lost += uint64(s.Drops) // the kernel counts from the call before
	return t.lost, nil
}

// Close ends the tap.
func (t *Tap) Close() error {
	var errs []error
	if t.ring != nil {
		errs = append(errs, unix.Munmap(t.ring))
		t.ring = nil
	}
	if t.fd >= 0 {
		errs = append(errs, unix.Close(t.fd))
		t.fd = -1
	}
	return errors.Join(errs...)
}
