package mesh

import (
	"fmt"
	"time"
)

// Why is what a pair's paths have read, csig.mesh-why/v1.
type Why struct {
	Format  string       `json:"format"`
	Time    time.Time    `json:"time"`
	Pair    Pair         `json:"pair"`
	Hops    [][]string   `json:"hops"`    // egress ports on its shortest paths by the fleet file, by hop
	Paths   []PathStatus `json:"paths"`   // by source port and signal
	Since   time.Time    `json:"since"`   // of the oldest change that is kept, of any pair
	Changes []Change     `json:"changes"` // the oldest first
}

// WhyFormat is the Format of a Why.
const WhyFormat = "csig.mesh-why/v1"

// PathStatus is the last that is known of a pair by one source port and for one signal.
type PathStatus struct {
	Port    int          `json:"port"`
	Signal  string       `json:"signal"`
	State   string       `json:"state"`
	ExtraNS int64        `json:"extra_ns"` // of tagged probes
	Reading *PairReading `json:"reading"`  // null: none
}

// Change is a change of a path.
type Change struct {
	Time   time.Time `json:"time"`
	Port   int       `json:"port"`
	Signal string    `json:"signal"`
	State  string    `json:"state"`
	Read   bool      `json:"read"` // the following is of a tag
	S      uint8     `json:"s"`
	Range  string    `json:"range"`
	LM     uint16    `json:"lm"`
	Ports  []string  `json:"ports"`
	Note   string    `json:"note"`
}

// mostChanges is how many changes of a pair are told, the newest of them.
const mostChanges = 500

// Pair is what a Status has of the way from one host to another, of any number of hosts.
func (c *Collector) Pair(from, to string) (Pair, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, j, err := c.two(from, to)
	if err != nil {
		return Pair{}, err
	}
	now := time.Now()
	return c.pair(i, j, c.known(i, j, now), now), nil
}

// two are the numbers of two hosts.
func (c *Collector) two(from, to string) (i, j int, err error) {
	i, known := c.index[from]
	j, also := c.index[to]
	switch {
	case !known:
		err = fmt.Errorf("host %q is not of this mesh", from)
	case !also:
		err = fmt.Errorf("host %q is not of this mesh", to)
	case i == j:
		err = fmt.Errorf("name two hosts, not %s twice", from)
	}
	return i, j, err
}

// Why says what is known of the way from one host to another.
func (c *Collector) Why(from, to string) (*Why, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, j, err := c.two(from, to)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	rec := c.known(i, j, now)
	out := &Why{Format: WhyFormat, Time: now, Pair: c.pair(i, j, rec, now), Hops: [][]string{}, Paths: []PathStatus{}, Since: c.kept, Changes: []Change{}}
	for _, hop := range c.ways.between(i, j).hops {
		out.Hops = append(out.Hops, names(hop))
	}
	if rec != nil {
		for k := range rec.paths {
			f, sig := &rec.paths[k], c.signals[k%len(c.signals)]
			one := PathStatus{Port: k / len(c.signals), Signal: sig.String(), State: States[f.state], ExtraNS: int64(f.extra) * 1000}
			if f.read != 0 {
				r := c.reading(sig, f, i, j, now)
				one.Reading = &r
			}
			out.Paths = append(out.Paths, one)
		}
	}
	first := true
	c.changes.each(func(h *change) {
		at := c.began.Add(time.Duration(h.at) * time.Millisecond)
		if first && c.changes.full {
			out.Since = at
		}
		first = false
		if int(h.from) != i || int(h.to) != j {
			return
		}
		sig := c.signals[int(h.path)%len(c.signals)]
		one := Change{Time: at, Port: int(h.path) / len(c.signals), Signal: sig.String(), State: States[h.state], Read: h.read, Ports: []string{}}
		if one.Read {
			r := c.reading(sig, &found{lm: h.lm, s: h.s}, i, j, now)
			one.S, one.Range, one.LM, one.Ports, one.Note = r.S, r.Range, r.LM, r.Ports, r.Note
		}
		out.Changes = append(out.Changes, one)
	})
	if n := len(out.Changes); n > mostChanges {
		out.Changes = out.Changes[n-mostChanges:]
	}
	return out, nil
}
