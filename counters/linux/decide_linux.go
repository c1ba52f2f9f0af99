package linux

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/counters"
)

// wireOverhead is what a frame costs on an Ethernet wire beyond what Linux
// counts: FCS, preamble and gap.
const wireOverhead = 4 + 8 + 12

// device is what the kernel says about one interface.
type device struct {
	kind, bus string
	root      qdisc
	offloads  offloads
	linkSpeed uint64 // bit/s, of links only that are real; 0 where unknown
}

// offloads are the active features of an interface that make a counter differ
// from the wire. The zero value is unknown.
type offloads struct {
	known        bool
	segmentation []string // super-frames reach the driver
	fixed        []string // those of them that cannot be switched off
	vlan         []string // VLAN tags reach the driver beside the frame
}

// hardware reports whether the interface's counter is one of a real device. A
// paravirtual one counts in its guest driver, as a virtual one does.
func (d *device) hardware() bool {
	if d.kind != "" {
		return false
	}
	switch d.bus {
	case "", "virtio", "xen", "vmbus":
		return false
	}
	return true
}

// link reports whether the interface has a link of its own, whose speed its driver knows: that of a
// virtual device is made up. A port of a switch chip behind another interface has one.
func (d *device) link() bool { return d.hardware() || d.kind == "dsa" }

// software reports whether the kernel itself counts what the interface sends. A
// hardware driver may show what it fetched a second ago, and so may the kinds that
// add up or pass on what hardware counted.
func (d *device) software() bool {
	if d.aggregate() || d.kind == "dsa" {
		return false
	}
	return !d.hardware() && d.describe() != "unknown"
}

// aggregate reports whether frames leave by one of several other interfaces.
func (d *device) aggregate() bool { return d.kind == "bond" || d.kind == "team" }

// describe names the kind of device.
func (d *device) describe() string {
	switch {
	case d.kind != "":
		return d.kind
	case d.bus != "":
		return d.bus
	}
	return "unknown"
}

// verdict is how a port is read.
type verdict struct {
	Facts
	reported  uint64 // the kernel's own speed, in bit/s: the link's or its shaper's; 0 where unknown
	fromQdisc bool   // its root qdisc's counter, else the interface's
	inflated  bool   // the counter may have more than was sent
	live      bool   // the counter is kept in software, so that each reading is current
}

// decide chooses the counter and the capacity of a port; the package comment
// gives the rules and the reasons.
func decide(p *Port, d *device) verdict {
	v := verdict{Facts: Facts{Port: p.Name, Device: d.describe(), Counter: "interface"}}
	var degraded []string
	exact := d.hardware() || d.offloads.known && len(d.offloads.segmentation) == 0
	if !exact && d.root.counts {
		v.fromQdisc, exact = true, true
		v.Counter = "qdisc " + d.root.kind
		v.inflated = d.root.stab || d.root.kind == "cake"
		switch {
		case d.root.stab:
			degraded = append(degraded, fmt.Sprintf("the size table (stab) of its %s qdisc changes the bytes counted: remove it", d.root.kind))
		case d.root.kind == "cake":
			degraded = append(degraded, "cake counts the overhead it is configured with: use tbf or htb")
		}
	}
	if !exact {
		degraded = append(degraded, superFrames(&d.offloads))
	}
	if p.Tagged && !d.hardware() {
		if r := outOfBandTags(&v, &d.offloads); r != "" {
			degraded = append(degraded, r)
		}
	}
	if r := capacity(p, d, &v); r != "" {
		degraded = append(degraded, r)
	}
	if d.aggregate() {
		degraded = append(degraded, "a link aggregate, in whose sum a full member does not show: name its members as ports instead")
	}
	v.live = v.fromQdisc || d.software()
	v.Notes = notes(d, v.fromQdisc)
	v.Degraded = strings.Join(degraded, "; ")
	return v
}

// superFrames says how super-frames spoil the interface's counter, and the way
// out.
func superFrames(o *offloads) string {
	const effect = "a GSO super-frame counts as one packet without its segments' headers: "
	switch {
	case !o.known:
		return effect + "its offloads cannot be read (ethtool netlink is missing), shape the port with tbf or htb"
	case len(o.fixed) != 0:
		return effect + strings.Join(o.fixed, ", ") + " cannot be switched off, shape the port with tbf or htb"
	}
	return effect + "run `" + switchOff(o.segmentation) + "`, or shape the port with tbf or htb"
}

// outOfBandTags says how tags that travel beside the frame spoil the counter.
func outOfBandTags(v *verdict, o *offloads) string {
	const effect = "a VLAN tag beside the frame is not counted, 4 bytes each: "
	switch {
	case !o.known:
		return effect + "its offloads cannot be read (ethtool netlink is missing)"
	case !v.fromQdisc && len(o.vlan) == 0:
		return "" // the tag is in the frame when the driver counts it
	case v.fromQdisc && len(o.fixed) != 0:
		return effect + strings.Join(o.fixed, ", ") + " cannot be switched off, so the counter of the qdisc has to do"
	case v.fromQdisc:
		return effect + "run `" + switchOff(append(slices.Clip(o.segmentation), o.vlan...)) + "`"
	}
	return effect + "run `" + switchOff(o.vlan) + "`"
}

// switchOff is a command to type, with PORT for the port: a reason names none.
func switchOff(features []string) string {
	return "ethtool -K PORT " + strings.Join(features, " off ") + " off"
}

// capacity fills in the speeds and returns in what way the capacity is not quite right.
func capacity(p *Port, d *device, v *verdict) string {
	from := ""
	if d.linkSpeed != 0 {
		v.reported, from = d.linkSpeed, "ethtool"
	}
	shaped := d.root.rate != 0 && (v.reported == 0 || d.root.rate < v.reported)
	if shaped {
		v.reported, from = d.root.rate, "tbf rate"
	}
	if p.Speed != 0 && (p.Override || counters.Capacity(p.Speed, v.reported) == p.Speed) {
		v.Speed, v.SpeedFrom = p.Speed, "configuration"
		return ""
	}
	v.Speed, v.SpeedFrom = v.reported, from
	if !shaped || d.root.overhead == wireOverhead {
		return ""
	}
	return fmt.Sprintf("capacity is the rate of its tbf, which takes a frame for %d bytes where the wire takes %d more than Linux counts: give tbf `overhead %d`, or set speed: {override: …} for this port",
		d.root.overhead, wireOverhead, wireOverhead)
}

func notes(d *device, fromQdisc bool) []string {
	var n []string
	if d.hardware() {
		n = append(n, "the driver is taken to count frames as on the wire; this was not verified")
	} else {
		n = append(n, "an 802.1Q or 802.1ad tag beside the frame is not counted")
	}
	if fromQdisc {
		n = append(n, "a super-frame from a virtual machine's tap or a packet socket counts with its bytes but as no packet")
	}
	return n
}
