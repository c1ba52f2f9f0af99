package linux

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

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
	constant
}

// constant is the content of sets that Apply writes; live maps and the lease
// are Update's.
type constant struct {
	fixed     bool
	keys      []uint16   // of a set, sorted
	intervals []interval // of a map, sorted
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
	exprs   []expr.Any
}

// maxDepth is how many VLAN tags may stand in front of the CSIG tag.
const maxDepth = quantize.MaxVLANs

// The frame, in bytes: the TPID of tag k is at 12+4k, its data at 14+4k.
const firstType = 12

// rulesetOf is the table for a setup. present tells which ports' devices
// exist, depths how many VLAN tags in front the kernel copes with.
func rulesetOf(s *vendors.Setup, present func(port string) bool, depths int) (*ruleset, error) {
	stale, err := staleEntries(s)
	if err != nil {
		return nil, err
	}
	r := &ruleset{sets: []setSpec{
		{name: setLease, comment: setupComment(s), offset: 8 * firstType, protocol: !inMetadata(s.TPID), expires: true},
		{name: mapStale, comment: "what ports write when the agent is gone", offset: 8*firstType + 16, isMap: true, constant: constant{fixed: true, intervals: stale}},
	}}
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
		ordinary := append([]expr.Any{gateType(s)}, noneOf(leaseKeys(s))...)
		r.chains = append(r.chains, chainSpec{name: key, device: p.Port, optional: !present(p.Port), rules: append([]ruleSpec{
			{"ordinary frames leave here", append(ordinary, &expr.Verdict{Kind: expr.VerdictAccept})},
			{"without a lease the agent is gone", []expr.Any{
				gateType(s), &expr.Lookup{SourceRegister: reg1, SetName: setLease, Invert: true},
				&expr.Verdict{Kind: expr.VerdictGoto, Chain: chainStale},
			}},
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
	slices.Sort(t)
	return t
}

// leaseKeys are the values of gateType for frames that can carry a compact
// tag.
func leaseKeys(s *vendors.Setup) []uint16 {
	t := append(vlanTypes(s), s.TPID)
	slices.Sort(t)
	return t
}

// inMetadata tells whether the kernel takes tags of CSIG's TPID out of a frame
// into metadata: it does for VLANs' only, and of those 0x8100 cannot be CSIG's.
func inMetadata(tpid uint16) bool { return tpid == 0x88a8 }

// gateType loads what the gate at the start of a chain looks at. That is what
// the kernel calls the frame's protocol: the ethertype behind an offloaded VLAN
// tag, else the first one. It costs half of a look into the frame, and frames
// of VLAN trunks pass as fast as untagged ones. Only where CSIG's own tag may
// be the offloaded one it says too little.
func gateType(s *vendors.Setup) expr.Any {
	if inMetadata(s.TPID) {
		return loadType(0)
	}
	return &expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: reg1}
}

// noneOf is true where the register has none of the values. The kernel does
// such comparisons in line, which a lookup in a set is not.
func noneOf(values []uint16) []expr.Any {
	var e []expr.Any
	for _, v := range values {
		e = append(e, &expr.Cmp{Op: expr.CmpOpNeq, Register: reg1, Data: binary.BigEndian.AppendUint16(nil, v)})
	}
	return e
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

const reg1 = unix.NFT_REG_1

func load(offset, size uint32) expr.Any {
	return &expr.Payload{DestRegister: reg1, Base: expr.PayloadBaseLLHeader, Offset: offset, Len: size}
}

func loadType(k int) expr.Any { return load(uint32(firstType+4*k), 2) }

// rewriteRules are compare-and-replace for tags behind 0 to depths VLAN tags:
// a lookup of the tag's data in a map, where a miss ends the rule without a
// change. Between two depths frames leave whose next tag is no VLAN's.
func rewriteRules(s *vendors.Setup, depths int, set string) []ruleSpec {
	var rules []ruleSpec
	for k := 0; k <= depths; k++ {
		if k > 0 {
			e := append([]expr.Any{loadType(k - 1)}, noneOf(vlanTypes(s))...)
			rules = append(rules, ruleSpec{fmt.Sprintf("fewer than %d VLAN tags", k), append(e, &expr.Verdict{Kind: expr.VerdictAccept})})
		}
		rules = append(rules, rewriteRule(s, k, set))
	}
	return rules
}

// rewriteRule is the rule for a CSIG tag behind k VLAN tags; that there are k
// is known.
func rewriteRule(s *vendors.Setup, k int, set string) ruleSpec {
	tci := uint32(firstType + 4*k + 2)
	e := []expr.Any{
		loadType(k), &expr.Cmp{Op: expr.CmpOpEq, Register: reg1, Data: binary.BigEndian.AppendUint16(nil, s.TPID)},
		// The CSIG tag is the last L2 tag (draft-00 §4.1): what stands behind
		// it is no tag, else the frame is not ours to understand.
		loadType(k + 1),
	}
	e = append(e, noneOf(tagTypes(s))...)
	if s.Layout == quantize.UEC {
		e = append(e,
			load(tci+1, 1),
			&expr.Bitwise{SourceRegister: reg1, DestRegister: reg1, Len: 1, Mask: []byte{1}, Xor: []byte{0}},
			&expr.Cmp{Op: expr.CmpOpEq, Register: reg1, Data: []byte{0}},
		)
	}
	e = append(e,
		load(tci, 2),
		&expr.Lookup{SourceRegister: reg1, DestRegister: reg1, IsDestRegSet: true, SetName: set},
		&expr.Payload{OperationType: expr.PayloadWrite, SourceRegister: reg1, Base: expr.PayloadBaseLLHeader, Offset: tci, Len: 2},
	)
	return ruleSpec{fmt.Sprintf("CSIG tag behind %d VLAN tags", k), e}
}

// The messages that make and unmake these objects.

func (b *batch) addTable() {
	b.msg(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE)
	b.label("table " + tableName)
	b.u32(unix.NFTA_TABLE_FLAGS, 0)
	b.bytes(nftaTableUserdata, userdata.AppendString(nil, userdata.TypeComment, tableMark))
	b.close()
}

func (b *batch) delTable() {
	b.msg(unix.NFT_MSG_DELTABLE, 0)
	b.label("delete table " + tableName)
	b.close()
}

// Data types of the nft command.
const (
	nftInteger   = 4
	nftEtherType = 10
)

func (b *batch) addSet(s *setSpec) {
	b.msg(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE)
	b.label("set " + s.name)
	b.str(unix.NFTA_SET_NAME, s.name)
	b.u32(unix.NFTA_SET_FLAGS, s.flags())
	if s.protocol {
		b.u32(unix.NFTA_SET_KEY_TYPE, nftEtherType)
	} else {
		b.u32(unix.NFTA_SET_KEY_TYPE, nftInteger)
	}
	b.u32(unix.NFTA_SET_KEY_LEN, 2)
	b.u32(unix.NFTA_SET_ID, b.seq) // any number that is unique in the batch
	if s.isMap {
		b.u32(unix.NFTA_SET_DATA_TYPE, nftInteger)
		b.u32(unix.NFTA_SET_DATA_LEN, 2)
	}
	b.bytes(unix.NFTA_SET_USERDATA, s.userdata())
	b.close()
	if len(s.keys) > 0 {
		b.keys(s.name, s.keys, 0)
	}
	if len(s.intervals) > 0 {
		b.intervals(unix.NFT_MSG_NEWSETELEM, s.name, s.intervals)
	}
}

func (s *setSpec) flags() uint32 {
	var f uint32
	if s.isMap {
		f |= unix.NFT_SET_MAP | unix.NFT_SET_INTERVAL
	}
	if s.expires {
		f |= unix.NFT_SET_TIMEOUT
	}
	return f
}

// userdata is what the nft command keeps about a set, so that it prints
// "typeof @ll,112,16", or "typeof meta protocol", and can read its own listing back, and the comment.
func (s *setSpec) userdata() []byte {
	const bigEndian = 2
	// An expression, as nft describes it: its number and its parts. A payload
	// is a protocol (0: raw), a field (0), a base (1: link layer) and bits.
	const metaExpr, payloadExpr, linkLayer = 9, 7, 1
	parts, number := []uint32{0, 0, linkLayer, s.offset, 16}, uint32(payloadExpr)
	if s.protocol {
		parts, number = []uint32{unix.NFT_META_PROTOCOL}, metaExpr
	}
	var d []byte
	for i, v := range parts {
		d = userdata.AppendUint32(d, userdata.Type(i), v)
	}
	typeof := userdata.AppendUint32(nil, 0, number)
	typeof = userdata.Append(typeof, 1, d)

	u := userdata.AppendUint32(nil, userdata.NFTNL_UDATA_SET_KEYBYTEORDER, bigEndian)
	if s.isMap {
		u = userdata.AppendUint32(u, userdata.NFTNL_UDATA_SET_DATABYTEORDER, bigEndian)
	}
	u = userdata.Append(u, userdata.NFTNL_UDATA_SET_KEY_TYPEOF, typeof)
	if s.isMap {
		u = userdata.Append(u, userdata.NFTNL_UDATA_SET_DATA_TYPEOF, typeof)
	}
	return userdata.AppendString(u, userdata.NFTNL_UDATA_SET_COMMENT, s.comment)
}

func (b *batch) delSet(name string) {
	b.msg(unix.NFT_MSG_DELSET, 0)
	b.label("delete set " + name)
	b.str(unix.NFTA_SET_NAME, name)
	b.close()
}

func (b *batch) addChain(c *chainSpec) {
	b.msg(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE)
	b.label("chain " + c.name)
	b.str(unix.NFTA_CHAIN_NAME, c.name)
	if c.device != "" {
		n := b.nest(unix.NFTA_CHAIN_HOOK)
		b.u32(unix.NFTA_HOOK_HOOKNUM, unix.NF_NETDEV_EGRESS)
		b.u32(unix.NFTA_HOOK_PRIORITY, 0)
		b.str(unix.NFTA_HOOK_DEV, c.device)
		b.unnest(n)
		b.u32(unix.NFTA_CHAIN_POLICY, nfAccept)
		b.str(unix.NFTA_CHAIN_TYPE, "filter")
	}
	b.close()
}

func (b *batch) delChain(name string) {
	b.msg(unix.NFT_MSG_DELCHAIN, 0)
	b.label("delete chain " + name)
	b.str(unix.NFTA_CHAIN_NAME, name)
	b.close()
}

// flushRules deletes all rules of a chain.
func (b *batch) flushRules(chain string) {
	b.msg(unix.NFT_MSG_DELRULE, 0)
	b.label("rules of chain " + chain)
	b.str(unix.NFTA_RULE_CHAIN, chain)
	b.close()
}

func (b *batch) addRules(c *chainSpec) error {
	for i := range c.rules {
		r := &c.rules[i]
		encoded, err := marshalExprs(r.exprs)
		if err != nil {
			return fmt.Errorf("rule %d of chain %s: %w", i, c.name, err)
		}
		b.msg(unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND)
		b.label(fmt.Sprintf("rule %q of chain %s", r.comment, c.name))
		b.str(unix.NFTA_RULE_CHAIN, c.name)
		list := b.nest(unix.NFTA_RULE_EXPRESSIONS)
		for _, e := range encoded {
			b.bytes(unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, e)
		}
		b.unnest(list)
		b.bytes(unix.NFTA_RULE_USERDATA, userdata.AppendString(nil, userdata.TypeComment, r.comment))
		b.close()
	}
	return nil
}

func marshalExprs(list []expr.Any) ([][]byte, error) {
	var out [][]byte
	for _, e := range list {
		m, err := expr.Marshal(netdevFamily, e)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// leaseMillis is a lease in the kernel's unit, rounded up: 0 would mean for
// ever.
func leaseMillis(d time.Duration) uint64 {
	return uint64(max(1, (d+time.Millisecond-1)/time.Millisecond))
}
