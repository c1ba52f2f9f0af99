package integration

import (
	"context"
	"slices"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/csig-agent/csig/counters/refreshtest"
	"github.com/csig-agent/csig/fabric"
)

// Ports of the switch whose counters are read, and what they are taken for: the
// cables are not shaped, so that what they carry is what was sent.
const (
	steadyPort  = "swp3" // one load all the time, in the middle of a bucket
	steppedPort = "swp4" // a load that changes
	idlePort    = "swp5" // nothing
	pollSpeed   = 100_000_000

	steadyLoad = 37_000_000
)

var polledPorts = []string{steadyPort, steppedPort, idlePort}

// steps are the loads of steppedPort, stepEvery each. The first and the third leave
// just more than an edge of the buckets, where a Δt that is not known well must
// be doubted.
var steps = []uint64{28_900_000, 50_000_000, 54_900_000, 68_000_000}

const stepEvery = 20 * time.Second

// polledSwitch is a switch with traffic, and the truth about it:
//
//	l1 ── swp1   swp3 ── h3
//	l2 ── swp2   swp4 ── h4
//	             swp5 ── h5
type polledSwitch struct {
	fabric.Fabric
	s1     *fabric.Node
	loads  [2]*fabric.Load
	truths map[string]*truth
}

// truth is what the kernel had counted on one port, again and again.
type truth struct {
	reader *fabric.Reader
	mu     sync.Mutex
	counts []fabric.Counts
}

func newPolledSwitch(t *testing.T) *polledSwitch {
	t.Helper()
	s := &polledSwitch{truths: map[string]*truth{}}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	var err error
	if s.s1, err = s.AddSwitch("s1"); err != nil {
		t.Fatal(err)
	}
	ends := map[string]*fabric.Port{}
	for host, port := range map[string]string{"l1": "swp1", "l2": "swp2", "h3": steadyPort, "h4": steppedPort, "h5": idlePort} {
		n, err := s.AddHost(host)
		if err != nil {
			t.Fatal(err)
		}
		far, near, err := s.Connect(fabric.End{Node: n, Port: "eth0"}, fabric.End{Node: s.s1, Port: port}, 0)
		if err == nil {
			err = s.s1.Forward(far.MAC, near)
		}
		if err != nil {
			t.Fatal(err)
		}
		ends[host] = far
		if slices.Contains(polledPorts, port) {
			r, err := near.Counters()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { r.Close() })
			s.truths[port] = &truth{reader: r}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.WaitUp(ctx); err != nil {
		t.Fatal(err)
	}
	for i, rate := range []uint64{steadyLoad, steps[0]} {
		s.loads[i], err = fabric.StartLoad(ends[[]string{"l1", "l2"}[i]], ends[[]string{"h3", "h4"}[i]].MAC, rate)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.loads[i].Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	return s
}

// watch notes the kernel's counters, and moves the load, until ctx ends.
func (s *polledSwitch) watch(ctx context.Context) error {
	return s.watchWhile(ctx, func(since time.Duration) [2]uint64 {
		return [2]uint64{steadyLoad, steps[int(since/stepEvery)%len(steps)]}
	})
}

// watchWhile is watch with loads of the time since its beginning.
func (s *polledSwitch) watchWhile(ctx context.Context, loads func(since time.Duration) [2]uint64) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	started, now := time.Now(), [2]uint64{steadyLoad, steps[0]}
	for {
		for _, tr := range s.truths {
			c, err := tr.reader.Read()
			if err != nil {
				return err
			}
			tr.mu.Lock()
			tr.counts = append(tr.counts, c)
			tr.mu.Unlock()
		}
		for i, rate := range loads(time.Since(started)) {
			if rate == now[i] {
				continue
			}
			if err := s.loads[i].SetRate(rate); err != nil {
				return err
			}
			now[i] = rate
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// bits is what the port had put on the wire by that time, between two readings in
// proportion.
func (tr *truth) bits(at time.Time) float64 {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	i, _ := slices.BinarySearchFunc(tr.counts, at, func(c fabric.Counts, at time.Time) int { return c.At.Compare(at) })
	if i == 0 {
		return float64(tr.counts[0].L1Bits())
	}
	a := tr.counts[i-1]
	if i == len(tr.counts) {
		return float64(a.L1Bits())
	}
	b := tr.counts[i]
	part := float64(at.Sub(a.At)) / float64(b.At.Sub(a.At))
	return float64(a.L1Bits()) + part*float64(b.L1Bits()-a.L1Bits())
}

// When is when the port had sent so many frames and not one more, between two readings (refreshtest.Truth).
func (tr *truth) When(frames uint64) (first, last time.Time) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	begin := func(c *fabric.Counts) time.Time { return c.At.Add(-c.Spread / 2) }
	i := sort.Search(len(tr.counts), func(i int) bool { return tr.counts[i].Frames >= frames })
	first = begin(&tr.counts[max(i-1, 0)])
	i = sort.Search(len(tr.counts), func(i int) bool { return tr.counts[i].Frames > frames })
	c := &tr.counts[min(i, len(tr.counts)-1)]
	return first, c.At.Add(c.Spread / 2)
}

// Sent is what the port had sent by that time.
func (tr *truth) Sent(at time.Time) (least, most refreshtest.Sent) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	i := sort.Search(len(tr.counts), func(i int) bool { return tr.counts[i].At.Add(tr.counts[i].Spread / 2).After(at) })
	a, b := tr.counts[max(i-1, 0)], tr.counts[min(i+1, len(tr.counts)-1)]
	return refreshtest.Sent{Frames: a.Frames, Bits: a.L1Bits()}, refreshtest.Sent{Frames: b.Frames, Bits: b.L1Bits()}
}

// nearest is the kernel's own load in a window of that length, the one that comes nearest
// to what was estimated of those that are up to a reading's distance away: a refresh is
// between two readings, and only its distance to the next one is known better.
func (tr *truth) nearest(from, to time.Time, load float64) float64 {
	best := tr.rate(from, to)
	for d := -time.Second; d <= time.Second; d += 20 * time.Millisecond {
		if r := tr.rate(from.Add(d), to.Add(d)); abs(r-load) < abs(best-load) {
			best = r
		}
	}
	return best
}

// rate is the kernel's own load between two times, in bit/s.
func (tr *truth) rate(from, to time.Time) float64 {
	return (tr.bits(to) - tr.bits(from)) / to.Sub(from).Seconds()
}
