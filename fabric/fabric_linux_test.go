package fabric

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// line is host a - switch 1 - switch 2 - switch 3 - host b, where the load
// host hangs on the first switch and its frames go to b.
type line struct {
	Fabric
	load, b *Node
	from    *Port   // the load host's port
	to      *Port   // b's port
	egress  []*Port // towards b, one a switch
}

func newLine(t *testing.T) *line {
	t.Helper()
	var l line
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	must := func(n *Node, err error) *Node {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	cable := func(a, b End) (*Port, *Port) {
		t.Helper()
		pa, pb, err := l.Connect(a, b, 0)
		if err != nil {
			t.Fatal(err)
		}
		return pa, pb
	}
	l.load, l.b = must(l.AddHost("load")), must(l.AddHost("b"))
	s1, s2, s3 := must(l.AddSwitch("s1")), must(l.AddSwitch("s2")), must(l.AddSwitch("s3"))
	l.from, _ = cable(End{Node: l.load, Port: "up"}, End{Node: s1, Port: "load"})
	e1, _ := cable(End{Node: s1, Port: "next"}, End{Node: s2, Port: "prev"})
	e2, _ := cable(End{Node: s2, Port: "next"}, End{Node: s3, Port: "prev"})
	e3, to := cable(End{Node: s3, Port: "next"}, End{Node: l.b, Port: "up"})
	l.to, l.egress = to, []*Port{e1, e2, e3}
	for _, p := range l.egress {
		if err := p.node.Forward(to.MAC, p); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := l.WaitUp(ctx); err != nil {
		t.Fatal(err)
	}
	return &l
}

func counters(t *testing.T, p *Port) *Reader {
	t.Helper()
	r, err := p.Counters()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func read(t *testing.T, r *Reader) Counts {
	t.Helper()
	c, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// queue reads the state of the port's shaper.
func queue(t *testing.T, p *Port) (q netlink.GnetStatsQueue) {
	t.Helper()
	err := p.node.Do(func() error {
		qdiscs, err := netlink.QdiscList(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: p.Name, Index: p.index}})
		if err == nil {
			q = *qdiscs[0].Attrs().Statistics.Queue
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// windows measures the port's L1 rate in consecutive windows and returns the
// rates sorted.
func windows(t *testing.T, r *Reader, width time.Duration, n int) []float64 {
	t.Helper()
	tick := time.NewTicker(width)
	defer tick.Stop()
	var rates []float64
	last := read(t, r)
	for range n {
		<-tick.C
		c := read(t, r)
		rates = append(rates, c.L1Rate(last))
		last = c
	}
	slices.Sort(rates)
	return rates
}

func within(got, want, part float64) bool { return got > want*(1-part) && got < want*(1+part) }

// settles measures windows until n of them are within part of the wanted rate,
// or gives up after 20 n. A busy machine holds the kernel's timers up in some
// windows; a shaper that is wrong is wrong in all of them.
func settles(t *testing.T, r *Reader, width time.Duration, n int, rate uint64, part float64) {
	t.Helper()
	var all []float64
	good := 0
	for good < n && len(all) < 20*n {
		m := windows(t, r, width, 1)[0]
		all = append(all, m)
		if within(m, float64(rate), part) {
			good++
		}
	}
	slices.Sort(all)
	t.Logf("%5.1f Mbit/s in windows of %v: %d of %d within %.2f %%, from %+.3f %% to %+.3f %%", float64(rate)/1e6, width,
		good, len(all), 100*part, 100*(all[0]/float64(rate)-1), 100*(all[len(all)-1]/float64(rate)-1))
	if good < n {
		t.Errorf("%d bit/s: only %d of %d windows of %v are within %.2f %%", rate, good, len(all), width, 100*part)
	}
}

func TestLoadIsExact(t *testing.T) {
	l := newLine(t)
	for _, p := range l.egress {
		if err := p.Shape(250_000_000); err != nil {
			t.Fatal(err)
		}
	}
	load, err := StartLoad(l.from, l.to.MAC, 5_000_000)
	if err != nil {
		t.Fatal(err)
	}
	defer load.Stop() //nolint:errcheck // stopped below
	last := counters(t, l.egress[2])
	for _, rate := range []uint64{1_000_000, 10_000_000, 100_000_000, 25_000_000} {
		if err := load.SetRate(rate); err != nil {
			t.Fatal(err)
		}
		windows(t, last, 100*time.Millisecond, 2) // what was queued before
		const frame = 8 * (LoadFrame + L1Overhead)
		// The edges of a window cut one frame in two.
		settles(t, last, 100*time.Millisecond, 5, rate, 0.002+10*frame/float64(rate))
		settles(t, last, 400*time.Millisecond, 2, rate, 0.002+2.5*frame/float64(rate))
	}
	for _, p := range l.egress {
		if q := queue(t, p); q.Drops > 0 {
			t.Errorf("%s dropped %d frames below its capacity", p, q.Drops)
		}
	}
	if err := load.Stop(); err != nil {
		t.Fatal(err)
	}
	quietSince := read(t, last)
	if rates := windows(t, last, 100*time.Millisecond, 2); rates[1] > 0 && read(t, last).Frames > quietSince.Frames+64 {
		t.Errorf("still %.0f bit/s after Stop", rates[1])
	}
}

func TestPauseAndResume(t *testing.T) {
	l := newLine(t)
	load, err := StartLoad(l.from, l.to.MAC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer load.Stop() //nolint:errcheck // of a test
	r := counters(t, l.egress[0])
	if rates := windows(t, r, 20*time.Millisecond, 2); rates[1] != 0 {
		t.Errorf("%.0f bit/s while paused", rates[1])
	}
	for round := range 2 {
		if err := load.SetRate(50_000_000); err != nil {
			t.Fatal(err)
		}
		settles(t, r, 50*time.Millisecond, 3, 50_000_000, 0.02)
		if err := load.SetRate(0); err != nil {
			t.Fatal(err)
		}
		windows(t, r, 5*time.Millisecond, 1) // in flight
		if rates := windows(t, r, 20*time.Millisecond, 2); rates[1] != 0 {
			t.Errorf("round %d: %.0f bit/s after the pause", round, rates[1])
		}
	}
	if err := load.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := load.SetRate(1e6); err == nil {
		t.Error("SetRate after Stop worked")
	}
}

func TestShapedLink(t *testing.T) {
	l := newLine(t)
	bottleneck := l.egress[1]
	load, err := StartLoad(l.from, l.to.MAC, 100_000_000)
	if err != nil {
		t.Fatal(err)
	}
	defer load.Stop() //nolint:errcheck // of a test
	r := counters(t, bottleneck)
	var before netlink.GnetStatsQueue
	for _, rate := range []uint64{20_000_000, 60_000_000, 10_000_000} {
		if err := bottleneck.Shape(rate); err != nil {
			t.Fatal(err)
		}
		windows(t, r, 20*time.Millisecond, 1)
		settles(t, r, 200*time.Millisecond, 3, rate, 0.01)
		q := queue(t, bottleneck)
		wait := time.Duration(8 * float64(q.Backlog+L1Overhead*q.Qlen) / float64(rate) * 1e9)
		t.Logf("%d Mbit/s: %d frames wait %v", rate/1e6, q.Qlen, wait)
		if q.Qlen == 0 || wait > MaxQueue {
			t.Errorf("a link of %d bit/s under too much load holds %d frames, %v", rate, q.Qlen, wait)
		}
		// The same shaper all the time: a new one would start counting at 0.
		if q.Drops <= before.Drops {
			t.Errorf("drops went from %d to %d", before.Drops, q.Drops)
		}
		before = q
	}
}

// TestSilence shows that nothing but the load is on any link, and that only
// for addresses that the switches have entries for.
func TestSilence(t *testing.T) {
	l := newLine(t)
	load, err := StartLoad(l.from, l.to.MAC, 20_000_000)
	if err != nil {
		t.Fatal(err)
	}
	defer load.Stop() //nolint:errcheck // stopped below
	windows(t, counters(t, l.egress[2]), time.Second, 1)
	if err := load.Stop(); err != nil {
		t.Fatal(err)
	}
	windows(t, counters(t, l.egress[2]), 10*time.Millisecond, 1) // in flight
	sent := read(t, counters(t, l.from))
	stray, err := StartLoad(l.from, net.HardwareAddr{2, 0, 0, 0, 0, 1}, 20_000_000)
	if err != nil {
		t.Fatal(err)
	}
	windows(t, counters(t, l.from), 10*time.Millisecond, 1)
	if err := stray.Stop(); err != nil {
		t.Fatal(err)
	}
	all := read(t, counters(t, l.from))
	if all.Frames == sent.Frames {
		t.Error("no load to the unknown address")
	}
	for _, n := range l.nodes {
		for _, p := range n.Ports() {
			c := read(t, counters(t, p))
			want := Counts{}
			switch {
			case p == l.from:
				want = all
			case slices.Contains(l.egress, p):
				want = sent // and nothing for the address that no switch knows
			}
			if c.Frames != want.Frames || c.Bytes != want.Bytes || c.Bytes != c.Frames*LoadFrame {
				t.Errorf("%s sent %d frames, %d bytes; want %d frames of %d", p, c.Frames, c.Bytes, want.Frames, LoadFrame)
			}
		}
	}
	if sent.Frames == 0 {
		t.Error("no load at all")
	}
}

func TestNamespace(t *testing.T) {
	n, err := NewNS("island")
	if err != nil {
		t.Fatal(err)
	}
	id := func() string {
		s, err := os.Readlink("/proc/thread-self/ns/net")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var st unix.Stat_t
	if err := unix.Fstat(n.FD(), &st); err != nil {
		t.Fatal(err)
	}
	var inside, nested string
	home := id()
	err = n.Do(func() error {
		inside = id()
		return n.Do(func() error { nested = id(); return nil })
	})
	if err != nil || inside != nested || inside == home || id() != home {
		t.Errorf("home %s, inside %s, nested %s: %v", home, inside, nested, err)
	}
	out, err := n.Command("readlink", "/proc/self/ns/net").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != inside {
		t.Errorf("a child is in %s, want %s: %v", out, inside, err)
	}
	out, err = n.Command("readlink", "/proc/self/ns/net").Output()
	if err != nil || strings.TrimSpace(string(out)) != inside {
		t.Errorf("a child is in %s, want %s: %v", out, inside, err)
	}
	sentinel := errors.New("sentinel")
	if err := n.Do(func() error { return sentinel }); !errors.Is(err, sentinel) {
		t.Errorf("Do lost the error: %v", err)
	}
	if main, err := os.Readlink("/proc/self/ns/net"); err != nil || main != home {
		t.Errorf("the main thread is in %s, want %s: %v", main, home, err)
	}

	child := n.Command("sleep", "10")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the child outlived its namespace: %v", err)
	}
	if err := n.Do(func() error { return nil }); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Do after Close: %v", err)
	}
	if err := n.Command("true").Run(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Command after Close: %v", err)
	}
}

func TestErrorsNameTheStep(t *testing.T) {
	l := newLine(t)
	for _, c := range []struct {
		name string
		do   func() error
		want string
	}{
		{"name taken", func() error {
			_, _, err := l.Connect(End{Node: l.load, Port: "up"}, End{Node: l.b, Port: "x"}, 0)
			return err
		}, "cable load:up to b:x: add a veth pair: file exists"},
		{"no rate", func() error { return l.from.Shape(7) }, "load:up: shape to 7 bit/s"},
		{"a host does not switch", func() error { return l.b.Forward(l.from.MAC, l.to) }, "want a port of this switch"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.do(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func BenchmarkCounters(b *testing.B) {
	var f Fabric
	defer f.Close() //nolint:errcheck // of a benchmark
	h, err := f.AddHost("h")
	if err != nil {
		b.Fatal(err)
	}
	p, _, err := f.Connect(End{Node: h, Port: "x"}, End{Node: h, Port: "y"}, 0)
	if err != nil {
		b.Fatal(err)
	}
	r, err := p.Counters()
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Read(); err != nil {
			b.Fatal(err)
		}
	}
}
