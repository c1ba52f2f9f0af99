package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/protocol/packets"
	"github.com/csig-agent/csig/quantize"
)

func TestMain(m *testing.M) { fabric.Tests(m, nil) }

func testProfile() *quantize.Profile {
	return &quantize.Profile{Name: "test", TPID: 0x9900, WideTPID: 0x9901}
}

// cable is two hosts with one cable.
type cable struct {
	fabric.Fabric
	a, b *fabric.Port
}

func newCable(t *testing.T) *cable {
	t.Helper()
	var c cable
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	a, err := c.AddHost("a")
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.AddHost("b")
	if err != nil {
		t.Fatal(err)
	}
	c.a, c.b, err = c.Connect(fabric.End{Node: a, Port: "up"}, fabric.End{Node: b, Port: "up"}, 1500)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.WaitUp(testContext(t)); err != nil {
		t.Fatal(err)
	}
	return &c
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func sender(t *testing.T, from *fabric.Port, cfg SenderConfig) *Sender {
	t.Helper()
	cfg.Interface = from.Name
	var s *Sender
	err := from.Node().Do(func() (err error) { s, err = NewSender(cfg); return err })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) //nolint:errcheck // a socket of a test
	return s
}

func listener(t *testing.T, on *fabric.Port, cfg ListenerConfig) *Listener {
	t.Helper()
	cfg.Interface = on.Name
	var l *Listener
	err := on.Node().Do(func() (err error) { l, err = NewListener(cfg); return err })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() }) //nolint:errcheck // a socket of a test
	return l
}

func next(t *testing.T, l *Listener) Received {
	t.Helper()
	r, err := l.Next(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWire(t *testing.T) {
	c := newCable(t)
	ctag, stag := VLAN{0x8100, 0xe00a}, VLAN{0x88a8, 0x0064}
	for _, tc := range []struct {
		name   string
		tpid   uint16 // of compact tags
		layout quantize.Layout
		format Format
		vlans  []VLAN
		want   quantize.Tag
	}{
		{"compact", 0x9900, quantize.Draft00, Compact, nil, quantize.Tag{TPID: 0x9900, S: 31, LM: 126}},
		{"compact uec", 0x9900, quantize.UEC, Compact, nil, quantize.Tag{TPID: 0x9900, S: 31, LM: 62}},
		{"wide", 0x9900, quantize.Draft00, Wide, nil, quantize.Tag{TPID: 0x9901, Wide: true, S: 1<<20 - 1, LM: 0xfffe}},
		{"wide uec", 0x9900, quantize.UEC, Wide, nil, quantize.Tag{TPID: 0x9901, Wide: true, S: 1<<20 - 1, LM: 0x7ffe}},
		{"untagged", 0x9900, quantize.Draft00, Untagged, nil, quantize.Tag{}},
		{"untagged in a VLAN", 0x9900, quantize.Draft00, Untagged, []VLAN{ctag}, quantize.Tag{}},
		{"behind 0x8100", 0x9900, quantize.Draft00, Compact, []VLAN{ctag}, quantize.Tag{TPID: 0x9900, S: 31, LM: 126}},
		{"behind 0x88a8", 0x9900, quantize.Draft00, Compact, []VLAN{stag}, quantize.Tag{TPID: 0x9900, S: 31, LM: 126}},
		{"behind QinQ", 0x9900, quantize.Draft00, Compact, []VLAN{stag, ctag}, quantize.Tag{TPID: 0x9900, S: 31, LM: 126}},
		{"behind QinQ the other way round", 0x9900, quantize.Draft00, Compact, []VLAN{ctag, stag}, quantize.Tag{TPID: 0x9900, S: 31, LM: 126}},
		{"wide behind four", 0x9900, quantize.Draft00, Wide, []VLAN{stag, ctag, ctag, stag}, quantize.Tag{TPID: 0x9901, Wide: true, S: 1<<20 - 1, LM: 0xfffe}},
		{"VLAN 0, a priority tag", 0x9900, quantize.Draft00, Compact, []VLAN{{0x8100, 0}}, quantize.Tag{TPID: 0x9900, S: 31, LM: 126}},
		{"TPID 0x88a8, which the kernel takes out", 0x88a8, quantize.Draft00, Compact, nil, quantize.Tag{TPID: 0x88a8, S: 31, LM: 126}},
		{"TPID 0x88a8 behind 0x8100", 0x88a8, quantize.Draft00, Compact, []VLAN{ctag}, quantize.Tag{TPID: 0x88a8, S: 31, LM: 126}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := testProfile()
			p.TPID, p.Layout = tc.tpid, tc.layout
			l := listener(t, c.b, ListenerConfig{Profile: p})
			own := listener(t, c.a, ListenerConfig{Profile: p})
			before := time.Now()
			s := sender(t, c.a, SenderConfig{Profile: p, Format: tc.format, VLANs: tc.vlans, Dst: c.b.MAC, Size: 100})
			sent, err := s.Send(quantize.MinABW)
			if err != nil {
				t.Fatal(err)
			}
			got := next(t, l)
			if !got.Probe || got.Payload.Run != s.RunID() || got.Payload.Seq != 0 || got.Payload.Sent.UnixNano() != sent.Sent.UnixNano() {
				t.Errorf("payload %+v, want %+v", got.Payload, sent)
			}
			if got.Tagged != (tc.format != Untagged) || got.Tag != tc.want || !reflect.DeepEqual(got.VLANs, tc.vlans) {
				t.Errorf("got tag %+v behind %v, want %+v behind %v", got.Tag, got.VLANs, tc.want, tc.vlans)
			}
			if !bytes.Equal(got.Dst, c.b.MAC) || !bytes.Equal(got.Src, c.a.MAC) {
				t.Errorf("from %v to %v", got.Src, got.Dst)
			}
			whole := Frame{Dst: c.b.MAC, Src: c.a.MAC, VLANs: tc.vlans, Tagged: got.Tagged, Tag: tc.want, Payload: sent}
			want, err := whole.AppendTo(nil, tc.layout, 100)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes, want) {
				t.Errorf("got\n% x, sent\n% x", got.Bytes, want)
			}
			if got.At.Before(before) || got.At.After(time.Now()) {
				t.Errorf("arrived at %v, sent after %v", got.At, before)
			}
			// The frame has long left by now: its own end must not see it.
			if r, ok := tryNext(t, own); ok {
				t.Errorf("the sender's end received its own frame: %+v", r)
			}
		})
	}
}

// tryNext takes a frame that is waiting already, if there is one.
func tryNext(t *testing.T, l *Listener) (Received, bool) {
	t.Helper()
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Next(done); !errors.Is(err, context.Canceled) {
		t.Errorf("Next with a context that is done: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), packets.Wait)
	defer cancel()
	r, err := l.Next(ctx)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	return r, err == nil
}

func TestRunTakesTurns(t *testing.T) {
	c := newCable(t)
	p := testProfile()
	p.InitialS = map[quantize.Signal]uint8{quantize.MinABW: 30}
	l := listener(t, c.b, ListenerConfig{Profile: p})
	s := sender(t, c.a, SenderConfig{Profile: p, Dst: c.b.MAC, Signals: []quantize.Signal{quantize.MinABW, quantize.MaxPD, 7}})
	if err := s.Run(t.Context(), time.Millisecond, 8); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		sig quantize.Signal
		seq uint64
		s   uint32
	}{{0, 0, 30}, {2, 0, 0}, {7, 0, 31}, {0, 1, 30}, {2, 1, 0}, {7, 1, 31}, {0, 2, 30}, {2, 2, 0}} {
		r := next(t, l)
		if r.Tag.T != want.sig || r.Payload.Signal != want.sig || r.Payload.Seq != want.seq || r.Tag.S != want.s {
			t.Errorf("probe %d is %+v of %+v, want %+v", i, r.Tag, r.Payload, want)
		}
	}
	if s.Sent(0) != 3 || s.Sent(2) != 3 || s.Sent(7) != 2 || s.Dropped() != 0 {
		t.Errorf("sent %d, %d, %d; dropped %d", s.Sent(0), s.Sent(2), s.Sent(7), s.Dropped())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Run(ctx, 5*time.Millisecond, 0); err != nil {
		t.Errorf("Run until its context is done: %v", err)
	}
	if err := s.Run(ctx, 0, 1); err == nil {
		t.Error("an interval of 0 is accepted")
	}
}

func TestListenerJudges(t *testing.T) {
	c := newCable(t)
	p := testProfile()
	for _, all := range []bool{false, true} {
		t.Run(fmt.Sprintf("all=%v", all), func(t *testing.T) {
			mine := sender(t, c.a, SenderConfig{Profile: p, Dst: c.b.MAC})
			other := sender(t, c.a, SenderConfig{Profile: p, Dst: c.b.MAC})
			l := listener(t, c.b, ListenerConfig{Profile: p, RunID: mine.RunID(), All: all})
			header := append(append([]byte{}, c.b.MAC...), c.a.MAC...)
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			// Not probes: plain, tagged, with its tags in the wrong order.
			must(mine.SendFrame(append(header[:12:12], make([]byte, 60)...)))
			must(mine.SendFrame(append(append(header[:12:12], 0x99, 0x00, 0x12, 0x34, 0x08, 0x00), make([]byte, 60)...)))
			must(mine.SendFrame(append(append(header[:12:12], 0x99, 0x00, 0x12, 0x34, 0x81, 0x00), make([]byte, 60)...)))
			_, err := other.Send(quantize.MinABW)
			must(err)
			f := Frame{Dst: c.b.MAC, Src: c.a.MAC, Tagged: true, Tag: quantize.Tag{TPID: 0x9900, T: 6, R: 1, S: 5, LM: 77}, Payload: Payload{Signal: 6, Run: mine.RunID(), Sent: time.Now()}}
			text, err := f.AppendTo(nil, p.Layout, MinSize)
			must(err)
			must(mine.SendFrame(text))

			if all {
				if r := next(t, l); r.Probe || !r.Tagged || r.Tag != (quantize.Tag{TPID: 0x9900, R: 1, S: 4, LM: 0x34}) {
					t.Errorf("want the tagged frame that is no probe, got %+v", r)
				}
			}
			r := next(t, l)
			if !r.Probe || r.Payload.Run != mine.RunID() || r.Tag != (quantize.Tag{TPID: 0x9900, T: 6, R: 1, S: 5, LM: 77}) {
				t.Errorf("want my probe, got %+v", r)
			}
			if l.Malformed() != 1 {
				t.Errorf("%d malformed frames, want 1", l.Malformed())
			}
			if got, want := l.Stats(), []Stats{{Run: mine.RunID(), Signal: 6, Received: 1}}; !reflect.DeepEqual(got, want) {
				t.Errorf("statistics %+v, want %+v", got, want)
			}
			if n, err := l.Overruns(); n != 0 || err != nil {
				t.Errorf("overruns %d, %v", n, err)
			}
		})
	}
}

// TestAllWithVLANTPID has foreign frames with a tag that the kernel hides.
func TestAllWithVLANTPID(t *testing.T) {
	c := newCable(t)
	p := &quantize.Profile{TPID: 0x88a8}
	l := listener(t, c.b, ListenerConfig{Profile: p, All: true})
	s := sender(t, c.a, SenderConfig{Profile: p, Dst: c.b.MAC})
	frame := append(append(append([]byte{}, c.b.MAC...), c.a.MAC...), 0x88, 0xa8, 0x12, 0x34, 0x08, 0x00)
	if err := s.SendFrame(append(frame, make([]byte, 60)...)); err != nil {
		t.Fatal(err)
	}
	if r := next(t, l); r.Probe || r.Tag.TPID != 0x88a8 || r.Tag.LM != 0x34 {
		t.Errorf("got %+v", r)
	}
}

func TestNextEndsWithContext(t *testing.T) {
	c := newCable(t)
	p := testProfile()
	l := listener(t, c.b, ListenerConfig{Profile: p})
	s := sender(t, c.a, SenderConfig{Profile: p, Dst: c.b.MAC})
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		if _, err := l.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		cancel()
		if _, err := s.Send(0); err != nil {
			t.Fatal(err)
		}
		next(t, l) // and it still works
	}
	failed := make(chan error, 1)
	go func() { _, err := l.Next(t.Context()); failed <- err }()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil {
		t.Error("Next of a closed listener returned no error")
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	c := newCable(t)
	p := testProfile()
	in := func(f func() error) error { return c.a.Node().Do(f) }
	for _, tc := range []struct {
		name string
		do   func() error
		want string
	}{
		{"too long", func() error {
			s := sender(t, c.a, SenderConfig{Profile: p, Dst: c.b.MAC, Size: 1515})
			_, err := s.Send(0)
			return err
		}, "probe sender on up: "},
		{"what to do when too long", func() error {
			s := sender(t, c.a, SenderConfig{Profile: p, Dst: c.b.MAC, Size: 1515})
			_, err := s.Send(0)
			return err
		}, "raise the MTU"},
		{"no such interface", func() error {
			return in(func() error {
				_, err := NewListener(ListenerConfig{Interface: "nowhere", Profile: p})
				return err
			})
		}, "probe listener on nowhere: find the interface"},
		{"no TPID", func() error {
			_, err := NewSender(SenderConfig{Interface: "up", Dst: c.b.MAC, Profile: &quantize.Profile{TPID: 0x9900}, Format: Wide})
			return err
		}, "no TPID for wide tags"},
		{"no destination", func() error {
			_, err := NewSender(SenderConfig{Interface: "up", Profile: p})
			return err
		}, "destination address"},
		{"five VLANs", func() error {
			_, err := NewSender(SenderConfig{Interface: "up", Dst: c.b.MAC, Profile: p, VLANs: make([]VLAN, 5)})
			return err
		}, "at most 4"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := tc.do(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestFabric sends probes across three switches in a row with links of three
// speeds and load on the middle one. No switch has rules, so every probe arrives
// as it was sent.
func TestFabric(t *testing.T) {
	var f fabric.Fabric
	defer f.Close() //nolint:errcheck // of a test
	node := func(n *fabric.Node, err error) *fabric.Node {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	link := func(a *fabric.Node, pa string, b *fabric.Node, pb string) (*fabric.Port, *fabric.Port) {
		t.Helper()
		x, y, err := f.Connect(fabric.End{Node: a, Port: pa}, fabric.End{Node: b, Port: pb}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return x, y
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	src, dst, in, out := node(f.AddHost("src")), node(f.AddHost("dst")), node(f.AddHost("in")), node(f.AddHost("out"))
	s1, s2, s3 := node(f.AddSwitch("s1")), node(f.AddSwitch("s2")), node(f.AddSwitch("s3"))
	from, _ := link(src, "up", s1, "src")
	e1, _ := link(s1, "next", s2, "prev")
	loadFrom, _ := link(in, "up", s2, "in")
	e2, _ := link(s2, "next", s3, "prev")
	e3, to := link(s3, "dst", dst, "up")
	loadOut, loadTo := link(s3, "out", out, "up")
	for _, hop := range []struct {
		port *fabric.Port
		rate uint64
	}{{e1, 100e6}, {e2, 40e6}, {e3, 60e6}} {
		must(hop.port.Shape(hop.rate))
		must(hop.port.Node().Forward(to.MAC, hop.port))
	}
	must(s2.Forward(loadTo.MAC, e2))
	must(s3.Forward(loadTo.MAC, loadOut))
	must(f.WaitUp(testContext(t)))

	p := testProfile()
	l := listener(t, to, ListenerConfig{Profile: p})
	s := sender(t, from, SenderConfig{Profile: p, Dst: to.MAC, Signals: []quantize.Signal{quantize.MinABW, quantize.MinABWC}})
	load, err := fabric.StartLoad(loadFrom, loadTo.MAC, 30e6)
	must(err)
	defer load.Stop() //nolint:errcheck // of a test
	counters, err := e2.Counters()
	must(err)
	defer counters.Close() //nolint:errcheck // of a test
	offered, err := loadFrom.Counters()
	must(err)
	defer offered.Close() //nolint:errcheck // of a test
	// both reads the load and the middle link within so short a time that a queue has the difference.
	both := func() (sent, carried fabric.Counts) {
		for first := time.Now(); time.Since(first) < time.Minute; {
			at := time.Now()
			var err, also error
			sent, err = offered.Read()
			carried, also = counters.Read()
			must(errors.Join(err, also))
			if time.Since(at) < 5*time.Millisecond {
				return sent, carried
			}
		}
		t.Fatal("two counters are not read within 5 ms")
		return sent, carried
	}
	loadBefore, before := both()

	capture, err := os.Create(filepath.Join(t.TempDir(), "got.pcap"))
	must(err)
	defer capture.Close() //nolint:errcheck // of a test
	pcap, err := NewCapture(capture)
	must(err)
	const count = 400
	running := make(chan error, 1)
	go func() { running <- s.Run(testContext(t), 2*time.Millisecond, count) }()
	for range count {
		r := next(t, l)
		want := quantize.Tag{TPID: 0x9900, T: r.Payload.Signal, S: 31, LM: 126}
		if r.Payload.Run != s.RunID() || r.Tag != want {
			t.Fatalf("got %+v of %+v, want %+v", r.Tag, r.Payload, want)
		}
		must(pcap.Write(r.At, r.Bytes))
	}
	must(<-running)
	loadAfter, after := both()
	for _, st := range l.Stats() {
		if st.Received != count/2 || st.Lost != 0 || st.Duplicates != 0 || st.Reordered != 0 {
			t.Errorf("%+v, want %d received and nothing else", st, count/2)
		}
	}
	// The load may be below its rate while the machine is busy; the link carries what it sends.
	sent, carried := loadAfter.L1Rate(loadBefore), after.L1Rate(before)
	if sent > 31e6 || carried < sent-1e6 || carried > sent+1.5e6 {
		t.Errorf("the middle link carried %.0f bit/s, want the load's %.0f, of 30 Mbit/s, and the probes' 0.3", carried, sent)
	}

	tshark, err := exec.Command("tshark", "-r", capture.Name(), "-Y", "eth.type == 0x9900", "-T", "fields", "-e", "frame.len").Output()
	if err != nil {
		t.Fatalf("read the capture: %v (install it with: apt-get install tshark)", err)
	}
	if n := bytes.Count(tshark, []byte("60\n")); n != count {
		t.Errorf("tshark reads %d tagged frames of 60 bytes, want %d", n, count)
	}
}
