package mesh

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/probe"
	"github.com/csig-agent/csig/quantize"
)

var testKey = []byte("0123456789abcdef")

// network joins probers: what one sends arrives at the other after a while.
type network struct {
	mu     sync.Mutex
	hosts  map[netip.Addr]*Prober
	flying sync.WaitGroup               // what is on its way
	clock  map[netip.Addr]time.Duration // how much that host's is ahead

	// path is what happens to a probe on its way: its delay, and its tag, which may be none; false: it is lost.
	path func(from, to netip.Addr, port int, tag quantize.Tag) (time.Duration, quantize.Tag, bool)
	sent []sentProbe

	catch    func(payload []byte) // sees each probe
	refuse   func(at int) error   // of the probes' numbers
	attempts int
}

type sentProbe struct {
	at       time.Time
	from, to netip.Addr
	port     int
	tagged   bool
	signal   quantize.Signal
}

// end is the network for one host.
type end struct {
	*network
	self netip.Addr
}

func (e end) Send(to netip.Addr, port int, tag quantize.Tag, payload []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	asked, err := probe.ParsePayload(payload)
	if err != nil {
		return err
	}
	if e.refuse != nil {
		e.attempts++
		if err := e.refuse(e.attempts - 1); err != nil {
			return err
		}
	}
	if e.catch != nil {
		e.catch(payload)
	}
	e.sent = append(e.sent, sentProbe{time.Now(), e.self, to, port, tag.TPID != 0, asked.Signal})
	delay, left, arrives := time.Millisecond, tag, true
	if e.path != nil {
		delay, left, arrives = e.path(e.self, to, port, tag)
	}
	host := e.hosts[to]
	if !arrives || host == nil {
		return nil
	}
	payload = slices.Clone(payload)
	var fields []byte
	if left.TPID != 0 {
		b, err := left.Encode(quantize.Draft00)
		if err != nil {
			return err
		}
		fields = b[2:]
	}
	clock := e.clock[to]
	e.flying.Go(func() {
		time.Sleep(delay)
		host.Asked(e.self, time.Now().Add(clock), fields, payload)
	})
	return nil
}

func (e end) Answer(to netip.Addr, payload []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	host := e.hosts[to]
	if host == nil {
		return nil
	}
	payload = slices.Clone(payload)
	e.flying.Go(func() {
		time.Sleep(time.Millisecond)
		host.Datagram(e.self, time.Now(), payload)
	})
	return nil
}

func addrOf(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }

func testProfile(t testing.TB) *quantize.Profile {
	t.Helper()
	p := &quantize.Profile{Name: "mesh", TPID: 0x9900, Interval: 100 * time.Millisecond, Signals: map[quantize.Signal]quantize.SignalProfile{}}
	for _, sig := range []quantize.Signal{quantize.MinABW, quantize.MinABWC} {
		b, err := quantize.Preset(sig, map[quantize.Signal]string{quantize.MinABW: "log-100M", quantize.MinABWC: "log"}[sig])
		if err != nil {
			t.Fatal(err)
		}
		p.Signals[sig] = quantize.SignalProfile{Buckets: b}
	}
	return p
}

// newNetwork has so many hosts, h1 and so on, and runs those of them that are named until the bubble's end.
func newNetwork(t *testing.T, n int, run ...int) *network {
	t.Helper()
	net := &network{hosts: map[netip.Addr]*Prober{}, clock: map[netip.Addr]time.Duration{}}
	profile := testProfile(t)
	for i := 1; i <= n; i++ {
		cfg := Config{Addr: addrOf(i), CSIG: true, Profile: profile, Signals: profile.Carried(), Key: testKey, Interval: time.Second, Packets: end{net, addrOf(i)}}
		for j := 1; j <= n; j++ {
			if j != i {
				cfg.Peers = append(cfg.Peers, Peer{fmt.Sprintf("h%d", j), addrOf(j), true})
			}
		}
		p, err := NewProber(cfg)
		if err != nil {
			t.Fatal(err)
		}
		net.hosts[addrOf(i)] = p
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, i := range run {
		all.Go(func() { _ = net.hosts[addrOf(i)].Run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		all.Wait()
		net.flying.Wait() // what is on its way arrives while there is time
	})
	return net
}

// taken counts the probes that were sent to a host, with tags and without, and forgets them.
func (n *network) taken() (untagged, tagged int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.sent {
		if s.tagged {
			tagged++
		} else {
			untagged++
		}
	}
	n.sent = nil
	return untagged, tagged
}

// rows are all news of a host, by port and signal.
func (n *network) rows(i int) map[string]Row {
	out := map[string]Row{}
	for _, r := range n.hosts[addrOf(i)].Rows(1 << 20) {
		out[fmt.Sprintf("%s %d %s", r.To, r.Port, r.Signal)] = r
	}
	return out
}

func (n *network) setPath(f func(from, to netip.Addr, port int, tag quantize.Tag) (time.Duration, quantize.Tag, bool)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.path = f
}

// hop is a switch on every way that writes S 5 and locator 17 where the tag asks for a signal.
func hop(_, _ netip.Addr, _ int, tag quantize.Tag) (time.Duration, quantize.Tag, bool) {
	if tag.TPID != 0 && tag.S > 5 {
		tag.S, tag.LM = 5, 17
	}
	return time.Millisecond, tag, true
}

// TestTrials sends what is promised: without tags at first, then each tagged probe between two of them, every
// signal and every source port in turn, once in an interval; and reads what came back.
func TestTrials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, 2, 1)
		n.setPath(hop)
		time.Sleep(time.Second)
		if untagged, tagged := n.taken(); untagged != 1 || tagged != 0 {
			t.Errorf("in the first interval %d untagged probes and %d tagged ones were sent, want one without a tag", untagged, tagged)
		}
		time.Sleep(8 * time.Second)
		n.mu.Lock()
		sent := n.sent
		n.mu.Unlock()
		paths := map[string]int{}
		for i, s := range sent {
			if (i%3 == 1) != s.tagged || s.to != addrOf(2) || s.port != sent[i-i%3].port {
				t.Errorf("probe %d is %+v", i, s)
			}
			if s.tagged {
				paths[fmt.Sprintf("h2 %d %v", s.port, s.signal)]++
			}
		}
		rows := n.rows(1)
		if len(sent) != 24 || len(paths) != 8 || len(rows) != 8 {
			t.Errorf("%d probes by %v, rows %v", len(sent), paths, rows)
		}
		for name, r := range rows {
			if paths[name] == 0 || r.State != StateCapable || !r.Read || r.S != 5 || r.LM != 17 || r.RTTNS != 2e6 || r.Lost != 0 || r.TaggedLost != 0 || r.Reordered != 0 || r.ExtraNS != 0 || time.Duration(r.AgeNS) > 8*time.Second {
				t.Errorf("%s: %+v", name, r)
			}
		}
		for name, r := range n.rows(1) {
			t.Errorf("%s has news without a trial: %+v", name, r)
		}
	})
}

// TestPathsWithoutTags has tags taken off, dropped, and not allowed; and a host that does not answer.
func TestPathsWithoutTags(t *testing.T) {
	state := func(t *testing.T, n *network, want string) {
		t.Helper()
		rows := n.rows(1)
		if len(rows) == 0 {
			t.Errorf("no rows, want %s", want)
		}
		for name, r := range rows {
			if r.State != want || r.Read {
				t.Errorf("%s: %+v, want %s and no reading", name, r, want)
			}
		}
	}
	t.Run("stripped", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(t, 2, 1)
			n.setPath(func(_, _ netip.Addr, _ int, tag quantize.Tag) (time.Duration, quantize.Tag, bool) {
				return time.Millisecond, quantize.Tag{}, true
			})
			time.Sleep(2 * time.Second)
			n.rows(1)
			time.Sleep(20 * time.Second)
			state(t, n, StateNotCapable)
			n.setPath(hop) // and the roll-out goes on
			time.Sleep(10 * time.Second)
			for name, r := range n.rows(1) {
				if r.State != StateCapable || !r.Read {
					t.Errorf("%s: %+v", name, r)
				}
			}
		})
	})
	t.Run("dropped", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(t, 2, 1)
			drop := func(_, _ netip.Addr, _ int, tag quantize.Tag) (time.Duration, quantize.Tag, bool) {
				return time.Millisecond, tag, tag.TPID == 0
			}
			n.setPath(drop)
			time.Sleep(20 * time.Second)
			state(t, n, StateDropsTags)
			if _, tagged := n.taken(); tagged < 3 || tagged > 4 { // the third may not be known to be lost when the fourth is sent
				t.Errorf("%d tagged probes were sent before they stopped", tagged)
			}
			time.Sleep(20 * time.Second)
			if untagged, tagged := n.taken(); untagged < 19 || tagged != 0 {
				t.Errorf("afterwards %d untagged ones and %d tagged ones", untagged, tagged)
			}
			n.setPath(hop)
			time.Sleep(time.Minute)
			n.rows(1)
			time.Sleep(10 * time.Second)
			for name, r := range n.rows(1) {
				if r.State != StateCapable || !r.Read {
					t.Errorf("%s: %+v", name, r)
				}
			}
		})
	})
	t.Run("one path of four drops", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(t, 2, 1)
			n.setPath(func(_, _ netip.Addr, port int, tag quantize.Tag) (time.Duration, quantize.Tag, bool) {
				return time.Millisecond, tag, tag.TPID == 0 || port != 2
			})
			time.Sleep(25 * time.Second)
			state(t, n, StateDropsTags)
		})
	})
	t.Run("all is lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(t, 2, 1)
			n.setPath(hop)
			time.Sleep(10 * time.Second)
			n.setPath(func(_, _ netip.Addr, _ int, tag quantize.Tag) (time.Duration, quantize.Tag, bool) {
				return 0, tag, false
			})
			time.Sleep(20 * time.Second)
			state(t, n, StateUnreachable)
			n.taken()
			time.Sleep(10 * time.Second)
			if _, tagged := n.taken(); tagged != 0 {
				t.Errorf("%d tags are sent to a host that does not answer", tagged)
			}
			n.setPath(hop) // it begins anew, without tags
			time.Sleep(time.Second)
			if _, tagged := n.taken(); tagged != 0 {
				t.Errorf("%d tags are sent before it has answered", tagged)
			}
			time.Sleep(10 * time.Second)
			for name, r := range n.rows(1) {
				if r.State != StateCapable || !r.Read {
					t.Errorf("%s: %+v", name, r)
				}
			}
		})
	})
	t.Run("not allowed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(t, 2, 1)
			p := n.hosts[addrOf(1)]
			p.mu.Lock()
			p.cfg.Peers[0].CSIG = false
			p.mu.Unlock()
			time.Sleep(20 * time.Second)
			state(t, n, StateUntagged)
			if untagged, tagged := n.taken(); untagged != 20 || tagged != 0 {
				t.Errorf("%d untagged and %d tagged probes", untagged, tagged)
			}
		})
	})
}

// TestTaggedAlone delays tagged probes, has them overtaken, and then everything.
func TestTaggedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, 2, 1)
		n.clock[addrOf(2)] = -time.Hour
		n.setPath(func(_, _ netip.Addr, _ int, tag quantize.Tag) (time.Duration, quantize.Tag, bool) {
			if tag.TPID != 0 {
				return 3 * time.Millisecond, tag, true
			}
			return time.Millisecond, tag, true
		})
		time.Sleep(30 * time.Second)
		for name, r := range n.rows(1) {
			if r.ExtraNS != 2e6 || r.Reordered != r.Tagged || r.TwinsReordered != 0 || r.RTTNS != 2e6 {
				t.Errorf("%s: %+v, want 2 ms more, each overtaken", name, r)
			}
		}
		turn := 0
		n.setPath(func(_, _ netip.Addr, _ int, tag quantize.Tag) (time.Duration, quantize.Tag, bool) {
			turn++
			return time.Duration(3-turn%3) * time.Millisecond, tag, true
		})
		time.Sleep(20 * time.Second)
		n.rows(1)
		// A clock that is set between two probes of a trial is no delay.
		n.setPath(hop)
		time.Sleep(time.Minute)
		n.rows(1)
		n.setPath(func(_, _ netip.Addr, _ int, tag quantize.Tag) (time.Duration, quantize.Tag, bool) {
			n.clock[addrOf(2)] += time.Hour // n.mu is held
			return time.Millisecond, tag, true
		})
		time.Sleep(20 * time.Second)
		for name, r := range n.rows(1) {
			if r.ExtraNS > 1e6 || r.ExtraNS < -1e6 || r.Reordered != 0 || r.State != StateCapable {
				t.Errorf("%s: %+v, while the peer's clock is set again and again", name, r)
			}
		}
	})
}

// TestHostileAnswers has what arrives forged, repeated, late, of others and of every kind: it is counted, and
// changes no row.
func TestHostileAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, 3)
		p := n.hosts[addrOf(1)]
		n.hosts[addrOf(2)], n.hosts[addrOf(3)] = nil, nil // what is sent is answered here
		peer := slices.IndexFunc(p.cfg.Peers, func(q Peer) bool { return q.Addr == addrOf(2) })
		p.pairs[peer].tags = true
		p.try(peer)
		answer := func(seq uint64) []byte {
			a := Answer{Run: p.run, Seq: seq, Received: time.Now(), Valid: seq%4 == tagged}
			binary.BigEndian.PutUint16(a.Fields[:], 3<<7|17)
			return a.AppendTo(nil, testKey)
		}
		var want Counts
		check := func(what string) {
			t.Helper()
			if got := p.Counts(); got != want {
				t.Errorf("%s: %+v, want %+v", what, got, want)
			}
		}
		for i := range 10_000 {
			b := answer(uint64(i % 3))
			b[len(b)-1-i%16] ^= 1
			p.Datagram(addrOf(2), time.Now(), b)
			want.Forged++
		}
		check("forged")
		other := Answer{Run: p.run + 1, Received: time.Now()}
		p.Datagram(addrOf(2), time.Now(), other.AppendTo(nil, testKey))
		want.OtherRun++
		p.Datagram(addrOf(3), time.Now(), answer(0))
		want.OtherHost++
		for _, seq := range []uint64{3, 4, 5, 1 << 40, 1<<64 - 1} {
			p.Datagram(addrOf(2), time.Now(), answer(seq))
			want.Malformed++
		}
		for _, version := range []byte{0, 2, 255} {
			b := answer(0)
			b[4] = version
			p.Datagram(addrOf(2), time.Now(), b)
			want.Malformed++
		}
		for cut := range answer(0) {
			p.Datagram(addrOf(2), time.Now(), answer(0)[:cut]) // below 4 bytes it is no probe either
			want.Malformed++
		}
		check("of others")
		for _, seq := range []uint64{2, 0, 1} { // reordered
			p.Datagram(addrOf(2), time.Now(), answer(seq))
		}
		check("right ones")
		p.Datagram(addrOf(2), time.Now(), answer(1))
		want.Late++ // the trial is over
		p.try(peer)
		p.Datagram(addrOf(2), time.Now(), answer(4))
		p.Datagram(addrOf(2), time.Now(), answer(4))
		want.Duplicate++
		time.Sleep(2 * time.Second)
		rows := n.rows(1)
		p.Datagram(addrOf(2), time.Now(), answer(6))
		want.Late++
		check("in the end")
		if len(rows) != 2 {
			t.Errorf("rows %+v, want one of each trial", rows)
		}
		if r := rows["h2 0 abw"]; r.State != StateCapable || r.S != 3 || r.LM != 17 || r.Sent != 2 || r.Lost != 0 || r.Tagged != 1 {
			t.Errorf("%+v", r)
		}
		if r := rows["h2 0 abwc"]; r.State != StateUnknown || r.Sent != 2 || r.Lost != 1 || r.TaggedLost != 1 || r.Read {
			t.Errorf("%+v", r)
		}
	})
}

// TestHostileProbes asks for more than a mesh asks for, from elsewhere, and in other words.
func TestHostileProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, 3)
		p := n.hosts[addrOf(1)]
		seq := uint64(0)
		asked := func(from int) []byte {
			seq++
			return appendProbe(nil, probe.Payload{Run: 1, Seq: seq, Sent: time.Now()}, testKey, addrOf(from), addrOf(1))
		}
		p.Asked(addrOf(77), time.Now(), nil, asked(77))
		p.Asked(addrOf(2), time.Now(), nil, asked(2)[:probeSize-1]) // the answer would be longer
		p.Asked(addrOf(2), time.Now(), nil, append(asked(2), 0))
		b := asked(2)
		b[4] = 2
		p.Asked(addrOf(2), time.Now(), nil, b)
		p.Asked(addrOf(2), time.Now(), nil, nil)
		for i := 5; i < probeSize; i++ {
			b := asked(2)
			b[i] ^= 1
			p.Asked(addrOf(2), time.Now(), nil, b)
		}
		p.Asked(addrOf(2), time.Now(), nil, asked(3))
		p.Asked(addrOf(2), time.Now(), nil, appendProbe(nil, probe.Payload{Run: 1, Seq: seq}, testKey, addrOf(2), addrOf(3)))
		if got, want := p.Counts(), (Counts{Strangers: 1, Malformed: 4, Forged: probeSize - 5 + 2}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		for range 10_000 {
			p.Asked(addrOf(2), time.Now(), nil, asked(2))
		}
		if got := p.Counts().OverLimit; got > 10_000-4*mostAsked+3 || got < 10_000-4*mostAsked-3 { // trials begin at multiples of four
			t.Errorf("%d of 10,000 at once are not answered", got)
		}
		before := p.Counts().OverLimit
		p.Asked(addrOf(3), time.Now(), nil, asked(3))
		if got := p.Counts().OverLimit; got != before {
			t.Error("what one peer sends takes answers of another one")
		}
		time.Sleep(time.Second)
		seq += 4 // the next trial
		p.Asked(addrOf(2), time.Now(), nil, asked(2))
		if got := p.Counts().OverLimit; got != before {
			t.Error("a second later one is not answered either")
		}
		time.Sleep(time.Second) // what was answered arrives
	})
}

// TestReplayedProbes has somebody send a host's probes again, 50 a second, whatever it once caught: the pair stays.
func TestReplayedProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, 2, 1)
		n.setPath(hop)
		to := n.hosts[addrOf(2)]
		var caught [][]byte
		n.mu.Lock()
		n.catch = func(payload []byte) { caught = append(caught, slices.Clone(payload)) }
		// A run of before, of which much was caught.
		for seq := range uint64(500) {
			caught = append(caught, appendProbe(nil, probe.Payload{Run: 7, Seq: seq, Sent: time.Now()}, testKey, addrOf(1), addrOf(2)))
		}
		n.mu.Unlock()
		time.Sleep(5 * time.Second)
		n.rows(1)
		for i := range 5000 {
			n.mu.Lock()
			b := caught[i*7919%len(caught)]
			n.mu.Unlock()
			to.Asked(addrOf(1), time.Now(), nil, b)
			time.Sleep(20 * time.Millisecond)
		}
		if got := to.Counts(); got.Replayed != 5000 || got.OverLimit != 0 {
			t.Errorf("%+v, want 5000 replayed ones", got)
		}
		for name, r := range n.rows(1) {
			if r.State != StateCapable || r.Lost != 0 || r.TaggedLost != 0 {
				t.Errorf("%s: %+v", name, r)
			}
		}
		time.Sleep(time.Second)
	})
}

// TestNewest has the network reorder, and hosts start again, with a clock that was set back too.
func TestNewest(t *testing.T) {
	var s newest
	now := time.Now()
	for i, c := range []struct {
		after    time.Duration
		run, seq uint64
		want     bool
	}{
		{0, 5, 0, true}, {0, 5, 0, false}, {0, 5, 2, true}, {0, 5, 1, true}, {0, 5, 1, false}, {0, 5, 100, true}, {0, 5, 90, true},
		{0, 4, 200, false}, {9 * time.Second, 4, 200, false}, {2 * time.Second, 4, 200, true}, {0, 5, 101, true},
		{0, 6, 3, true}, {0, 5, 102, false}, {0, 6, math.MaxUint64 - 1, true}, {0, 6, 4, true}, {0, 6, math.MaxUint64, false},
	} {
		now = now.Add(c.after)
		if got := s.take(now, c.run, c.seq, 10*time.Second); got != c.want {
			t.Errorf("%d: run %d, sequence %d is taken: %v, want %v", i, c.run, c.seq, got, c.want)
		}
	}
	for seq := range uint64(17) {
		s.take(now, 9, seq*4, time.Second)
	}
	if s.take(now, 9, 1, time.Second) || !s.take(now, 9, 5, time.Second) {
		t.Error("what is older than the newest 16 is new, or what is not is old")
	}
}

// TestUnsentProbes has the kernel not know the next hop's address at first: nothing was lost then; and later for
// good, which is a host that cannot be reached.
func TestUnsentProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, 2, 1)
		n.setPath(hop)
		unsent := errors.New("no neighbour")
		n.mu.Lock()
		n.refuse = func(at int) error {
			if at < 2 || at >= 100 && at%3 == tagged || at >= 200 {
				return unsent
			}
			return nil
		}
		n.mu.Unlock()
		time.Sleep(30 * time.Second)
		sum := Row{}
		for _, r := range n.rows(1) {
			sum.Sent, sum.Lost, sum.Tagged, sum.TaggedLost = sum.Sent+r.Sent, sum.Lost+r.Lost, sum.Tagged+r.Tagged, sum.TaggedLost+r.TaggedLost
		}
		if sum.Sent < 50 || sum.Lost != 0 || sum.Tagged < 20 || sum.TaggedLost != 0 {
			t.Errorf("%+v were sent and lost", sum)
		}
		time.Sleep(30 * time.Second) // tagged ones alone are not sent
		for name, r := range n.rows(1) {
			if r.State != StateCapable || r.TaggedLost != 0 || r.Lost != 0 {
				t.Errorf("%s: %+v", name, r)
			}
		}
		time.Sleep(30 * time.Second)
		for name, r := range n.rows(1) {
			if r.State != StateUnreachable || r.Lost != 0 {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if got := n.hosts[addrOf(1)].Counts().SendErrors; got < 20 {
			t.Errorf("%d errors were counted", got)
		}
	})
}

// TestUntaken has the collector take no rows for a while: what was sent and lost then counts in the next.
func TestUntaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, 2, 1)
		p := n.hosts[addrOf(1)]
		time.Sleep(30 * time.Second)
		sum := func(rows []Row) (sent, tagged int) {
			for _, r := range rows {
				sent, tagged = sent+r.Sent, tagged+r.Tagged
			}
			return sent, tagged
		}
		rows := p.Rows(1000)
		sent, tagged := sum(rows)
		p.Untaken(rows[:3])
		p.Untaken(rows[3:])
		again := p.Rows(1000)
		if s, g := sum(again); s != sent || g != tagged || sent < 40 || len(again) != len(rows) {
			t.Errorf("%d rows with %d and %d probes, then %d with %d and %d", len(rows), sent, tagged, len(again), s, g)
		}
		p.Untaken(again)
		time.Sleep(30 * time.Second)
		if s, g := sum(p.Rows(1000)); s < 2*sent-4 || g < 2*tagged-4 {
			t.Errorf("%d and %d probes, later %d and %d", sent, tagged, s, g)
		}
		many := rows[0]
		many.Sent = mostCounted
		for range 2 {
			p.Untaken([]Row{many})
		}
		for _, r := range p.Rows(1000) {
			if r.bad() {
				t.Errorf("%+v", r)
			}
		}
	})
}

// TestSlowMesh has the longest interval of a fleet file and few hosts, one of which has a link so slow that it probes
// less often still: all probes are answered.
func TestSlowMesh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, 2)
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		both := []*Prober{n.hosts[addrOf(1)], n.hosts[addrOf(2)]}
		for i, p := range both {
			p.cfg.Interval = time.Minute * time.Duration(1+9*i)
		}
		for _, p := range both {
			all.Go(func() { _ = p.Run(ctx) })
		}
		time.Sleep(time.Hour)
		cancel()
		all.Wait()
		for i := 1; i <= 2; i++ {
			if got := n.hosts[addrOf(i)].Counts(); got != (Counts{}) {
				t.Errorf("host %d: %+v", i, got)
			}
			rows, capable := n.rows(i), 0
			for name, r := range rows {
				if r.State == StateCapable {
					capable++
				}
				if r.Lost > 0 || r.TaggedLost > 0 {
					t.Errorf("host %d: %s: %+v", i, name, r)
				}
			}
			if i == 1 && capable < len(rows) || capable == 0 {
				t.Errorf("host %d: %d of %d are capable", i, capable, len(rows))
			}
		}
	})
}

// TestOrdinaryLoss has the way lose probes and answers by chance, with tags and without: it never counts as one that
// drops tags. One that does so, too, is found.
func TestOrdinaryLoss(t *testing.T) {
	for _, percent := range []int{0, 2, 15, 40} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(t, 2, 1)
			r := rand.New(rand.NewPCG(uint64(percent), 19))
			drops := false
			n.setPath(func(from, to netip.Addr, port int, tag quantize.Tag) (time.Duration, quantize.Tag, bool) {
				delay, tag, _ := hop(from, to, port, tag)
				return delay, tag, r.IntN(100) >= percent && (tag.TPID == 0 || !drops)
			})
			for range 24 {
				time.Sleep(5 * time.Minute)
				for name, row := range n.rows(1) {
					if row.State == StateDropsTags {
						t.Fatalf("%d %%: %s: %+v", percent, name, row)
					}
				}
			}
			n.mu.Lock()
			drops = true
			n.mu.Unlock()
			for i := 0; ; i++ {
				time.Sleep(10 * time.Second)
				if slices.ContainsFunc(slices.Collect(maps.Values(n.rows(1))), func(row Row) bool { return row.State == StateDropsTags }) {
					break
				}
				if i == 6*10 {
					t.Fatalf("%d %%: the path drops tags, and that is not found", percent)
				}
			}
		})
	}
}

// TestBursts has whatever takes a tagged probe take the one behind it, too: the tag is not the reason.
func TestBursts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, 2, 1)
		n.setPath(hop)
		time.Sleep(10 * time.Minute)
		behind := false
		n.setPath(func(from, to netip.Addr, port int, tag quantize.Tag) (time.Duration, quantize.Tag, bool) {
			delay, tag, _ := hop(from, to, port, tag)
			lost := tag.TPID != 0 || behind
			behind = tag.TPID != 0
			return delay, tag, !lost
		})
		for range 20 {
			time.Sleep(time.Second)
			for name, row := range n.rows(1) {
				if row.State == StateDropsTags {
					t.Fatalf("%s: %+v", name, row)
				}
			}
		}
	})
}

// TestOtherIntervals has one host probe ten times as often as the other, as while a fleet file is rolled out: all is answered.
func TestOtherIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, 2)
		n.setPath(hop)
		n.hosts[addrOf(2)].cfg.Interval = shortest
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for _, p := range []*Prober{n.hosts[addrOf(1)], n.hosts[addrOf(2)]} {
			all.Go(func() { _ = p.Run(ctx) })
		}
		time.Sleep(5 * time.Minute)
		cancel()
		all.Wait()
		for i := 1; i <= 2; i++ {
			if got := n.hosts[addrOf(i)].Counts(); got.OverLimit > 0 {
				t.Errorf("host %d: %+v", i, got)
			}
			for name, r := range n.rows(i) {
				if r.State != StateCapable || r.TaggedLost > 0 || r.Lost > 0 {
					t.Errorf("host %d: %s: %+v", i, name, r)
				}
			}
		}
	})
}

// TestWholeTrials has a peer ask much more often than any fleet file has it: what is answered is whole trials.
func TestWholeTrials(t *testing.T) {
	var l limit
	now := time.Now()
	let, all := 0, 0
	for trial := range uint64(10_000) {
		now = now.Add(5 * time.Millisecond)
		is := l.take(now, trial)
		for range 2 {
			if l.take(now.Add(time.Millisecond), trial) != is {
				t.Fatalf("trial %d is answered in part", trial)
			}
		}
		if all++; is {
			let++
		}
	}
	if let < all/20 || let > all/20+mostAsked {
		t.Errorf("%d of %d trials are answered", let, all)
	}
}

// TestEveryTag has a tag arrive with each of the 65,536 contents: those that answer what was asked for are read.
func TestEveryTag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, 2)
		p := n.hosts[addrOf(1)]
		n.hosts[addrOf(2)] = nil
		malformed := uint64(0)
		for tci := range 1 << 16 {
			p.pairs[0].tags, p.pairs[0].trials = true, 0 // abw
			number := p.first + uint64(len(p.trials))
			p.try(0)
			for k := range uint64(3) {
				a := Answer{Run: p.run, Seq: number*4 + k, Valid: k == tagged, Received: time.Now()}
				if k == tagged {
					binary.BigEndian.PutUint16(a.Fields[:], uint16(tci))
				}
				p.Datagram(addrOf(2), time.Now(), a.AppendTo(nil, testKey))
			}
			rows := p.Rows(10)
			if tci>>13 != 0 {
				malformed++
				continue
			}
			if len(rows) != 1 || !rows[0].Read || int(rows[0].S) != tci>>7&31 || int(rows[0].LM) != tci&127 {
				t.Fatalf("%04x: %+v", tci, rows)
			}
		}
		if got := p.Counts(); got.Malformed != malformed {
			t.Errorf("%+v, want %d malformed", got, malformed)
		}
	})
}

// TestCoverage has more hosts than are probed in an interval: each has its turn.
func TestCoverage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, 131, 1) // 63, 63 and 4
		for range 3 {
			time.Sleep(time.Second)
		}
		seen := map[netip.Addr]int{}
		n.mu.Lock()
		for _, s := range n.sent {
			seen[s.to]++
		}
		n.mu.Unlock()
		if len(seen) != 130 {
			t.Errorf("%d of 130 peers were probed in three intervals", len(seen))
		}
		at := map[time.Time]int{}
		for _, s := range n.sent {
			at[s.at]++
		}
		if len(at) < 120 {
			t.Errorf("130 probes were sent at %d times", len(at))
		}
	})
}
