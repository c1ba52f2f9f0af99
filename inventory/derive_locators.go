package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// attribute is a property of a port that a locator field is called by (CSIG draft-00 §5.5.2.1).
// The file says it elsewhere, so csig derives such a field where no lm gives it.
type attribute uint8

const (
	capacityField attribute = iota
	stageField
	orientationField
	numAttributes
)

// attributes are the fields' names, and what they are derived from.
var attributes = [numAttributes]struct{ field, from string }{
	capacityField: {"capacity", "speed"}, stageField: {"stage", "tier"}, orientationField: {"orientation", "direction"},
}

// attributeOf is the attribute that a field of this name carries.
func attributeOf(field string) (attribute, bool) {
	for a := range numAttributes {
		if attributes[a].field == field {
			return a, true
		}
	}
	return 0, false
}

// attributeSet is a set of attributes.
type attributeSet uint8

func (s attributeSet) has(a attribute) bool { return s>>a&1 == 1 }
func (s *attributeSet) add(a attribute)     { *s |= 1 << a }

// capacities are the speeds that a field capacity without values has numbers for: 1 is the first.
// Each rate of Ethernet has one, so that a larger number is a higher speed. 0 is not known.
var capacities = [...]uint64{10e6, 100e6, 1e9, 2.5e9, 5e9, 10e9, 25e9, 40e9, 50e9, 100e9, 200e9, 400e9, 800e9, 1600e9, 3200e9}

// Directions of a port; a field orientation without values has them as its numbers. 0 is not known.
const (
	upLink uint64 = 1 + iota
	downLink
	sideLink
)

// directions are the names of the values of a field orientation. The first is the one that
// messages use.
var directions = [...][]string{upLink: {"up", "uplink"}, downLink: {"down", "downlink"}, sideLink: {"side", "sidelink", "side-link"}}

func directionOf(name string) uint64 {
	for d, names := range directions {
		if slices.Contains(names, strings.ToLower(name)) {
			return uint64(d)
		}
	}
	return 0
}

// speedWords may stand in front of a speed in a value's name, which begins with a letter.
var speedWords = []string{"", "s", "c", "speed", "cap"}

// namedSpeed reads a value's name as a speed: "s25G", "cap-100G", "speed2.5G". 0 is none.
func namedSpeed(name string) uint64 {
	digit := strings.IndexFunc(name, func(r rune) bool { return '0' <= r && r <= '9' })
	if digit < 0 || !slices.Contains(speedWords, strings.ToLower(strings.TrimRight(name[:digit], "-_."))) {
		return 0
	}
	bps, err := ParseSpeed(name[digit:])
	if err != nil {
		return 0
	}
	return bps
}

// reason is why an attribute of a port is not known.
type reason uint8

const (
	isKnown reason = iota
	noSpeed
	noCable
	strangePeer
	noHost
	numReasons
)

var reasons = [numReasons]struct{ text, hint string }{
	noSpeed:     {"its speed is not in the file", "write its speed, e.g. speed: 100G"},
	noCable:     {"its peer is not in the file", "write its cable under links"},
	strangePeer: {"its peer is neither a host nor a device of the file", "describe the peer under devices"},
	noHost:      {"no way to a host is in the file", "write the cables to the hosts under links"},
}

// derivedField is a field of a signal's locator that csig derives.
type derivedField struct {
	attribute
	*quantize.LocatorField
	signal int // signalIndex
	mask   uint16
	above  uint16 // the bits that no field of the locator has
	shift  int
	at     originID // of the field in the profile

	named  map[uint64]uint16   // of a field with values: by what their names read as
	unsure map[uint64][]string // names that read as the same
}

// derivation gives fields of locators the values that follow from the rest of the file.
type derivation struct {
	c      *compiler
	f      *Fleet
	t      *graph
	fields []derivedField
	tier   []uint64 // of each device: 1 for those with hosts, 0 where it is not known
	cables bool     // all cables, devices and hosts could be read

	unknown [numAttributes][numReasons]struct {
		ports int
		at    originID // the first
		first PortRef
	}
}

// newDerivation is nil where there is nothing to derive.
func (c *compiler) newDerivation(f *Fleet, signals []quantize.Signal, t func() *graph) *derivation {
	d := &derivation{c: c, f: f}
	for _, sig := range signals {
		l := f.Profile.Signals[sig].Locator
		for n := range l.Fields {
			one := derivedField{LocatorField: &l.Fields[n], signal: signalIndex(sig), at: c.profile.fieldsAt[sig][n]}
			var ok bool
			if one.attribute, ok = attributeOf(one.Name); !ok || one.attribute == stageField && len(one.Names) > 0 {
				continue // which of the names of a stage is true, only the file knows
			}
			_, one.shift = fieldShift(l, one.Name)
			one.mask, one.above = (1<<one.Bits-1)<<one.shift, f.Profile.Layout.LMAllOnes()&^fieldBits(l)
			one.readNames()
			d.fields = append(d.fields, one)
		}
	}
	if len(d.fields) == 0 {
		return nil
	}
	if slices.ContainsFunc(d.fields, func(one derivedField) bool { return one.attribute != capacityField }) {
		d.t = t()
		d.tiers()
	}
	return d
}

// readNames notes what the names of the values read as.
func (one *derivedField) readNames() {
	if len(one.Names) == 0 {
		return
	}
	one.named, one.unsure = make(map[uint64]uint16), make(map[uint64][]string)
	for _, name := range slices.Sorted(maps.Keys(one.Names)) {
		truth := namedSpeed(name)
		if one.attribute == orientationField {
			truth = directionOf(name)
		}
		if truth != 0 {
			one.named[truth] = one.Names[name]
			one.unsure[truth] = append(one.unsure[truth], name)
		}
	}
	maps.DeleteFunc(one.unsure, func(_ uint64, names []string) bool { return len(names) == 1 })
}

// tiers counts from the hosts, as far as all of the way is known.
func (d *derivation) tiers() {
	d.cables = !d.c.lost && !d.c.lostNames && !d.c.lostLinks && !d.c.badCables && len(d.c.open) == 0
	d.tier = make([]uint64, len(d.f.Devices))
	for i, hops := range d.t.tier {
		d.tier[i] = uint64(hops + 1)
		for j := range d.f.Devices[i].Ports {
			d.cables = d.cables && d.c.origins.devices[i].ports[j].peer != builtIn // could not be read
		}
	}
	// The graph takes the devices of another fleet for hosts. Only the file of one device has them.
	if len(d.f.Devices) == 1 && !slices.ContainsFunc(d.f.Devices[0].Ports, func(p Port) bool { return p.Peer != (Peer{}) && !d.isStrange(p.Peer) }) {
		d.tier[0] = 0
	}
}

// isStrange reports whether a peer that is no device of the fleet is one of another fleet.
func (d *derivation) isStrange(peer Peer) bool {
	_, host := d.f.index.hosts[peer.Device]
	return peer.Port != "" && !host
}

// truth is an attribute of a port: its speed in bit/s, the tier of its device, or its direction.
func (d *derivation) truth(a attribute, i, j int) (uint64, reason) {
	switch a {
	case capacityField:
		if speed := d.f.Devices[i].Ports[j].Speed; speed != 0 {
			return speed, isKnown
		}
		return 0, noSpeed
	case stageField:
		if d.tier[i] == 0 {
			return 0, noHost
		}
		return d.tier[i], isKnown
	}
	k := d.t.peer[d.t.first[i]+j]
	switch {
	case k == noPeer:
		return 0, noCable
	case k == toHost && d.isStrange(d.f.Devices[i].Ports[j].Peer):
		return 0, strangePeer
	case k == toHost:
		return downLink, isKnown
	case d.tier[i] == 0 || d.tier[k] == 0:
		return 0, noHost
	case d.tier[k] > d.tier[i]:
		return upLink, isKnown
	case d.tier[k] < d.tier[i]:
		return downLink, isKnown
	}
	return sideLink, isKnown
}

// number is what a field says for an attribute's value; 0 for none where it has no values.
func (one *derivedField) number(truth uint64) (n uint64, ok bool) {
	switch {
	case one.named != nil:
		v, ok := one.named[truth]
		return uint64(v), ok && one.unsure[truth] == nil
	case one.attribute == capacityField:
		truth = uint64(slices.Index(capacities[:], truth) + 1)
	}
	return truth, truth != 0 && truth < 1<<one.Bits
}

// derive gives the ports of a device the values that their lm does not give.
func (d *derivation) derive(i int) {
	if d == nil {
		return
	}
	for j := range d.f.Devices[i].Ports {
		p, spec := &d.f.Devices[i].Ports[j], &d.c.specs[i][j]
		if p.Action != vlanrules.Update || spec.lost || d.c.full() {
			continue
		}
		about := &d.c.origins.devices[i].ports[j]
		for k := range d.fields {
			one := &d.fields[k]
			lm := &spec.lmSpec[one.signal]
			if lm.mask&one.mask != 0 || spec.said.has(one.attribute) {
				continue
			}
			truth, why := d.truth(one.attribute, i, j)
			n, ok := one.number(truth)
			switch {
			case truth == 0 && (one.attribute == capacityField && spec.lostSpeed || one.attribute != capacityField && !d.cables):
				spec.said.add(one.attribute) // what is missing could not be read
				continue
			case truth == 0 && one.named == nil:
				if unknown := &d.unknown[one.attribute][why]; !about.unknown.has(one.attribute) {
					if unknown.ports++; unknown.ports == 1 {
						unknown.at, unknown.first = about.name, PortRef{d.f.Devices[i].Name, p.Name}
					}
				}
				about.unknown.add(one.attribute)
			case truth == 0:
				spec.said.add(one.attribute)
				d.c.errorf(cmp.Or(about.lm, about.name), fmt.Sprintf("%s, or give the port, its device or its group lm: {%s: %s}", reasons[why].hint, one.Name, one.choice()),
					"device %s, port %s: lm: there is no value for the locator's field %s: %s", d.f.Devices[i].Name, p.Name, one.Name, reasons[why].text)
				continue
			case !ok:
				spec.said.add(one.attribute)
				d.noNumber(one, i, j, truth, n)
				continue
			default:
				about.derived.add(one.attribute)
			}
			lm.value |= uint16(n) << one.shift
			lm.mask |= one.mask | one.above
		}
	}
}

// choice are the values of a field, for a hint.
func (one *derivedField) choice() string {
	if len(one.Names) == 0 {
		return "NUMBER"
	}
	return strings.Join(slices.Sorted(maps.Keys(one.Names)), "|")
}

// noNumber says that a field cannot say what is known of a port.
func (d *derivation) noNumber(one *derivedField, i, j int, truth, n uint64) {
	about, device, port := &d.c.origins.devices[i].ports[j], d.f.Devices[i].Name, d.f.Devices[i].Ports[j].Name
	at, what, name := about.speed, "", ""
	switch one.attribute {
	case capacityField:
		text := FormatSpeed(truth)
		what, name = "its speed is "+text, "s"+strings.Replace(text, "bit/s", "bps", 1)
	case stageField:
		at, what = d.c.origins.devices[i].from.originOf("name"), fmt.Sprintf("the tier of its device is %d", truth)
	case orientationField:
		name = directions[truth][0]
		at, what = about.peer, "it leads "+name
		if truth == sideLink {
			what = "it leads to a device of the same tier"
		}
	}
	at = cmp.Or(at, about.name)
	given := fmt.Sprintf("or give the port lm: {%s: %s}", one.Name, one.choice())
	switch {
	case one.unsure[truth] != nil:
		d.c.errorf(at, "keep one of them, "+given, "device %s, port %s: lm: %s, and the values %s of the locator's field %s all read as that", device, port, what, strings.Join(one.unsure[truth], ", "), one.Name)
	case one.named != nil:
		d.c.errorf(at, fmt.Sprintf("add %s to the values of the field, %s", name, given), "device %s, port %s: lm: %s, and no value of the locator's field %s has a name that reads as that", device, port, what, one.Name)
	case n == 0:
		d.c.errorf(at, fmt.Sprintf("give the field values, e.g. values: {%s: 1}, %s", name, given), "device %s, port %s: lm: %s, and the locator's field %s has no number for that", device, port, what, one.Name)
	default:
		values := ", or values"
		if one.attribute == stageField {
			values = "" // these would have to be given
		}
		d.c.errorf(one.at, fmt.Sprintf("give it %d bits%s, %s", bits.Len64(n), values, given), "profile: the locator's field %s: its number for device %s, port %s is %d, and does not fit: %s", one.Name, device, port, n, what)
	}
}

// warn says which fields say "not known", once for each reason.
func (d *derivation) warn() {
	if d == nil {
		return
	}
	for a := range numAttributes {
		for why, unknown := range d.unknown[a] {
			more := ""
			switch unknown.ports {
			case 0:
				continue
			case 1:
			default:
				more = fmt.Sprintf(" (and %d more ports)", unknown.ports-1)
			}
			d.c.warnf(unknown.at, reasons[why].hint+", or lm: {"+attributes[a].field+": NUMBER}", "device %s, port %s: lm: the locator's field %s is 0, not known: %s%s", unknown.first.Device, unknown.first.Port, attributes[a].field, reasons[why].text, more)
		}
	}
}

// isDerived reports whether fields of the port's locator were derived, or could not be.
func (p *portOrigins) isDerived() bool { return p.derived|p.unknown != 0 }

// fieldOrigins adds where the fields come from that no lm gives: "lm: capacity" is derived from the
// speed, whose place it has. A locator without any lm says of which parts it is made.
func (p *portOrigins) fieldOrigins(f *Fleet, to map[string]Origin) {
	at := [numAttributes]originID{capacityField: p.speed, orientationField: p.peer}
	var from []string
	for a := range numAttributes {
		switch key := "lm: " + attributes[a].field; {
		case p.derived.has(a):
			from = append(from, attributes[a].from)
			to[key] = f.index.origins.of(at[a])
			one := to[key]
			one.Layer = "derived from " + attributes[a].from
			to[key] = one
		case p.unknown.has(a):
			to[key] = Origin{Layer: "not known"}
		}
	}
	if len(from) == 0 || p.lm != allotted {
		return
	}
	text := "derived from " + strings.Join(from, ", ")
	if n := len(from); n > 1 {
		text = "derived from " + strings.Join(from[:n-1], ", ") + " and " + from[n-1]
	}
	if slices.ContainsFunc(f.Profile.Carried(), func(sig quantize.Signal) bool { return hasOtherFields(f.Profile.Signals[sig].Locator) }) {
		text += ", the rest allotted"
	}
	to["lm"] = Origin{Layer: text}
}

// hasOtherFields reports whether a locator says more than attributes.
func hasOtherFields(l quantize.Locator) bool {
	return len(l.Fields) == 0 || slices.ContainsFunc(l.Fields, func(f quantize.LocatorField) bool { _, is := attributeOf(f.Name); return !is })
}

// derivedBits are the bits of a locator's fields that carry some attributes.
func derivedBits(l quantize.Locator, of attributeSet) (mask uint8) {
	for a := range numAttributes {
		if i, shift := fieldShift(l, attributes[a].field); i >= 0 && of.has(a) {
			mask |= uint8((1<<l.Fields[i].Bits - 1) << shift)
		}
	}
	return mask
}
