package qualify

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
)

// Card sends and receives whole frames, without FCS: a network card of this machine.
// Receive is called by one goroutine; it returns nil where no frame came for a moment,
// an error that wraps net.ErrClosed after Close, and memory that it may use again.
type Card interface {
	Send(frame []byte) error
	Receive() (frame []byte, at time.Time, err error)
	Drops() (uint64, error) // frames that this machine lost since the last call
	Close() error
}

// Port is a port of the switch with the card that is cabled to it.
type Port struct {
	Name string // of the switch's port
	Card string // name of the card
	MAC  MAC    // made up for this run: what the bench's frames come from
	Own  MAC    // the card's own
	MTU  int    // of the card, in bytes

	// Link takes the card's link down or up; nil: that cannot be done from here.
	Link func(up bool) error

	// Carrier reports whether the card has a carrier, and how often that changed; nil: that
	// is not known.
	Carrier func() (up bool, changes uint32, err error)

	card  Card
	taken bool // its link was taken down by an experiment
}

// Cabled makes a port of an opened card.
func Cabled(name, cardName string, own MAC, mtu int, card Card) *Port {
	return &Port{Name: name, Card: cardName, Own: own, MTU: mtu, card: card}
}

// Bench is a switch with its cables.
type Bench struct {
	Ports   []*Port
	Device  inventory.Device // the switch, as the fleet file has it
	Profile *quantize.Profile
	Policy  inventory.Policy
	Driver  vendors.Driver // nil: none that can be used from here
	NoWay   string         // why, where Driver is nil
	Means

	// Patience is how long a frame that must arrive may take; 0: 2 s. Settle is how long
	// frames may still arrive behind one that was sent later; 0: 10 ms.
	Patience, Settle time.Duration

	apart map[hop]bool // ways that frames without a tag do not pass
	lag   bool         // all ports but the first are one LAG

	run     uint64
	seq     uint64 // of the last frame
	began   sync.Once
	readers sync.WaitGroup

	mu        sync.Mutex
	err       error // of a reader
	listeners []*Listener
	waiting   map[uint64]awaited // sentinels, by their number
	capture   *recorder
	foreign   foreign
}

// awaited is a sentinel on its way. A copy at another port, of a mirror, is none.
type awaited struct {
	port    int
	arrived chan struct{}
}

// Arrival is a frame of the bench that came in.
type Arrival struct {
	Port  int // where
	At    time.Time
	Seq   uint64
	Bytes []byte
}

// Start gives the bench's ports their addresses and begins to receive.
func (b *Bench) Start(run uint64) {
	b.began.Do(func() {
		if b.Patience == 0 {
			b.Patience = 2 * time.Second
		}
		if b.Settle == 0 {
			b.Settle = 10 * time.Millisecond
		}
		b.run, b.waiting = run, map[uint64]awaited{}
		for i, p := range b.Ports {
			p.MAC = MAC{0x02, 0xc5, 0x51, byte(run >> 8), byte(run), byte(i + 1)}
			b.readers.Go(func() { b.read(i, p) })
		}
	})
}

// Address is a further address of this run, locally administered.
func (b *Bench) Address(n uint8) MAC {
	return MAC{0x02, 0xc5, 0x52, byte(b.run >> 8), byte(b.run), n}
}

// Close ends the receiving and closes the cards, not the driver.
func (b *Bench) Close() error {
	var errs []error
	for _, p := range b.Ports {
		errs = append(errs, p.card.Close())
	}
	b.readers.Wait()
	return errors.Join(errs...)
}

// read receives the frames of a port until its card is closed.
func (b *Bench) read(i int, p *Port) {
	for {
		frame, at, err := p.card.Receive()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case errors.Is(err, syscall.ENETDOWN): // reported once; the card may come back
		case err != nil:
			b.mu.Lock()
			b.err = errors.Join(b.err, fmt.Errorf("card %s: %w", p.Card, err))
			b.mu.Unlock()
			return
		case frame != nil:
			b.received(i, frame, at)
		}
	}
}

func (b *Bench) received(i int, frame []byte, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	pay, ours := find(frame, b.run)
	if !ours {
		b.foreign.add(b, i, frame)
		return
	}
	b.capture.write(at, frame)
	if pay.kind == kindSentinel {
		if w, ok := b.waiting[pay.seq]; ok && b.gets(w.port, i) {
			close(w.arrived)
			delete(b.waiting, pay.seq)
		}
		return
	}
	if len(b.listeners) == 0 {
		return
	}
	a := Arrival{Port: i, At: at, Seq: pay.seq, Bytes: slices.Clone(frame)}
	for _, l := range b.listeners {
		l.got = append(l.got, a)
	}
}

// Listener collects the bench's frames that come in.
type Listener struct {
	b   *Bench
	got []Arrival // guarded by b.mu
}

// Listen collects from now on, until Close.
func (b *Bench) Listen() *Listener {
	l := &Listener{b: b}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners = append(b.listeners, l)
	return l
}

// Take returns what came since the last call.
func (l *Listener) Take() []Arrival {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	got := l.got
	l.got = nil
	return got
}

// Close ends the collecting.
func (l *Listener) Close() {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.b.listeners = slices.DeleteFunc(l.b.listeners, func(other *Listener) bool { return other == l })
}

// Build makes the bytes of a frame that leaves from a port, with the next number.
func (b *Bench) Build(from int, f Frame) (uint64, []byte, error) {
	b.mu.Lock()
	b.seq++
	seq := b.seq
	b.mu.Unlock()
	if f.Dst == (MAC{}) {
		f.Dst = b.Ports[f.To].MAC
	}
	if f.Src == (MAC{}) {
		f.Src = b.Ports[from].MAC
	}
	bytes, err := f.build(payload{run: b.run, seq: seq, from: uint8(from), kind: kindData})
	return seq, bytes, err
}

// fullQueue is how often a frame is offered again to a card whose queue is full.
const fullQueue = 3

// Send sends what Build made.
func (b *Bench) Send(from int, frame []byte) error {
	err := b.Ports[from].card.Send(frame)
	for range fullQueue {
		if !errors.Is(err, syscall.ENOBUFS) {
			break
		}
		time.Sleep(time.Millisecond)
		err = b.Ports[from].card.Send(frame)
	}
	if err != nil {
		return fmt.Errorf("sending %d bytes at card %s: %w", len(frame), b.Ports[from].Card, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.capture.write(time.Now(), frame)
	return b.err
}

// sentinels are sent again after so long, and patience is counted in these: a machine that
// is held up meanwhile has still asked the path often enough.
const resend = 20 * time.Millisecond

// Sync waits until frames without a tag from a port have arrived at others, which they
// must: what was sent before has arrived, or is lost, save for what other queues hold
// back for less than Settle.
func (b *Bench) Sync(ctx context.Context, from int, to ...int) error {
	return b.sync(ctx, b.Patience, from, to...)
}

func (b *Bench) sync(ctx context.Context, patience time.Duration, from int, to ...int) error {
	for _, port := range to {
		if err := b.sentinel(ctx, patience, from, port); err != nil {
			return fmt.Errorf("a frame without a tag from %s to %s did not arrive within %v: %w", b.Ports[from].Name, b.Ports[port].Name, patience, err)
		}
	}
	return nil
}

var errSilence = errors.New("cable, link, VLAN or spanning tree of these ports, or no flow that forwards between them?")

func (b *Bench) sentinel(ctx context.Context, patience time.Duration, from, to int) error {
	b.mu.Lock()
	b.seq++
	seq, arrived := b.seq, make(chan struct{})
	b.waiting[seq] = awaited{to, arrived}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.waiting, seq)
	}()
	f := Frame{Dst: b.Ports[to].MAC, Src: b.Ports[from].MAC}
	bytes, err := f.build(payload{run: b.run, seq: seq, from: uint8(from), kind: kindSentinel})
	if err != nil {
		return err
	}
	for waited := resend; ; waited += resend {
		if err := b.Send(from, bytes); err != nil {
			return err
		}
		again := time.NewTimer(resend)
		select {
		case <-arrived:
			again.Stop()
			return nil
		case <-ctx.Done():
			again.Stop()
			return context.Cause(ctx)
		case <-again.C:
			if waited >= patience {
				return errSilence
			}
		}
	}
}

// drops is how many frames this machine lost since the last call.
func (b *Bench) drops() (n uint64, err error) {
	for _, p := range b.Ports {
		d, err := p.card.Drops()
		if err != nil {
			return n, fmt.Errorf("card %s: %w", p.Card, err)
		}
		n += d
	}
	return n, nil
}

// Learn has the switch learn the addresses of every port from frames without a tag.
func (b *Bench) Learn(ctx context.Context) error { return b.learn(ctx, b.Patience) }

func (b *Bench) learn(ctx context.Context, patience time.Duration) error {
	for i := range b.Ports {
		if err := b.sync(ctx, patience, i, b.Others(i)...); err != nil {
			return err
		}
	}
	return nil
}

// record writes the bench's frames to w until stop is called.
func (b *Bench) record(w io.Writer) (stop func() error, err error) {
	r, err := newRecorder(w)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.capture = r
	return func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.capture = nil
		return r.err
	}, nil
}

// foreign counts frames that are neither the bench's nor a switch's own.
type foreign struct {
	frames  int
	example string
}

// add counts a frame, unless it belongs on an isolated port: what the cards' own
// hosts send, and protocols between neighbours.
func (f *foreign) add(b *Bench, port int, frame []byte) {
	if len(frame) < 14 {
		return
	}
	dst, src := MAC(frame[0:6]), MAC(frame[6:12])
	reserved := [5]byte(dst[:5]) == [5]byte{0x01, 0x80, 0xc2, 0, 0} // STP, LLDP, LACP, 802.1X
	cisco := [4]byte(dst[:4]) == [4]byte{0x01, 0x00, 0x0c, 0xcc}    // CDP, PVST
	keepalive := binary.BigEndian.Uint16(frame[12:]) == 0x9000 && dst == src
	own := slices.ContainsFunc(b.Ports, func(p *Port) bool { return p.Own == src })
	earlier := src[0] == 0x02 && src[1] == 0xc5 && (src[2] == 0x51 || src[2] == 0x52) // a run that was interrupted
	if reserved || cisco || keepalive || own || earlier {
		return
	}
	f.frames++
	if f.example == "" {
		f.example = fmt.Sprintf("at %s from %v to %v, ethertype 0x%04x", b.Ports[port].Card, src, dst, binary.BigEndian.Uint16(frame[12:]))
	}
}

// Foreign listens for so long, or until a frame comes that is foreign. The error names
// it.
func (b *Bench) Foreign(ctx context.Context, listen time.Duration) error {
	end := time.NewTimer(listen)
	defer end.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		b.mu.Lock()
		seen, err := b.foreign, b.err
		b.mu.Unlock()
		switch {
		case err != nil:
			return err
		case seen.frames > 0:
			return fmt.Errorf("the ports are not isolated: a foreign frame arrived %s", seen.example)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end.C:
			return nil
		case <-look.C:
		}
	}
}
