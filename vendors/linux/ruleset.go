package linux

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// ruleset is what our table holds for one setup: first what all ports share,
// then each port's objects.
type ruleset struct {
	sets   []setSpec
	chains []chainSpec

	setAt, chainAt map[string]int
}

// set is the set of a name, nil where there is none.
func (r *ruleset) set(name string) *setSpec {
	if i, ok := r.setAt[name]; ok {
		return &r.sets[i]
	}
	return nil
}

// chain is the chain of a name, nil where there is none.
func (r *ruleset) chain(name string) *chainSpec {
	if i, ok := r.chainAt[name]; ok {
		return &r.chains[i]
	}
	return nil
}

// setSpec is a set or a map. Keys are 16 bits; what they are is only there for
// nft to print.
type setSpec struct {
	name     string
	comment  string
	offset   uint32 // of the key in the frame, in bits
	protocol bool   // the key is what the kernel calls the frame's protocol instead
	isMap    bool   // an interval map
	expires  bool   // elements have timeouts

	// What Apply writes; live maps and the lease are Update's.
	fixed     bool
	intervals []interval // sorted
}

// chainSpec is a chain: a base chain on the egress of device, or a regular one
// where device is "".
type chainSpec struct {
	name     string
	device   string
	optional bool // the device is not there: keep the chain if the kernel still has it
	rules    []ruleSpec
}

// ruleSpec is a rule; it refers to sets and chains by name.
type ruleSpec struct {
	comment string
	steps   []step
}

// A step is one statement of a rule. A rule's steps are carried out in turn; the
// first test that fails ends the rule.
type step struct {
	op    op
	at    field
	mask  uint16 // of isValue: these bits of the field; 0 is all
	value uint16
	name  string // of the set, map or chain
}

// field is what a step looks at.
type field struct {
	protocol bool   // what the kernel calls the frame's protocol, else
	offset   uint16 // bits, from the start of the frame
	bits     uint16
}

// op is what a step does.
type op uint8

const (
	isValue  op = iota // goes on if the field has the value
	notValue           // goes on if it has not
	notInSet           // goes on if the field is not in the set
	rewrite            // writes what the map says for the field; goes on if it says anything
	accept             // lets the frame go
	jumpTo             // to a chain, without coming back
)

// maxDepth is how many VLAN tags may stand in front of the CSIG tag.
const maxDepth = quantize.MaxVLANs

// The frame, in bytes: the TPID of tag k is at 12+4k, its data at 14+4k.
const firstType = 12

// rulesetOf is the table for a setup. device is what a port's network device is
// called, "" where there is none; depths how many VLAN tags in front the kernel
// copes with.
func rulesetOf(s *vendors.Setup, device func(port string) string, depths int) (*ruleset, error) {
	stale, err := staleEntries(s)
	if err != nil {
		return nil, err
	}
	r := &ruleset{sets: []setSpec{
		{name: setLease, comment: setupComment(s), offset: 8 * firstType, protocol: !inMetadata(s.TPID), expires: true},
		{name: mapStale, comment: "what ports write when the agent is gone", offset: 8*firstType + 16, isMap: true, fixed: true, intervals: stale},
	}}
	if text := profileComment(s); text != "" {
		// No rule looks into it, so that it may change under running traffic.
		r.sets = append(r.sets, setSpec{name: setProfile, comment: text, offset: 8*firstType + 16, fixed: true})
	}
	fallback := chainSpec{name: chainStale}
	if s.OnStale != inventory.StalePassthrough {
		fallback.rules = rewriteRules(s, depths, mapStale)
	}
	r.chains = append(r.chains, fallback)
	for _, p := range s.Ports {
		key := portKey(p.Port)
		set := setSpec{name: key, comment: portComment(p), offset: 8*firstType + 16, isMap: p.Action == vlanrules.Update}
		if !set.isMap {
			set.fixed = true // and empty: it only says what the port is for
		}
		r.sets = append(r.sets, set)
		if p.Action != vlanrules.Update {
			continue
		}
		gate, dev := gateField(s), device(p.Port)
		r.chains = append(r.chains, chainSpec{name: key, device: cmp.Or(dev, p.Port), optional: dev == "", rules: append([]ruleSpec{
			{"ordinary frames leave here", append(noneOf(gate, leaseKeys(s)), step{op: accept})},
			{"without a lease the agent is gone", []step{{op: notInSet, at: gate, name: setLease}, {op: jumpTo, name: chainStale}}},
		}, rewriteRules(s, depths, key)...)})
	}
	r.setAt, r.chainAt = make(map[string]int, len(r.sets)), make(map[string]int, len(r.chains))
	for i := range r.sets {
		r.setAt[r.sets[i].name] = i
	}
	for i := range r.chains {
		r.chainAt[r.chains[i].name] = i
	}
	return r, nil
}

// vlanTypes are the ethertypes of VLAN tags; a TPID that is CSIG's is not one.
func vlanTypes(s *vendors.Setup) []uint16 {
	return slices.DeleteFunc([]uint16{0x8100, 0x88a8}, func(t uint16) bool { return t == s.TPID || t == s.WideTPID })
}

// tagTypes are the ethertypes of all tags that may stand in a row.
func tagTypes(s *vendors.Setup) []uint16 {
	t := append(vlanTypes(s), s.TPID)
	if s.WideTPID != 0 {
		t = append(t, s.WideTPID)
	}
	for _, o := range s.Others {
		t = append(t, o.TPID)
	}
	slices.Sort(t)
	return slices.Compact(t)
}

// leaseKeys are the values of gateField for frames that can carry a compact
// tag.
func leaseKeys(s *vendors.Setup) []uint16 {
	t := append(vlanTypes(s), s.TPID)
	slices.Sort(t)
	return t
}

// inMetadata reports whether the kernel takes tags of CSIG's TPID out of a frame
// into metadata: it does for VLANs' only, and of those 0x8100 cannot be CSIG's.
func inMetadata(tpid uint16) bool { return tpid == 0x88a8 }

// gateField is what the gate at the start of a chain looks at. That is what
// the kernel calls the frame's protocol: the ethertype behind an offloaded VLAN
// tag, else the first one. It costs half of a look into the frame, and frames
// of VLAN trunks pass as fast as untagged ones. Only where CSIG's own tag may
// be the offloaded one it says too little.
func gateField(s *vendors.Setup) field {
	if inMetadata(s.TPID) {
		return typeField(0)
	}
	return field{protocol: true, bits: 16}
}

// typeField is the ethertype in front of tag k.
func typeField(k int) field { return field{offset: uint16(8 * (firstType + 4*k)), bits: 16} }

// noneOf goes on where the field has none of the values. The kernel does such
// comparisons in line, which a lookup in a set is not.
func noneOf(f field, values []uint16) []step {
	var out []step
	for _, v := range values {
		out = append(out, step{op: notValue, at: f, value: v})
	}
	return out
}

// staleEntries are the fallback's elements: for each signal the worst bucket,
// with the locator that says "stale".
func staleEntries(s *vendors.Setup) ([]interval, error) {
	var want []vlanrules.Intent
	for _, sig := range s.Signals {
		want = append(want, vlanrules.Intent{Signal: sig, Action: vlanrules.Update, S: sig.WorstBucket(), LM: s.Layout.LMStale()})
	}
	var res vlanrules.Result
	vlanrules.NewCompiler(Rules(), s.Layout).Compile(&res, nil, want)
	if res.Verdict.Level == vlanrules.Refused {
		return nil, fmt.Errorf("the stale fallback: %s", res.Verdict.Reason)
	}
	return lower(nil, res.Table)
}

// rewriteRules are compare-and-replace for tags behind 0 to depths VLAN tags:
// a lookup of the tag's data in a map, where a miss ends the rule without a
// change. Between two depths frames leave whose next tag is no VLAN's.
func rewriteRules(s *vendors.Setup, depths int, set string) []ruleSpec {
	var rules []ruleSpec
	for k := 0; k <= depths; k++ {
		if k > 0 {
			rules = append(rules, ruleSpec{fmt.Sprintf("fewer than %d VLAN tags", k), append(noneOf(typeField(k-1), vlanTypes(s)), step{op: accept})})
		}
		rules = append(rules, rewriteRule(s, k, set))
	}
	return rules
}

// rewriteRule is the rule for a CSIG tag behind k VLAN tags; that there are k
// is known.
func rewriteRule(s *vendors.Setup, k int, set string) ruleSpec {
	data := field{offset: typeField(k).offset + 16, bits: 16}
	steps := []step{{op: isValue, at: typeField(k), value: s.TPID}}
	// The CSIG tag is the last L2 tag (draft-00 §4.1): what stands behind it is
	// no tag, else the frame is not ours to understand.
	steps = append(steps, noneOf(typeField(k+1), tagTypes(s))...)
	if s.Layout == quantize.UEC {
		steps = append(steps, step{op: isValue, at: field{offset: data.offset + 8, bits: 8}, mask: 1})
	}
	return ruleSpec{fmt.Sprintf("CSIG tag behind %d VLAN tags", k), append(steps, step{op: rewrite, at: data, name: set})}
}

// leaseMillis is a lease in the kernel's unit, rounded up: 0 would mean for
// ever.
func leaseMillis(d time.Duration) uint64 {
	return uint64(max(1, (d+time.Millisecond-1)/time.Millisecond))
}

// Flags of sets (linux/netfilter/nf_tables.h).
const (
	flagInterval = 0x4
	flagMap      = 0x8
	flagTimeout  = 0x10
)

func (s *setSpec) flags() uint32 {
	var f uint32
	if s.isMap {
		f |= flagMap | flagInterval
	}
	if s.expires {
		f |= flagTimeout
	}
	return f
}
