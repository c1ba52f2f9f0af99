package inventory

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// Fleet is one CSIG domain: the profile all devices share, the domain's
// policy and the devices. Defaults are filled in.
type Fleet struct {
	Path      string // the name given to Parse or Load
	Profile   quantize.Profile
	Policy    Policy
	VLANTPIDs []uint16 // TPIDs of the domain's ordinary VLANs, none of them CSIG's
	Devices   []Device
	Hosts     []Host // those that the file describes
	Mesh      *Mesh  // how hosts probe each other; nil: they do not

	index    *index // of a fleet that was read
	warnings Errors
}

// Policy is the domain's behaviour outside the profile's hash.
type Policy struct {
	OnStale   OnStale   `key:"on_stale" words:"conservative strip passthrough" default:"conservative" doc:"What frames carry when the agent is gone or the counters are stale; conservative unless given."`
	Schedule  string    `key:"schedule,always" is:"schedule" doc:"When to sample: \"@every 100ms\", or a cron expression of five fields, or of six that begin with the second: \"*/10 * 8-17 * * 1-5\" is each 10 s in working hours. Where it pauses for longer than Δt the lease ends, and ports fall back."` // for ParseSchedule
	Estimator Estimator `key:"estimator,flow" doc:"How readings become a rate; raw unless given."`
	Damping   Damping   `key:"damping,flow" doc:"Holds back a better bucket until it has proved itself; off unless given."`

	// DriftCheck is when agents compare what their device has with their configuration,
	// for ParseSchedule; "" is DefaultDriftCheck.
	DriftCheck string `key:"drift_check" is:"schedule" doc:"When the agent compares what the device has with its configuration; @every 1h unless given."`

	// Retired are TPIDs of the domain's earlier profiles, in ascending order: hosts
	// may still send them, and no host is to receive them any more.
	Retired []RetiredTPID
}

// RetiredTPID is a TPID that was a domain's.
type RetiredTPID struct {
	TPID uint16
	Wide bool // of its wide tag
}

// OnStale is what a port's frames carry when the agent is gone or the
// counters are stale.
type OnStale string

// The fail-safe policies.
const (
	Conservative     OnStale = "conservative" // the worst bucket, with the stale locator
	StaleStrip       OnStale = "strip"
	StalePassthrough OnStale = "passthrough"
)

// Device is one switch.
type Device struct {
	Name     string
	Platform string // a name of vendors/all, e.g. "linux"
	Local    bool   // the device csig agent runs on
	Address  string // management address, an IP address or a host's name; "" when not given

	Management Management
	Level      Level
	Facts      *Facts   // what was measured on its model; nil where the file names nothing
	Tags       []string // sorted; words to choose devices by

	// Experimental lets apply set it up by a driver that never ran on hardware, where
	// no facts are of its model.
	Experimental bool

	Updates Updates
	Lease   Lease

	Interval  time.Duration // averaging window Δt; the profile's unless overridden
	Schedule  string        // the policy's unless overridden; "@every" Interval where neither says
	Estimator Estimator     // the policy's unless overridden
	Counters  Counters
	Ports     []Port
}

// Updates is what an update of the signal may be, where it costs the device something.
type Updates string

// UpdatesCLI allows updates that are changes of the device's configuration, each with
// its lines in accounting logs.
const UpdatesCLI Updates = "cli"

// updatesNever and leaseRequired take back what a group or the defaults allow: in a Device they are "".
const (
	updatesNever  Updates = "never"
	leaseRequired Lease   = "required"
)

// Lease is what withdraws the signal when the agent is gone.
type Lease string

// LeaseNone allows updates of a device on which nothing does: the last values stay
// advertised.
const LeaseNone Lease = "none"

// Port is one egress port.
type Port struct {
	Name   string
	Speed  uint64 // configured, in bit/s; 0: ask the device. Its capacity is the smaller of this and what the device reports
	MTU    int    // bytes, as the device's own configuration counts them; 0: ask the device
	Action vlanrules.Action

	// SpeedOverride is whether Speed is its capacity, whatever the device reports.
	SpeedOverride bool

	// LM is the locator to write, for each signal of the profile: given, or
	// allocated. Ports with the same share one map, so it is not to be changed.
	LM   map[quantize.Signal]uint16
	Peer Peer

	// StripRetired is whether tags of the policy's retired TPIDs end here, where
	// the action is another than strip, which removes them anyway. It is so for
	// every port that is not known to face a device, unless the file says otherwise.
	StripRetired bool
}

// SameSpeed reports whether q has the same speed in the file.
func (p *Port) SameSpeed(q *Port) bool {
	return p.Speed == q.Speed && p.SpeedOverride == q.SpeedOverride
}

// SpeedText is its speed as the file has it: "10G", "{override: 10G}", or "" for none.
func (p *Port) SpeedText() string {
	if p.SpeedOverride {
		return "{override: " + FormatSpeed(p.Speed) + "}"
	}
	return FormatSpeed(p.Speed)
}

// Host is an end of the network: a machine with CSIG in its stack, or without.
type Host struct {
	Name string `key:"name,need,short" is:"hosts" doc:"Its name; gpu-[1-8] stands for eight."`
	MTU  int    `key:"mtu" is:"mtu" doc:"Of its network card, in bytes."` // 0: unknown
	CSIG bool   `key:"csig" doc:"Whether it reads and writes the tag."`

	// Address is an IP address, IPv4 or IPv6: "" where it takes no part in a mesh.
	Address string `key:"address" is:"ips" doc:"The IP address that other hosts reach it at; csig mesh needs it."`

	// Interface is the network card that csig may send probes from, and take
	// them in at: "" for none. The host is this machine where it is Local, or
	// the network namespace NetNS, a path, of this machine.
	Interface string `key:"interface" is:"interface" doc:"The network card that csig apply --probe sends from and listens at."`
	Local     bool   `key:"local" doc:"It is the machine that csig runs on."`
	NetNS     string

	TCP *TCP `key:"tcp" doc:"Which of its TCP connections have tags (csig host run)."` // nil: none
}

// Mesh is how the hosts with CSIG and an address probe each other.
type Mesh struct {
	Key       Secret        `key:"key,need" hint:"say where it is, e.g. {file: /etc/csig/mesh.key}; any text of 16 bytes or more, the same for all hosts" doc:"What hosts sign their answers with: one for all."`
	Port      uint16        `key:"port" is:"port" default:"9917" doc:"UDP, of all hosts; 9917 unless given."`
	Interval  time.Duration `key:"interval" range:"100ms 1m" default:"1s" doc:"A host probes each of its peers once in this time; 1s unless given."`
	Collector string        `key:"collector" is:"line 300" doc:"Where the hosts send what they find, as ADDRESS:PORT: a csig-controller with --mesh, or one of them with --collect."`
	TLS       TLS           `key:"tls" without:"insecure_skip_verify" hash:"late" doc:"The certificates with which csig mesh status asks the collector from another machine."`
}

// meshPorts is how many source ports probes have, above the mesh's port.
const meshPorts = 4

// Check wants room for the source ports, a port with the collector's address, and with tls all of it.
func (k *Mesh) Check(m Mapping) {
	if k.Port > 1<<16-1-meshPorts {
		m.WrongValue("port", "probes come from the four ports above it", "port: want %d at most", 1<<16-1-meshPorts)
	}
	if m.Has("tls") {
		m.needToo("tls", "where csig mesh status asks, e.g. collector: 192.0.2.7:9918", "collector")
	}
	if m.Has("tls") && (k.TLS.CA == "" || k.TLS.Cert == "" || k.TLS.Key == "") && m.r.mistakes() == m.before {
		m.WrongValue("tls", "the collector has to know who asks", "tls: want ca, cert and key")
	}
	if k.Collector == "" {
		return
	}
	if ip, port, err := net.SplitHostPort(k.Collector); err != nil || ip == "" || checkAddress(ip) != nil || parsePort(port) == 0 {
		m.WrongValue("collector", "e.g. 192.0.2.7:9918, or [2001:db8::7]:9918", "collector: want an address and a port")
		k.Collector = ""
	}
}

func parsePort(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return n
}

// Support is a level of support for the tag (draft-00 §6.2).
type Support string

// The levels. A device's is either asserted in the file or left to assessment.
const (
	LevelAuto        Support = ""            // csig assess finds out
	LevelNative      Support = "native"      // compares and replaces by itself
	LevelSoftware    Support = "software"    // by rules that csig keeps true
	LevelPassthrough Support = "passthrough" // forwards the tag as it is
	LevelDiscard     Support = "discard"     // must never see a tag
)

// String returns the file's word: "auto" for LevelAuto.
func (s Support) String() string {
	if s == LevelAuto {
		return "auto"
	}
	return string(s)
}

// Level is what a device does with the tag.
type Level struct {
	Support Support `key:"is,need,short" words:"auto native software passthrough discard" hint:"want auto, native, software, passthrough or discard" doc:"The level."`
	Reason  string  `key:"reason" is:"line 500" doc:"Why: plans and assessments repeat it."`
	Profile string  `key:"profile" is:"hash" doc:"Hash of the profile that a native device is configured for, or its first 12 digits or more."`
}

// Peer is the far end of a port's link; the zero value is unknown.
type Peer struct {
	Device, Port string // Port is "" for a host with one interface
}

// String is the form of the file: "s2:swp1", or "h1"; "" when unknown.
func (p Peer) String() string {
	if p.Port == "" {
		return p.Device
	}
	return p.Device + ":" + p.Port
}

// PortRef names one port of a fleet.
type PortRef struct {
	Device, Port string
}

// String returns "device:port".
func (p PortRef) String() string { return p.Device + ":" + p.Port }

// Device returns the device of that name; false when there is none. The
// pointer is into the fleet.
func (f *Fleet) Device(name string) (*Device, bool) {
	if i, ok := f.deviceAt(name); ok {
		return &f.Devices[i], true
	}
	return nil, false
}

// Host returns the host of that name; false when the file does not describe
// it. The pointer is into the fleet.
func (f *Fleet) Host(name string) (*Host, bool) {
	var known map[string]int
	if f.index != nil {
		known = f.index.hosts
	}
	if i, ok := find(known, name, len(f.Hosts), func(i int) string { return f.Hosts[i].Name }); ok {
		return &f.Hosts[i], true
	}
	return nil, false
}

// Warnings are what is odd in the files without being wrong: an MTU that
// differs between the ends of a link, a host without a link. They are in the
// order of the files.
func (f *Fleet) Warnings() Errors { return f.warnings }

// index finds devices and hosts by their names. A fleet is a plain struct that
// its owner may change, so what is found here is looked at again.
type index struct {
	devices, hosts map[string]int
	origins        *origins
	looks          []look
}

func (f *Fleet) deviceAt(name string) (int, bool) {
	var known map[string]int
	if f.index != nil {
		known = f.index.devices
	}
	return find(known, name, len(f.Devices), func(i int) string { return f.Devices[i].Name })
}

// find is the place of a name among n, most likely the one that is known.
func find(known map[string]int, name string, n int, nameOf func(i int) string) (int, bool) {
	if i, ok := known[name]; ok && i < n && nameOf(i) == name {
		return i, true
	}
	for i := range n {
		if nameOf(i) == name {
			return i, true
		}
	}
	return 0, false
}

// Port returns the port of that name; false when there is none. The pointer
// is into the device.
func (d *Device) Port(name string) (*Port, bool) {
	for i := range d.Ports {
		if d.Ports[i].Name == name {
			return &d.Ports[i], true
		}
	}
	return nil, false
}

// PortNames are the names of the device's ports, in the file's order.
func (d *Device) PortNames() []string {
	names := make([]string, 0, len(d.Ports))
	for i := range d.Ports {
		names = append(names, d.Ports[i].Name)
	}
	return names
}

// Remote reports whether the device's agent does not run on it, and reaches it over SSH
// or over the network by the platform's own keys.
func (d *Device) Remote() bool {
	m := &d.Management
	return !d.Local && (m.SSH != nil || d.Reaches() != "") && (m.Daemon == nil || m.Daemon.At != "")
}

// LocalDevice returns the one device marked local, or else the file's only one, where its
// agent is remote. None, and more than one, is an *Error that says what to write where.
func (f *Fleet) LocalDevice() (*Device, error) {
	var local []*Device
	var names []string
	for i := range f.Devices {
		names = append(names, f.Devices[i].Name)
		if f.Devices[i].Local {
			local = append(local, &f.Devices[i])
		}
	}
	switch {
	case len(local) == 1:
		return local[0], nil
	case len(f.Devices) == 1 && f.Devices[0].Remote():
		return &f.Devices[0], nil
	case len(local) > 1:
		return nil, f.mistake(local[1].Name, "local", "leave it with the one that this agent runs on", "%d devices are marked local", len(local))
	case len(names) == 0:
		return nil, f.mistake("", "", "add this one, with local: true", "the file has no devices")
	}
	first := names[0]
	if len(names) > 8 {
		names = append(names[:8], "…")
	}
	return nil, f.mistake(first, "name", "add local: true to the one that this agent runs on: "+strings.Join(names, ", "), `no device is marked "local: true"`)
}

// Mistake is an *Error about what the file says of a device under a key of
// DeviceOrigins; where the file does not say it, at the device's name.
func (f *Fleet) Mistake(device, key, hint string, err error) *Error {
	return f.mistake(device, key, hint, "device %s: %v", cmp.Or(device, "whose name is wrong"), err)
}

func (f *Fleet) mistake(device, key, hint, format string, args ...any) *Error {
	from := f.DeviceOrigins(device)
	at, ok := from[key]
	if !ok || at.File == "" {
		at = from["name"]
	}
	if at.File == "" {
		at = Origin{File: f.Path, Line: 1, Col: 1}
	}
	return &Error{File: printable(at.File), Line: at.Line, Col: at.Col, Msg: shortened(fmt.Sprintf(format, args...)), Hint: shortened(hint)}
}
