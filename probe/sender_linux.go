package probe

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/protocol/packets"
	"github.com/csig-agent/csig/quantize"
)

// Format is how probes are tagged.
type Format uint8

// The formats.
const (
	Compact  Format = iota // draft-00 §4.1.1
	Wide                   // draft-00 §4.1.2
	Untagged               // no CSIG tag at all
)

// SenderConfig is what a Sender sends.
type SenderConfig struct {
	Interface string // in the network namespace of the calling thread
	Dst       net.HardwareAddr
	Src       net.HardwareAddr // the interface's where nil
	VLANs     []VLAN           // in front of the CSIG tag, outermost first
	Format    Format
	Profile   *quantize.Profile // TPIDs, layout and initial S
	Signals   []quantize.Signal // those of Run, taken in turns; unknown ones are allowed
	Size      int               // bytes of a frame without FCS; 0 is the least that holds everything
	RunID     uint64            // random where 0
	Clock     func() time.Time  // time.Now where nil
}

// Sender sends probes from one interface. It is safe for concurrent use.
type Sender struct {
	cfg    SenderConfig
	socket *packets.Socket

	mu      sync.Mutex
	buf     []byte
	next    map[quantize.Signal]uint64
	dropped uint64
}

// NewSender opens a packet socket on the interface, which needs CAP_NET_RAW.
func NewSender(cfg SenderConfig) (*Sender, error) {
	fail := func(err error) (*Sender, error) {
		return nil, fmt.Errorf("probe sender on %s: %w", cfg.Interface, err)
	}
	tpids := cfg.Profile.TPIDs()
	switch {
	case len(cfg.Dst) != 6:
		return fail(fmt.Errorf("destination address %q: want 6 bytes", cfg.Dst))
	case cfg.Format == Compact && tpids.Compact == 0:
		return fail(errors.New("the profile has no TPID for compact tags: add one, or send wide tags"))
	case cfg.Format == Wide && tpids.Wide == 0:
		return fail(errors.New("the profile has no TPID for wide tags: add one, or send compact tags"))
	case len(cfg.VLANs) > quantize.MaxVLANs:
		return fail(fmt.Errorf("%d VLAN tags: at most %d may stand in front of a CSIG tag", len(cfg.VLANs), quantize.MaxVLANs))
	}
	ifi, err := net.InterfaceByName(cfg.Interface)
	if err != nil {
		return fail(err)
	}
	if cfg.Src == nil {
		cfg.Src = ifi.HardwareAddr
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	for cfg.RunID == 0 {
		var id [8]byte
		rand.Read(id[:]) //nolint:errcheck // never fails
		cfg.RunID = binary.NativeEndian.Uint64(id[:])
	}
	socket, err := packets.OpenSender(ifi.Index)
	if err != nil {
		return fail(explain(err))
	}
	return &Sender{cfg: cfg, socket: socket, next: map[quantize.Signal]uint64{}}, nil
}

// explain adds what to do to an error of a packet socket.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: packet sockets need CAP_NET_RAW: run as root, or type `setcap cap_net_raw+ep` and the program's path", err)
	case errors.Is(err, unix.EMSGSIZE):
		return fmt.Errorf("%w: the frame is longer than the interface's MTU allows, and the tag counts: send smaller probes, or raise the MTU", err)
	case errors.Is(err, unix.ENETDOWN):
		return fmt.Errorf("%w: bring the interface up", err)
	}
	return err
}

// RunID is the run that the sender's probes carry.
func (s *Sender) RunID() uint64 { return s.cfg.RunID }

// Sent returns how many probes of a signal were sent; the next one has this
// sequence number.
func (s *Sender) Sent(sig quantize.Signal) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next[sig]
}

// Dropped counts the probes that the sender's own queue refused. They count as
// sent, and the receiver sees a gap.
func (s *Sender) Dropped() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped
}

// Send sends one probe for a signal with what a sender host starts with: the
// profile's initial S and no locator (draft-00 §4.4.1). It returns the
// probe's payload.
func (s *Sender) Send(sig quantize.Signal) (Payload, error) {
	f := Frame{Dst: s.cfg.Dst, Src: s.cfg.Src, VLANs: s.cfg.VLANs, Payload: Payload{Signal: sig}}
	if s.cfg.Format != Untagged {
		f.Tagged, f.Tag = true, InitialTag(s.cfg.Profile, s.cfg.Format == Wide, sig)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &f.Payload
	p.Run, p.Seq, p.Sent = s.cfg.RunID, s.next[p.Signal], s.cfg.Clock()
	size := s.cfg.Size
	if size == 0 {
		size = max(MinSize, f.size())
	}
	b, err := f.AppendTo(s.buf[:0], s.cfg.Profile.Layout, size)
	if err != nil {
		return *p, fmt.Errorf("probe sender on %s: %w", s.cfg.Interface, err)
	}
	s.buf = b
	s.next[p.Signal]++
	if err := s.socket.Send(b); errors.Is(err, unix.ENOBUFS) {
		s.dropped++
	} else if err != nil {
		s.next[p.Signal]--
		return *p, fmt.Errorf("probe sender on %s: %w", s.cfg.Interface, explain(err))
	}
	return *p, nil
}

// SendFrame sends the bytes of a frame as they are, from the destination
// address on and without FCS.
func (s *Sender) SendFrame(b []byte) error {
	if err := s.socket.Send(b); err != nil {
		return fmt.Errorf("probe sender on %s: %w", s.cfg.Interface, explain(err))
	}
	return nil
}

// Run sends a probe every interval, of the configured signals in turns
// (draft-00 §4.1.3.1), the first one at once, until count were sent (0: for
// ever) or ctx is done, which is not an error. Where the machine cannot keep
// up, probes are sent later, never in bursts.
func (s *Sender) Run(ctx context.Context, interval time.Duration, count uint64) error {
	if len(s.cfg.Signals) == 0 || interval <= 0 {
		return fmt.Errorf("probe sender on %s: %d signals every %v: want at least one signal and an interval above 0", s.cfg.Interface, len(s.cfg.Signals), interval)
	}
	signals := slices.Clone(s.cfg.Signals)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for i := uint64(0); count == 0 || i < count; i++ {
		if i > 0 {
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if _, err := s.Send(signals[i%uint64(len(signals))]); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the socket.
func (s *Sender) Close() error { return s.socket.Close() }
