package simulate

import (
	"fmt"
	"math"
	"time"

	"github.com/csig-agent/csig/inventory"
)

// Format is that of scenario files.
const Format = "csig.scenario/v1"

// Bounds of a scenario.
const (
	maxHosts   = 100_000
	maxFlows   = 1_000_000
	flowMemory = 1000 // bytes that a flow takes with its control and result, at most
	linkMemory = 400

	readingMemory = 24     // of a port, that is not written yet
	hostMemory    = 50_000 // of what is on its way

	// packetMemory is what a packet takes with its telemetry, where their lists grow, and with the garbage of that.
	packetMemory = 2000
)

// Scenario is a file of csig simulate.
type Scenario struct {
	_         struct{}   `doc:"What csig simulate does."`
	Format    string     `key:"format,need" words:"csig.scenario/v1" doc:"The form of this file."`
	Topology  Topology   `key:"topology,need" doc:"The network."`
	Switches  Switches   `key:"switches,flow" doc:"What the ports of switches have."`
	Packets   Packets    `key:"packets,flow" doc:"What packets have."`
	Recovery  Recovery   `key:"recovery,flow" doc:"How what is lost is sent again."`
	Control   Control    `key:"control,flow" doc:"The congestion control of all flows."`
	CSIG      *CSIG      `key:"csig" doc:"How the network carries CSIG; without it no switch knows tags."`
	Mode      string     `key:"mode" words:"packet flow" default:"packet" doc:"packet: packet by packet. flow: without packets and queues, each flow has its max-min fair share."`
	Paths     Paths      `key:"paths,flow" doc:"How flows are given one of the shortest paths."`
	Flows     []Flows    `key:"flows" doc:"Who sends what to whom."`
	Workloads []Workload `key:"workloads" doc:"Flows of a pattern."`
	Measure   Measure    `key:"measure,flow" doc:"Which flows count in the statistics; all unless given."`
	Seed      int        `key:"seed" range:"0 1000000000" default:"1" doc:"Of all that happens by chance."`

	m       inventory.Mapping
	routes  *routes
	most    uint64 // bytes that the simulation may take; 0: any
	endless bool   // flows have a window without end, whatever their control says
}

// Switches are what the ports of switches have.
type Switches struct {
	Queue  uint64 `key:"queue" is:"bytes" doc:"That a port's queue holds; without it there is no such end."`
	Buffer uint64 `key:"buffer" is:"bytes" doc:"That the ports of a switch share; without it nothing else is dropped."`
	Alpha  int    `key:"alpha" range:"1 100000" doc:"How much of what is left of the buffer a queue may have, in percent: 100 unless given. With pfc: an ingress port, before it pauses: 12.5 unless given."`
	PFC    bool   `key:"pfc" doc:"Ports pause the other end of their cable before the buffer is full."`
	ECN    *ECN   `key:"ecn,flow" doc:"Packets are marked where there is a queue."`

	m inventory.Mapping
}

// ECN is when packets are marked.
type ECN struct {
	Min    uint64 `key:"min,need" is:"bytes" doc:"A queue from which on packets are marked."`
	Max    uint64 `key:"max" is:"bytes" doc:"One from which on all are; min unless given."`
	Chance int    `key:"chance" range:"1 100" default:"100" doc:"Of a packet to be marked just below max, in percent."`
	At     uint64 `key:"at" is:"rate" doc:"Of ports of this speed; min and max grow with the speed of others. They are the same for all unless given."`
}

// Recovery is how what is lost is sent again.
type Recovery struct {
	Kind    string        `key:"kind" words:"go-back-n selective" default:"go-back-n" doc:"go-back-n: the receiver wants what is missing and all behind it again, as RoCE. selective: what is missing alone, as TCP and IRN."`
	Timeout time.Duration `key:"timeout" range:"1us 10s" doc:"After so long without an acknowledgement all in flight counts as lost; it doubles each time, up to 64 times as long. 4ms, or three round trips where those are longer, unless given."`

	m inventory.Mapping
}

// Check has the rules about several keys.
func (s *Switches) Check(m inventory.Mapping) {
	s.m = m
	if s.PFC && s.Buffer == 0 && !m.Has("buffer") {
		m.Wrong("pfc", "e.g. buffer: 32M", "ports that pause need the size of the buffer")
	}
	if m.Has("alpha") && s.Buffer == 0 && !m.Has("buffer") {
		m.Wrong("alpha", "e.g. buffer: 32M, or leave it out", "alpha is a part of a shared buffer, and there is none")
	}
}

// Check has the rules about several keys.
func (e *ECN) Check(m inventory.Mapping) {
	if !m.Has("max") {
		e.Max = e.Min
	}
	if e.Max < e.Min {
		m.WrongValue("max", "min or more", "%d bytes are less than min, which is %d", e.Max, e.Min)
	}
}

// Check keeps the place.
func (r *Recovery) Check(m inventory.Mapping) { r.m = m }

// Check has the rules about several keys.
func (w *Measure) Check(m inventory.Mapping) {
	if m.Has("to") && w.To <= w.From {
		m.WrongValue("to", "later than from", "flows that begin from %v to %v are none", w.From, w.To)
	}
}

// Packets are what packets have.
type Packets struct {
	Payload int    `key:"payload" range:"1 65535" default:"1000" doc:"Bytes of data in each but the last one of a flow."`
	Header  int    `key:"header" range:"0 1000" default:"48" doc:"Bytes of headers."`
	Ack     int    `key:"ack" range:"0 1000" default:"64" doc:"Bytes of an acknowledgement, without telemetry."`
	INT     string `key:"telemetry" words:"none ifa ioam p4 ns3" default:"none" doc:"What telemetry takes of a packet at each hop: none, ifa (32 bytes), ioam (20), p4 (24); or ns3, of HPCC's public ns-3 code: 42 bytes of each packet, whatever it passes."`
}

// Flows are some alike.
type Flows struct {
	From string        `key:"from,need" is:"word" doc:"A host, as 0, or some, as 0-14: each has a flow."`
	To   int           `key:"to,need" range:"0 99999" low:"hosts are numbered from 0" doc:"A host."`
	Size uint64        `key:"size,need" is:"bytes" doc:"Of each."`
	At   time.Duration `key:"at" range:"0s 1h" doc:"When they begin."`

	first, last int
	m           inventory.Mapping
}

// Check has the rules about several keys.
func (s *Scenario) Check(m inventory.Mapping) {
	s.m = m
	if !m.Has("packets") {
		s.Packets = inventory.Filled[Packets]()
	}
	if !m.Has("control") {
		s.Control = inventory.Filled[Control]()
	}
	if !m.Has("flows") && !m.Has("workloads") {
		m.Wrong("", "e.g. flows: [{from: 0-14, to: 15, size: 2M}], or workloads: [{kind: permutation, size: 2M}]", "nobody sends anything")
	}
	if !m.Has("paths") {
		s.Paths = inventory.Filled[Paths]()
	}
	if contains("greedy two-choices weighted", s.Paths.Choice) && s.CSIG == nil && !m.Has("csig") {
		m.WrongValue("paths", "e.g. csig: {switches: [{kind: native}]}", "%s goes by CSIG's signals, and no switch knows tags", s.Paths.Choice)
	}
	if s.Paths.Choice == "plb" && !s.Switches.m.Has("ecn") {
		m.WrongValue("paths", "e.g. switches: {ecn: {min: 100k}}", "plb goes by marks, and no switch sets any")
	}
	if contains("dctcp dctcp-rate dcqcn", s.Control.Kind) && !s.Switches.m.Has("ecn") {
		m.WrongValue("control", "e.g. switches: {ecn: {min: 100k}}", "%s goes by marks, and no switch sets any", s.Control.Kind)
	}
	if !m.Has("recovery") {
		s.Recovery = inventory.Filled[Recovery]()
	}
	s.checkSpray(m)
	if s.CSIG == nil && !m.Has("csig") && s.Control.needsTags() {
		m.WrongValue("control", "e.g. csig: {switches: [{kind: native}]}", "this control goes by CSIG's signals, and no switch knows tags")
	}
	g := s.Topology.graph
	if g == nil {
		return
	}
	if s.CSIG != nil && m.Sound() {
		s.CSIG.within(g)
	}
	var err error
	if s.routes, err = newRoutes(g, uint64(s.Seed)); err != nil {
		m.WrongValue("topology", "", "%v", err)
		return
	}
	for i := range s.Flows {
		f := &s.Flows[i]
		if key := f.outside(g.hosts); key != "" {
			f.m.WrongValue(key, fmt.Sprintf("hosts are 0 to %d", g.hosts-1), "there are %d hosts", g.hosts)
			continue
		}
		for from := f.first; from <= f.last; from++ {
			if _, ok := s.routes.route(nil, int32(from), int32(f.To), 0); !ok {
				f.m.WrongValue("to", "another host, or other cables", "there is no route of at most %d cables from host %d to host %d", maxHops, from, f.To)
				break
			}
		}
	}
	for i := range s.Workloads {
		s.Workloads[i].within(s)
	}
}

// placed gives an error of a run the place of the flows that it is about, by their group.
func (s *Scenario) placed(group int, hint string, err error) error {
	if group < len(s.Flows) {
		return s.Flows[group].m.Error("", hint, "%v", err)
	}
	group -= len(s.Flows)
	for i := range s.Workloads {
		w := &s.Workloads[i]
		if group < int(w.times()) {
			return w.m.Error("", hint, "%v", err)
		}
		group -= int(w.times())
	}
	return err
}

// outside is the key of a host that there is not.
func (f *Flows) outside(hosts int) string {
	switch {
	case f.last >= hosts:
		return "from"
	case f.To >= hosts:
		return "to"
	}
	return ""
}

// Check has the rules about several keys.
func (f *Flows) Check(m inventory.Mapping) {
	f.m = m
	first, last, ok := hostRange(f.From)
	if !ok {
		if m.Has("from") && f.From != "" {
			m.WrongValue("from", "e.g. 0, or 0-14", "%q is neither a host nor a range of hosts", f.From)
		}
		return
	}
	f.first, f.last = first, last
	if f.To >= f.first && f.To <= f.last {
		m.WrongValue("to", "another host", "host %d sends to itself", f.To)
	}
}

// ParseScenario reads a scenario. Mistakes are inventory.Errors, with file, line and column.
func ParseScenario(name string, data []byte) (*Scenario, error) {
	var s Scenario
	if err := inventory.Read(name, data, "scenario", Format, &s); err != nil {
		return nil, err
	}
	return &s, nil
}

// count is how many flows there are, about.
func (s *Scenario) count() (n int) {
	for i := range s.Flows {
		n += s.Flows[i].last - s.Flows[i].first + 1
	}
	for i := range s.Workloads {
		n += int(s.Workloads[i].count(s))
	}
	return n
}

// Memory is about what the simulation takes, in bytes.
func (s *Scenario) Memory() uint64 { return s.fixed() + uint64(s.Topology.graph.hosts)*hostMemory }

// fixed is Memory without packets on their way.
func (s *Scenario) fixed() uint64 {
	g := s.Topology.graph
	racks := make(map[int32]bool) // each knows how far every switch is
	for _, rack := range s.routes.rack {
		racks[rack] = true
	}
	link := uint64(linkMemory)
	if s.CSIG != nil {
		for i := range s.CSIG.Switches {
			e := &s.CSIG.Switches[i]
			link = max(link, linkMemory+readingMemory*uint64(e.Age/e.interval()))
		}
	}
	sum := uint64(s.count())*flowMemory + uint64(len(g.cables))*2*link + uint64(len(racks))*uint64(len(g.names)) + s.sprayMemory()
	if s.Recovery.Kind != "selective" || !s.drops() && s.Paths.Choice != "spray" {
		return sum
	}
	each := func(size uint64) uint64 { return size / uint64(s.Packets.Payload) / 2 } // a bit a packet at both ends, in sets of a power of two
	for i := range s.Flows {
		sum += uint64(s.Flows[i].last-s.Flows[i].first+1) * each(s.Flows[i].Size)
	}
	for i := range s.Workloads {
		sum += uint64(s.Workloads[i].count(s)) * each(s.Workloads[i].Size)
	}
	return sum
}

// drops reports whether switches can drop packets.
func (s *Scenario) drops() bool { return s.Switches.Queue > 0 || s.Switches.Buffer > 0 }

// Bound has so many simulations at once take at most so many bytes: an error where they take more whatever happens. A run ends
// where its packets on their way take more.
func (s *Scenario) Bound(most uint64, runs int) error {
	s.most = most / uint64(runs)
	if need := s.Memory(); need > s.most {
		return s.m.Error("", "raise it, or simulate fewer flows", "the simulation takes about %d bytes, and --memory allows %d", need*uint64(runs), most)
	}
	return nil
}

// packets is how many there may be at a time.
func (s *Scenario) packets() int {
	if s.most == 0 {
		return math.MaxInt
	}
	return int((s.most - min(s.fixed(), s.most)) / packetMemory)
}

// hopBytes are the bytes of telemetry a hop, of the formats that draft-miao-ccwg-hpcc-info-03 shows.
var hopBytes = map[string]int32{"none": 0, "ifa": 32, "ioam": 20, "p4": 24}

// ns3Bytes are those of five hops of 8 bytes, and 2.
const ns3Bytes = 42
