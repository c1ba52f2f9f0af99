package linux

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"reflect"
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

// observe reads our table as it was at one generation: nftables did not change while it was read.
// Where a process that wants to look alone (glance) finds no such moment, as an agent writes
// the values of hundreds of ports more often than they can be read, the table is that of the moment
// between two reads which had the same in all but elements, handles too: each set's elements are
// then of a moment of their own.
func (s *socket) observe(glance bool) (*observed, error) {
	var last error
	var before *dumped
	for range readTries {
		from, err := s.generation()
		if err != nil {
			return nil, err
		}
		raw, err := s.dumpTable()
		to, err2 := s.generation()
		switch {
		case err2 != nil:
			return nil, err2
		case err == nil && (from == to || glance && before != nil && raw.sameButElements(before)):
			o, err := raw.parse(s)
			if err != nil {
				return nil, err
			}
			o.generation = from
			return o, nil
		case from != to:
			last = errors.New("nftables keeps changing while its rules are read: try again")
		default:
			last = err // a dump without a race: still worth another try
		}
		if before = nil; err == nil && glance {
			before = raw
		}
	}
	return nil, last
}

// dumped is our table as the kernel writes it: its rules are parsed only once they are known to be of one
// moment, as that takes as long again.
type dumped struct {
	table   bool
	comment string
	sets    map[string]*observedSet
	chains  map[string]*observedChain
	rules   []netlink.Message // with their handles
}

// sameButElements reports whether two reads had the same tables, sets, chains and rules. What was
// deleted and made again in between has another handle.
func (d *dumped) sameButElements(o *dumped) bool {
	return d.table == o.table && d.comment == o.comment && reflect.DeepEqual(d.chains, o.chains) &&
		maps.EqualFunc(d.sets, o.sets, func(a, b *observedSet) bool { return a.setHead == b.setHead }) &&
		slices.EqualFunc(d.rules, o.rules, func(a, b netlink.Message) bool { return bytes.Equal(a.Data, b.Data) })
}

func (s *socket) dumpTable() (*dumped, error) {
	d := &dumped{sets: map[string]*observedSet{}}
	tables, err := s.dump(unix.NFT_MSG_GETTABLE, nil)
	if err != nil {
		return nil, fmt.Errorf("read nftables' tables: %w", err)
	}
	for _, m := range tables {
		if name, comment, err := readTable(m.Data); err != nil {
			return nil, err
		} else if name == tableName {
			d.table, d.comment = true, comment
		}
	}
	if !d.table {
		return d, nil
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
		if err := s.readElements(set); err != nil {
			return nil, fmt.Errorf("read set %s of table %s: %w", set.name, tableName, err)
		}
		d.sets[set.name] = set
	}
	if d.chains, err = s.chains(); err != nil {
		return nil, err
	}
	if d.rules, err = s.dump(unix.NFT_MSG_GETRULE, attrs(func(b *batch) { b.str(unix.NFTA_RULE_TABLE, tableName) })); err != nil {
		return nil, fmt.Errorf("read the rules of table %s: %w", tableName, err)
	}
	return d, nil
}

// readElements reads a set's elements. The kernel counts them from the set's begin in each message,
// so that a transaction in between has some missing or twice: such a set is read again, and the
// lease, which says too little by itself, where a transaction took effect.
func (s *socket) readElements(set *observedSet) error {
	if set.keyLen != 2 {
		set.irregular = true // not a set of ours
		return nil
	}
	request := attrs(func(b *batch) {
		b.str(unix.NFTA_SET_ELEM_LIST_TABLE, tableName)
		b.str(unix.NFTA_SET_ELEM_LIST_SET, set.name)
	})
	for range readTries {
		var from, to uint32
		var err error
		if set.name == setLease {
			if from, err = s.generation(); err != nil {
				return err
			}
		}
		list, err := s.dump(unix.NFT_MSG_GETSETELEM, request)
		if err == nil {
			err = set.parse(list)
		}
		if err == nil && set.name == setLease {
			to, err = s.generation()
		}
		if err != nil || from == to && !set.irregular {
			return err
		}
	}
	return nil // that is how it is
}

// chains are our table's, without their rules.
func (s *socket) chains() (map[string]*observedChain, error) {
	list, err := s.dump(unix.NFT_MSG_GETCHAIN, nil) // the kernel filters by family only
	if err != nil {
		return nil, fmt.Errorf("read the chains of table %s: %w", tableName, err)
	}
	out := make(map[string]*observedChain, len(list))
	for _, m := range list {
		if c, table, err := readChain(m.Data); err != nil {
			return nil, err
		} else if table == tableName {
			out[c.name] = c
		}
	}
	return out, nil
}

// readAs is a rule that was read before: most are as they were.
type readAs struct {
	chain string
	rule  []any
}

func (d *dumped) parse(s *socket) (*observed, error) {
	o := &observed{table: d.table, comment: d.comment, sets: d.sets, chains: d.chains}
	read := make(map[string]readAs, len(d.rules))
	for _, m := range d.rules {
		r, ok := s.rules[string(m.Data)]
		if !ok {
			var err error
			if r.chain, r.rule, err = readRuleMessage(m.Data); err != nil {
				return nil, err
			}
		}
		read[string(m.Data)] = r
		if c := o.chains[r.chain]; c != nil {
			c.rules = append(c.rules, r.rule)
		}
	}
	s.rules = read
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
		case nftaSetHandle:
			s.handle = ad.Uint64()
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

// parse takes the set's elements from the kernel's messages, in place of those of before.
func (s *observedSet) parse(messages []netlink.Message) error {
	s.keys, s.left, s.intervals, s.irregular = nil, 0, nil, false
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
		case unix.NFTA_CHAIN_HANDLE:
			c.handle = ad.Uint64()
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

func readRuleMessage(data []byte) (chain string, rule []any, err error) {
	err = each(data, func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case unix.NFTA_RULE_CHAIN:
			chain = ad.String()
		case unix.NFTA_RULE_EXPRESSIONS:
			ad.Nested(func(ad *netlink.AttributeDecoder) (err error) {
				rule, err = readRule(ad)
				return err
			})
		}
	})
	return chain, rule, err
}

// readRule reads a rule's expressions. What no rule of ours has is kept as bytes. To
// load again what is loaded already, which the nft command does, makes no difference.
func readRule(list *netlink.AttributeDecoder) (rule []any, err error) {
	var loaded any
	for list.Next() {
		e := readExpr(list.Bytes())
		switch e := e.(type) {
		case *expr.Cmp, *expr.Verdict:
		case *expr.Meta, *expr.Payload:
			if reflect.DeepEqual(e, loaded) {
				continue
			}
			loaded = e
		case *expr.Lookup:
			if e.IsDestRegSet {
				loaded = nil
			}
		default:
			loaded = nil
		}
		rule = append(rule, e)
	}
	return rule, list.Err()
}

// readExpr is an expression as formOf has it, or else its bytes.
func readExpr(raw []byte) any {
	var name string
	var body []byte
	err := each(raw, func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case unix.NFTA_EXPR_NAME:
			name = ad.String()
		case unix.NFTA_EXPR_DATA:
			body = ad.Bytes()
		}
	})
	var e expr.Any
	switch name {
	case "meta":
		e = &expr.Meta{}
	case "payload":
		e = &expr.Payload{}
	case "bitwise":
		e = &expr.Bitwise{}
	case "cmp":
		e = &expr.Cmp{}
	case "lookup":
		e = &expr.Lookup{}
	case "immediate":
		e = &expr.Verdict{}
	}
	if err != nil || e == nil || expr.Unmarshal(netdevFamily, body, e) != nil {
		return raw
	}
	return e
}
