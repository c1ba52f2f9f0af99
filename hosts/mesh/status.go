package mesh

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/quantize"
)

// Status is what a mesh knows, csig.mesh/v1.
type Status struct {
	Format      string         `json:"format"`
	Profile     string         `json:"profile"`
	Time        time.Time      `json:"time"`
	IntervalNS  int64          `json:"interval_ns"`
	OldestNS    int64          `json:"oldest_ns"` // readings are no older
	Hosts       []Host         `json:"hosts"`
	States      map[string]int `json:"states"`      // how many pairs are in each
	Bottlenecks []Bottleneck   `json:"bottlenecks"` // that limit the most pairs first
	Findings    []Finding      `json:"findings"`    // the gravest first
	Pairs       []Pair         `json:"pairs"`       // of up to MostMatrix hosts; of more none
}

// StatusFormat is the Format of a Status.
const StatusFormat = "csig.mesh/v1"

// MostMatrix is of how many hosts a Status has all pairs.
const MostMatrix = 64

// Host is a host of the mesh.
type Host struct {
	Name   string `json:"name"`
	State  string `json:"state"`  // live, silent, never
	AgeNS  int64  `json:"age_ns"` // of its last rows; 0 for never
	Rows   uint64 `json:"rows"`   // so far
	Counts Counts `json:"counts"`

	// Sockets is what its probes leave by: packet sockets, or ordinary ones where its csig host run inserts and removes tags;
	// "" where it has not said.
	Sockets string `json:"sockets"`
}

// The states of a host.
const (
	HostLive   = "live"
	HostSilent = "silent" // its last rows are too old: its pairs are unknown
	HostNever  = "never"  // none came yet
)

// Bottleneck is an egress port that limits pairs of hosts.
type Bottleneck struct {
	Ports   []string  `json:"ports"` // DEVICE:PORT: several where they share the locator, and lie on the same paths
	Place   string    `json:"place"` // last hop, first hop or core; "" where the ports differ
	Signal  string    `json:"signal"`
	LM      uint16    `json:"lm"`
	S       uint8     `json:"s"`     // the worst that a pair has
	Range   string    `json:"range"` // of S
	Pairs   int       `json:"pairs"`
	Example []string  `json:"example"` // FROM, TO of one
	Since   time.Time `json:"since"`
	AgeNS   int64     `json:"age_ns"` // of the newest reading

	left uint8 // buckets from S to the worst one
}

// Pair is the way from one host to another.
type Pair struct {
	From    string        `json:"from"`
	To      string        `json:"to"`
	State   string        `json:"state"`
	RTTNS   int64         `json:"rtt_ns"` // 0: not known
	Loss    float64       `json:"loss"`   // of the last 64 untagged probes at most, 0 to 1
	Signals []PairReading `json:"signals"`
}

// PairReading is the worst that the paths of a pair have read.
type PairReading struct {
	Signal string   `json:"signal"`
	S      uint8    `json:"s"`
	Range  string   `json:"range"`
	LM     uint16   `json:"lm"`
	Ports  []string `json:"ports"` // that may have written it
	Note   string   `json:"note"`  // none, stale, or ""
	AgeNS  int64    `json:"age_ns"`
}

// States are in the order in which one says more about a pair than another.
var States = []string{StateUnknown, StateCapable, StateUntagged, StateNotCapable, StateDropsTags, StateUnreachable}

// A Status is shown again until it is so old, and for so many times as long as it took to make: of a thousand hosts
// that is a part of a second, in which no rows are taken.
const (
	statusAge   = 200 * time.Millisecond
	statusTimes = 20
)

// Status says what is known now. It is not to be changed.
func (c *Collector) Status() *Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.made == nil || now.Sub(c.made.Time) > max(statusAge, statusTimes*c.took) {
		c.made = c.status(now)
		c.took = time.Since(now)
	}
	return c.made
}

func (c *Collector) status(now time.Time) *Status {
	out := &Status{
		Format: StatusFormat, Profile: c.fleet.Profile.Name, Time: now, IntervalNS: c.fleet.Mesh.Interval.Nanoseconds(), OldestNS: c.oldestOfAll().Nanoseconds(),
		Hosts: []Host{}, States: make(map[string]int), Bottlenecks: []Bottleneck{}, Pairs: []Pair{},
	}
	for i, host := range c.hosts {
		h := Host{Name: host.Name, State: HostNever, Rows: c.seen[i].rows, Counts: c.seen[i].counts, Sockets: c.seen[i].sockets}
		if at := c.seen[i].at; !at.IsZero() {
			h.AgeNS = now.Sub(at).Nanoseconds()
			if h.State = HostSilent; c.live(i, now) {
				h.State = HostLive
			}
		}
		out.Hosts = append(out.Hosts, h)
	}
	limiting := make(map[limitKey]*Bottleneck)
	states := make([]int, len(States))
	var writers []*port
	for i := range c.hosts {
		for j := range c.hosts {
			if i == j {
				continue
			}
			rec := c.known(i, j, now)
			if rec == nil {
				states[slices.Index(States, StateUnknown)]++
			} else {
				states[rec.state()]++
				way := c.ways.between(i, j)
				for k, sig := range c.signals {
					if f := c.worst(i, rec, k, now); f != nil {
						writers = way.writers(writers[:0], sig, f.lm)
						c.limit(limiting, i, j, sig, f, writers, now)
					}
				}
			}
			if len(c.hosts) <= MostMatrix {
				out.Pairs = append(out.Pairs, c.pair(i, j, rec, now))
			}
		}
	}
	for i, n := range states {
		if n > 0 {
			out.States[States[i]] = n
		}
	}
	is := make(map[string]bool)
	for _, b := range limiting {
		key := "limits " + b.Signal + " " + strings.Join(b.Ports, " ")
		is[key] = true
		if c.since[key].IsZero() {
			c.since[key] = now
		}
		b.Since = c.since[key]
		out.Bottlenecks = append(out.Bottlenecks, *b)
	}
	for key := range c.since {
		if strings.HasPrefix(key, "limits ") && !is[key] {
			delete(c.since, key)
		}
	}
	slices.SortFunc(out.Bottlenecks, func(a, b Bottleneck) int {
		return cmp.Or(cmp.Compare(b.Pairs, a.Pairs), cmp.Compare(a.left, b.left), slices.Compare(a.Ports, b.Ports), strings.Compare(a.Signal, b.Signal))
	})
	if out.Findings = c.judge(now); out.Findings == nil {
		out.Findings = []Finding{}
	}
	return out
}

// known is what is known of a pair, nil for nothing.
func (c *Collector) known(from, to int, now time.Time) *record {
	if !c.live(from, now) || c.pairs[from] == nil {
		return nil
	}
	return c.pairs[from][to]
}

// pair is a pair as a Status has it.
func (c *Collector) pair(from, to int, rec *record, now time.Time) Pair {
	out := Pair{From: c.hosts[from].Name, To: c.hosts[to].Name, State: StateUnknown, Signals: []PairReading{}}
	if rec == nil {
		return out
	}
	out.State, out.RTTNS = States[rec.state()], rec.rtt.Nanoseconds()
	if rec.untagged.n > 0 {
		out.Loss = float64(bits.OnesCount64(rec.untagged.bits)) / float64(rec.untagged.n)
	}
	for k, sig := range c.signals {
		if f := c.worst(from, rec, k, now); f != nil {
			out.Signals = append(out.Signals, c.reading(sig, f, from, to, now))
		}
	}
	return out
}

// reading is a path's last one.
func (c *Collector) reading(sig quantize.Signal, f *found, from, to int, now time.Time) PairReading {
	buckets := c.fleet.Profile.Signals[sig].Buckets
	out := PairReading{Signal: sig.String(), S: f.s, Range: buckets.FormatRange(f.s), LM: f.lm, Ports: []string{}, AgeNS: c.age(f, now).Nanoseconds()}
	switch layout := c.fleet.Profile.Layout; f.lm {
	case layout.LMNone():
		out.Note = "none"
	case layout.LMStale():
		out.Note = "stale"
	default:
		out.Ports = names(c.ways.between(from, to).writers(nil, sig, f.lm))
	}
	return out
}

func (c *Collector) age(f *found, now time.Time) time.Duration {
	return max(0, now.Sub(c.began)-time.Duration(f.read)*time.Millisecond)
}

// limitKey is a signal and the ports that may limit it.
type limitKey struct {
	signal quantize.Signal
	first  *port
	others string
}

// limit counts a pair at the ports that may have written what it reads.
func (c *Collector) limit(all map[limitKey]*Bottleneck, from, to int, sig quantize.Signal, f *found, ports []*port, now time.Time) {
	if layout := c.fleet.Profile.Layout; len(ports) == 0 || f.lm == layout.LMNone() || f.lm == layout.LMStale() || !c.limits(sig, f.s, ports[0]) {
		return
	}
	key := limitKey{signal: sig, first: ports[0]}
	if len(ports) > 1 {
		key.others = joined(ports[1:])
	}
	b := all[key]
	if b == nil {
		b = &Bottleneck{Ports: names(ports), Place: placeOf(ports), Signal: sig.String(), LM: f.lm, S: sig.InitialBucket(), AgeNS: c.age(f, now).Nanoseconds()}
		all[key] = b
	}
	b.Pairs++
	b.AgeNS = min(b.AgeNS, c.age(f, now).Nanoseconds())
	if b.Example == nil || sig.Worse(f.s, b.S) {
		buckets := c.fleet.Profile.Signals[sig].Buckets
		b.left = max(f.s, sig.WorstBucket()) - min(f.s, sig.WorstBucket())
		b.S, b.Range, b.Example = f.s, buckets.FormatRange(f.s), []string{c.hosts[from].Name, c.hosts[to].Name}
	}
}

// isFull reports whether a port has at most a hundredth of its speed left: there buckets are closer to one another than two
// measurements.
func (c *Collector) isFull(sig quantize.Signal, s uint8, p *port) bool {
	buckets := c.fleet.Profile.Signals[sig].Buckets
	_, high := buckets.Range(s)
	switch {
	case sig == quantize.MinABWC:
		return high <= 10_000 // ppm
	case sig == quantize.MinABW:
		return high <= p.is.Speed/100 // of no known speed none is
	}
	return false
}

// limits reports whether a port has at most half of its speed left; without a speed in the fleet file, or for
// signals that are not bandwidth, whether S is in the worse half.
func (c *Collector) limits(sig quantize.Signal, s uint8, p *port) bool {
	buckets := c.fleet.Profile.Signals[sig].Buckets
	_, high := buckets.Range(s)
	switch {
	case sig == quantize.MinABWC:
		return high <= 500_000 // ppm
	case sig == quantize.MinABW && p.is.Speed > 0:
		return high <= p.is.Speed/2
	}
	return sig.Worse(s, 15)
}
