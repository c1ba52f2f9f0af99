package linux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// readTries is how often a read is restarted because nftables was changed
// meanwhile.
const readTries = 10

// observe reads our table. It is consistent: nftables did not change while it was
// read.
func (s *socket) observe() (*observed, error) {
	var last error
	for range readTries {
		before, err := s.generation()
		if err != nil {
			return nil, err
		}
		o, err := s.readTable()
		after, err2 := s.generation()
		if err2 != nil {
			return nil, err2
		}
		switch {
		case before != after:
			last = errors.New("nftables keeps changing while its rules are read: try again")
		case err != nil:
			last = err // a dump without a race: still worth another try
		default:
			o.generation = after
			return o, nil
		}
	}
	return nil, last
}

func (s *socket) readTable() (*observed, error) {
	o := &observed{sets: map[string]*observedSet{}, chains: map[string]*observedChain{}}
	tables, err := s.dump(unix.NFT_MSG_GETTABLE, nil)
	if err != nil {
		return nil, fmt.Errorf("read nftables' tables: %w", err)
	}
	for _, m := range tables {
		if name, comment, err := readTable(m.Data); err != nil {
			return nil, err
		} else if name == tableName {
			o.table, o.comment = true, comment
		}
	}
	if !o.table {
		return o, nil
	}
	sets, err := s.dump(unix.NFT_MSG_GETSET, attrs(func(b *batch) { b.str(unix.NFTA_SET_TABLE, tableName) }))
	if err != nil {
		return nil, fmt.Errorf("read the sets of table %s: %w", tableName, err)
	}
	for _, m := range sets {
		set, err := readSet(m.Data)
		if err != nil {
			return nil, err
		}
		o.sets[set.name] = set
		elements, err := s.dump(unix.NFT_MSG_GETSETELEM, attrs(func(b *batch) {
			b.str(unix.NFTA_SET_ELEM_LIST_TABLE, tableName)
			b.str(unix.NFTA_SET_ELEM_LIST_SET, set.name)
		}))
		if err != nil {
			return nil, fmt.Errorf("read set %s of table %s: %w", set.name, tableName, err)
		}
		if err := set.readElements(elements); err != nil {
			return nil, err
		}
	}
	chains, err := s.dump(unix.NFT_MSG_GETCHAIN, nil) // the kernel filters by family only
	if err != nil {
		return nil, fmt.Errorf("read the chains of table %s: %w", tableName, err)
	}
	for _, m := range chains {
		if c, table, err := readChain(m.Data); err != nil {
			return nil, err
		} else if table == tableName {
			o.chains[c.name] = c
		}
	}
	rules, err := s.dump(unix.NFT_MSG_GETRULE, attrs(func(b *batch) { b.str(unix.NFTA_RULE_TABLE, tableName) }))
	if err != nil {
		return nil, fmt.Errorf("read the rules of table %s: %w", tableName, err)
	}
	for _, m := range rules {
		chain, rule, err := readRuleMessage(m.Data)
		if err != nil {
			return nil, err
		}
		if c := o.chains[chain]; c != nil {
			c.rules = append(c.rules, rule)
		}
	}
	return o, nil
}

func (s *socket) dump(typ int, attrs []byte) ([]netlink.Message, error) {
	return s.request(typ, unix.NLM_F_DUMP, attrs)
}

// attrs encodes the attributes of a request.
func attrs(write func(b *batch)) []byte {
	var b batch
	write(&b)
	return b.b
}

// each calls read for every attribute of a message in nftables' byte order.
func each(data []byte, read func(ad *netlink.AttributeDecoder)) error {
	ad, err := netlink.NewAttributeDecoder(data)
	if err != nil {
		return fmt.Errorf("nftables message: %w", err)
	}
	ad.ByteOrder = binary.BigEndian
	for ad.Next() {
		read(ad)
	}
	if err := ad.Err(); err != nil {
		return fmt.Errorf("nftables message: %w", err)
	}
	return nil
}

func readTable(data []byte) (name, comment string, err error) {
	err = each(data, func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case unix.NFTA_TABLE_NAME:
			name = ad.String()
		case nftaTableUserdata:
			comment, _ = userdata.GetString(ad.Bytes(), userdata.TypeComment)
		}
	})
	return name, comment, err
}

func readSet(data []byte) (*observedSet, error) {
	s := &observedSet{}
	err := each(data, func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case unix.NFTA_SET_NAME:
			s.name = ad.String()
		case unix.NFTA_SET_FLAGS:
			s.flags = ad.Uint32()
		case unix.NFTA_SET_KEY_LEN:
			s.keyLen = ad.Uint32()
		case unix.NFTA_SET_DATA_LEN:
			s.dataLen = ad.Uint32()
		case unix.NFTA_SET_USERDATA:
			s.comment, _ = userdata.GetString(ad.Bytes(), userdata.NFTNL_UDATA_SET_COMMENT)
		}
	})
	return s, err
}

// element is one element as the kernel keeps it.
type element struct {
	key, value uint16
	end        bool
	left       time.Duration
}

func (s *observedSet) readElements(messages []netlink.Message) error {
	if s.keyLen != 2 {
		s.irregular = true // not a set of ours
		return nil
	}
	var list []element
	for _, m := range messages {
		err := each(m.Data, func(ad *netlink.AttributeDecoder) {
			if ad.Type() != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
				return
			}
			ad.Nested(func(ad *netlink.AttributeDecoder) error {
				for ad.Next() {
					var e element
					ad.Nested(func(ad *netlink.AttributeDecoder) error { e.read(ad); return nil })
					list = append(list, e)
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	// Ends before starts: an interval may end where the next begins.
	slices.SortFunc(list, func(a, b element) int {
		if a.key != b.key {
			return int(a.key) - int(b.key)
		}
		return b2i(b.end) - b2i(a.end)
	})
	if s.flags&unix.NFT_SET_INTERVAL == 0 {
		for _, e := range list {
			s.keys = append(s.keys, e.key)
			if s.left == 0 || e.left < s.left {
				s.left = e.left
			}
		}
		return nil
	}
	for i, e := range list {
		if e.end {
			// An end that ends nothing is harmless except at its deletion. The
			// nft command writes one at 0, where no interval of ours ends.
			s.irregular = s.irregular || i == 0 && e.key != 0 || i > 0 && list[i-1].end
			continue
		}
		n := interval{first: e.key, last: 0xffff, value: e.value}
		if i+1 < len(list) {
			n.last = list[i+1].key - 1
			s.irregular = s.irregular || !list[i+1].end
		}
		s.intervals = append(s.intervals, n)
	}
	return nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (e *element) read(ad *netlink.AttributeDecoder) {
	value := func() (v uint16) {
		ad.Nested(func(ad *netlink.AttributeDecoder) error {
			for ad.Next() {
				if ad.Type() == unix.NFTA_DATA_VALUE && len(ad.Bytes()) == 2 {
					v = ad.Uint16()
				}
			}
			return nil
		})
		return v
	}
	for ad.Next() {
		switch ad.Type() {
		case unix.NFTA_SET_ELEM_KEY:
			e.key = value()
		case unix.NFTA_SET_ELEM_DATA:
			e.value = value()
		case unix.NFTA_SET_ELEM_FLAGS:
			e.end = ad.Uint32()&unix.NFT_SET_ELEM_INTERVAL_END != 0
		case unix.NFTA_SET_ELEM_EXPIRATION:
			e.left = time.Duration(ad.Uint64()) * time.Millisecond
		}
	}
}

func readChain(data []byte) (c *observedChain, table string, err error) {
	c = &observedChain{hook: -1}
	err = each(data, func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case unix.NFTA_CHAIN_TABLE:
			table = ad.String()
		case unix.NFTA_CHAIN_NAME:
			c.name = ad.String()
		case unix.NFTA_CHAIN_POLICY:
			c.policy = ad.Uint32()
		case unix.NFTA_CHAIN_HOOK:
			ad.Nested(func(ad *netlink.AttributeDecoder) error {
				for ad.Next() {
					switch ad.Type() {
					case unix.NFTA_HOOK_HOOKNUM:
						c.hook = int32(ad.Uint32())
					case unix.NFTA_HOOK_PRIORITY:
						c.priority = int32(ad.Uint32())
					case unix.NFTA_HOOK_DEV:
						c.device = ad.String()
					}
				}
				return nil
			})
		}
	})
	return c, table, err
}

func readRuleMessage(data []byte) (chain string, rule []step, err error) {
	var list []byte
	err = each(data, func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case unix.NFTA_RULE_CHAIN:
			chain = ad.String()
		case unix.NFTA_RULE_EXPRESSIONS:
			list = ad.Bytes()
		}
	})
	if err != nil {
		return "", nil, err
	}
	rule, err = stepsOf(list)
	return chain, rule, err
}

// stepsOf reads a rule's expressions. What no rule of ours has becomes a step
// that equals none of ours. Loading again what is loaded already, which the
// nft command does, makes no difference.
func stepsOf(list []byte) ([]step, error) {
	var r ruleReader
	err := each(list, func(ad *netlink.AttributeDecoder) {
		var name string
		var body []byte
		raw := ad.Bytes()
		err := each(raw, func(ad *netlink.AttributeDecoder) {
			switch ad.Type() {
			case unix.NFTA_EXPR_NAME:
				name = ad.String()
			case unix.NFTA_EXPR_DATA:
				body = ad.Bytes()
			}
		})
		if err != nil || !r.read(name, body) {
			r.foreign(raw)
		}
	})
	if r.mask != 0 || r.from != "" {
		r.foreign(list) // an unfinished statement
	}
	return r.steps, err
}

// ruleReader follows what a rule's expressions do to the one register that
// rules of ours use.
type ruleReader struct {
	steps  []step
	loaded field  // what the register holds; no bits: nothing of ours
	mask   uint16 // the bits of it that are left; 0: all
	from   string // the map whose answer the register holds instead
	looked field  // what that map was asked
}

func (r *ruleReader) foreign(raw []byte) {
	r.steps = append(r.steps, step{op: foreignStep, name: string(raw)})
	r.loaded, r.mask, r.from = field{}, 0, ""
}

func (r *ruleReader) read(name string, body []byte) bool {
	decode := func(e expr.Any) bool { return expr.Unmarshal(netdevFamily, body, e) == nil }
	switch name {
	case "meta":
		var e expr.Meta
		if !decode(&e) || e.Key != expr.MetaKeyPROTOCOL || e.SourceRegister || e.Register != reg1 {
			return false
		}
		return r.load(field{protocol: true, bits: 16})
	case "payload":
		var e expr.Payload
		if !decode(&e) || e.Base != expr.PayloadBaseLLHeader || e.Offset > 1000 || e.Len < 1 || e.Len > 2 {
			return false
		}
		at := field{offset: uint16(8 * e.Offset), bits: uint16(8 * e.Len)}
		if e.OperationType == expr.PayloadWrite {
			if e.SourceRegister != reg1 || r.from == "" || r.looked != at || e.CsumType != 0 {
				return false
			}
			r.steps = append(r.steps, step{op: rewrite, at: at, name: r.from})
			r.from = ""
			return true
		}
		return e.DestRegister == reg1 && r.load(at)
	case "bitwise":
		var e expr.Bitwise
		if !decode(&e) || e.SourceRegister != reg1 || e.DestRegister != reg1 || r.loaded.bits == 0 || r.mask != 0 || number(e.Xor) != 0 || len(e.Mask)*8 != int(r.loaded.bits) {
			return false
		}
		r.mask = number(e.Mask)
		return r.mask != 0
	case "cmp":
		var e expr.Cmp
		if !decode(&e) || e.Register != reg1 || r.loaded.bits == 0 || len(e.Data)*8 != int(r.loaded.bits) {
			return false
		}
		s := step{op: isValue, at: r.loaded, mask: r.mask, value: number(e.Data)}
		if e.Op == expr.CmpOpNeq && r.mask == 0 {
			s.op = notValue
		} else if e.Op != expr.CmpOpEq {
			return false
		}
		if r.mask != 0 {
			r.loaded, r.mask = field{}, 0
		}
		r.steps = append(r.steps, s)
		return true
	case "lookup":
		var e expr.Lookup
		if !decode(&e) || e.SourceRegister != reg1 || r.loaded.bits == 0 || r.mask != 0 {
			return false
		}
		switch {
		case e.IsDestRegSet && e.DestRegister == reg1 && !e.Invert:
			r.from, r.looked, r.loaded = e.SetName, r.loaded, field{}
		case !e.IsDestRegSet && e.Invert:
			r.steps = append(r.steps, step{op: notInSet, at: r.loaded, name: e.SetName})
		default:
			return false
		}
		return true
	case "immediate":
		var e expr.Verdict
		switch {
		case !decode(&e):
			return false
		case e.Kind == expr.VerdictAccept:
			r.steps = append(r.steps, step{op: accept})
		case e.Kind == expr.VerdictGoto:
			r.steps = append(r.steps, step{op: jumpTo, name: e.Chain})
		default:
			return false
		}
		return true
	}
	return false
}

func (r *ruleReader) load(f field) bool {
	if r.mask != 0 || r.from != "" {
		return false
	}
	r.loaded = f
	return true
}

func number(b []byte) (v uint16) {
	for _, c := range b {
		v = v<<8 | uint16(c)
	}
	return v
}
