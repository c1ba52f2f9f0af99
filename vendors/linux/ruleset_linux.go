package linux

import (
	"encoding/binary"
	"fmt"

	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

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

func (b *batch) addRules(c *chainSpec) {
	for i := range c.rules {
		r := &c.rules[i]
		b.msg(unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND)
		b.label(fmt.Sprintf("rule %q of chain %s", r.comment, c.name))
		b.str(unix.NFTA_RULE_CHAIN, c.name)
		list := b.nest(unix.NFTA_RULE_EXPRESSIONS)
		for _, e := range formOf(r.steps) {
			encoded, err := expr.Marshal(netdevFamily, e.(expr.Any))
			if err != nil && b.err == nil {
				b.err = fmt.Errorf("rule %d of chain %s: %w", i, c.name, err)
			}
			b.bytes(unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, encoded)
		}
		b.unnest(list)
		b.bytes(unix.NFTA_RULE_USERDATA, userdata.AppendString(nil, userdata.TypeComment, r.comment))
		b.close()
	}
}

func (b *batch) addIntervals(set string, list []interval) {
	b.intervals(unix.NFT_MSG_NEWSETELEM, set, list)
}

const reg1 = unix.NFT_REG_1

// formOf is a rule as the kernel runs it, and as two rules are compared: its
// expressions.
func formOf(steps []step) []any {
	var out []any
	var loaded field
	for _, s := range steps {
		if s.at.bits != 0 && s.at != loaded {
			if s.at.protocol {
				out = append(out, &expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: reg1})
			} else {
				out = append(out, &expr.Payload{DestRegister: reg1, Base: expr.PayloadBaseLLHeader, Offset: uint32(s.at.offset / 8), Len: uint32(s.at.bits / 8)})
			}
			loaded = s.at
		}
		switch s.op {
		case isValue:
			if s.mask != 0 {
				out = append(out, &expr.Bitwise{SourceRegister: reg1, DestRegister: reg1, Len: uint32(s.at.bits / 8), Mask: s.bytes(s.mask), Xor: s.bytes(0)})
				loaded = field{}
			}
			out = append(out, &expr.Cmp{Op: expr.CmpOpEq, Register: reg1, Data: s.bytes(s.value)})
		case notValue:
			out = append(out, &expr.Cmp{Op: expr.CmpOpNeq, Register: reg1, Data: s.bytes(s.value)})
		case notInSet:
			out = append(out, &expr.Lookup{SourceRegister: reg1, SetName: s.name, Invert: true})
		case rewrite:
			out = append(out,
				&expr.Lookup{SourceRegister: reg1, DestRegister: reg1, IsDestRegSet: true, SetName: s.name},
				&expr.Payload{OperationType: expr.PayloadWrite, SourceRegister: reg1, Base: expr.PayloadBaseLLHeader, Offset: uint32(s.at.offset / 8), Len: uint32(s.at.bits / 8)},
			)
			loaded = field{}
		case accept:
			out = append(out, &expr.Verdict{Kind: expr.VerdictAccept})
		case jumpTo:
			out = append(out, &expr.Verdict{Kind: expr.VerdictGoto, Chain: s.name})
		}
	}
	return out
}

// bytes is a value as wide as the step's field.
func (s *step) bytes(v uint16) []byte {
	if s.at.bits == 8 {
		return []byte{byte(v)}
	}
	return binary.BigEndian.AppendUint16(nil, v)
}
