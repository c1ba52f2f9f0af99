package trace

import (
	"fmt"
	"slices"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/quantize"
)

// Chart collects steps for drawing, in memory that does not grow with the trace: time
// is cut into spans of one length, and when there are too many two become one.
// Where several readings fall into one span the worst is shown, so that a peak never
// disappears.
type Chart struct {
	device string
	tables []*quantize.Buckets
	ports  []chartPort
	most   int // spans

	start time.Time
	end   time.Time
	width time.Duration // of a span; 0 before the second reading
	used  int           // spans
}

type chartPort struct {
	index int // among the trace's ports
	name  string
	spans []span
	speed uint64 // the capacity of all windows so far, in bit/s; 0 before the first
	mixed bool   // there were several
	last  span   // what the last estimate looked like
}

// span is what one port did in one piece of time.
type span struct {
	readings int
	known    bool   // there is something to show, maybe from before
	down     bool   // the link was down
	lost     bool   // nothing could be read, or the source was stuck
	doubtful bool   // Δt is too uncertain for one bucket
	used     uint32 // highest load in ppm of the capacity; more than 1e6 for bursts
	s        [2]uint8
}

const (
	maxSpans = 1024
	minSpans = 64
	maxCells = 1 << 22 // spans of all ports
	ppmWhole = 1_000_000
)

// NewChart returns an empty chart of a trace's ports, all of them if none are named;
// tables are those of the PlayConfig, at most two of which are drawn.
func NewChart(h *Header, tables []*quantize.Buckets, ports ...string) (*Chart, error) {
	c := &Chart{device: h.Device, tables: tables[:min(len(tables), 2)]}
	if len(ports) == 0 {
		ports = h.Ports
	}
	for _, name := range ports {
		i := slices.Index(h.Ports, name)
		if i < 0 {
			return nil, fmt.Errorf("port %s is not in the trace of device %s", name, h.Device)
		}
		c.ports = append(c.ports, chartPort{index: i, name: name})
	}
	c.most = min(max(maxCells/len(c.ports), minSpans), maxSpans)
	return c, nil
}

// Add takes the next step.
func (c *Chart) Add(s *Step) {
	if c.start.IsZero() {
		c.start = s.Read
	}
	at := s.Read.Sub(c.start)
	if at < 0 {
		return // the recorder's clock was set back; there is no place for it
	}
	if s.Read.After(c.end) {
		c.end = s.Read
	}
	if c.width == 0 && at > 0 {
		c.width = at
	}
	n := 0
	if c.width > 0 {
		for at/c.width >= time.Duration(c.most) {
			c.merge()
		}
		n = int(at / c.width)
	}
	c.used = max(c.used, n+1)
	for i := range c.ports {
		p := &c.ports[i]
		for len(p.spans) <= n {
			p.spans = append(p.spans, span{})
		}
		b := c.take(p, &s.Ports[p.index], s.Err != nil)
		p.spans[n].join(&b, c.tables)
	}
}

// merge makes spans twice as long.
func (c *Chart) merge() {
	c.width *= 2
	c.used = (c.used + 1) / 2
	for i := range c.ports {
		p := &c.ports[i]
		for j := range p.spans {
			if j%2 == 0 {
				p.spans[j/2] = p.spans[j]
			} else {
				p.spans[j/2].join(&p.spans[j], c.tables)
			}
		}
		p.spans = p.spans[:(len(p.spans)+1)/2]
	}
}

// take makes a span of one step. A reading that says nothing new leaves the port as
// it was.
func (c *Chart) take(p *chartPort, ps *PortStep, failed bool) span {
	e := &ps.Now
	if failed || e.State == counters.Error || e.State == counters.Stale {
		return span{readings: 1, lost: true}
	}
	if !e.State.Valid() {
		b := p.last
		b.readings = 1
		return b
	}
	if e.Capacity > 0 {
		p.mixed = p.mixed || p.speed > 0 && p.speed != e.Capacity
		p.speed = e.Capacity
	}
	b := span{readings: 1, known: true, down: e.State == counters.Down}
	if e.Capacity > 0 && !b.down {
		b.used = uint32(min(e.Load()/max(e.Capacity/ppmWhole, 1), 10*ppmWhole))
	}
	for i := range c.tables {
		b.s[i] = ps.Signals[i].Bucket
		b.doubtful = b.doubtful || ps.Signals[i].Range.Doubtful()
	}
	p.last = b
	return b
}

// join takes b into a, the worst of both.
func (a *span) join(b *span, tables []*quantize.Buckets) {
	a.readings += b.readings
	a.down, a.lost, a.doubtful = a.down || b.down, a.lost || b.lost, a.doubtful || b.doubtful
	if !b.known {
		return
	}
	for i, t := range tables {
		if !a.known || t.Signal.Worse(b.s[i], a.s[i]) {
			a.s[i] = b.s[i]
		}
	}
	a.known = true
	a.used = max(a.used, b.used)
}

// resample returns n spans, the worst of what falls into each; what had no reading
// of its own repeats the one before.
func (c *Chart) resample(p *chartPort, n int) []span {
	out := make([]span, n)
	for i := range p.spans {
		out[i*n/max(c.used, n)].join(&p.spans[i], c.tables)
	}
	for i := 1; i < n; i++ {
		if out[i].readings == 0 {
			out[i] = out[i-1]
		}
	}
	return out[:min(n, max(len(p.spans), 1))]
}

// ChartFormat names the shape of ChartResult.
const ChartFormat = "csig.chart/v1"

// ChartResult is what a chart draws, as JSON.
type ChartResult struct {
	Format string        `json:"format"`
	Device string        `json:"device"`
	Start  time.Time     `json:"start"`
	End    time.Time     `json:"end"`
	SpanNS int64         `json:"span_ns"` // length of each span; 0 for a single reading
	Ports  []ChartedPort `json:"ports"`
}

// ChartedPort is a port in a chart.
type ChartedPort struct {
	Port        string        `json:"port"`
	CapacityBPS *uint64       `json:"capacity_bps"` // null where it is not known, or changed
	Spans       []ChartedSpan `json:"spans"`
}

// ChartedSpan is what a port did in a piece of time, the worst where several readings fall into it.
type ChartedSpan struct {
	Readings int              `json:"readings"`
	LoadPPM  *uint32          `json:"load_ppm"` // of the capacity; null where nothing is known
	Buckets  map[string]uint8 `json:"buckets"`  // of each signal; empty where nothing is known
	Doubtful bool             `json:"doubtful"` // Δt is too uncertain for one bucket
	Down     bool             `json:"down"`     // the link was
	Lost     bool             `json:"lost"`     // nothing could be read, or counters were stuck
}

// Result returns the chart as data.
func (c *Chart) Result() ChartResult {
	out := ChartResult{Format: ChartFormat, Device: c.device, Start: c.start.UTC(), End: c.end.UTC(), SpanNS: c.width.Nanoseconds(), Ports: []ChartedPort{}}
	for i := range c.ports {
		p := &c.ports[i]
		port := ChartedPort{Port: p.name, Spans: []ChartedSpan{}}
		if p.speed > 0 && !p.mixed {
			port.CapacityBPS = &p.speed
		}
		for j := range p.spans {
			s := &p.spans[j]
			one := ChartedSpan{Readings: s.readings, Buckets: map[string]uint8{}, Doubtful: s.doubtful, Down: s.down, Lost: s.lost}
			if s.known {
				one.LoadPPM = &s.used
				for k, table := range c.tables {
					one.Buckets[table.Signal.String()] = s.s[k]
				}
			}
			port.Spans = append(port.Spans, one)
		}
		out.Ports = append(out.Ports, port)
	}
	return out
}
