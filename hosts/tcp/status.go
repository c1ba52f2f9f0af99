package tcp

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// StatusFormat is the Format of a Status.
const StatusFormat = "csig.host-status/v1"

// StatusPath is where csig host run answers with a Status.
const StatusPath = "/v1/host"

// Status is what csig host run knows.
type Status struct {
	Format    string    `json:"format"`
	Time      time.Time `json:"time"`
	Host      string    `json:"host"`
	Interface string    `json:"interface"`
	CGroup    string    `json:"cgroup"`
	Since     time.Time `json:"since"`
	Trouble   string    `json:"trouble"` // why no connection has tags now; "" where they may
	Control   Control   `json:"control"`
	NoMaps    string    `json:"no_maps"` // why programs of this machine read no signals of their connections; "" where they do
	Counts    Counts    `json:"counts"`
	Flows     []Flow    `json:"flows"` // whose ends agreed on the option
	More      bool      `json:"more"`  // there are more than 10,000
}

// ControlNative is the congestion control that the system gives connections; ControlCSIG is csig's.
const (
	ControlNative = "native"
	ControlCSIG   = "csig"
)

// Control is csig's congestion control.
type Control struct {
	Wanted  string        `json:"wanted"`  // by the fleet file: "native" or "csig"
	Name    string        `json:"name"`    // in the kernel; "" where it has none
	Trouble string        `json:"trouble"` // why no connection is under it, though it is wanted; "" else
	Jump    string        `json:"jump"`    // shares of what is left
	Ramp    string        `json:"ramp"`
	AgeNS   int64         `json:"age_ns"` // until what a connection sends is in the signal, without the path's delay
	Counts  ControlCounts `json:"counts"`
}

// ControlCounts are sums since csig host run began.
type ControlCounts struct {
	Given       uint64 `json:"given"`   // connections, to csig's control
	Stopped     uint64 `json:"stopped"` // back, as no signal came
	Stale       uint64 `json:"stale"`   // back, as a port's agent is gone
	Refused     uint64 `json:"refused"` // by the kernel
	Jumps       uint64 `json:"jumps"`
	Ramps       uint64 `json:"ramps"`
	Undelivered uint64 `json:"undelivered"` // jumps and ramps after which the connection was not faster
}

// Counts are sums since csig host run began.
type Counts struct {
	Connections uint64 `json:"connections"` // whose ends agreed
	Tagged      uint64 `json:"tagged"`      // frames, or super-frames, that left with a tag
	Probes      uint64 `json:"probes"`      // those of them that left to find out whether reflections come
	Stripped    uint64 `json:"stripped"`    // that came with a tag
	Sent        uint64 `json:"sent"`        // reflections
	Received    uint64 `json:"received"`
	Malformed   uint64 `json:"malformed"` // of another length, or of no signal of the profile: ignored
	NoRoom      uint64 `json:"no_room"`   // ACKs whose options left none
	Failed      uint64 `json:"failed"`    // tags that the kernel did not insert or remove

	DatagramsSent     uint64 `json:"datagrams_sent"` // with a tag, as their program asked
	DatagramsReceived uint64 `json:"datagrams_received"`
}

// Flow is a TCP connection.
type Flow struct {
	Local    string    `json:"local"` // ADDRESS:PORT
	Remote   string    `json:"remote"`
	Peer     string    `json:"peer"`   // the remote host's name; "" where the fleet file has no such address
	Opened   string    `json:"opened"` // by "local" or "remote"
	State    string    `json:"state"`
	AgeNS    *int64    `json:"age_ns"`   // of the last reflection; null: none came yet
	Learned  []Reading `json:"learned"`  // of this host's frames, as the peer reflects them
	Received []Reading `json:"received"` // of the peer's frames
	Tags     uint64    `json:"tags"`     // sent
	Sent     uint64    `json:"sent"`     // reflections
	Answers  uint64    `json:"answers"`  // reflections received
	Control  string    `json:"control"`  // that it is under: "csig", or the kernel's name of another
	Why      string    `json:"why"`      // it is under that one
	Jumps    uint32    `json:"jumps"`    // head-room that it took at its start and after it was idle
	Ramps    uint32    `json:"ramps"`    // and later

	Undelivered uint32 `json:"undelivered"` // of both, after which it was not faster
}

// The states of a connection.
const (
	FlowTagged  = "tagged"  // reflections are fresh: frames have tags
	FlowProbing = "probing" // none is: one frame in a second or more has one
)

// Reading is the newest tag of one T.
type Reading struct {
	T      uint8    `json:"t"`
	Signal string   `json:"signal"`
	S      uint8    `json:"s"`
	Range  string   `json:"range"` // of S
	LM     uint16   `json:"lm"`
	Ports  []string `json:"ports"` // DEVICE:PORT of those that may have written it; of several on the way the fleet file does not tell which
	Mean   *uint64  `json:"mean"`  // with tcp: ewma, the moving average of what is left at least: bit/s of abw, ppm of abwc; null: none
	Note   string   `json:"note"`  // "none": no switch replaced it; "stale": the port's agent is gone
	AgeNS  int64    `json:"age_ns"`
}

// names are the egress ports of a fleet by what they write. It is for one goroutine at a time.
type names struct {
	fleet   *inventory.Fleet
	self    string
	paths   *inventory.Paths
	hosts   map[netip.Addr]string
	writers map[written][]inventory.PortRef
	on      map[string]map[inventory.PortRef]bool // by host: the ports on the way there; nil: the file has none
	from    map[string]map[inventory.PortRef]bool // on the way from there
}

type written struct {
	signal quantize.Signal
	lm     uint16
}

func newNames(cfg *Config) *names {
	n := &names{
		fleet: cfg.Fleet, self: cfg.Host.Name, paths: cfg.Fleet.Paths(), hosts: make(map[netip.Addr]string), writers: make(map[written][]inventory.PortRef),
		on: make(map[string]map[inventory.PortRef]bool), from: make(map[string]map[inventory.PortRef]bool),
	}
	for i := range cfg.Fleet.Hosts {
		h := &cfg.Fleet.Hosts[i]
		if a, err := netip.ParseAddr(h.Address); err == nil {
			n.hosts[a.Unmap()] = h.Name
		}
	}
	for i := range cfg.Fleet.Devices {
		d := &cfg.Fleet.Devices[i]
		for j := range d.Ports {
			p := &d.Ports[j]
			if p.Action != vlanrules.Update {
				continue
			}
			for sig, lm := range p.LM {
				n.writers[written{sig, lm}] = append(n.writers[written{sig, lm}], inventory.PortRef{Device: d.Name, Port: p.Name})
			}
		}
	}
	return n
}

// mostWays bounds the ways that are kept.
const mostWays = 1024

// way is the ports on the shortest paths between two hosts; nil where the file has none.
func (n *names) way(known map[string]map[inventory.PortRef]bool, from, to, by string) map[inventory.PortRef]bool {
	if on, ok := known[by]; ok {
		return on
	}
	if len(known) >= mostWays {
		clear(known)
	}
	var on map[inventory.PortRef]bool
	if hops, err := n.paths.Hops(from, to); err == nil {
		on = make(map[inventory.PortRef]bool)
		for _, hop := range hops {
			for _, p := range hop {
				on[p] = true
			}
		}
	}
	known[by] = on
	return on
}

// reading is a tag in the fleet's words. peer is the host at the other end, "" where it is not known; out is whether
// this host sent the tag.
func (n *names) reading(tci quantize.TCI, age time.Duration, peer string, out bool) (r Reading, ok bool) {
	p := &n.fleet.Profile
	tag := p.Layout.Unpack(tci)
	means, err := p.Read(tag)
	if err != nil {
		return r, false // of no signal of the profile
	}
	r = Reading{T: uint8(tag.T), Signal: tag.T.String(), S: uint8(tag.S), Range: means.String(), LM: tag.LM, Ports: []string{}, AgeNS: age.Nanoseconds()}
	switch tag.LM {
	case p.Layout.LMNone():
		r.Note = "none"
		return r, true
	case p.Layout.LMStale():
		r.Note = "stale"
		return r, true
	}
	all := n.writers[written{tag.T, tag.LM}]
	var on map[inventory.PortRef]bool
	switch {
	case peer == "":
	case out:
		on = n.way(n.on, n.self, peer, peer)
	default:
		on = n.way(n.from, peer, n.self, peer)
	}
	for _, ref := range all {
		if on == nil || on[ref] {
			r.Ports = append(r.Ports, ref.String())
		}
	}
	return r, true
}

// sortFlows has those that are tagged first, then by their ends.
func sortFlows(flows []Flow) {
	slices.SortFunc(flows, func(a, b Flow) int {
		return cmp.Or(cmp.Compare(b.State, a.State), cmp.Compare(a.Remote, b.Remote), cmp.Compare(a.Local, b.Local))
	})
}
