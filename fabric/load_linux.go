package fabric

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// LoadFrame is the length of a frame of background load in bytes, from the
// destination address, without FCS.
const LoadFrame = 1400

// LoadBurst is how long the pacer may be held up without the rate suffering: it
// makes up for that in one burst, which the queue of a switch port still takes.
// The kernel grants that burst at every change of the rate, too.
const LoadBurst = MaxQueue

const (
	// loadBlock bounds one blocking send, and so how long Stop takes.
	loadBlock = 50 * time.Millisecond
	// loadBuffer is how much one sender may be ahead of the pacer, in bytes
	// as the kernel accounts them: 184 frames, 10 ms of 200 Mbit/s. More than
	// this, the default net.core.wmem_max, works on some machines only.
	loadBuffer = 2 * 212992
	// loadSenders fill the queue side by side, each with a buffer of its own,
	// so that a busy machine may keep all of them from running for 50 ms of
	// 160 Mbit/s.
	loadSenders = 4
)

// Load is steady background traffic from one host: ordinary IPv4/UDP frames
// without any tag. The host's port is shaped to the wanted rate and a
// few senders keep that shaper's queue full; their sends block on the sockets'
// buffers, so that nothing is dropped and the kernel's own timer does the
// pacing.
//
// The host's port carries the load only: other frames would wait in its queue.
type Load struct {
	port *Port
	fds  []int // one a sender

	mu     sync.Mutex // serialises SetRate and Stop
	closed bool
	quit   chan struct{} // nil while paused
	done   chan error    // one from each sender

	frame []byte
}

// StartLoad sends bps (layer 1 bits per second) from a host's port to the
// address of some other host until Stop; 0 starts it paused.
func StartLoad(from *Port, to net.HardwareAddr, bps uint64) (*Load, error) {
	l := &Load{port: from, frame: loadFrame(from.MAC, to)}
	err := from.node.Do(func() error {
		for range loadSenders {
			fd, err := senderSocket(from.index)
			if err != nil {
				return err
			}
			l.fds = append(l.fds, fd)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("load from %s: %w", from, err), l.Stop())
	}
	if err := l.SetRate(bps); err != nil {
		return nil, errors.Join(err, l.Stop())
	}
	return l, nil
}

// senderSocket opens a packet socket that blocks when it is far enough ahead.
func senderSocket(ifindex int) (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open a packet socket: %w", err)
	}
	timeout := unix.NsecToTimeval(int64(loadBlock))
	err = errors.Join(
		unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: ifindex}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, loadBuffer/2), // the kernel doubles it
	)
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("prepare a packet socket: %w", err)
	}
	return fd, nil
}

// SetRate changes the load to bps (layer 1 bits per second, rounded down to
// whole bytes) at once; 0 pauses it.
func (l *Load) SetRate(bps uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fmt.Errorf("load from %s: it has been stopped", l.port)
	}
	if bps == 0 {
		return l.pause()
	}
	rate := bps / 8
	b := bucket{
		rate:  rate,
		burst: uint32(max(rate*uint64(LoadBurst)/uint64(time.Second), LoadFrame)),
		limit: 64 << 20, // never the bound: the socket's buffer is
	}
	if err := l.port.node.Do(func() error { return b.set(l.port.index) }); err != nil {
		return fmt.Errorf("load from %s: pace at %d bit/s: %w", l.port, bps, err)
	}
	if l.quit == nil {
		l.quit, l.done = make(chan struct{}), make(chan error, len(l.fds))
		for _, fd := range l.fds {
			go send(fd, l.frame, l.quit, l.done)
		}
	}
	return nil
}

// send keeps the pacer's queue full.
func send(fd int, frame []byte, quit <-chan struct{}, done chan<- error) {
	for {
		select {
		case <-quit:
			done <- nil
			return
		default:
		}
		_, err := unix.Write(fd, frame)
		switch {
		case err == nil, errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		default:
			done <- err
			return
		}
	}
}

// pause stops the senders and empties the queue, so that nothing more is sent.
func (l *Load) pause() error {
	if l.quit == nil {
		return nil
	}
	close(l.quit)
	var err error
	for range l.fds {
		err = errors.Join(err, <-l.done)
	}
	l.quit = nil
	if err != nil {
		err = fmt.Errorf("load from %s: send: %w", l.port, err)
	}
	del := l.port.node.Do(func() error {
		return netlink.QdiscDel(&netlink.GenericQdisc{QdiscType: "tbf", QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: l.port.index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT,
		}})
	})
	if del != nil {
		del = fmt.Errorf("load from %s: empty its queue: %w", l.port, del)
	}
	return errors.Join(err, del)
}

// Stop ends the load and drops what is still queued. The error, if any, is
// what had ended the sender before.
func (l *Load) Stop() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	err := l.pause()
	for _, fd := range l.fds {
		err = errors.Join(err, unix.Close(fd))
	}
	return err
}

// loadFrame is an IPv4/UDP frame to the discard port, between addresses of the
// block for benchmarks (RFC 2544).
func loadFrame(from, to net.HardwareAddr) []byte {
	const ip, udp = 14, 14 + 20
	b := make([]byte, LoadFrame)
	copy(b[0:6], to)
	copy(b[6:12], from)
	binary.BigEndian.PutUint16(b[12:], unix.ETH_P_IP)

	b[ip] = 0x45
	binary.BigEndian.PutUint16(b[ip+2:], LoadFrame-ip)
	b[ip+6] = 0x40 // don't fragment
	b[ip+8], b[ip+9] = 64, unix.IPPROTO_UDP
	copy(b[ip+12:], []byte{198, 18, 0, 1})
	copy(b[ip+16:], []byte{198, 19, 0, 1})
	var sum uint32
	for i := ip; i < udp; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	sum = sum&0xffff + sum>>16
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(b[ip+10:], ^uint16(sum))

	binary.BigEndian.PutUint16(b[udp:], 9)
	binary.BigEndian.PutUint16(b[udp+2:], 9)
	binary.BigEndian.PutUint16(b[udp+4:], LoadFrame-udp) // checksum 0: none
	return b
}
