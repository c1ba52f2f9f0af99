// Package assess reports what the devices of a fleet can do with CSIG tags, and
// what that requires of ports, links and hosts (draft-00 §6.3).
package assess

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Format is the version of an assessment as JSON.
const Format = "csig.assess/v1"

// Basis is how the capabilities of a device are known.
type Basis string

// The bases, the best first.
const (
	BasisProbe    Basis = "probe"    // the device was asked
	BasisPlatform Basis = "platform" // what devices of its platform can do
	BasisFile     Basis = "file"     // nothing is known but what the fleet file says
)

// Evidence is what is known of one device.
type Evidence struct {
	plans.Observation
	Basis    Basis
	Counters Freshness
}

// Freshness is how a device's counters were found to be when they were read.
type Freshness struct {
	Source   string        // what they are read with
	Readings int           // 0: they were not read
	Kind     string        // how they are refreshed: "live", "timer", …; "unknown"
	Period   time.Duration // from refresh to refresh; 0 while it is unknown
	Read     time.Duration // the longest reading
	Note     string        // what is wrong with the configured interval, or why they were not read; "" for nothing
	Ports    map[string]string
	Findings []findings.Finding // of the device's links
}

// Options are what an assessment is asked for.
type Options struct {
	Offline       bool
	Version       string
	InventoryHash string
	Now           time.Time
}

// Assessment is what a fleet can do with CSIG tags, device by device, and what
// draft-00 §6.3 therefore asks of its ports and hosts.
type Assessment struct {
	Format        string             `json:"format"`
	Created       time.Time          `json:"created"`
	Version       string             `json:"version"`
	Fleet         string             `json:"fleet"`
	ProfileHash   string             `json:"profile_hash"`
	InventoryHash string             `json:"inventory_hash"`
	TPID          uint16             `json:"tpid"`
	WideTPID      uint16             `json:"wide_tpid"`
	Layout        string             `json:"layout"`
	Signals       []string           `json:"signals"`
	TagBytes      int                `json:"tag_bytes"` // that the longest CSIG tag of the domain adds to a frame
	Offline       bool               `json:"offline"`   // no device was asked
	Totals        Totals             `json:"totals"`
	Devices       []Device           `json:"devices"`
	Requirements  []Requirement      `json:"requirements"`
	Findings      []findings.Finding `json:"findings"`
}

// Totals counts.
type Totals struct {
	Devices      Counts `json:"devices"` // by level, and "all"
	Ports        Counts `json:"ports"`
	Asked        int    `json:"asked"`        // devices that csig has a driver for, unless offline
	NotRead      int    `json:"not_read"`     // devices that are assumed from their platforms, since they could not be read
	Requirements Counts `json:"requirements"` // ports and hosts, by the state of what is required of them
	Errors       int    `json:"errors"`
	Warnings     int    `json:"warnings"`
}

// Counts is how many there are of each kind, of kinds without any as well.
type Counts map[string]int

func newCounts(kinds []string) Counts {
	c := Counts{}
	for _, kind := range kinds {
		c[kind] = 0
	}
	return c
}

// Levels are the levels of devices and ports.
var Levels = []string{
	inventory.LevelNative.String(), inventory.LevelSoftware.String(), inventory.LevelPassthrough.String(), inventory.LevelDiscard.String(), plans.LevelUnknown.String(),
}

// Device is one device.
type Device struct {
	Device   string     `json:"device"`
	Platform string     `json:"platform"`
	Via      string     `json:"via"`
	Basis    Basis      `json:"basis"`
	Level    string     `json:"level"`
	Reason   string     `json:"reason"`
	NotRead  string     `json:"not_read"` // why it could not be read: it is assumed from its platform; "" where it was read or not asked
	Support  []Support  `json:"support"`  // where tag, depth or signal make a difference
	Driver   string     `json:"driver"`   // why csig has none for it; "" where it has
	Update   Capability `json:"update"`
	Strip    Capability `json:"strip"`
	Lease    Capability `json:"lease"`
	Table    *TableCost `json:"table,omitempty"`  // of a device that csig keeps rules on
	Signal   *SignalAge `json:"signal,omitempty"` // the same
	Ports    []Ports    `json:"ports"`
	Notes    []string   `json:"notes"`
}

// Capability is one verdict; Level is "full", "degraded", "refused" or
// "unknown".
type Capability struct {
	Level  string `json:"level"`
	Reason string `json:"reason"`
}

// Support is the level for some kinds of tags (draft-00 §6.2: it depends on the
// format and the place of the tag, and on the signal).
type Support struct {
	Tag     string   `json:"tag"`       // "compact" or "wide"
	VLANs   []int    `json:"vlan_tags"` // how many stand in front; empty: as many as may be
	Signals []string `json:"signals"`
	Level   string   `json:"level"`
	Reason  string   `json:"reason"`
}

// Ports are ports of a device that are alike.
type Ports struct {
	Ports  []string `json:"ports"`
	Speed  uint64   `json:"speed_bps"` // bit/s; 0: the device knows
	MTU    int      `json:"mtu_bytes"` // 0: the device knows
	Action string   `json:"action"`
	Level  string   `json:"level"`
	Reason string   `json:"reason"`
}

// Fleet assesses a fleet. It reads nothing: look returns what is known of each
// device.
func Fleet(f *inventory.Fleet, look func(*inventory.Device) Evidence, o Options) *Assessment {
	return assess(f, look, o, map[string]tableOps{})
}

// assess is Fleet with the costs of tables that were counted before.
func assess(f *inventory.Fleet, look func(*inventory.Device) Evidence, o Options, costs map[string]tableOps) *Assessment {
	a := &assessor{fleet: f, offline: o.Offline, costs: costs, out: &Assessment{
		Format: Format, Created: o.Now.UTC(), Version: o.Version, Fleet: f.Path, ProfileHash: f.Profile.Hash(), InventoryHash: o.InventoryHash,
		TPID: f.Profile.TPID, WideTPID: f.Profile.WideTPID, Layout: f.Profile.Layout.String(), Signals: []string{}, TagBytes: 4, Offline: o.Offline,
		Devices: make([]Device, 0, len(f.Devices)), Requirements: []Requirement{}, Findings: []findings.Finding{},
	}}
	if f.Profile.WideTPID != 0 {
		a.out.TagBytes = 8
	}
	for _, sig := range quantize.Signals {
		if _, ok := f.Profile.Signals[sig]; ok {
			a.signals = append(a.signals, sig)
			a.out.Signals = append(a.out.Signals, sig.String())
		}
	}
	a.devices = make([]assessed, len(f.Devices))
	a.index = make(map[string]int, len(f.Devices))
	for i := range f.Devices {
		a.index[f.Devices[i].Name] = i
	}
	a.hosts = make(map[string]*inventory.Host, len(f.Hosts))
	for i := range f.Hosts {
		a.hosts[f.Hosts[i].Name] = &f.Hosts[i]
	}
	a.domain()
	for i := range f.Devices {
		a.device(&a.devices[i], &f.Devices[i], look(&f.Devices[i]))
	}
	a.mixed()
	a.require()
	a.total()
	return a.out
}

type assessor struct {
	fleet   *inventory.Fleet
	offline bool
	signals []quantize.Signal // of the profile
	devices []assessed
	index   map[string]int
	hosts   map[string]*inventory.Host // that the file describes
	most    *inventory.Host            // with the largest MTU, of those that read tags
	costs   map[string]tableOps        // by capabilities
	out     *Assessment
}

// assessed is one device while the fleet is looked at.
type assessed struct {
	dev   *inventory.Device
	seen  Evidence
	level plans.Level
	ports []plans.Level // in the order of the device
}

// blind reports whether tags must not reach the device.
func (d *assessed) blind() bool {
	return d.level.Support == inventory.LevelDiscard || d.level.Support == plans.LevelUnknown
}

// find notes a finding at ports of a device; none is the device as a whole, and
// no device is the fleet.
func (a *assessor) find(code findings.Code, level findings.Level, device string, ports []string, format string, args ...any) {
	a.out.Findings = append(a.out.Findings, findings.Finding{Code: code, Level: level, Device: device, Ports: ports, Reason: fmt.Sprintf(format, args...)})
}

// device assesses one device by itself.
func (a *assessor) device(d *assessed, dev *inventory.Device, seen Evidence) {
	own := seen.Facts.Updates(a.fleet.Profile.TPID)
	a.out.Findings = append(append(a.out.Findings, seen.Measure(a.fleet, dev)...), seen.Counters.Findings...)
	d.dev, d.seen = dev, seen
	a.decide(d)
	update := seen.Facts.Updates(a.fleet.Profile.TPID)
	if own.Level != vlanrules.Refused && update.Level == vlanrules.Refused && dev.Level.Support == inventory.LevelAuto {
		a.find(findings.CannotUpdate, findings.Error, dev.Name, nil, "what was measured of its model stops updates: %s; csig plan refuses it: qualify it again once that is repaired, or give it its level in the fleet file, passthrough or discard", update.Reason)
	}
	if seen.Err != nil && !a.offline && d.level.Support != plans.LevelUnknown {
		a.find(findings.NotReached, findings.Warning, dev.Name, nil, "not all of it could be read, so this is what is known without: %v", seen.Err)
	}
	if seen.NoAgent != "" && seen.Err == nil {
		a.find(findings.NoAgent, findings.Info, dev.Name, nil, "%s", seen.NoAgent)
	}
	if d.level.Updates() {
		want := make([]vendors.PortSetup, 0, len(dev.Ports))
		for i := range dev.Ports {
			want = append(want, vendors.PortSetup{Port: dev.Ports[i].Name, Action: dev.Ports[i].Action})
		}
		a.out.Findings = append(a.out.Findings, plans.PortFindings(&a.fleet.Profile, dev, &seen.Facts, want)...)
	}
	out := Device{
		Device: dev.Name, Platform: dev.Platform, Via: seen.Via, Basis: seen.Basis,
		Level: d.level.Support.String(), Reason: d.level.Reason, NotRead: a.notRead(d), Support: a.support(d),
		Driver: seen.NoDriver, Update: seen.capability(&update), Strip: seen.capability(&seen.Facts.Strip), Lease: seen.capability(&seen.Facts.Lease),
		Ports: []Ports{}, Notes: append([]string{}, seen.Facts.Notes...),
	}
	if !seen.Setup.Nothing() {
		out.Notes = append(out.Notes, seen.Facts.Off...)
	}
	if d.level.Updates() {
		out.Signal = a.age(d)
	}
	if d.level.Updates() && !seen.Facts.Native {
		out.Table = a.table(d)
	} else {
		d.ports = make([]plans.Level, len(dev.Ports))
		for i := range d.ports {
			d.ports[i] = d.level
		}
	}
	a.unproven(d)
	a.updates(d)
	out.Ports = alike(d)
	a.out.Devices = append(a.out.Devices, out)
	a.caution(d)
}

// notRead is why a device is assumed from its platform though it was asked; "" where it is not.
func (a *assessor) notRead(d *assessed) string {
	if d.seen.Err == nil || a.offline || d.seen.Basis != BasisPlatform {
		return ""
	}
	return d.seen.Err.Error()
}

// unproven says where a driver is experimental, and what csig apply asks for.
func (a *assessor) unproven(d *assessed) {
	want := plans.WantOf(a.fleet, "", d.dev, d.level)
	why, untested := d.seen.Unproven(d.dev, &want)
	switch {
	case why == "" || want.Nothing():
	case d.dev.Experimental:
		a.find(findings.Experimental, findings.Warning, d.dev.Name, nil, "its driver is experimental (%s), and %s", why, untested)
	default:
		a.find(findings.Experimental, findings.Warning, d.dev.Name, nil, "csig apply does not set it up: %s", plans.Unproven(a.fleet, d.dev, why, untested))
	}
}

// updates says what updates cost that are changes of configuration, and what csig apply
// asks for.
func (a *assessor) updates(d *assessed) {
	want := plans.WantOf(a.fleet, "", d.dev, d.level)
	buckets := plans.Buckets(&want)
	if buckets == 0 {
		return
	}
	if why := d.seen.Facts.UpdatesRefused(d.dev); why != "" {
		a.find(findings.UpdatesRefused, findings.Warning, d.dev.Name, nil, "csig apply does not set it up: %s", why)
	}
	if cost := d.seen.Facts.UpdatesCost(buckets); cost != "" {
		a.find(findings.UpdatesCost, findings.Info, d.dev.Name, nil, "%s", cost)
	}
}

// capability is a verdict of the facts, as far as they are known.
func (e *Evidence) capability(v *vlanrules.Verdict) Capability {
	if e.Basis == BasisFile {
		return Capability{"unknown", "nothing is known of the device but what the fleet file says"}
	}
	return Capability{v.Level.String(), v.Reason}
}

// alike puts ports that are alike together, in the order of the device.
func alike(d *assessed) []Ports {
	type key struct {
		speed  uint64
		mtu    int
		action vlanrules.Action
		plans.Level
	}
	out := []Ports{}
	at := map[key]int{}
	for i := range d.dev.Ports {
		p := &d.dev.Ports[i]
		level := d.ports[i]
		if why := d.seen.Counters.Ports[p.Name]; why != "" {
			reason := "its counters: " + why
			if level != d.level { // it has one of its own
				reason = level.Reason + "; " + reason
			}
			level.Reason = reason
		}
		k := key{p.Speed, p.MTU, p.Action, level}
		n, ok := at[k]
		if !ok {
			n = len(out)
			at[k] = n
			out = append(out, Ports{Speed: p.Speed, MTU: p.MTU, Action: p.Action.String(), Level: level.Support.String(), Reason: level.Reason})
		}
		out[n].Ports = append(out[n].Ports, p.Name)
	}
	return out
}

// decide finds a device's level, and what the fleet file says of it that is not
// so.
func (a *assessor) decide(d *assessed) {
	dev, seen := d.dev, &d.seen
	asserted := dev.Level.Support
	own := plans.Level{Support: asserted, Reason: cmp.Or(dev.Level.Reason, "the fleet file says so")}
	switch seen.Basis {
	case BasisProbe, BasisPlatform:
		auto := *dev
		auto.Level = inventory.Level{}
		found := plans.LevelOf(&auto, &seen.Facts, a.fleet.Profile.TPID)
		if found.Reason == "" {
			found.Reason = "it takes the rules"
			if seen.Basis == BasisPlatform {
				found.Reason = "devices of its platform take the rules"
			}
		}
		d.level = own
		through, update := seen.Facts.Forwards(a.fleet.Profile.TPID), seen.Facts.Updates(a.fleet.Profile.TPID)
		native := &seen.Facts.Traits.Native
		switch {
		case asserted == inventory.LevelAuto:
			d.level = found
			if seen.Facts.Update.Level != vlanrules.Refused && update.Level == vlanrules.Refused {
				a.find(findings.TPIDNotPossible, findings.Warning, dev.Name, nil, "it could update tags, but not in this domain: %s", update.Reason)
			}
		case asserted == inventory.LevelNative && native.Is != "":
			a.find(findings.LevelUnproven, findings.Warning, dev.Name, nil, "the fleet file says that its level is native: csig cannot tell whether it is set up so, with the domain's profile; what its platform has: %s", native.Is)
		case asserted == inventory.LevelNative:
			a.find(findings.LevelUnproven, findings.Warning, dev.Name, nil, "the fleet file says that its level is native: csig cannot tell whether that is so; by rules of csig it would be %s", found.Support)
		case asserted == inventory.LevelPassthrough && update.Level == vlanrules.Refused && through.Level == vlanrules.Degraded:
			a.find(findings.LevelUnproven, findings.Warning, dev.Name, nil, "taken as passthrough, as the fleet file says; csig cannot see whether it is: %s", through.Reason)
		case rank(asserted) > rank(found.Support):
			if asserted == inventory.LevelSoftware {
				found.Reason = update.Reason
			}
			d.level = plans.Level{Support: found.Support, Reason: fmt.Sprintf("the fleet file says %s, but: %s", asserted, found.Reason)}
			a.find(findings.LevelWrong, findings.Error, dev.Name, nil, "the fleet file says that its level is %s, and it is %s: %s; correct level", asserted, found.Support, found.Reason)
		}
		return
	}
	switch {
	case asserted != inventory.LevelAuto:
		d.level = own
	default:
		d.level = plans.Level{Support: plans.LevelUnknown, Reason: fmt.Sprintf("its level is unknown (%v): give it a level in the fleet file; until then no tag may reach it", seen.Err)}
		a.find(findings.LevelUnknown, findings.Error, dev.Name, nil, "its level is not known (%v): give it a level with its reason", seen.Err)
	}
}

// rank orders levels by what they promise.
func rank(s inventory.Support) int {
	return slices.Index([]inventory.Support{inventory.LevelDiscard, inventory.LevelPassthrough, inventory.LevelSoftware, inventory.LevelNative}, s)
}

// below is what a device does with tags that its rules do not update.
func (a *assessor) below(d *assessed, why string) plans.Level {
	if v := d.seen.Facts.Forwards(a.fleet.Profile.TPID); v.Level != vlanrules.Full {
		return plans.Level{Support: inventory.LevelDiscard, Reason: v.Reason}
	}
	return plans.Level{Support: inventory.LevelPassthrough, Reason: why}
}

// support is the level of each kind of tag. Kinds with one level are one row.
func (a *assessor) support(d *assessed) []Support {
	out := []Support{}
	put := func(tag string, vlans []int, signals []quantize.Signal, level plans.Level) {
		if len(signals) == 0 {
			return
		}
		s := Support{Tag: tag, VLANs: append([]int{}, vlans...), Signals: []string{}, Level: level.Support.String(), Reason: level.Reason}
		for _, sig := range signals {
			s.Signals = append(s.Signals, sig.String())
		}
		out = append(out, s)
	}
	tags := []string{"compact", "wide"}
	if a.fleet.Profile.WideTPID == 0 {
		tags = tags[:1]
	}
	if !d.level.Updates() {
		for _, tag := range tags {
			put(tag, nil, a.signals, d.level)
		}
		return out
	}
	var can, cannot []quantize.Signal
	for _, sig := range a.signals {
		if d.seen.Facts.Measures(sig) {
			can = append(can, sig)
		} else {
			cannot = append(cannot, sig)
		}
	}
	// Depths with one level, in order.
	type depths struct {
		level plans.Level
		vlans []int
	}
	var rows []depths
	for n, v := range d.seen.Facts.TagDepths {
		level := d.level
		switch v.Level {
		case vlanrules.Degraded:
			level.Reason = v.Reason
		case vlanrules.Refused:
			level = a.below(d, v.Reason)
		}
		i := slices.IndexFunc(rows, func(r depths) bool { return r.level == level })
		if i < 0 {
			i = len(rows)
			rows = append(rows, depths{level: level})
		}
		rows[i].vlans = append(rows[i].vlans, n)
	}
	if rows == nil {
		rows = []depths{{d.level, nil}}
	}
	for _, r := range rows {
		put("compact", r.vlans, can, r.level)
	}
	put("compact", nil, cannot, a.below(d, "a per-frame signal cannot be read from counters (draft-00 §6.4)"))
	if len(tags) > 1 {
		switch v := &d.seen.Facts.Wide; {
		case v.Level == vlanrules.Refused:
			put("wide", nil, a.signals, a.below(d, v.Reason))
		default:
			level := d.level
			level.Reason = cmp.Or(v.Reason, level.Reason)
			put("wide", nil, can, level)
			put("wide", nil, cannot, a.below(d, "a per-frame signal cannot be read from counters (draft-00 §6.4)"))
		}
	}
	return out
}

// total counts.
func (a *assessor) total() {
	t := &a.out.Totals
	t.Devices, t.Ports, t.Requirements = newCounts(Levels), newCounts(Levels), newCounts(Statuses)
	t.Devices["all"] = len(a.devices)
	for i := range a.devices {
		d := &a.devices[i]
		t.Devices[d.level.Support.String()]++
		if !a.offline && d.seen.NoDriver == "" && d.seen.Basis != BasisFile {
			t.Asked++
		}
		if a.notRead(d) != "" {
			t.NotRead++
		}
		t.Ports["all"] += len(d.ports)
		for j := range d.ports {
			t.Ports[d.ports[j].Support.String()]++
		}
	}
	for i := range a.out.Requirements {
		r := &a.out.Requirements[i]
		t.Requirements[r.Status] += len(r.Ports) + len(r.Hosts)
	}
	for _, f := range a.out.Findings {
		switch f.Level {
		case findings.Error:
			t.Errors++
		case findings.Warning:
			t.Warnings++
		}
	}
}

// setupPorts counts the ports of a device that csig is to update.
func setupPorts(dev *inventory.Device) (n int) {
	for i := range dev.Ports {
		if dev.Ports[i].Action == vlanrules.Update {
			n++
		}
	}
	return n
}

// Only is the assessment of some of the devices, with all that concerns them;
// nil is all. The totals stay the fleet's.
func (a *Assessment) Only(names []string) *Assessment {
	if len(names) == 0 {
		return a
	}
	asked := make(map[string]bool, len(names))
	for _, name := range names {
		asked[name] = true
	}
	out := *a
	out.Devices = slices.DeleteFunc(slices.Clone(a.Devices), func(d Device) bool { return !asked[d.Device] })
	out.Requirements = slices.DeleteFunc(slices.Clone(a.Requirements), func(r Requirement) bool {
		if asked[r.Device] {
			return false
		}
		return !slices.ContainsFunc(r.Peers, func(peer Peer) bool { return asked[peer.Device] })
	})
	out.Findings = slices.DeleteFunc(slices.Clone(a.Findings), func(f findings.Finding) bool { return f.Device != "" && !asked[f.Device] })
	return &out
}
