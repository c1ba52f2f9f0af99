package agent

import (
	"fmt"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// The ports of an agent share recordBytes for what they remember; each has its part of it,
// within bounds.
const (
	recordBytes = 1 << 20
	fewestBytes = 1 << 10
	mostBytes   = 64 << 10
)

// record is cycles in a row of which a port came out the same (api.Record).
type record struct {
	outcome
	first, last    moment
	cycles         uint64
	minABW, maxABW uint64

	reason, failure, refused, repaired string
}

// outcome is what tells one record from the next.
type outcome struct {
	state                          string
	code                           findings.Code
	failed, refuses, held, written bool
	signals                        [len(quantize.Signals)]told
}

// told is one signal as the port was to write it; others are zero.
type told struct {
	set bool
	s   uint8
	lm  uint16
}

// moment is one cycle (api.Moment). Times are Unix times in ns, 0 for none.
type moment struct {
	at, read, start, end, lease int64
	readNS, programNS, errorNS  int64
	octets, bits                uint64
	capacity, load, abw         uint64
	abwc, ops                   uint32
	estimate                    counters.State
	buckets                     [len(quantize.Signals)]uint8
}

// records are the last ones of a port: the newest, which goes on, and before it as many as fit,
// packed. Once they fill their memory they allocate nothing.
type records struct {
	now         *record // nil before the first
	packed      []byte  // oldest first
	first, last texts   // of the one before the first packed one, and of the last
	most        int     // bytes
	pack        *[]byte // the agent's, for the one that is being packed

	over func(*record) // called with one behind which another begins; nil for none
}

// newRecords are those of one of so many ports.
func newRecords(ports int, pack *[]byte) *records {
	return &records{most: min(max(recordBytes/max(ports, 1), fewestBytes), mostBytes), pack: pack}
}

// newest is the record of the last cycle, nil before the first.
func (r *records) newest() *record { return r.now }

// add takes one cycle in.
func (r *records) add(o outcome, m moment, reason, failure, refused, repaired string) {
	if r.now == nil {
		r.now = new(record)
	}
	now := r.now
	if now.cycles == 0 || now.outcome != o || repaired != "" {
		if now.cycles > 0 {
			if r.over != nil {
				r.over(now)
			}
			r.keep(now)
		}
		*now = record{outcome: o, first: m, minABW: m.abw, repaired: repaired}
	}
	now.last, now.cycles = m, now.cycles+1
	now.minABW, now.maxABW = min(now.minABW, m.abw), max(now.maxABW, m.abw)
	now.reason, now.failure, now.refused = reason, failure, refused
}

// keep packs a record behind the others. Where it does not fit, a quarter of them makes room.
func (r *records) keep(now *record) {
	*r.pack = now.pack((*r.pack)[:0], &r.last)
	if r.packed == nil {
		r.packed = make([]byte, 0, r.most)
	}
	if len(r.packed)+len(*r.pack) > r.most {
		rest, gone := r.packed, record{}
		for len(rest) > 0 && len(rest)+len(*r.pack) > r.most*3/4 {
			rest = gone.unpack(rest, &r.first)
		}
		r.packed = append(r.packed[:0], rest...)
	}
	r.packed = append(r.packed, *r.pack...)
}

// each calls f with the records, oldest first.
func (r *records) each(f func(*record)) {
	var one record
	before := r.first
	for rest := r.packed; len(rest) > 0; {
		rest = one.unpack(rest, &before)
		f(&one)
	}
	if r.now != nil {
		f(r.now)
	}
}

// cycleRecord is what all ports of a cycle have in common.
type cycleRecord struct {
	at, lease       time.Time
	read, program   time.Duration
	ops             uint32
	ready, wrote    bool // values were to be written; and were
	failure, repair string
}

// rememberLocked takes a cycle into the records of all ports.
func (a *Agent) rememberLocked(c *cycleRecord) {
	if a.unaided() {
		c.lease = time.Time{}
	}
	for i := range a.ports {
		p := &a.ports[i]
		o, refused := outcome{state: p.state, code: p.code, failed: c.failure != ""}, ""
		if !o.failed {
			refused, o.held = p.refused, p.held
		}
		o.refuses = refused != ""
		o.written = c.wrote && !o.failed && !o.refuses && !o.held && p.cfg.Action == vlanrules.Update
		m := moment{at: c.at.UnixNano(), readNS: int64(c.read), programNS: int64(c.program), ops: c.ops, estimate: p.view.Now.State}
		if !c.lease.IsZero() {
			m.lease = c.lease.UnixNano()
		}
		if i < len(a.samples) && !o.failed {
			m.octets = a.samples[i].Octets
			if at := a.samples[i].At; !at.IsZero() {
				m.read = at.UnixNano()
			}
		}
		if est := &p.view.Last; p.view.Known {
			start, off := est.Likely()
			m.start, m.end, m.errorNS = start.UnixNano(), est.End.UnixNano(), int64(off)
			m.bits, m.capacity, m.load, m.abw, m.abwc = est.Bits, est.Capacity, est.Load(), est.ABW, est.ABWC
		}
		for k, in := range p.intents {
			m.buckets[k] = p.view.Signals[k].Range.S
			if in.Action == vlanrules.Update && c.ready {
				o.signals[k] = told{true, in.S, in.LM}
			}
		}
		p.records.add(o, m, p.reason, c.failure, refused, c.repair)
	}
}

// keepRecords has the records of all ports kept in the file, where there is one. The last one
// of each is kept by keepLast.
func (a *Agent) keepRecords() {
	if a.cfg.Records == nil {
		return
	}
	for i := range a.ports {
		a.ports[i].records.over = func(r *record) { a.keepRecord(a.cfg.Records, &a.ports[i], r) }
	}
}

func (a *Agent) keepRecord(f *RecordFile, p *port, r *record) {
	kept := f.add(&api.KeptRecord{
		Format: api.RecordFormat, Device: a.cfg.Device.Name, Port: p.cfg.Name, Action: p.cfg.Action.String(),
		Hold: a.cfg.Policy.Damping.Hold, OnStale: string(a.cfg.Policy.OnStale), Record: a.recordOf(p, r),
	})
	if !kept && !a.dropped {
		a.log.Warn("records of ports come faster than their file takes them: some are in memory alone")
	}
	a.dropped = !kept || a.dropped && !f.room()
}

// keepLast keeps the records that no other has ended, of an agent that ends. Those of ports
// that the next one (nil: there is none) has taken over go on.
func (a *Agent) keepLast(next *Agent) {
	if a.cfg.Records == nil {
		return
	}
	over := map[*records]bool{}
	if next != nil {
		for i := range next.ports {
			over[next.ports[i].records] = true
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.ports {
		p := &a.ports[i]
		if r := p.records.newest(); r != nil && !over[p.records] {
			a.keepRecord(a.cfg.Records, p, r)
		}
	}
}

// Why returns what has made a port's signals what they were.
func (d *Daemon) Why(port string) (*api.Why, error) {
	d.mu.Lock()
	r, waiting := d.run, d.waiting
	d.mu.Unlock()
	if r == nil {
		return nil, refuse(fmt.Errorf("no port is driven: %s", waiting))
	}
	return r.agent.Why(port)
}

// Why is Daemon.Why.
func (a *Agent) Why(port string) (*api.Why, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.ports {
		p := &a.ports[i]
		if p.cfg.Name != port {
			continue
		}
		w := &api.Why{
			Format: api.WhyFormat, Device: a.cfg.Device.Name, Port: port, Action: p.cfg.Action.String(), Time: time.Now(),
			Hold: a.cfg.Policy.Damping.Hold, OnStale: string(a.cfg.Policy.OnStale), Shadow: a.cfg.Shadow, Records: []api.Record{},
		}
		p.records.each(func(r *record) { w.Records = append(w.Records, a.recordOf(p, r)) })
		return w, nil
	}
	return nil, refuse(fmt.Errorf("port %q is not in the configuration of %s", port, a.cfg.Device.Name))
}

func (a *Agent) recordOf(p *port, r *record) api.Record {
	out := api.Record{
		Cycles: r.cycles, MinABW: r.minABW, MaxABW: r.maxABW,
		State: r.state, Code: r.code, Reason: r.reason, Failure: r.failure, Refused: r.refused, Repaired: r.repaired,
		Held: r.held, Written: r.written, Signals: []api.Signal{},
	}
	var shown []int
	for k, in := range p.intents {
		if t := r.signals[k]; t.set {
			shown = append(shown, k)
			out.Signals = append(out.Signals, a.signal(in.Signal, t.s, t.lm))
		}
	}
	out.First, out.Last = r.first.api(shown), r.last.api(shown)
	return out
}

// api is a moment with the buckets of these signals.
func (m *moment) api(signals []int) api.Moment {
	out := api.Moment{
		At: unix(m.at), ReadAt: unix(m.read), Octets: m.octets, WindowStart: unix(m.start), WindowEnd: unix(m.end), WindowErrNS: m.errorNS,
		Bits: m.bits, Estimate: m.estimate.String(), CapacityBPS: m.capacity, LoadBPS: m.load, ABWBPS: m.abw, ABWCPPM: m.abwc,
		ReadNS: m.readNS, ProgramNS: m.programNS, Operations: m.ops, LeaseEnds: unix(m.lease), Buckets: []int{},
	}
	for _, k := range signals {
		out.Buckets = append(out.Buckets, int(m.buckets[k]))
	}
	return out
}

func unix(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}
