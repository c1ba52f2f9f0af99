package simulate

import (
	"fmt"
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
	hostMemory = 50_000 // of what is on its way
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

	routes *routes
}

// Switches are what the ports of switches have.
type Switches struct {
	Queue  uint64 `key:"queue" is:"bytes" doc:"That a port's queue holds; without it there is no such end."`
	Buffer uint64 `key:"buffer" is:"bytes" doc:"That the ports of a switch share; without it nothing else is dropped."`
	Alpha  int    `key:"alpha" range:"1 100000" doc:"How much of what is left of the buffer a queue may have, in percent: 100 unless given. With pfc: an ingress port, before it pauses: 12.5 unless given."`
	PFC    bool   `key:"pfc" doc:"Ports pause the other end of their cable before the buffer is full."`
	ECN    *ECN   `key:"ecn,flow" doc:"Packets are marked where there is a queue."`
}

// ECN is when packets are marked.
type ECN struct {
	Min    uint64 `key:"min,need" is:"bytes" doc:"A queue from which on packets are marked."`
	Max    uint64 `key:"max" is:"bytes" doc:"One from which on all are; min unless given."`
	Chance int    `key:"chance" range:"1 100" default:"100" doc:"Of a packet to be marked just below max, in percent."`
	At     uint64 `key:"at" is:"speed" doc:"Of ports of this speed; min and max grow with the speed of others. They are the same for all unless given."`
}

// Recovery is how what is lost is sent again.
type Recovery struct {
	Kind    string        `key:"kind" words:"go-back-n selective" default:"go-back-n" doc:"go-back-n: the receiver wants what is missing and all behind it again, as RoCE. selective: what is missing alone, as TCP and IRN."`
	Timeout time.Duration `key:"timeout" range:"1us 10s" default:"4ms" doc:"After so long without an acknowledgement all in flight counts as lost; it doubles each time, up to 64 times as long."`
}

// Check has the rules about several keys.
func (s *Switches) Check(m inventory.Mapping) {
	if s.PFC && s.Buffer == 0 && !m.Has("buffer") {
		m.Wrong("pfc", "e.g. buffer: 32M", "ports that pause need the size of the buffer")
	}
	if m.Has("alpha") && s.Buffer == 0 && !m.Has("buffer") {
		m.Wrong("alpha", "e.g. buffer: 32M, or leave it out", "it is of a shared buffer")
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
	if s.Paths.Choice == "plb" && s.Switches.ECN == nil {
		m.WrongValue("paths", "e.g. switches: {ecn: {min: 100k}}", "plb goes by marks, and no switch sets any")
	}
	if !m.Has("recovery") {
		s.Recovery = inventory.Filled[Recovery]()
	}
	if s.CSIG == nil && !m.Has("csig") && s.Control.needsTags() {
		m.WrongValue("control", "e.g. csig: {switches: [{kind: native}]}", "this control goes by CSIG's signals, and no switch knows tags")
	}
	g := s.Topology.graph
	if g == nil {
		return
	}
	if s.CSIG != nil {
		if problem := s.CSIG.unnamed(g); problem != "" {
			m.WrongValue("csig", "names are leaf0, spine0, tor0, agg0, core0, switch0", "%s", problem)
		}
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
func (s *Scenario) Memory() uint64 {
	g := s.Topology.graph
	return uint64(s.count())*flowMemory + uint64(len(g.cables))*2*linkMemory + uint64(g.hosts)*hostMemory
}

// hopBytes are the bytes of telemetry a hop (draft-ietf-info-hpcc §3).
var hopBytes = map[string]int32{"none": 0, "ifa": 32, "ioam": 20, "p4": 24}

// ns3Bytes are those of five hops of 8 bytes, and 2.
const ns3Bytes = 42
