package mesh

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// MostRows is how many rows a second a host sends its collector at most.
const MostRows = 100

// Collector takes the rows of all hosts, and says what limits them. All methods are safe beside each other.
//
// It keeps at most 250 bytes for each pair that has been probed, with two signals, and MostChanges changes of all pairs, 24 bytes
// each: those are its history.
type Collector struct {
	began time.Time // of the times below

	mu      sync.Mutex
	fleet   *inventory.Fleet
	hosts   []*inventory.Host
	index   map[string]int
	signals []quantize.Signal
	seen    []seen      // by host
	pairs   [][]*record // from, to; nil: nothing is known yet
	written bool        // a tag has come with a locator
	changes ring
	kept    time.Time // since when there are changes
	ways    ways

	prefixes   []netip.Prefix // of the hosts
	histograms histograms

	since  map[string]time.Time // of bottlenecks and findings that there are now, by their names
	agents agentsSeen
	made   *Status       // the last one
	took   time.Duration // to make it
}

// seen is when a host's rows came.
type seen struct {
	at       time.Time
	rows     uint64
	counts   Counts
	interval time.Duration // it probes its peers at
	sockets  string
}

// record is what is known of a pair.
type record struct {
	paths     []found // by port and signal
	rtt       time.Duration
	untagged  history // probes without a tag: lost
	reordered history // with one: it and a twin changed places
}

// found is the last that is known of a path.
type found struct {
	read  int64 // when S and LM were, in ms since the collector began; 0: there is none
	extra int32 // of tagged probes, in µs
	lm    uint16
	s     uint8
	state uint8 // of States
}

// history is whether the last 64 of something went wrong, the latest in the lowest bit.
type history struct {
	bits uint64
	n    int8
}

func (h *history) add(all, wrong int) {
	for i := range min(all, 64) {
		h.bits <<= 1
		if i < wrong {
			h.bits |= 1
		}
		h.n = min(64, h.n+1)
	}
}

// MostChanges is how many changes of all pairs are kept.
const MostChanges = 1 << 20

// change is one of a path: its row's state, S or LM is another than before.
type change struct {
	at             int64 // ms since the collector began
	from, to       uint32
	lm             uint16
	path, s, state uint8
	read           bool // S and LM are of a tag
}

// ring has the last changes.
type ring struct {
	all  []change
	next int
	full bool // older ones were lost
}

func (r *ring) add(c change) {
	if len(r.all) < MostChanges {
		if n := len(r.all); n == cap(r.all) { // append might make it longer than MostChanges
			r.all = append(make([]change, 0, min(max(1024, 2*n), MostChanges)), r.all...)
		}
		r.all = append(r.all, c)
		return
	}
	r.all[r.next], r.full = c, true
	r.next = (r.next + 1) % MostChanges
}

// each calls f with the changes that are kept, the oldest first.
func (r *ring) each(f func(*change)) {
	for i := range r.all {
		f(&r.all[(r.next+i)%len(r.all)])
	}
}

// NewCollector returns a collector for the hosts of a fleet's mesh.
func NewCollector(fleet *inventory.Fleet) *Collector {
	c := &Collector{
		fleet: fleet, index: make(map[string]int), signals: fleet.Profile.Carried(), began: time.Now(),
		since: make(map[string]time.Time), ways: newWays(fleet),
	}
	for i := range fleet.Hosts {
		if h := &fleet.Hosts[i]; h.Address != "" {
			c.index[h.Name] = len(c.hosts)
			c.hosts = append(c.hosts, h)
			c.prefixes = append(c.prefixes, prefixOf(netip.MustParseAddr(h.Address).Unmap()))
		}
	}
	c.kept, c.histograms = c.began, newHistograms(c.began)
	c.seen = make([]seen, len(c.hosts))
	c.pairs = make([][]*record, len(c.hosts))
	return c
}

// has reports whether a host is of the mesh.
func (c *Collector) has(host string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := c.index[host]
	return known
}

// ms is a time as changes and readings have it, never 0.
func (c *Collector) ms(at time.Time) int64 { return max(1, at.Sub(c.began).Milliseconds()) }

// Add takes the rows of a host. Where one has a signal or number that cannot be, all are refused. Those about a
// host that is not of this mesh are left out: while a fleet file changes, not all hosts have the same.
func (c *Collector) Add(from string, r *Report) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, known := c.index[from]
	switch {
	case !known:
		return fmt.Errorf("rows of host %q, which is not of this mesh", from)
	case len(r.Rows) > most(c.fleet.Mesh.Interval):
		return fmt.Errorf("%d rows at once of host %s, want %d at most", len(r.Rows), from, most(c.fleet.Mesh.Interval))
	case r.IntervalNS < 0 || r.IntervalNS > longestInterval.Nanoseconds():
		return fmt.Errorf("host %s says that it probes every %v", from, time.Duration(r.IntervalNS))
	case !slices.Contains([]string{"", SocketsPacket, SocketsOrdinary, SocketsNone}, r.Sockets):
		return fmt.Errorf("host %s has sockets that no host has", from)
	}
	type place struct {
		row             *Row
		to, path, state int
	}
	var places []place
	for k := range r.Rows {
		row := &r.Rows[k]
		to, known := c.index[row.To]
		sig := slices.IndexFunc(c.signals, func(s quantize.Signal) bool { return s.String() == row.Signal })
		state := slices.Index(States, row.State)
		if row.To == from || sig < 0 || row.Port < 0 || row.Port >= Ports || row.S > 31 || row.LM > c.fleet.Profile.Layout.LMAllOnes() || state < 0 || row.bad() {
			return fmt.Errorf("row %d of host %s is wrong: %+v", k+1, from, *row)
		}
		if known {
			places = append(places, place{row, to, row.Port*len(c.signals) + sig, state})
		}
	}
	now := time.Now()
	c.roll(now)
	c.seen[i].at, c.seen[i].counts, c.seen[i].interval, c.seen[i].sockets = now, r.Counts, time.Duration(r.IntervalNS), r.Sockets
	c.seen[i].rows += uint64(len(r.Rows))
	if c.pairs[i] == nil {
		c.pairs[i] = make([]*record, len(c.hosts))
	}
	for _, at := range places {
		row := at.row
		rec := c.pairs[i][at.to]
		if rec == nil {
			rec = &record{paths: make([]found, Ports*len(c.signals))}
			c.pairs[i][at.to] = rec
		}
		rec.rtt = time.Duration(row.RTTNS)
		rec.untagged.add(row.Sent, row.Lost)
		rec.reordered.add(row.Tagged, max(0, row.Reordered-row.TwinsReordered))
		is := found{state: uint8(at.state), extra: int32(min(max(row.ExtraNS/1000, -1<<30), 1<<30))}
		if row.Read {
			is.read, is.s, is.lm = c.ms(now.Add(-time.Duration(row.AgeNS))), row.S, row.LM
			c.written = c.written || row.LM != c.fleet.Profile.Layout.LMNone()
		}
		until := is.read
		if until == 0 {
			until = c.ms(now)
		}
		c.hold(i, at.to, at.path, &rec.paths[at.path], until)
		if gone := slices.Index(States, StateUnreachable); int(rec.paths[at.path].state) == gone && at.state != gone {
			rec.untagged = history{} // what was lost while it was gone is no loss of the way
		}
		if was := rec.paths[at.path]; was.state != is.state || was.s != is.s || was.lm != is.lm || (was.read == 0) != (is.read == 0) {
			c.changes.add(change{c.ms(now), uint32(i), uint32(at.to), is.lm, uint8(at.path), is.s, is.state, is.read != 0})
		}
		rec.paths[at.path] = is
	}
	return nil
}

// longestInterval is the longest at which a host may say that it probes its peers.
const longestInterval = time.Hour

// most is how many rows a report has at most.
func most(interval time.Duration) int {
	return min(int(MostRows*max(time.Second, interval)/time.Second), mostRows)
}

// mostRows are in a report at most: what was not sent for a while comes in several. They have less than maxReport bytes.
const mostRows = 2000

// silent is after how long without rows a host's are unknown.
func (c *Collector) silent() time.Duration { return 2 * max(time.Second, c.fleet.Mesh.Interval) }

// live reports whether a host's rows are new enough.
func (c *Collector) live(host int, now time.Time) bool {
	return !c.seen[host].at.IsZero() && now.Sub(c.seen[host].at) <= c.silent()
}

// oldest is how old the reading of a path from a host may be: all ports and signals of a pair have their turns, and
// one may be lost.
func (c *Collector) oldest(from int) time.Duration {
	rounds := (len(c.hosts)-2)/MostPeers + 1
	return time.Duration(2*Ports*len(c.signals)*rounds)*max(c.fleet.Mesh.Interval, c.seen[from].interval) + c.silent()
}

// oldestOfAll is how old the reading of any path may be.
func (c *Collector) oldestOfAll() (out time.Duration) {
	for i := range c.hosts {
		out = max(out, c.oldest(i))
	}
	return out
}

// worst is the worst that the paths of a pair from a host have read for a signal; nil where none has.
func (c *Collector) worst(from int, rec *record, signal int, now time.Time) (out *found) {
	oldest, fallback := c.oldest(from), c.fleet.Profile.Layout.LMStale()
	for port := range Ports {
		p := &rec.paths[port*len(c.signals)+signal]
		if !c.holds(p, oldest, now) {
			continue
		}
		// What a path with a signal reads says more than a fallback, which is the worst bucket of all.
		if out == nil || p.lm != fallback && out.lm == fallback || (p.lm == fallback) == (out.lm == fallback) && c.signals[signal].Worse(p.s, out.s) {
			out = p
		}
	}
	return out
}

// holds reports whether the last that is known of a path is a reading, and no older than oldest.
func (c *Collector) holds(p *found, oldest time.Duration, now time.Time) bool {
	return p.read != 0 && c.age(p, now) <= oldest
}

// stale reports whether one of the paths of a pair from a host has read that a switch has no current signal.
func (c *Collector) stale(from int, rec *record, now time.Time) bool {
	oldest, fallback := c.oldest(from), c.fleet.Profile.Layout.LMStale()
	return slices.ContainsFunc(rec.paths, func(p found) bool { return p.lm == fallback && c.holds(&p, oldest, now) })
}

// state is the state of a pair: that of its path which says the most.
func (rec *record) state() int {
	out := 0
	for i := range rec.paths {
		out = max(out, int(rec.paths[i].state))
	}
	return out
}
