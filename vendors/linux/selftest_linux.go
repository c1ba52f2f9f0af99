package linux

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/packets"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// The self-test's size: it ends after so many changes and frames, once both
// values were seen, and gives up after so long. On an idle machine it takes
// some 50 ms; a busy one may keep a sender and a receiver from running.
const (
	selfTestFlips  = 300
	selfTestFrames = 500
	selfTestTime   = 5 * time.Second
)

// tally counts the frames that arrived while a bucket changed, by the value
// they came with. One goroutine counts, another asks whether it is enough.
type tally struct {
	a, b, other atomic.Int64
	example     atomic.Uint32 // one of the others
}

func (c *tally) count(data uint16) {
	switch data {
	case flipA:
		c.a.Add(1)
	case flipB:
		c.b.Add(1)
	default:
		c.other.Add(1)
		c.example.Store(uint32(data))
	}
}

// enough reports whether the frames say something after so many changes: without
// one of the two values there was no change to be seen.
func (c *tally) enough(flips int) bool {
	a, b, other := c.a.Load(), c.b.Load(), c.other.Load()
	return flips >= selfTestFlips && a+b+other >= selfTestFrames && (a > 0 && b > 0 || other > 0)
}

// verdict judges the finished count.
func (c *tally) verdict(flips int) vlanrules.Verdict {
	switch a, b, other := c.a.Load(), c.b.Load(), c.other.Load(); {
	case other > 0:
		return vlanrules.Verdict{Level: vlanrules.Degraded, Reason: fmt.Sprintf("while a bucket changed %d times, %d of %d frames left with neither the old nor the new value (one with 0x%04x): this kernel's interval maps are not hitless",
			flips, other, a+b+other, c.example.Load())}
	case a == 0 || b == 0:
		return vlanrules.Verdict{Level: vlanrules.Degraded, Reason: fmt.Sprintf("could not run the self-test: of %d changes of a bucket in %v it saw %d frames with one value and %d with the other; this machine is too busy to judge",
			flips, selfTestTime, a, b)}
	}
	return vlanrules.Verdict{}
}

// SelfTest tries this kernel in a network namespace of its own, which ends
// with the test: it changes a bucket some hundred times while tagged frames
// flood the port, and sends tags behind 0 to 4 VLAN tags. Full means that every
// frame left with the old or the new value, and every depth was rewritten in
// the right place. Where such a namespace is not permitted the verdict is
// degraded, with that reason.
func (d *Driver) SelfTest(ctx context.Context) (vlanrules.Verdict, error) {
	if err := ctx.Err(); err != nil {
		return vlanrules.Verdict{}, err
	}
	s, err := newScratch()
	if err != nil {
		return vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "could not run the self-test: " + err.Error()}, nil
	}
	defer s.close()
	v, err := s.flip(ctx)
	if err != nil || v.Level != vlanrules.Full {
		return v, err
	}
	return s.depths(d.depths)
}

// scratch is a namespace with one port under test: frames sent on trunk go
// through a bridge, which leaves their outermost VLAN tag in metadata, to the
// port; far receives what leaves it.
type scratch struct {
	ns               int
	driver           *Driver
	trunk, port, far *packets.Socket
}

func newScratch() (*scratch, error) {
	s := &scratch{ns: -1}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		result <- s.build()
	}()
	err := <-result
	if err == nil {
		s.driver, err = Open(Config{NetNS: s.ns})
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// build makes the namespace, on a thread of its own.
func (s *scratch) build() (err error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network namespace: %w", err)
	}
	if s.ns, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("open the network namespace: %w", err)
	}
	add := func(l netlink.Link) {
		if err == nil {
			if err = netlink.LinkAdd(l); err != nil {
				err = fmt.Errorf("make %s: %w", l.Attrs().Name, err)
			}
		}
	}
	add(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "trunk"}, PeerName: "in"})
	add(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "port"}, PeerName: "far"})
	snooping := false
	add(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "bridge"}, MulticastSnooping: &snooping})
	if err != nil {
		return err
	}
	links := map[string]netlink.Link{}
	for _, name := range []string{"bridge", "trunk", "in", "port", "far"} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find %s: %w", name, err)
		}
		links[name] = l
		if name == "in" || name == "port" {
			if err := netlink.LinkSetMasterByIndex(l, links["bridge"].Attrs().Index); err != nil {
				return fmt.Errorf("put %s into the bridge: %w", name, err)
			}
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return fmt.Errorf("set %s up: %w", name, err)
		}
	}
	for name, to := range map[string]**packets.Socket{"trunk": &s.trunk, "port": &s.port, "far": &s.far} {
		if *to, err = packets.Open(links[name].Attrs().Index, nil); err != nil {
			return fmt.Errorf("packet socket on %s: %w", name, err)
		}
	}
	return nil
}

func (s *scratch) close() {
	if s.driver != nil {
		_ = s.driver.Close() // nothing of it remains: the namespace goes
	}
	for _, p := range []*packets.Socket{s.trunk, s.port, s.far} {
		if p != nil {
			_ = p.Close()
		}
	}
	if s.ns >= 0 {
		_ = unix.Close(s.ns)
	}
}

const selfTestTPID = 0x9900

func (s *scratch) program(ctx context.Context, bucket uint8, lm uint16) error {
	_, err := s.driver.Update(ctx, []vendors.PortUpdate{{Port: "port", Intents: []vlanrules.Intent{
		{Signal: quantize.MinABW, Action: vlanrules.Update, S: bucket, LM: lm}}}}, time.Minute)
	return err
}

// The two values the self-test flips between, as tag data.
const (
	flipA, flipB = 3<<7 | 1, 20<<7 | 2
	flipIn       = 31<<7 | 126
)

// flip changes the bucket under a flood of frames.
func (s *scratch) flip(ctx context.Context) (vlanrules.Verdict, error) {
	none := vlanrules.Verdict{}
	if err := s.driver.Apply(ctx, vendors.Setup{TPID: selfTestTPID, Signals: []quantize.Signal{quantize.MinABW},
		OnStale: inventory.Conservative, Ports: []vendors.PortSetup{{Port: "port", Action: vlanrules.Update}}}); err != nil {
		return none, err
	}
	if err := s.program(ctx, 3, 1); err != nil {
		return none, err
	}
	// Devices that have just been set up carry nothing for a while.
	if f, err := s.pass(s.port, selfTestFrame(1, flipIn)); err != nil {
		return none, fmt.Errorf("self-test: %w", err)
	} else if f == nil {
		return vlanrules.Verdict{Level: vlanrules.Degraded, Reason: fmt.Sprintf("could not run the self-test: no frame passed a pair of virtual devices within %v", passTime)}, nil
	}
	var stop atomic.Bool
	var seen tally
	sent := make(chan error, 1)
	go func() {
		f := selfTestFrame(0, flipIn)
		for n := 0; !stop.Load(); n++ {
			if n%32 == 0 {
				runtime.Gosched() // two processors have three of us to run
			}
			if err := s.port.Send(f); err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EINTR) {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	counted := make(chan error, 1)
	go func() {
		for !stop.Load() {
			f, _, err := s.far.Receive()
			if err != nil {
				counted <- err
				return
			}
			if len(f) >= 18 && binary.BigEndian.Uint16(f[12:]) == selfTestTPID {
				seen.count(binary.BigEndian.Uint16(f[14:]))
			}
		}
		counted <- nil
	}()
	var err error
	flips := 0
	for end := time.Now().Add(selfTestTime); err == nil && !seen.enough(flips) && time.Now().Before(end); flips++ {
		if flips%2 == 0 {
			err = s.program(ctx, 20, 2)
		} else {
			err = s.program(ctx, 3, 1)
		}
	}
	stop.Store(true)
	sendErr, receiveErr := <-sent, <-counted
	if err := errors.Join(err, sendErr, receiveErr); err != nil {
		return none, fmt.Errorf("self-test: %w", err)
	}
	return seen.verdict(flips), nil
}

// depths sends tags behind VLAN tags.
func (s *scratch) depths(most int) (vlanrules.Verdict, error) {
	if err := s.program(context.Background(), 3, 1); err != nil {
		return vlanrules.Verdict{}, err
	}
	id := uint16(0) // 0 is the flood's
	for k := 0; k <= most; k++ {
		for _, outer := range []uint16{0x8100, 0x88a8} {
			for _, way := range []struct {
				name string
				in   *packets.Socket
			}{{"in the frame", s.port}, {"offloaded", s.trunk}} {
				var vlans []uint16
				for i := range k {
					vlans = append(vlans, outer, uint16(100+i))
				}
				id++
				got, err := s.pass(way.in, selfTestFrame(id, flipIn, vlans...))
				if err != nil {
					return vlanrules.Verdict{}, fmt.Errorf("self-test: %w", err)
				}
				if !bytes.Equal(got, selfTestFrame(id, flipA, vlans...)) {
					return vlanrules.Verdict{Level: vlanrules.Degraded, Reason: fmt.Sprintf("a CSIG tag behind %d VLAN tags (0x%04x, the outermost %s) was not rewritten as it should", k, outer, way.name)}, nil
				}
			}
		}
	}
	return vlanrules.Verdict{}, nil
}

// passTime is how long a frame may take, with the devices coming up.
const passTime = 2 * time.Second

// pass sends a frame and returns it as it arrives, nil where it does not. It
// tries again: a bridge port that has just come up may not forward yet, and a
// queue may be full.
func (s *scratch) pass(in *packets.Socket, frame []byte) ([]byte, error) {
	for deadline := time.Now().Add(passTime); time.Now().Before(deadline); {
		if err := in.Send(frame); err != nil {
			return nil, err
		}
		for {
			f, _, err := s.far.Receive()
			if err != nil {
				return nil, err
			}
			if f == nil {
				break
			}
			// The same addresses and, at the end, the same number: everything
			// else is what the flood left, or the namespace's own.
			if len(f) == len(frame) && bytes.Equal(f[:12], frame[:12]) && bytes.Equal(f[len(f)-2:], frame[len(frame)-2:]) {
				return f, nil
			}
		}
	}
	return nil, nil
}

// selfTestFrame is a frame with VLAN tags (TPID, TCI, TPID, TCI, …), a CSIG
// tag, and a number at its end.
func selfTestFrame(id, data uint16, vlans ...uint16) []byte {
	f := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}
	for _, v := range append(vlans, selfTestTPID, data, 0x88b5) {
		f = binary.BigEndian.AppendUint16(f, v)
	}
	f = append(f, make([]byte, 44)...)
	return binary.BigEndian.AppendUint16(f, id)
}
