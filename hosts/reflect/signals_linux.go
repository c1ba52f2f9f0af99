package reflect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/hosts/internal/offer"
	"github.com/csig-agent/csig/quantize"
)

// ErrNone is the error for a flow that has no signals: the other host does not run csig host run or is not listed in the
// fleet file, the connection was opened before csig came, or no tag has arrived yet.
var ErrNone = errors.New("the flow has no signals")

// ErrEnded is the error for Signals that are read no more: csig host run has ended, or reads another fleet file. Open them again.
var ErrEnded = errors.New("csig host run has ended, or its fleet file is another: open the signals again")

// Reading is the newest tag of one T.
type Reading struct {
	T   quantize.Signal
	S   uint8         // the bucket, by the profile's table
	LM  uint16        // the locator of the egress port that wrote S; or none or stale, as quantize.Layout has them
	Age time.Duration // since it arrived

	Mean uint64 // with ewma in the fleet file, a moving average of what is left at least: bit/s of abw, ppm of abwc; 0: nothing for sure
}

// Signals are those of all flows of this machine.
type Signals struct {
	client *offer.Client
	layout quantize.Layout
}

// Open asks csig host run at a socket, that beside its own with -signals in its name; "" is the one of the unit csig-host, or of a
// csig host run that root has started.
func Open(socket string) (*Signals, error) {
	c, err := offer.Ask(socket)
	if err != nil {
		return nil, err
	}
	s := &Signals{client: c}
	if s.layout, err = quantize.ParseLayout(c.Layout); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	for _, at := range []struct{ size, first int }{{c.Flows.Size, c.Flows.Received}, {c.Flows.Size, c.Flows.Learned}, {c.Datagrams.Size, c.Datagrams.Received}} {
		if at.size > 1<<16 || at.first < 0 || at.first > at.size-offer.Readings*readingSize {
			return nil, errors.Join(fmt.Errorf("socket %s: what answers there is not csig host run of this version", socket), c.Close())
		}
	}
	return s, nil
}

// Layout is that of the tags: it has the locators none and stale.
func (s *Signals) Layout() quantize.Layout { return s.layout }

// Close gives the signals back.
func (s *Signals) Close() error { return s.client.Close() }

// Connection is what is known of a TCP connection.
type Connection struct {
	Received []Reading // of the frames that came: by T
	Learned  []Reading // of the frames that left, as the peer has reflected them
}

// Connection reads what is known of a connection of this process, as *net.TCPConn is one. Errors: ErrNone, ErrEnded.
func (s *Signals) Connection(c syscall.Conn) (out Connection, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return out, err
	}
	value := make([]byte, s.client.Flows.Size)
	if failed := raw.Control(func(fd uintptr) {
		err = s.lookup(0, binary.NativeEndian.AppendUint32(nil, uint32(fd)), value)
	}); failed != nil {
		return out, failed
	}
	if err == nil {
		now := monotonic()
		out.Received, out.Learned = s.readings(value[s.client.Flows.Received:], now), s.readings(value[s.client.Flows.Learned:], now)
	}
	return out, err
}

// Datagrams reads the tags that datagrams arrived with, from a remote end at a local one: of whichever process. The flows that were last active
// are known. Errors: ErrNone, ErrEnded.
func (s *Signals) Datagrams(local, remote netip.AddrPort) ([]Reading, error) {
	to, from := local.Addr().As16(), remote.Addr().As16()
	key := append(from[:], to[:]...)
	key = binary.NativeEndian.AppendUint16(binary.NativeEndian.AppendUint16(key, remote.Port()), local.Port())
	value := make([]byte, s.client.Datagrams.Size)
	if err := s.lookup(1, key, value); err != nil {
		return nil, err
	}
	return s.readings(value[s.client.Datagrams.Received:], monotonic()), nil
}

const readingSize = 24 // struct reading of csig host run's programs

// readings reads those of all T.
func (s *Signals) readings(b []byte, now uint64) (out []Reading) {
	for t := range offer.Readings {
		one := b[t*readingSize:]
		at := binary.NativeEndian.Uint64(one)
		if at == 0 {
			continue
		}
		tag := s.layout.Unpack(quantize.TCI(binary.NativeEndian.Uint16(one[16:])))
		r := Reading{T: tag.T, S: uint8(tag.S), LM: tag.LM, Age: time.Duration(max(0, int64(now-at)))}
		if averaged := one[18] != 0; averaged {
			r.Mean = binary.NativeEndian.Uint64(one[8:])
		}
		out = append(out, r)
	}
	return out
}

// monotonic is the clock of the kernel's programs.
func monotonic() uint64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // it is always there
	return uint64(t.Nano())
}

// lookup reads the value of a key, of one of the maps.
func (s *Signals) lookup(which int, key, value []byte) error {
	select {
	case <-s.client.Ended():
		return ErrEnded
	default:
	}
	if s.client.Files != "" {
		return fmt.Errorf("csig host run hands over no maps: %s", s.client.Files)
	}
	var pinned runtime.Pinner
	defer pinned.Unpin()
	pinned.Pin(&key[0])
	pinned.Pin(&value[0])
	attr := struct { // of BPF_MAP_LOOKUP_ELEM
		fd, _             uint32
		key, value, flags uint64
	}{fd: uint32(s.client.Maps[which].Fd()), key: uint64(uintptr(unsafe.Pointer(&key[0]))), value: uint64(uintptr(unsafe.Pointer(&value[0])))}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_MAP_LOOKUP_ELEM, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	switch errno {
	case 0:
		return nil
	case unix.ENOENT:
		return ErrNone
	}
	return os.NewSyscallError("bpf", errno)
}
