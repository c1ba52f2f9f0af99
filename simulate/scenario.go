package simulate

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/csig-agent/csig/cc"
	"github.com/csig-agent/csig/inventory"
)

// Format is that of scenario files.
const Format = "csig.scenario/v1"

// Bounds of a scenario.
const (
	maxHosts   = 100_000
	maxFlows   = 1_000_000
	flowMemory = 500 // bytes that a flow takes, about
)

// Scenario is a file of csig simulate.
type Scenario struct {
	_        struct{} `doc:"What csig simulate does."`
	Format   string   `key:"format,need" words:"csig.scenario/v1" doc:"The form of this file."`
	Topology Topology `key:"topology,need" doc:"The network."`
	Packets  Packets  `key:"packets,flow" doc:"What packets have."`
	Control  Control  `key:"control,flow" doc:"The congestion control of all flows."`
	Flows    []Flows  `key:"flows,need" doc:"Who sends what to whom."`

	hosts int
}

// Topology is a network of one kind.
type Topology struct {
	Star *Star `key:"star,flow" doc:"Hosts around one switch."`
}

// Star is hosts around one switch.
type Star struct {
	Hosts  int           `key:"hosts,need" range:"2 100000" doc:"How many there are; their numbers begin with 0."`
	Rate   uint64        `key:"rate,need" is:"speed" doc:"Of each cable, in both directions."`
	Delay  time.Duration `key:"delay,need" range:"1ns 1s" doc:"Of each cable."`
	Buffer uint64        `key:"buffer" is:"bytes" doc:"That each port's queue holds; without it nothing is dropped."`
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
}

// Check has the rules about several keys.
func (s *Scenario) Check(m inventory.Mapping) {
	if !m.Has("packets") {
		s.Packets = inventory.Filled[Packets]()
	}
	if !m.Has("control") {
		s.Control = inventory.Filled[Control]()
	}
	if s.Topology.Star == nil {
		if m.Has("topology") {
			m.WrongValue("topology", "e.g. topology: {star: {hosts: 16, rate: 100G, delay: 1us}}", "it has no network")
		}
		return
	}
	s.hosts = s.Topology.Star.Hosts
	for i := range s.Flows {
		if f := &s.Flows[i]; s.hosts > 0 && (f.last >= s.hosts || f.To >= s.hosts) {
			m.WrongValue("flows", fmt.Sprintf("hosts are 0 to %d", s.hosts-1), "flow %d is from %s to %d, and there are %d hosts", i+1, f.From, f.To, s.hosts)
		}
	}
}

// Check has the rules about several keys.
func (f *Flows) Check(m inventory.Mapping) {
	first, last, ranged := strings.Cut(f.From, "-")
	a, err := strconv.ParseUint(first, 10, 31)
	b := a
	if ranged && err == nil {
		b, err = strconv.ParseUint(last, 10, 31)
	}
	if err != nil || b < a {
		if m.Has("from") && f.From != "" {
			m.WrongValue("from", "e.g. 0, or 0-14", "%q is neither a host nor a range of hosts", f.From)
		}
		return
	}
	f.first, f.last = int(a), int(b)
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

// count is how many flows there are.
func (s *Scenario) count() (n int) {
	for i := range s.Flows {
		n += s.Flows[i].last - s.Flows[i].first + 1
	}
	return n
}

// Memory is about what the simulation takes, in bytes.
func (s *Scenario) Memory() uint64 { return uint64(s.count())*flowMemory + uint64(s.hosts)*400 }

// hopBytes are the bytes of telemetry a hop (draft-ietf-info-hpcc §3).
var hopBytes = map[string]int32{"none": 0, "ifa": 32, "ioam": 20, "p4": 24}

// ns3Bytes are those of five hops of 8 bytes, and 2.
const ns3Bytes = 42

// Simulation is a scenario that can run.
type Simulation struct {
	scenario *Scenario
	network  *Network
	rtt      int64 // ps, of one packet without queues

	receivers map[int32]*cc.Peers
}

// New is a simulation of a scenario.
func New(s *Scenario) (*Simulation, error) {
	if n := s.count(); n > maxFlows {
		return nil, fmt.Errorf("%d flows are more than the %d that a simulation takes", n, maxFlows)
	}
	star := s.Topology.Star
	n := newNetwork(int32(s.Packets.Payload), int32(s.Packets.Header), hopBytes[s.Packets.INT])
	n.ack = int32(s.Packets.Ack)
	if s.Packets.INT == "ns3" {
		n.perPath, n.coarse = ns3Bytes, true
	}
	delay := star.Delay.Nanoseconds() * 1000
	for range star.Hosts { // link 2i from a host, 2i+1 to it
		n.addHost(n.addLink(star.Rate, delay, 0))
		n.addLink(star.Rate, delay, star.Buffer)
	}
	full := n.payload + n.header + n.perHop + n.perPath
	m := &Simulation{scenario: s, network: n, rtt: 4*delay + 2*n.links[0].takes(full) + 2*n.links[0].takes(n.ack+n.perHop+n.perPath)}
	n.pintT = m.rtt
	for i := range s.Flows {
		f := &s.Flows[i]
		for from := f.first; from <= f.last; from++ {
			n.addFlow(flow{
				from: int32(from), to: int32(f.To), size: f.Size, begins: f.At.Nanoseconds() * 1000,
				path: []int32{int32(2 * from), int32(2*f.To + 1)}, back: []int32{int32(2 * f.To), int32(2*from + 1)}, control: m.control(star.Rate, int32(f.To)),
			})
		}
	}
	return m, nil
}
