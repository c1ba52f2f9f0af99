package inventory

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/csig-agent/csig/quantize"
)

// What follows is the shape of a fleet file, in the order in which people read it. The
// keys of more types are in fleet.go, management.go, secret.go and sources.go, and the
// tags that define them are explained in key_tags.go.

type fileKeys struct {
	_         struct{}     `doc:"A fleet file of csig: one CSIG domain, or a part of one that another file includes."`
	Format    string       `key:"format,need" is:"format" hint:"add \"format: csig.fleet/v1\" as the first line" doc:"The format of this file."`
	Include   []string     `key:"include" is:"text" many:"or one" doc:"Files that belong to this one, relative to it; * and ? stand for letters of a name."`
	Profile   *profileKeys `key:"profile" doc:"What all devices of the domain share."`
	Policy    *Policy      `key:"policy" doc:"The domain's behaviour outside of the profile's hash."`
	VLANTPIDs *[]uint16    `key:"vlan_tpids,flow" is:"tpid" doc:"TPIDs of the domain's ordinary VLANs."`
	Defaults  *deviceKeys  `key:"defaults" without:"name groups local address ports" doc:"What holds for every device that says nothing else, and none of its groups does."`
	Groups    groupMap     `key:"groups" doc:"What the devices of a group have in common, by the group's name."`
	Facts     factsMap     `key:"facts" doc:"What was measured on models of switches, by names that devices give; csig qualify writes them."`
	Devices   []deviceKeys `key:"devices" doc:"The switches."`
	Hosts     hostList     `key:"hosts" doc:"The ends of the network."`
	Mesh      *Mesh        `key:"mesh,quiet" doc:"How the hosts with CSIG and an address probe each other."`
	Links     string       `key:"links" is:"links" doc:"The cables: \"leaf1:swp49 - spine1:swp1\", one an entry or one a line."`
}

type profileKeys struct {
	_           struct{}      `doc:"What all devices of a domain have to agree on."`
	Name        string        `key:"name,need" is:"name" hint:"it appears in status and plans" doc:"It appears in status and plans."`
	TPID        uint16        `key:"tpid,need" is:"profile-tpid" hint:"IEEE has assigned none: choose one that nothing else in the domain uses, e.g. 0x9900" doc:"TPID of the compact tag."`
	WideTPID    uint16        `key:"wide_tpid" is:"profile-tpid" doc:"TPID of the wide tag."`
	Retired     []uint16      `key:"retired_tpids,flow" is:"tpid" doc:"TPIDs of the compact tag in earlier profiles: stripped at every port that faces a host, until they are taken out."`
	RetiredWide []uint16      `key:"retired_wide_tpids,flow" is:"tpid" doc:"TPIDs of the wide tag in earlier profiles."`
	Layout      string        `key:"layout" words:"draft-00 uec" default:"draft-00" doc:"Which bits are what; draft-00 unless given."`
	Interval    time.Duration `key:"interval,need" is:"interval" hint:"the averaging window Δt, e.g. 100ms" doc:"The averaging window Δt."`
	Signals     signalsKeys   `key:"signals,need" hint:"say which signals the domain carries, e.g. abw: {buckets: log-10G}" doc:"The signals that the domain carries."`
	Locator     locatorList   `key:"locator" doc:"The bit fields of the compact locator, most significant first."`
	WideLocator locatorList   `key:"wide_locator" doc:"The bit fields of the wide locator."`
}

type signalsKeys struct {
	ABW  *signalKeys `key:"abw" doc:"Least available bandwidth."`
	ABWC *signalKeys `key:"abwc" doc:"Least available bandwidth relative to capacity."`
	PD   *signalKeys `key:"pd" doc:"Largest delay of one hop."`
	NQD  *signalKeys `key:"nqd" doc:"Largest queue depth (uec)."`
}

func (s *signalsKeys) of(sig quantize.Signal) **signalKeys {
	return map[quantize.Signal]**signalKeys{quantize.MinABW: &s.ABW, quantize.MinABWC: &s.ABWC, quantize.MaxPD: &s.PD, quantize.MaxNQD: &s.NQD}[sig]
}

type signalKeys struct {
	Buckets     bucketTable `key:"buckets,need,flow" hint:"a preset, e.g. log, or a list of 33 bounds" doc:"A preset's name, 33 bounds or 32 pairs."`
	Quantum     string      `key:"quantum" is:"word" doc:"What one step of the wide tag's S stands for."`
	InitialS    *uint8      `key:"initial_s" range:"0 31" doc:"What senders start with."`
	Locator     locatorList `key:"locator" doc:"A locator of its own."`
	WideLocator locatorList `key:"wide_locator" doc:"A wide locator of its own."`
}

type locatorKeys struct {
	_      struct{}   `doc:"A bit field of a locator."`
	Name   string     `key:"name,need" is:"field" doc:"Its name."`
	Bits   int        `key:"bits,need" range:"1 16" hint:"how many bits of the locator the field takes" doc:"How many bits it takes."`
	Values valueNames `key:"values" doc:"Names of its values. csig chooses none of these, but derives those of the fields capacity and orientation."`
}

// locatorList is the fields of a locator.
type locatorList []locatorKeys

func (*locatorList) readFrom(*reader, ast.Node, string) bool { return false } // by profileReader.locator

func (*locatorList) form() *schema { return listForm(keysOf[locatorKeys]().schema()) }

func (l *locatorList) writeTo(w *writer) {
	w.list(len(*l), func(i int) { w.flowKeys(&(*l)[i]) })
}

// valueNames are the names of a locator field's values.
type valueNames map[string]uint16

func (v *valueNames) readFrom(r *reader, n ast.Node, what string) bool {
	entries, ok := r.entries(n, what)
	for _, e := range entries {
		number, valid := r.number(e.value, strings.TrimSuffix(what, "values")+e.name, 0, 1<<16-1)
		if ok = ok && valid; *v == nil {
			*v = make(valueNames)
		}
		(*v)[e.name] = uint16(number)
	}
	return ok
}

func (*valueNames) form() *schema { return mapForm(numberForm(0, 1<<16-1)) }

func (v *valueNames) writeTo(w *writer) {
	before := "{"
	for _, name := range slices.SortedFunc(maps.Keys(*v), func(a, b string) int { return int((*v)[a]) - int((*v)[b]) }) {
		w.out = append(w.out, before...)
		w.plain(name)
		w.out = strconv.AppendUint(append(w.out, ": "...), uint64((*v)[name]), 10)
		before = ", "
	}
	w.out = append(w.out, '}')
}

// bucketTable is a preset's name or a list of bounds.
type bucketTable struct{ quantize.Buckets }

func (*bucketTable) readFrom(*reader, ast.Node, string) bool { return false } // by profileReader.buckets

func (*bucketTable) form() *schema {
	word := textForm("")
	return anyForm(word, listForm(anyForm(word, listForm(word))))
}

func (b *bucketTable) writeTo(w *writer) {
	if b.Preset != "" {
		w.plain(b.Preset)
		return
	}
	bounds := b.Bounds()
	w.list(len(bounds), func(i int) { w.plain(valueText(b.Signal, bounds[i])) })
}

// deviceKeys has what a device can say. Groups and the defaults say the same,
// without what only one device can have.
type deviceKeys struct {
	_            struct{}            `doc:"A switch."`
	Name         string              `key:"name,need" is:"names" doc:"Its name; leaf-[1-4] stands for four."`
	Groups       placedNames         `key:"groups" doc:"The groups it is in. What an earlier one says goes before what a later one says."`
	Platform     string              `key:"platform,always" is:"name" doc:"What runs on it, e.g. linux."`
	Local        bool                `key:"local" doc:"csig agent runs on this device."`
	Address      string              `key:"address" is:"addresses" doc:"Of its management port: an IP address or a host's name."`
	Management   layered[Management] `key:"management,quiet" doc:"How csig gets at it."`
	Level        Level               `key:"level,flow" doc:"What it does with the tag; auto unless given: csig assess finds out."`
	Facts        string              `key:"facts" is:"name" doc:"The name of what was measured on its model."`
	Experimental bool                `key:"experimental" doc:"Let csig apply set it up by a driver that never ran on such a device, without facts of its rules."`
	Updates      Updates             `key:"updates" words:"cli never" doc:"cli: csig may change the signal by lines of configuration, where the platform takes it no other way; never unless given."`
	Lease        Lease               `key:"lease" words:"none required" doc:"none: csig may update it although neither its data plane nor a dead-man on it withdraws the signal when the agent is gone; required unless given."`
	Tags         placedNames         `key:"tags,flow" doc:"Words to choose devices by, e.g. for the waves of a rollout. Those of groups and defaults add up."`
	Interval     time.Duration       `key:"interval" is:"interval" doc:"Its averaging window Δt, in place of the profile's."`
	Schedule     string              `key:"schedule" is:"schedule" doc:"When to sample it, in place of the policy's."`
	Estimator    Estimator           `key:"estimator,flow" doc:"In place of the policy's."`
	Counters     Counters            `key:"counters,quiet" doc:"Where its counters are read."`
	Port         layered[portKeys]   `key:"port" without:"name peer strip_retired" doc:"What holds for each of its ports that says nothing else."`
	Ports        portList            `key:"ports,always" doc:"Its egress ports."`
}

// What groups and the defaults cannot say, of deviceKeys.
const (
	notInGroups   = "name groups local address"
	notInDefaults = notInGroups + " ports"
)

// groupMap is the groups by their names.
type groupMap struct{}

func (*groupMap) readFrom(*reader, ast.Node, string) bool { return false } // one by one, by reader.group

func (*groupMap) form() *schema {
	s := keySetOf(reflect.TypeFor[deviceKeys](), notInGroups).schema()
	s.Description = "What devices have in common."
	return mapForm(s)
}

func (*groupMap) writeTo(*writer) {} // devices have been given what their groups say

type portKeys struct {
	_            struct{}  `doc:"An egress port."`
	Name         string    `key:"name,need" is:"ports" hint:"the device's own name of the port" doc:"The device's own name of the port; swp[1-32] stands for 32."`
	Speed        portSpeed `key:"speed" doc:"Its capacity, e.g. 100G, or what the device reports where that is less; asked of the device unless given. {override: 100G} is its capacity whatever the device reports."`
	MTU          int       `key:"mtu" is:"mtu" doc:"Its MTU in bytes, as the device's own configuration has it."`
	Action       string    `key:"action" words:"update passthrough strip" doc:"What it does with the tag; update unless given."`
	LM           portLM    `key:"lm" doc:"Its locator, or values of some of the locator's fields; csig allocates what is not given."`
	StripRetired *bool     `key:"strip_retired" doc:"Whether tags of the profile's retired TPIDs end here; so it is, unless given, where the peer is no device of the fleet. A port with action: strip removes them in any case."`
	Peer         string    `key:"peer" is:"peers" doc:"The other end of its cable: \"DEVICE:PORT\", or a host's name."`
}

// portSpeed is a speed in the file, or one that overrides what the device reports.
type portSpeed struct {
	_        struct{} `doc:"A speed in place of what the device reports."`
	Override uint64   `key:"override,need" is:"speed" hint:"a speed: {override: 10G}; or speed: 10G, where the device reports no nonsense" doc:"Its capacity, whatever the device reports: for a device that reports nonsense."`
	given    uint64   // alone
}

// speedOf is a port's speed as the file has it.
func speedOf(p *Port) portSpeed {
	if p.SpeedOverride {
		return portSpeed{Override: p.Speed}
	}
	return portSpeed{given: p.Speed}
}

func (s *portSpeed) readFrom(r *reader, n ast.Node, what string) (ok bool) {
	if _, mapping := n.(ast.MapNode); mapping {
		_, ok = r.readKeys(n, what, s)
		return ok && s.Override != 0
	}
	s.given, ok = parsed(r, n, what, parseSpeed)
	return ok
}

func (*portSpeed) form() *schema {
	return anyForm(speedForm(), keysOf[portSpeed]().schema())
}

func (s *portSpeed) writeTo(w *writer) {
	if s.Override != 0 {
		w.flowKeys(s)
		return
	}
	w.out = append(w.out, FormatSpeed(s.given)...)
}

// Check wants as many peers as ports.
func (p *portKeys) Check(m Mapping) {
	names, peers := len(expandRead(p.Name)), len(expandRead(p.Peer))
	if names > 0 && peers > 0 && names != peers {
		m.WrongValue("peer", "each port has a peer of its own: give both as many", "peer: the peers are %d, the ports %d", peers, names)
		p.Peer = ""
	}
}

// portList is the ports of a device: those of a fleet that is written, or the entries
// that were read.
type portList struct {
	fleet *Fleet
	ports []Port

	list []layered[portKeys]
	open bool // some could not be read
}

func (*portList) form() *schema { return listForm(keysOf[portKeys]().schema()) }

func (l *portList) writeTo(w *writer) {
	w.list(len(l.ports), func(i int) {
		keys := l.fleet.keysOf(&l.ports[i])
		w.flowKeys(&keys)
	})
}

type hostKeys struct {
	_ struct{} `doc:"An end of the network."`
	Host
	Management hostManagement `key:"management" doc:"How csig gets at it."`
}

type hostManagement struct {
	NetNS string `key:"netns,need" is:"paths" hint:"it is the only way to a host besides local: true" doc:"Path of the network namespace that is the host, on this machine: a lab's host."`
}

// Check wants the network card where csig is to send probes from a host.
func (h *hostKeys) Check(m Mapping) {
	const hint = "the network card to send probes from, e.g. interface: eth0"
	if m.get("management") != nil {
		if h.Local {
			m.refuse("says where the host is, and local: true that it is here", "management")
		}
		m.needToo("management", hint, "interface")
	}
	if h.Local {
		m.needToo("local", hint, "interface")
	}
	if h.TCP != nil && !h.CSIG {
		m.WrongValue("tcp", "add csig: true to the host", "tcp: the host neither reads nor writes tags")
	}
}

// hostList is the hosts: names, or mappings.
type hostList []hostKeys

func (*hostList) readFrom(*reader, ast.Node, string) bool { return false } // one by one, by reader.host

func (*hostList) form() *schema {
	return listForm(keysOf[hostKeys]().schema())
}

func (l *hostList) writeTo(w *writer) {
	w.list(len(*l), func(i int) { w.flowKeys(&(*l)[i]) })
}
