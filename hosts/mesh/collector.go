package mesh

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// Bounds of what a daemon sends its collector.
const (
	MostRows = 100 // a second
)

// Collector takes the rows of all hosts, and says what limits them. All methods are safe beside each other.
type Collector struct {
	fleet   *inventory.Fleet
	hosts   []string
	index   map[string]int
	signals []quantize.Signal

	mu       sync.Mutex
	seen     []seen // by host
	pairs    map[[2]int]*record
	since    map[bottleneck]time.Time // of those that limit a pair now
	possible map[place][]inventory.PortRef
}

// seen is when a host's rows came.
type seen struct {
	at     time.Time
	rows   uint64
	counts Counts
}

// record is what is known of a pair.
type record struct {
	paths    []found // by port and signal
	rtt      time.Duration
	untagged history // of its probes without a tag
	tagged   history
}

// found is the last that is known of a path.
type found struct {
	state     string
	read      time.Time // of S and LM; zero: there is none
	s         uint8
	lm        uint16
	extra     time.Duration
	reordered history
}

// history is whether the last 64 of something went wrong, the latest in the lowest bit.
type history struct {
	bits uint64
	n    int
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

// place is what Candidates depends on.
type place struct {
	signal   quantize.Signal
	lm       uint16
	from, to int
}

// bottleneck is a signal's locator: the ports that may have written it, in the fleet's order.
type bottleneck struct {
	signal quantize.Signal
	ports  string
}

// NewCollector returns a collector for the hosts of a fleet's mesh.
func NewCollector(fleet *inventory.Fleet) *Collector {
	c := &Collector{fleet: fleet, index: make(map[string]int), signals: Signals(&fleet.Profile), pairs: make(map[[2]int]*record), since: make(map[bottleneck]time.Time), possible: make(map[place][]inventory.PortRef)}
	for i := range fleet.Hosts {
		if h := &fleet.Hosts[i]; h.Address != "" {
			c.index[h.Name] = len(c.hosts)
			c.hosts = append(c.hosts, h.Name)
		}
	}
	c.seen = make([]seen, len(c.hosts))
	return c
}

// Signals are those that a profile's compact tag carries, in wire order.
func Signals(p *quantize.Profile) []quantize.Signal {
	return slices.DeleteFunc(slices.Clone(quantize.Signals[:]), func(s quantize.Signal) bool {
		_, carried := p.Signals[s]
		return !carried
	})
}

// Add takes the rows of a host. Those of hosts and signals that the fleet does not know are refused, all of them.
func (c *Collector) Add(from string, r *Report) error {
	i, known := c.index[from]
	if !known {
		return fmt.Errorf("rows of host %q, which is not of this mesh", from)
	}
	type place struct{ to, path int }
	places := make([]place, len(r.Rows))
	for k := range r.Rows {
		row := &r.Rows[k]
		to, known := c.index[row.To]
		sig := slices.IndexFunc(c.signals, func(s quantize.Signal) bool { return s.String() == row.Signal })
		if !known || to == i || sig < 0 || row.Port < 0 || row.Port >= Ports || row.S > 31 || row.LM > c.fleet.Profile.Layout.LMAllOnes() || row.bad() {
			return fmt.Errorf("row %d of host %s is wrong: %+v", k+1, from, *row)
		}
		places[k] = place{to, row.Port*len(c.signals) + sig}
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[i].at, c.seen[i].counts = now, r.Counts
	c.seen[i].rows += uint64(len(r.Rows))
	for k := range r.Rows {
		row, at := &r.Rows[k], places[k]
		rec := c.pairs[[2]int{i, at.to}]
		if rec == nil {
			rec = &record{paths: make([]found, Ports*len(c.signals))}
			c.pairs[[2]int{i, at.to}] = rec
		}
		rec.rtt = time.Duration(row.RTTNS)
		rec.untagged.add(row.Sent, row.Lost)
		rec.tagged.add(row.Tagged, row.TaggedLost)
		p := &rec.paths[at.path]
		p.state, p.s, p.lm, p.read, p.extra = row.State, row.S, row.LM, time.Time{}, time.Duration(row.ExtraNS)
		p.reordered.add(row.Tagged, max(0, row.Reordered-row.TwinsReordered))
		if row.Read {
			p.read = now.Add(-time.Duration(row.AgeNS))
		}
	}
	return nil
}

// Status is what a mesh knows, csig.mesh/v1.
type Status struct {
	Format      string       `json:"format"`
	Profile     string       `json:"profile"`
	Time        time.Time    `json:"time"`
	IntervalNS  int64        `json:"interval_ns"`
	Hosts       []Host       `json:"hosts"`
	Bottlenecks []Bottleneck `json:"bottlenecks"` // that limit the most pairs first
	Pairs       []Pair       `json:"pairs"`
}

// StatusFormat is the Format of a Status.
const StatusFormat = "csig.mesh/v1"

// Host is a host of the mesh.
type Host struct {
	Name   string `json:"name"`
	State  string `json:"state"`  // live, silent, never
	AgeNS  int64  `json:"age_ns"` // of its last rows; 0 for never
	Rows   uint64 `json:"rows"`   // so far
	Counts Counts `json:"counts"`
}

// Bottleneck is an egress port that limits pairs of hosts.
type Bottleneck struct {
	Ports   []string  `json:"ports"` // DEVICE:PORT: several where they share the locator and no pair tells them apart
	Place   string    `json:"place"` // last hop, first hop or core; "" where the ports differ
	Signal  string    `json:"signal"`
	LM      uint16    `json:"lm"`
	S       uint8     `json:"s"`     // the worst that a pair has
	Range   string    `json:"range"` // of S
	Pairs   int       `json:"pairs"`
	Example []string  `json:"example"` // FROM, TO of one
	Since   time.Time `json:"since"`
	AgeNS   int64     `json:"age_ns"` // of the newest reading
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

// PairReading is the worst that the paths of a pair have now.
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

// Silent is after how long without rows a host's are unknown.
func (c *Collector) Silent() time.Duration { return 2*c.fleet.Mesh.Interval + time.Second }

// Status says what is known now.
func (c *Collector) Status() *Status {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	out := &Status{Format: StatusFormat, Profile: c.fleet.Profile.Name, Time: now, IntervalNS: c.fleet.Mesh.Interval.Nanoseconds(), Hosts: []Host{}, Bottlenecks: []Bottleneck{}, Pairs: []Pair{}}
	for i, name := range c.hosts {
		h := Host{Name: name, State: "never", Rows: c.seen[i].rows, Counts: c.seen[i].counts}
		if at := c.seen[i].at; !at.IsZero() {
			h.AgeNS = now.Sub(at).Nanoseconds()
			if h.State = "live"; now.Sub(at) > c.Silent() {
				h.State = "silent"
			}
		}
		out.Hosts = append(out.Hosts, h)
	}
	limiting := make(map[bottleneck]*Bottleneck)
	for i, from := range c.hosts {
		for j, to := range c.hosts {
			if i == j {
				continue
			}
			pair := Pair{From: from, To: to, State: StateUnknown, Signals: []PairReading{}}
			rec := c.pairs[[2]int{i, j}]
			if rec == nil || out.Hosts[i].State != "live" {
				out.Pairs = append(out.Pairs, pair)
				continue
			}
			pair.RTTNS = rec.rtt.Nanoseconds()
			if rec.untagged.n > 0 {
				pair.Loss = float64(bits.OnesCount64(rec.untagged.bits)) / float64(rec.untagged.n)
			}
			for k := range rec.paths {
				if slices.Index(States, rec.paths[k].state) > slices.Index(States, pair.State) {
					pair.State = rec.paths[k].state
				}
			}
			for k, sig := range c.signals {
				if reading, ok := c.worst(rec, k, i, j, now); ok {
					pair.Signals = append(pair.Signals, reading)
					c.limit(limiting, &pair, sig, &reading, now)
				}
			}
			out.Pairs = append(out.Pairs, pair)
		}
	}
	for key := range c.since {
		if limiting[key] == nil {
			delete(c.since, key)
		}
	}
	for key, b := range limiting {
		if c.since[key].IsZero() {
			c.since[key] = now
		}
		b.Since = c.since[key]
		out.Bottlenecks = append(out.Bottlenecks, *b)
	}
	slices.SortFunc(out.Bottlenecks, func(a, b Bottleneck) int {
		return cmp.Or(cmp.Compare(b.Pairs, a.Pairs), cmp.Compare(a.S, b.S), strings.Compare(a.Ports[0], b.Ports[0]), strings.Compare(a.Signal, b.Signal))
	})
	return out
}

// worst is the worst of a pair's paths for a signal; false where none has a reading.
func (c *Collector) worst(rec *record, signal, from, to int, now time.Time) (out PairReading, ok bool) {
	sig := c.signals[signal]
	var best *found
	for port := range Ports {
		p := &rec.paths[port*len(c.signals)+signal]
		if p.read.IsZero() || now.Sub(p.read) > c.oldest() {
			continue
		}
		if best == nil || sig.Worse(p.s, best.s) {
			best = p
		}
	}
	if best == nil {
		return out, false
	}
	layout := c.fleet.Profile.Layout
	out = PairReading{Signal: sig.String(), S: best.s, LM: best.lm, Ports: []string{}, AgeNS: now.Sub(best.read).Nanoseconds()}
	buckets := c.fleet.Profile.Signals[sig].Buckets
	out.Range = buckets.FormatRange(best.s)
	switch best.lm {
	case layout.LMNone():
		out.Note = "none"
	case layout.LMStale():
		out.Note = "stale"
	default:
		for _, ref := range c.candidates(sig, best.lm, from, to) {
			out.Ports = append(out.Ports, ref.String())
		}
	}
	return out, true
}

// oldest is how old a reading of one path may be: each has its turn, and one may be lost.
func (c *Collector) oldest() time.Duration {
	turns := Ports * len(c.signals) * ((len(c.hosts)-2)/MostPeers + 1)
	return time.Duration(2*turns+2) * c.fleet.Mesh.Interval
}

// candidates are the ports that may have written a locator between two hosts.
func (c *Collector) candidates(sig quantize.Signal, lm uint16, from, to int) []inventory.PortRef {
	key := place{sig, lm, from, to}
	ports, known := c.possible[key]
	if !known {
		ports, _ = c.fleet.Candidates(sig, lm, c.hosts[from], c.hosts[to]) // without a path there is none
		c.possible[key] = ports
	}
	return ports
}

// limit counts a pair at the port that limits it: one whose signal is in the worse half of its range.
func (c *Collector) limit(all map[bottleneck]*Bottleneck, pair *Pair, sig quantize.Signal, r *PairReading, now time.Time) {
	if len(r.Ports) == 0 || !c.limits(sig, r) {
		return
	}
	key := bottleneck{sig, strings.Join(r.Ports, " ")}
	b := all[key]
	if b == nil {
		b = &Bottleneck{Ports: r.Ports, Place: c.placeOf(r.Ports), Signal: r.Signal, LM: r.LM, S: r.S, Range: r.Range, AgeNS: r.AgeNS, Example: []string{pair.From, pair.To}}
		all[key] = b
	}
	b.Pairs++
	b.AgeNS = min(b.AgeNS, r.AgeNS)
	if sig.Worse(r.S, b.S) {
		b.S, b.Range, b.Example = r.S, r.Range, []string{pair.From, pair.To}
	}
}

// limits reports whether at most half of a port is left, as far as its speed is known.
func (c *Collector) limits(sig quantize.Signal, r *PairReading) bool {
	buckets := c.fleet.Profile.Signals[sig].Buckets
	_, high := buckets.Range(r.S)
	switch sig {
	case quantize.MinABWC:
		return high <= 500_000 // ppm
	case quantize.MinABW:
		device, name, _ := strings.Cut(r.Ports[0], ":")
		if d, known := c.fleet.Device(device); known {
			if p, known := d.Port(name); known && p.Speed > 0 {
				return high <= p.Speed/2
			}
		}
	}
	return sig.Worse(r.S, 15)
}

// placeOf is where ports are on the way: draft-00 §8.2.1.
func (c *Collector) placeOf(ports []string) (out string) {
	for i, name := range ports {
		device, port, _ := strings.Cut(name, ":")
		at := "core"
		if d, known := c.fleet.Device(device); known {
			if p, known := d.Port(port); known {
				if _, known := c.fleet.Host(p.Peer.Device); known {
					at = "last hop"
				} else if slices.ContainsFunc(d.Ports, func(p inventory.Port) bool { _, host := c.fleet.Host(p.Peer.Device); return host }) {
					at = "first hop"
				}
			}
		}
		if i > 0 && at != out {
			return ""
		}
		out = at
	}
	return out
}
