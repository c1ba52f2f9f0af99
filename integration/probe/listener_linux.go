package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/mdlayher/packet"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/quantize"
)

// ListenerConfig is what a Listener listens for.
type ListenerConfig struct {
	Interface string            // in the network namespace of the calling thread
	Profile   *quantize.Profile // TPIDs and layout
	RunID     uint64            // probes of this run only; 0: of any
	All       bool              // yield CSIG-tagged frames that are not probes, too

	// Promiscuous also takes frames for other addresses off a real wire.
	Promiscuous bool
}

// Received is one frame that arrived.
type Received struct {
	At    time.Time // the kernel's receive timestamp
	Probe bool      // false only with ListenerConfig.All
	Frame           // its fields; Payload only where Probe
	Bytes []byte    // the frame with all its VLAN tags, the caller's to keep
}

// Listener receives probes on one interface. Next is for one goroutine at a
// time; the other methods are safe beside it.
type Listener struct {
	cfg  ListenerConfig
	conn *packet.Conn
	raw  syscall.RawConn
	buf  []byte
	oob  []byte

	mu        sync.Mutex
	tracker   Tracker
	malformed uint64
	drops     uint64
}

// restoredTag is where the kernel's hidden VLAN tag goes.
const restoredTag = 4

// NewListener opens a packet socket on the interface, which needs CAP_NET_RAW.
// What arrives from then on is kept for Next.
func NewListener(cfg ListenerConfig) (*Listener, error) {
	fail := func(step string, err error) (*Listener, error) {
		return nil, fmt.Errorf("probe listener on %s: %s: %w", cfg.Interface, step, err)
	}
	ifi, err := net.InterfaceByName(cfg.Interface)
	if err != nil {
		return fail("find the interface", err)
	}
	tpids := cfg.Profile.TPIDs()
	nothing, err := bpf.Assemble([]bpf.Instruction{bpf.RetConstant{Val: 0}})
	if err != nil {
		return fail("assemble a filter", err)
	}
	wanted, err := bpf.Assemble(filter(tpids, cfg.All))
	if err != nil {
		return fail("assemble the filter", err)
	}
	// Nothing may come in before the options are set: its VLAN tag would be
	// lost.
	conn, err := packet.Listen(ifi, packet.Raw, unix.ETH_P_ALL, &packet.Config{Filter: nothing})
	if err != nil {
		return fail("open a packet socket", explain(err))
	}
	l := &Listener{cfg: cfg, conn: conn, buf: make([]byte, restoredTag+1<<16), oob: make([]byte, 256)}
	if err := l.setUp(wanted); err != nil {
		conn.Close() //nolint:errcheck // the error is the other one
		return fail("set up the packet socket", err)
	}
	return l, nil
}

func (l *Listener) setUp(wanted []bpf.RawInstruction) (err error) {
	if l.raw, err = l.conn.SyscallConn(); err != nil {
		return err
	}
	var opts error
	err = l.raw.Control(func(fd uintptr) {
		opts = errors.Join(
			os.NewSyscallError("PACKET_AUXDATA", unix.SetsockoptInt(int(fd), unix.SOL_PACKET, unix.PACKET_AUXDATA, 1)),
			os.NewSyscallError("SO_TIMESTAMPNS", unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS_NEW, 1)),
			os.NewSyscallError("SO_RCVBUF", unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1<<20)),
		)
		// Only to save work: Next looks at the packet type as well.
		unix.SetsockoptInt(int(fd), unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1) //nolint:errcheck
	})
	if err := errors.Join(err, opts); err != nil {
		return err
	}
	if l.cfg.Promiscuous {
		if err := l.conn.SetPromiscuous(true); err != nil {
			return fmt.Errorf("promiscuous mode: %w", err)
		}
	}
	return l.conn.SetBPF(wanted)
}

// filter lets through what can be a probe by its first ethertype, so that
// background traffic costs no copy to this process. The kernel takes the
// outermost VLAN tag out before the filter sees the frame, which leaves
// another of these ethertypes in its place.
func filter(tpids quantize.TPIDs, all bool) []bpf.Instruction {
	types := []uint32{EtherType, 0x8100, 0x88a8}
	for _, t := range []uint16{tpids.Compact, tpids.Wide} {
		if t != 0 && !slices.Contains(types, uint32(t)) {
			types = append(types, uint32(t))
		}
	}
	var prog []bpf.Instruction
	if all && (tpids.Compact == 0x88a8 || tpids.Wide == 0x88a8) {
		// The kernel takes a CSIG tag of this TPID out as if it were a VLAN's,
		// and what follows can be anything.
		prog = append(prog,
			bpf.LoadExtension{Num: bpf.ExtVLANProto},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0x88a8, SkipTrue: uint8(len(types) + 2)})
	}
	prog = append(prog, bpf.LoadAbsolute{Off: 12, Size: 2})
	for i, t := range types {
		prog = append(prog, bpf.JumpIf{Cond: bpf.JumpEqual, Val: t, SkipTrue: uint8(len(types) - i)})
	}
	return append(prog, bpf.RetConstant{Val: 0}, bpf.RetConstant{Val: 1 << 18})
}

// Next waits for the next probe. When ctx is done it returns ctx's error.
func (l *Listener) Next(ctx context.Context) (Received, error) {
	if err := ctx.Err(); err != nil {
		return Received{}, err
	}
	if err := l.conn.SetReadDeadline(time.Time{}); err != nil {
		return Received{}, fmt.Errorf("probe listener on %s: %w", l.cfg.Interface, err)
	}
	stop := context.AfterFunc(ctx, func() {
		l.conn.SetReadDeadline(time.Unix(1, 0)) //nolint:errcheck // closed: the read fails anyway
	})
	defer stop()
	for {
		r, ok, err := l.receive()
		switch {
		case err != nil && ctx.Err() != nil:
			return Received{}, ctx.Err()
		case errors.Is(err, os.ErrDeadlineExceeded):
			// A deadline that a previous call's context set while it returned.
			if err := l.conn.SetReadDeadline(time.Time{}); err != nil {
				return Received{}, fmt.Errorf("probe listener on %s: %w", l.cfg.Interface, err)
			}
		case err != nil:
			return Received{}, fmt.Errorf("probe listener on %s: receive: %w", l.cfg.Interface, err)
		case ok:
			return r, nil
		}
	}
}

// receive reads one frame; ok is whether to yield it.
func (l *Listener) receive() (r Received, ok bool, err error) {
	var n, oobn int
	var from unix.Sockaddr
	var failed error
	err = l.raw.Read(func(fd uintptr) bool {
		n, oobn, _, from, failed = unix.Recvmsg(int(fd), l.buf[restoredTag:], l.oob, unix.MSG_TRUNC)
		return !errors.Is(failed, unix.EAGAIN) && !errors.Is(failed, unix.EINTR)
	})
	if err = errors.Join(err, failed); err != nil {
		return r, false, err
	}
	if sa, isLink := from.(*unix.SockaddrLinklayer); isLink && sa.Pkttype == unix.PACKET_OUTGOING {
		return r, false, nil
	}
	frame := l.buf[restoredTag : restoredTag+min(n, len(l.buf)-restoredTag)]
	at, aux, err := ancillary(l.oob[:oobn])
	if err != nil {
		return r, false, err
	}
	if aux.Status&unix.TP_STATUS_VLAN_VALID != 0 && len(frame) >= 12 {
		tpid := uint16(0x8100)
		if aux.Status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
			tpid = aux.Vlan_tpid
		}
		frame = restoreTag(l.buf[:restoredTag+len(frame)], tpid, aux.Vlan_tci)
	}
	return l.judge(at, frame)
}

// judge decides what a frame is.
func (l *Listener) judge(at time.Time, frame []byte) (Received, bool, error) {
	r := Received{At: at, Bytes: slices.Clone(frame)}
	f, err := Parse(r.Bytes, l.cfg.Profile.TPIDs(), l.cfg.Profile.Layout)
	r.Frame, r.Probe = f, err == nil
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && l.cfg.RunID != 0 && f.Payload.Run != l.cfg.RunID:
		return r, false, nil
	case err == nil:
		l.tracker.Observe(f.Payload)
		return r, true, nil
	case errors.Is(err, ErrNotProbe):
		return r, l.cfg.All && f.Tagged, nil
	default:
		l.malformed++
		return r, false, nil
	}
}

// ancillary reads the control messages of a frame: when it came, and the VLAN
// tag that the kernel took out.
func ancillary(oob []byte) (at time.Time, aux unix.TpacketAuxdata, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return at, aux, fmt.Errorf("control messages: %w", err)
	}
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA:
			if _, err := binary.Decode(m.Data, binary.NativeEndian, &aux); err != nil {
				return at, aux, fmt.Errorf("PACKET_AUXDATA: %w", err)
			}
		case m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS_NEW && len(m.Data) >= 16:
			at = time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
		}
	}
	if at.IsZero() {
		return at, aux, errors.New("the kernel gave no receive timestamp (SO_TIMESTAMPNS needs Linux 5.1)")
	}
	return at, aux, nil
}

// Stats returns counts of the probes that Next has yielded, by run and signal.
func (l *Listener) Stats() []Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tracker.Stats()
}

// Malformed counts the frames whose L2 tags make no sense (more than four
// VLAN tags, a CSIG tag that is not the last).
func (l *Listener) Malformed() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.malformed
}

// Overruns counts the frames that the kernel dropped because Next was not
// called often enough.
func (l *Listener) Overruns() (uint64, error) {
	s, err := l.conn.Stats() // since the last call
	if err != nil {
		return 0, fmt.Errorf("probe listener on %s: read its statistics: %w", l.cfg.Interface, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drops += uint64(s.Drops)
	return l.drops, nil
}

// Close closes the socket; a waiting Next returns an error.
func (l *Listener) Close() error { return l.conn.Close() }
