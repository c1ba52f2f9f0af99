package simulate

import (
	"github.com/csig-agent/csig/cc"
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// What a port does with CSIG tags.
type portKind uint8

const (
	passes   portKind = iota // unchanged, and nothing is known of the port
	native                   // compare-and-replace in hardware, of every signal
	software                 // rules that an agent writes: of signals that byte counters show
	strips                   // takes the tag out
	isStale                  // an agent is dead, and the data plane has fallen back: the worst bucket and a locator that says so
)

// tag is a CSIG tag on a packet.
type tag struct {
	on   bool
	able bool // a port on the path took part
	lm   uint16
	s    uint32
	age  int64 // ps, of the window that S is of
}

// tagSize is what a compact tag takes of a packet; a wide one twice as much.
const tagSize = quantize.CompactSize

// domain is what the ports of a network agree on.
type domain struct {
	wide    bool
	step    uint8 // neighbouring buckets that count as one: 1 of 32 buckets, 4 of 8
	tables  [signals]quantize.Buckets
	quanta  [signals]uint64
	placebo bool
	share   float64 // of flows that have tags
	seen    []cc.Signal
}

// signals are the types that ports know: CSIG's, and max(qlen/B).
const signals = 5

// counted are those that byte counters show: min(ABW), min(ABW/C).
const counted = 2

// csigPort is CSIG at an egress port of a switch.
type csigPort struct {
	kind     portKind
	lm       uint16
	interval int64           // ps of a window Δt
	end      int64           // of the window that is being measured
	begin    uint64          // bytes that were sent when it began
	s        [counted]uint32 // that is in force
	at       int64           // the end of the window that it is of
	dampers  [counted]*counters.Damper
	rules    vlanrules.Result // where operations take time
	pending  []reading        // of a software port: those that are not in force yet, in a ring
}

// reading is what an agent has read.
type reading struct {
	s  [counted]uint32
	at int64
}

// swAgent is the agent of a switch.
type swAgent struct {
	ports    []int32 // links
	interval int64   // ps between two readings, where rules are written in less
	age      int64   // of what a reading shows
	update   int64   // how long rules are written, and each operation on a table beside it
	each     int64
	compiler *vlanrules.Compiler // nil: operations take no time
	before   int64               // the reading before
	dies     int64               // 0: it does not
	lease    int64               // of the rules; 0: they stay
	then     portKind
	read     int   // readings so far
	written  int   // of them are in force
	last     int64 // when rules were written last
	dead     bool
}

func (d *domain) encode(t quantize.Signal, v uint64) uint32 {
	if d.wide {
		return uint32(min(v/d.quanta[t], quantize.MaxWideS))
	}
	s := d.tables[t].Bucket(v)
	return uint32(s - s%d.step)
}

// isMax is whether the largest value of a path counts.
func isMax(t quantize.Signal) bool { return t == cc.MaxQueueTime || t.Max() }

// initial is the S that senders begin with.
func (d *domain) initial(t quantize.Signal) uint32 {
	switch {
	case isMax(t):
		return 0
	case d.wide:
		return quantize.MaxWideS
	}
	return quantize.NumBuckets - 1
}

// worst is the S of a port that nothing is known of.
func (d *domain) worst(t quantize.Signal) uint32 {
	if isMax(t) {
		if d.wide {
			return quantize.MaxWideS
		}
		return quantize.NumBuckets - 1
	}
	return 0
}

// values is what an S stands for.
func (d *domain) values(t quantize.Signal, s uint32) (low, high uint64) {
	if d.wide {
		return quantize.QuantumRange(d.quanta[t], s)
	}
	first := uint8(s) - uint8(s)%d.step
	low, _ = d.tables[t].Range(first)
	_, high = d.tables[t].Range(first + d.step - 1)
	return low, high
}

// signal is what a sender gets of a tag.
func (n *Network) signal(k *packet) (s cc.Signal) {
	t, _ := k.ask.Signal()
	if !k.tag.on || !k.tag.able {
		return s
	}
	s = cc.Signal{Valid: true, Type: t, Locator: k.tag.lm, Age: k.tag.age}
	s.Low, s.High = n.csig.values(t, k.tag.s)
	if n.csig.placebo {
		return n.csig.shuffle(s, n.placebo.IntN)
	}
	return s
}

// shuffle gives the signal of another packet of the same type in place of this one's.
func (d *domain) shuffle(s cc.Signal, pick func(int) int) cc.Signal {
	const keep = 4096
	if len(d.seen) < keep {
		d.seen = append(d.seen, s)
	} else {
		d.seen[pick(keep)] = s
	}
	if other := d.seen[pick(len(d.seen))]; other.Type == s.Type {
		return other
	}
	return s
}

// stamp has a port compare and replace a packet's tag.
func (n *Network) stamp(id int32, k *packet) {
	p := &n.csigPorts[id]
	t, ok := k.ask.Signal()
	switch {
	case !ok || int(t) >= signals || p.kind == passes:
		return
	case p.kind == strips:
		k.tag.on = false
		k.size -= n.tagBytes()
		return
	case p.kind != native && t >= counted:
		return
	}
	d := n.csig
	own, lm, at := uint32(0), p.lm, n.now
	switch {
	case p.kind == isStale:
		own, lm, at = d.worst(t), quantize.Draft00.LMStale(), 0
	case t < counted:
		own, at = p.s[t], p.at
	case t == quantize.MaxPD:
		own = d.encode(t, uint64(n.now-k.came)/1000)
	case t == cc.MaxQueueTime:
		own = d.encode(t, uint64(float64(n.links[id].queued)*8e9/float64(n.links[id].rate)))
	default:
		return // nQD is of queues with an end
	}
	k.tag.able = true
	if isMax(t) && own > k.tag.s || !isMax(t) && own < k.tag.s {
		k.tag.s, k.tag.lm, k.tag.age = own, lm, max(n.now-at, 1)
	}
}

func (n *Network) tagBytes() int32 {
	if n.csig.wide {
		return quantize.WideSize
	}
	return tagSize
}

// roll has a native port end the windows that are over: of all but the last one nothing counts, and in that one nothing was sent
// where more than one is over.
func (n *Network) roll(id int32) {
	p, l := &n.csigPorts[id], &n.links[id]
	sent := l.bytes - p.begin
	if over := n.now - p.end; over >= p.interval {
		sent = 0
		p.end += over / p.interval * p.interval
	}
	n.measure(p, l, sent)
	p.begin, p.at = l.bytes, p.end
	p.end += p.interval
}

// measure sets what a native port's window of so many bytes says.
func (n *Network) measure(p *csigPort, l *link, sent uint64) {
	abw, abwc := available(l.rate, sent, p.interval)
	p.s = [counted]uint32{n.csig.encode(quantize.MinABW, abw), n.csig.encode(quantize.MinABWC, abwc)}
}

// available is bandwidth in bit/s and in ppm of the rate, where so many bytes were sent in a window (DESIGN: max(0, C − bits/Δt)).
func available(rate, sent uint64, window int64) (abw, abwc uint64) {
	used := uint64(float64(sent) * 8 * (cc.Second / float64(window)))
	abw = rate - min(used, rate)
	return abw, uint64(float64(abw) * 1e6 / float64(rate))
}

// readCounters has the agent of a switch read its counters: what they show is in force later.
func (n *Network) readCounters(id int32) {
	a := &n.agents[id]
	if a.dies != 0 && n.now >= a.dies {
		a.dead = true
		if a.lease > 0 {
			n.heap.push(max(a.last+a.lease, n.now), lapses, id)
		}
		return
	}
	operations := 0
	window := n.now - a.before
	a.before = n.now
	for _, port := range a.ports {
		p, l := &n.csigPorts[port], &n.links[port]
		abw, abwc := available(l.rate, l.bytes-p.begin, window)
		p.begin = l.bytes
		r := &p.pending[a.read%len(p.pending)]
		r.at = n.now
		r.s[quantize.MinABW] = n.damp(p.dampers[quantize.MinABW], quantize.MinABW, abw)
		r.s[quantize.MinABWC] = n.damp(p.dampers[quantize.MinABWC], quantize.MinABWC, abwc)
		if a.compiler != nil {
			operations += p.compile(a.compiler, r)
		}
	}
	a.read++
	writing := a.update + int64(operations)*a.each
	n.heap.push(n.now+a.age+writing, writes, id)
	n.heap.push(n.now+max((writing+a.interval-1)/a.interval, 1)*a.interval, reads, id)
}

// compile is how many operations lead from a port's table to that of a reading.
func (p *csigPort) compile(c *vlanrules.Compiler, r *reading) int {
	want := [counted]vlanrules.Intent{}
	for t := range want {
		want[t] = vlanrules.Intent{Signal: quantize.Signal(t), Action: vlanrules.Update, S: uint8(r.s[t]), LM: p.lm}
	}
	c.Compile(&p.rules, p.rules.Table, want[:])
	return len(p.rules.Ops)
}

func (n *Network) damp(d *counters.Damper, t quantize.Signal, v uint64) uint32 {
	s := d.Bucket(&n.csig.tables[t], v)
	return uint32(s - s%n.csig.step)
}

// writeRules has what an agent read be in force.
func (n *Network) writeRules(id int32) {
	a := &n.agents[id]
	if a.dead || a.dies != 0 && n.now >= a.dies {
		return
	}
	for _, port := range a.ports {
		p := &n.csigPorts[port]
		r := &p.pending[a.written%len(p.pending)]
		p.s, p.at = r.s, r.at
	}
	a.written++
	a.last = n.now
}

// unread is how many switches have measured nothing yet that a signal could be of, or have written none of it.
func (n *Network) unread() (count int) {
	idle := make([]bool, len(n.agents))
	for i := range n.agents {
		a := &n.agents[i]
		idle[i] = len(a.ports) > 0 && a.written == 0 && n.csigPorts[a.ports[0]].kind == software
	}
	for i := range n.csigPorts {
		if p := &n.csigPorts[i]; p.kind == native && p.at == 0 && n.now < p.end {
			idle[n.links[i].of] = true
		}
	}
	for _, one := range idle {
		if one {
			count++
		}
	}
	return count
}

// lapse has the ports of a dead agent fall back, as their rules' lease is over.
func (n *Network) lapse(id int32) {
	a := &n.agents[id]
	for _, port := range a.ports {
		n.csigPorts[port].kind = a.then
	}
}
