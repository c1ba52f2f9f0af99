package simulate

import (
	"path"
	"strings"
	"time"

	"github.com/csig-agent/csig/cc"
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// CSIG is how the network carries CSIG.
type CSIG struct {
	Tag      string         `key:"tag" words:"compact wide" default:"compact" doc:"compact: S has 5 bits. wide: it has 20, in steps of 1 Mbit/s, 1 ppm and 10 ns; rules of software-assisted switches do not know it."`
	ABW      string         `key:"abw" is:"word" default:"log-100G" doc:"The bucket table of min(ABW), as in a fleet file."`
	ABWC     string         `key:"abwc" is:"word" default:"log" doc:"That of min(ABW/C)."`
	PD       string         `key:"pd" is:"word" default:"log-1ms" doc:"That of max(PD), and of max(qlen/B)."`
	Buckets  string         `key:"buckets" words:"4 8 16 32" default:"32" doc:"How many of a table's 32 buckets are told apart: of 8, four neighbours count as one."`
	Share    int            `key:"share" range:"0 100" default:"100" doc:"Of the flows that have tags, in percent."`
	Placebo  bool           `key:"placebo" doc:"Senders get the signals of other packets of the network, by chance."`
	Switches []CSIGSwitches `key:"switches,need" doc:"What switches do; the first entry that names one counts, and those that none names pass tags unchanged."`

	tables [signals]quantize.Buckets
}

// CSIGSwitches is what some switches do with tags.
type CSIGSwitches struct {
	Names    string        `key:"names" is:"word" default:"*" doc:"Which ones, as leaf0, or leaf* for all that begin so."`
	Kind     string        `key:"kind,need" words:"native software none strip" doc:"native: in hardware. software: by rules that csig writes. none: tags pass unchanged. strip: they are taken out."`
	Interval time.Duration `key:"interval" range:"1us 1h" doc:"The window Δt that available bandwidth is of: 128us of native unless given, 100ms of software."`
	Update   time.Duration `key:"update" range:"0s 1h" doc:"Of software: how long from a reading until its rules are in force. The next reading comes after it, at a whole interval."`
	Entry    time.Duration `key:"operation" range:"1ns 1s" doc:"Of software: how long each operation on a rule table takes, on top of update: as many as csig's compiler has for the change."`
	Table    string        `key:"table" words:"range ternary" default:"ternary" doc:"What entries of that table match: ranges of VIDs, or values and masks."`
	Age      time.Duration `key:"reading_age" range:"0s 1h" doc:"Of software: how old the counters are that a reading shows."`
	Damping  Damping       `key:"damping,flow" doc:"Of software: holds back a better bucket."`
	Dies     time.Duration `key:"dies" range:"1ns 1h" doc:"Of software: when the agent dies."`
	Stale    string        `key:"stale" words:"conservative strip passthrough frozen" default:"conservative" doc:"What its ports do when the lease of the rules ends: as in a fleet file; frozen: there is no lease, and the rules stay."`
	Lease    time.Duration `key:"lease" range:"1us 1h" doc:"How long rules hold that are not written again: three intervals, 300ms at least, unless given."`

	m inventory.Mapping
}

// Damping holds back a better bucket.
type Damping struct {
	Hold   int `key:"hold" range:"0 1000" doc:"Readings for which it has to hold."`
	Margin int `key:"margin" range:"0 100" doc:"How far past a bucket's edge it has to be, in percent of its width."`
}

// Check has the rules about several keys.
func (c *CSIG) Check(m inventory.Mapping) {
	for _, one := range []struct {
		key, name string
		signal    quantize.Signal
	}{{"abw", c.ABW, quantize.MinABW}, {"abwc", c.ABWC, quantize.MinABWC}, {"pd", c.PD, quantize.MaxPD}} {
		if one.name == "" {
			continue // it is said already
		}
		table, err := quantize.Preset(one.signal, one.name)
		if err != nil {
			m.WrongValue(one.key, "e.g. "+strings.Join(quantize.PresetNames(one.signal)[:2], ", "), "%v", err)
		}
		c.tables[one.signal] = table
	}
	c.tables[cc.MaxQueueTime] = c.tables[quantize.MaxPD]
}

// Check has the rules about several keys.
func (c *CSIGSwitches) Check(m inventory.Mapping) {
	c.m = m
	if _, err := path.Match(c.Names, ""); err != nil {
		m.WrongValue("names", "e.g. leaf*", "%q is no pattern of names", c.Names)
	}
	if c.Kind != "software" {
		for _, key := range []string{"update", "operation", "table", "reading_age", "damping", "dies", "stale", "lease"} {
			if m.Has(key) {
				m.Wrong(key, "leave it out, or give kind: software", "%s is a key of kind software", key)
			}
		}
		if m.Has("interval") && c.Kind != "native" {
			m.Wrong("interval", "leave it out", "a switch of kind %s measures nothing", c.Kind)
		}
	}
	if most := maxUnwritten * c.interval(); c.Age > most {
		m.WrongValue("reading_age", "at most "+most.String()+", or a longer interval", "counters are older than %d intervals", maxUnwritten)
	}
	if m.Has("table") && !m.Has("operation") {
		m.Wrong("table", "e.g. operation: 100us", "the table counts where operations take time")
	}
	switch {
	case c.Stale == "frozen" && m.Has("lease"):
		m.Wrong("lease", "leave it out", "rules that stay have none")
	case c.Kind == "software" && c.Lease != 0 && c.Lease < c.interval():
		m.WrongValue("lease", "three intervals, or leave it out", "rules would end before the next reading, %v after the one before", c.interval())
	}
}

// maxUnwritten bounds the readings of an agent whose rules are not written yet.
const maxUnwritten = 100

// interval is the window of what a switch measures.
func (c *CSIGSwitches) interval() time.Duration {
	switch {
	case c.Interval != 0:
		return c.Interval
	case c.Kind == "software":
		return 100 * time.Millisecond
	}
	return 128 * time.Microsecond
}

// needsTags is whether a control has nothing to go by without signals.
func (c *Control) needsTags() bool {
	return c.Kind == "hpcc-csig" || c.Kind == "poseidon" || c.Kind == "csig" || c.Kind == "swift" && (c.Delay == "pd" || c.Ramp > 0 || c.Jump)
}

// within says which entries name no switch of a network, or none that those before have left.
func (c *CSIG) within(g *graph) {
	named := make([]bool, len(g.names))
	for i := range c.Switches {
		e := &c.Switches[i]
		found, first := false, false
		for j, name := range g.names {
			if ok, err := path.Match(e.Names, name); ok || err != nil { // a pattern that is none is said already
				found, first = true, first || !named[j]
				named[j] = true
			}
		}
		wrong, key := e.m.WrongValue, "names"
		if !e.m.Has(key) {
			wrong, key = e.m.Wrong, ""
		}
		switch {
		case !found:
			wrong(key, "names are "+g.called(), "no switch is called %q", e.Names)
		case !first:
			wrong(key, "put it before them, or leave it out", "entries before name all the switches that %q does", e.Names)
		}
	}
}

// addCSIG has the ports of switches do what the scenario says.
func (m *Simulation) addCSIG(c *CSIG) {
	n, g := m.network, m.scenario.Topology.graph
	step := map[string]uint8{"4": 8, "8": 4, "16": 2}[c.Buckets]
	n.csig = &domain{
		wide: c.Tag == "wide", step: max(step, 1), tables: c.tables, placebo: c.Placebo, share: float64(c.Share) / 100,
		quanta: [signals]uint64{quantize.MinABW: 1e6, quantize.MinABWC: 1, quantize.MaxPD: 10, quantize.MaxNQD: 1, cc.MaxQueueTime: 10},
	}
	n.csigPorts = make([]csigPort, len(n.links))
	n.agents = make([]swAgent, len(n.switches))
	chance := stream(uint64(m.scenario.Seed), streamAgents)
	for i, name := range g.names {
		at := chance.Float64() // of its interval: when its first window ends
		for j := range c.Switches {
			if ok, _ := path.Match(c.Switches[j].Names, name); ok {
				m.equip(int32(i), &c.Switches[j], at)
				break
			}
		}
	}
}

// wideLocators is the first one of wide tags: those below are compact ones, some of which mean more than a place.
const wideLocators = 128

// equip has a switch do what an entry says; its first window ends at a part of the interval.
func (m *Simulation) equip(id int32, c *CSIGSwitches, part float64) {
	n := m.network
	kind := map[string]portKind{"native": native, "software": software, "strip": strips}[c.Kind]
	interval := c.interval().Nanoseconds() * 1000
	first := max(int64(part*float64(interval)), 1)
	a := &n.agents[id]
	a.interval, a.age, a.dies = interval, c.Age.Nanoseconds()*1000, c.Dies.Nanoseconds()*1000
	a.update, a.each = c.Update.Nanoseconds()*1000, c.Entry.Nanoseconds()*1000
	if a.each > 0 {
		match := map[string]vlanrules.MatchKind{"range": vlanrules.MatchRange, "ternary": vlanrules.MatchTernary}[c.Table]
		a.compiler = vlanrules.NewCompiler(vlanrules.Caps{Match: match, MatchPCP: true, Modify: true, Txn: vlanrules.TxnEntry}, quantize.Draft00)
	}
	a.before = first - interval
	if a.then = map[string]portKind{"conservative": isStale, "strip": strips}[c.Stale]; c.Stale != "frozen" {
		if a.lease = c.Lease.Nanoseconds() * 1000; a.lease == 0 {
			a.lease = max(3*interval, 3*cc.Second/10)
		}
	}
	for i := range n.links {
		l := &n.links[i]
		if l.of != id {
			continue
		}
		p := &n.csigPorts[i]
		*p = csigPort{kind: kind, lm: uint16(1 + i%120), interval: interval, end: first}
		if n.csig.wide {
			if p.lm = uint16(wideLocators + i%(1<<16-wideLocators)); kind == software {
				p.kind = passes
			}
		}
		n.measure(p, l, 0) // it was idle before
		if p.kind != software {
			continue
		}
		a.ports = append(a.ports, int32(i))
		p.pending = make([]reading, a.age/interval+2)
		for s := range p.dampers {
			d := counters.NewDamper(counters.Damping{Hold: c.Damping.Hold, Margin: uint32(c.Damping.Margin) * 10})
			n.damp(d, quantize.Signal(s), map[bool]uint64{true: l.rate, false: 1e6}[s == int(quantize.MinABW)])
			p.dampers[s] = d
		}
		if a.compiler != nil {
			p.compile(a.compiler, &reading{s: p.s})
		}
	}
	if len(a.ports) > 0 {
		n.heap.push(first, reads, id)
	}
}
