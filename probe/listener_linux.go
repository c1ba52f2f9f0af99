package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/bpf"

	"github.com/csig-agent/csig/protocol/packets"
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
	cfg    ListenerConfig
	socket *packets.Socket

	mu        sync.Mutex
	tracker   Tracker
	malformed uint64
	drops     uint64
}

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
	l := &Listener{cfg: cfg}
	if l.socket, err = packets.Open(ifi.Index, filter(cfg.Profile.TPIDs(), cfg.All)); err != nil {
		return fail("open a packet socket", explain(err))
	}
	if cfg.Promiscuous {
		if err := l.socket.Promiscuous(ifi.Index); err != nil {
			return fail("promiscuous mode", errors.Join(err, l.Close()))
		}
	}
	return l, nil
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
	for {
		if err := ctx.Err(); err != nil {
			return Received{}, err
		}
		frame, at, err := l.socket.Receive()
		if err != nil {
			return Received{}, fmt.Errorf("probe listener on %s: receive: %w", l.cfg.Interface, err)
		}
		if frame == nil {
			continue
		}
		if r, ok := l.judge(at, frame); ok {
			return r, nil
		}
	}
}

// judge decides what a frame is.
func (l *Listener) judge(at time.Time, frame []byte) (Received, bool) {
	r := Received{At: at, Bytes: slices.Clone(frame)}
	f, err := Parse(r.Bytes, l.cfg.Profile.TPIDs(), l.cfg.Profile.Layout)
	r.Frame, r.Probe = f, err == nil
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && l.cfg.RunID != 0 && f.Payload.Run != l.cfg.RunID:
		return r, false
	case err == nil:
		l.tracker.Observe(f.Payload)
		return r, true
	case errors.Is(err, ErrNotProbe):
		return r, l.cfg.All && f.Tagged
	default:
		l.malformed++
		return r, false
	}
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
	drops, err := l.socket.Drops()
	if err != nil {
		return 0, fmt.Errorf("probe listener on %s: read its statistics: %w", l.cfg.Interface, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drops += drops
	return l.drops, nil
}

// Close closes the socket; a waiting Next returns an error.
func (l *Listener) Close() error { return l.socket.Close() }
