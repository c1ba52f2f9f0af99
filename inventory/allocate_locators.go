package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// lmSet is a set of compact locators, of which there are 128 at most.
type lmSet [2]uint64

func (s *lmSet) add(lm int)         { s[lm>>6] |= 1 << (lm & 63) }
func (s *lmSet) has(lm int) bool    { return s[lm>>6]>>(lm&63)&1 == 1 }
func (s lmSet) and(o lmSet) lmSet   { return lmSet{s[0] & o[0], s[1] & o[1]} }
func (s lmSet) minus(o lmSet) lmSet { return lmSet{s[0] &^ o[0], s[1] &^ o[1]} }
func (s lmSet) or(o lmSet) lmSet    { return lmSet{s[0] | o[0], s[1] | o[1]} }
func (s lmSet) empty() bool         { return s[0]|s[1] == 0 }
func (s lmSet) len() int            { return bits.OnesCount64(s[0]) + bits.OnesCount64(s[1]) }

// next is the first locator at or after one, restarting after the last.
func (s lmSet) next(lm int) int {
	for n := range numLM {
		if one := (lm + n) % numLM; s.has(one) {
			return one
		}
	}
	return 0
}

// nth is the locator with n others below it.
func (s lmSet) nth(n int) int {
	word := 0
	if low := bits.OnesCount64(s[0]); n >= low {
		n, word = n-low, 1
	}
	rest := s[word]
	for range n {
		rest &= rest - 1
	}
	return word<<6 + bits.TrailingZeros64(rest)
}

// numLM is how many compact locators there can be.
const numLM = 128

// locators gives each update port its locators: what the files say, what follows from them, and
// for the rest the best of those that are free.
func (c *compiler) locators(f *Fleet) {
	signals := f.Profile.Carried()
	cables := sync.OnceValue(func() *graph { return newGraph(f) })
	if c.profile.layoutOK {
		sound := slices.DeleteFunc(slices.Clone(signals), func(sig quantize.Signal) bool { return c.profile.badLM[sig] })
		d := c.newDerivation(f, sound, cables)
		c.checkLocators(f, sound, d)
		d.warn()
	}
	if len(c.errs) > 0 {
		return
	}
	t := cables()
	chosen := make([][numSignals]uint8, t.ports)
	done := make([]*locatorAllocation, 0, len(signals))
	for _, sig := range signals {
		a := c.newLocatorAllocation(f, t, sig)
		// Signals with the same format and the same given values share one
		// name: it is worked out once.
		same := slices.IndexFunc(done, func(b *locatorAllocation) bool { return a.sameAs(b) })
		if same >= 0 {
			a.lm = done[same].lm
		} else {
			a.run()
		}
		done = append(done, a)
		for p, lm := range a.lm {
			chosen[p][signalIndex(sig)] = lm
		}
	}
	if len(c.errs) == 0 {
		c.assign(f, t, signals, chosen)
	}
}

// locatorsOf are the locators that can name a port.
func locatorsOf(f *Fleet, sig quantize.Signal) lmSet {
	layout, locator := f.Profile.Layout, f.Profile.Signals[sig].Locator
	inFields := fieldBits(locator)
	if len(locator.Fields) == 0 {
		inFields = layout.LMAllOnes()
	}
	var all lmSet
	for lm := range layout.LMAllOnes() {
		if layout.LMReserved(lm) == "" && lm&^inFields == 0 {
			all.add(int(lm))
		}
	}
	return all
}

// othersFree reports whether a device that uses these locators has one left for a port in
// place of lm, whichever of the fields is the one that tells its ports apart. Where it has
// not, as where there are more ports than values of a field, ports may share one. The
// attributes of ports do not tell them apart: where there are no other fields, all may share one.
func othersFree(f *Fleet, sig quantize.Signal, lm uint16, used lmSet) bool {
	l := f.Profile.Signals[sig].Locator
	if len(l.Fields) > 0 && !hasOtherFields(l) {
		return false
	}
	free := locatorsOf(f, sig).minus(used)
	if len(l.Fields) == 0 {
		return !free.empty()
	}
	for i := range l.Fields {
		_, shift := fieldShift(l, l.Fields[i].Name)
		room := false
		for value := range uint16(1) << l.Fields[i].Bits {
			room = room || free.has(int(lm&^((1<<l.Fields[i].Bits-1)<<shift)|value<<shift))
		}
		if !room {
			return false
		}
	}
	return true
}

// assign writes what was chosen into the fleet.
func (c *compiler) assign(f *Fleet, t *graph, signals []quantize.Signal, chosen [][numSignals]uint8) {
	shared := make(map[[numSignals]uint8]map[quantize.Signal]uint16)
	for i := range f.Devices {
		for j := range f.Devices[i].Ports {
			lms := chosen[t.first[i]+j]
			if lms == ([numSignals]uint8{}) {
				continue
			}
			m := shared[lms]
			if m == nil {
				m = make(map[quantize.Signal]uint16)
				for _, sig := range signals {
					if lm := lms[signalIndex(sig)]; lm != 0 {
						m[sig] = uint16(lm)
					}
				}
				shared[lms] = m
			}
			f.Devices[i].Ports[j].LM = m
			if about := &c.origins.devices[i].ports[j]; about.lm == notGiven {
				about.lm = allotted
			}
		}
	}
}

// locatorAllocation chooses the locators of one signal.
type locatorAllocation struct {
	f    *Fleet
	t    *graph
	sig  quantize.Signal
	c    *compiler
	all  lmSet // those that can name a port
	size int   // of all

	mask, value []uint8 // of each port: what is given or derived
	derived     uint8   // the bits of fields that are derived for some ports
	lm          []uint8 // of each port: what it writes, 0 for nothing

	out, in []lmSet // of each device: what its ports, and those towards it, write
	far     []lmSet // of each device: what the ports of those it has a link with write
	used    lmSet
	each    bool             // every port of the fleet can have a name of its own
	blocks  [numLM][]lmSet   // by the values of the derived fields
	sets    map[uint16]lmSet // by mask and value
}

// checkLocators says what is wrong with the locators that are given, and which ones only
// the file can give, after it has derived what it can. What is wrong with a port in the same way
// for several signals is said once.
func (c *compiler) checkLocators(f *Fleet, signals []quantize.Signal, derived *derivation) {
	layout := f.Profile.Layout
	for i := range f.Devices {
		d := &f.Devices[i]
		derived.derive(i)
		var used [numSignals]lmSet // what the file gives to them
		for j := range d.Ports {
			for _, sig := range signals {
				if given := c.specs[i][j].lmSpec[signalIndex(sig)]; given.mask == layout.LMAllOnes() && !c.specs[i][j].lost {
					used[signalIndex(sig)].add(int(given.value))
				}
			}
		}
		var owners [numSignals][numLM]string // the ports that have a locator
		for j := range d.Ports {
			if c.full() {
				return
			}
			p, at, spec := &d.Ports[j], c.origins.devices[i].ports[j], &c.specs[i][j]
			if spec.lost {
				continue // which has been said
			}
			var said []string
			wrong := func(about, hint, text string) {
				if !slices.Contains(said, about) {
					said = append(said, about)
					c.errorf(cmp.Or(at.lm, at.name), hint, "device %s, port %s: lm: %s", d.Name, p.Name, text)
				}
			}
			for _, sig := range signals {
				si, locator := signalIndex(sig), f.Profile.Signals[sig].Locator
				mask, lm := spec.lmSpec[si].mask, spec.lmSpec[si].value
				switch {
				case mask == layout.LMAllOnes() && (at.lm != notGiven || at.isDerived()):
					if why := layout.LMReserved(lm); why != "" && at.isDerived() {
						wrong(why, "give the port lm, or the locator one more field", "the derived fields give no locator of a port: "+why)
					} else if why != "" {
						wrong(why, "", why)
					}
					if other := owners[si][lm]; other != "" && len(d.Ports) < int(layout.LMStale()) && othersFree(f, sig, lm, used[si]) {
						text := describeLM(&f.Profile, sig, lm)
						wrong(text, "the receiver could not tell which of the two is the bottleneck", fmt.Sprintf("%s is port %s's already", text, other))
					}
					owners[si][lm] = p.Name
				case p.Action == vlanrules.Update:
					if field := unnamed(locator, mask, spec.said); field != nil {
						names := slices.Sorted(maps.Keys(field.Names))
						wrong(field.Name, fmt.Sprintf("its values have names, so csig does not choose one: lm: {%s: %s} for the port, or port: {lm: …} for its device or group", field.Name, strings.Join(names, "|")),
							"there is no value for the locator's field "+field.Name)
					}
				}
			}
		}
	}
}

// newLocatorAllocation collects what is given.
func (c *compiler) newLocatorAllocation(f *Fleet, t *graph, sig quantize.Signal) *locatorAllocation {
	layout := f.Profile.Layout
	a := &locatorAllocation{
		f: f, t: t, c: c, sig: sig, mask: make([]uint8, t.ports), value: make([]uint8, t.ports), lm: make([]uint8, t.ports),
		sets: make(map[uint16]lmSet),
	}
	a.all = locatorsOf(f, sig)
	a.size = a.all.len()
	si := signalIndex(sig)
	var derived attributeSet
	for i := range f.Devices {
		d := &f.Devices[i]
		for j := range d.Ports {
			spec := c.specs[i][j].lmSpec[si]
			about := &c.origins.devices[i].ports[j]
			complete := spec.mask == layout.LMAllOnes() && (about.lm != notGiven || about.isDerived())
			if !complete && d.Ports[j].Action != vlanrules.Update {
				continue // it writes none
			}
			a.mask[t.first[i]+j], a.value[t.first[i]+j] = uint8(spec.mask), uint8(spec.value)
			derived |= about.derived | about.unknown
			if complete {
				a.lm[t.first[i]+j] = uint8(spec.value)
			}
		}
	}
	a.derived = derivedBits(f.Profile.Signals[sig].Locator, derived)
	return a
}

// unnamed is the first field whose values have names and of which none is
// given, without those that were reported.
func unnamed(l quantize.Locator, mask uint16, said attributeSet) *quantize.LocatorField {
	for i := range l.Fields {
		_, shift := fieldShift(l, l.Fields[i].Name)
		a, is := attributeOf(l.Fields[i].Name)
		if len(l.Fields[i].Names) > 0 && mask>>shift&1 == 0 && !(is && said.has(a)) {
			return &l.Fields[i]
		}
	}
	return nil
}

func (a *locatorAllocation) sameAs(b *locatorAllocation) bool {
	return a.all == b.all && a.derived == b.derived && slices.Equal(a.mask, b.mask) && slices.Equal(a.value, b.value)
}

// candidates are the locators that agree with what is given.
func (a *locatorAllocation) candidates(p int) lmSet {
	if a.mask[p] == 0 {
		return a.all
	}
	key := uint16(a.mask[p])<<8 | uint16(a.value[p])
	s, ok := a.sets[key]
	if !ok {
		for lm := range numLM {
			if a.all.has(lm) && uint8(lm)&a.mask[p] == a.value[p]&a.mask[p] {
				s.add(lm)
			}
		}
		a.sets[key] = s
	}
	return s
}

// run chooses. What is given comes first; then the ports in an order of hashes
// of their names, so that a new device changes little for the others.
func (a *locatorAllocation) run() {
	a.out, a.in = make([]lmSet, len(a.f.Devices)), make([]lmSet, len(a.f.Devices))
	a.far = make([]lmSet, len(a.f.Devices))
	var order []uint64 // the hash's high half, and the port
	writers := 0
	for i := range a.f.Devices {
		d := &a.f.Devices[i]
		for j := range d.Ports {
			p := a.t.first[i] + j
			switch {
			case d.Ports[j].Action != vlanrules.Update:
				continue
			case a.lm[p] != 0:
				a.note(i, p)
			default:
				order = append(order, uint64(hashOf(d.Name, d.Ports[j].Name))<<32|uint64(p))
			}
			writers++
		}
	}
	a.each = writers <= a.size
	a.divide()
	slices.Sort(order)
	for _, o := range order {
		p := int(uint32(o))
		i := int(a.t.owner[p])
		a.lm[p] = uint8(a.choose(i, p, uint32(o>>32)))
		if a.lm[p] == 0 {
			d := &a.f.Devices[i]
			at := a.c.origins.devices[i].ports[p-a.t.first[i]]
			a.c.errorf(cmp.Or(at.lm, at.name), "give it other values, or the locator other fields", "device %s, port %s: lm: no locator agrees with what is given", d.Name, d.Ports[p-a.t.first[i]].Name)
			return
		}
		a.note(i, p)
	}
}

// divide gives each place on the way up and down a range of locators. Those with the same values
// of the derived fields divide what these leave.
func (a *locatorAllocation) divide() {
	if a.derived == 0 {
		a.blocks[0] = blocksOf(a.all, a.t.masks)
		return
	}
	var most, count [numLM][]int // by the values: of each place, the most ports that one device has there
	for i := range a.f.Devices {
		for j := range a.f.Devices[i].Ports {
			p := a.t.first[i] + j
			values, class := a.value[p]&a.derived, a.t.class[p]
			if a.f.Devices[i].Ports[j].Action != vlanrules.Update {
				continue // it writes none
			}
			if most[values] == nil {
				most[values], count[values] = make([]int, len(a.t.masks)), make([]int, len(a.t.masks))
			}
			count[values][class]++
			most[values][class] = max(most[values][class], count[values][class])
		}
		for _, places := range count {
			clear(places)
		}
	}
	for values, places := range most {
		var all lmSet
		for lm := range numLM {
			if a.all.has(lm) && lm&int(a.derived) == values {
				all.add(lm)
			}
		}
		a.blocks[values] = blocksOf(all, places)
	}
}

// hashOf is FNV-1a of both names.
func hashOf(device, port string) uint32 {
	h := uint32(2166136261)
	for _, text := range [...]string{device, "\x00", port} {
		for i := range len(text) {
			h = (h ^ uint32(text[i])) * 16777619
		}
	}
	return h
}

// note takes a port's locator into account for those that come after it.
func (a *locatorAllocation) note(i, p int) {
	lm := int(a.lm[p])
	a.out[i].add(lm)
	a.used.add(lm)
	for _, k := range a.t.nears[i] {
		a.far[k].add(lm)
	}
	if k := a.t.peer[p]; k >= 0 {
		a.in[k].add(lm)
	}
}

// choose returns the best locator for a port, 0 when none agrees with what is
// given. In this order it differs from the other ports of the device, from
// those a frame passes right before and after, in small fleets from all others;
// it keeps to the locators of its place on the way up or down, and differs from
// those one hop further away. Of those that are left it is the first at or after
// the seed: a later port changes it only by taking its place.
func (a *locatorAllocation) choose(i, p int, seed uint32) int {
	all := a.candidates(p)
	if all.empty() {
		return 0
	}
	best := all
	prefer := func(s lmSet) {
		if !s.empty() {
			best = s
		}
	}
	prefer(best.minus(a.out[i]))
	k := int(a.t.peer[p])
	taken := a.in[i]
	if k >= 0 {
		taken = taken.or(a.out[k])
	}
	prefer(best.minus(taken))
	if a.each {
		prefer(best.minus(a.used))
	}
	block := a.blocks[a.value[p]&a.derived][a.t.class[p]]
	prefer(best.and(block))
	if k >= 0 {
		prefer(best.minus(a.in[k]))
	}
	further := a.far[i]
	if k >= 0 {
		further = further.or(a.far[k])
	}
	prefer(best.minus(further))
	if a.derived == 0 {
		return best.next(int(seed % numLM))
	}
	// Those that the derived fields leave are close together: a seed of all would mostly find the first.
	left := all
	if own := left.and(block); !own.empty() {
		left = own
	}
	return best.next(left.nth(int(seed % uint32(left.len()))))
}
