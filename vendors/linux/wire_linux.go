package linux

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// batch is one nftables transaction in the form the kernel reads, built in
// place so that a cycle of the agent allocates nothing. The messages are
// written here, and not by google/nftables, because that library asks for an
// acknowledgement of each message (512 ports overrun a socket's buffer), cannot
// name the generation a transaction builds upon, knows no comments on tables,
// and allocates for every element.
type batch struct {
	b     []byte
	table string // the messages' table
	seq   uint32 // of the next message
	open  int    // where the current message starts
	what  []label
	err   error // what could not be written down
}

var _ writer = (*batch)(nil)

// label remembers what a message is for, so that errors can say so.
type label struct {
	seq  uint32
	text string
}

const (
	nlmsgHeader  = 16
	genmsgHeader = 4
	netdevFamily = unix.NFPROTO_NETDEV
)

// Values that x/sys/unix lacks (linux/netfilter/nfnetlink.h, nf_tables.h).
const (
	nfnlBatchGenID    = 1
	nftaTableUserdata = 6
	nftaSetHandle     = 16
	nfAccept          = 1
)

// begin starts a transaction; seq is the first sequence number to use. With a
// generation other than 0 the kernel refuses it, with ERESTART, unless the
// ruleset is still at that generation.
func (b *batch) begin(seq, generation uint32) {
	b.b, b.table, b.seq, b.what, b.err = b.b[:0], tableName, seq, b.what[:0], nil
	b.header(unix.NFNL_MSG_BATCH_BEGIN, unix.NLM_F_REQUEST, unix.NFPROTO_UNSPEC, unix.NFNL_SUBSYS_NFTABLES)
	if generation != 0 {
		b.u32(nfnlBatchGenID, generation)
	}
	b.close()
}

// check finishes a batch that is to be tried and not carried out: without the
// message that ends it the kernel validates everything and takes it back.
func (b *batch) check() {
	flags := b.b[b.open+6:]
	binary.NativeEndian.PutUint16(flags, binary.NativeEndian.Uint16(flags)|unix.NLM_F_ACK)
}

// end finishes the transaction. Only the last message asks for an
// acknowledgement, which the kernel sends after the commit; errors arrive
// unasked.
func (b *batch) end() {
	b.check()
	last := b.open
	b.header(unix.NFNL_MSG_BATCH_END, unix.NLM_F_REQUEST, unix.NFPROTO_UNSPEC, unix.NFNL_SUBSYS_NFTABLES)
	b.close()
	b.open = last
}

// lastSeq is the sequence number of the acknowledgement to wait for.
func (b *batch) lastSeq() uint32 { return binary.NativeEndian.Uint32(b.b[b.open+8:]) }

// msg starts an nftables message on the batch's table; close ends it.
func (b *batch) msg(typ, flags int) {
	b.header(unix.NFNL_SUBSYS_NFTABLES<<8|typ, unix.NLM_F_REQUEST|flags, netdevFamily, 0)
	b.str(1, b.table) // attribute 1 is the table in every message we send
}

func (b *batch) header(typ, flags, family, resource int) {
	b.open = len(b.b)
	b.b = binary.NativeEndian.AppendUint32(b.b, 0) // length: close
	b.b = binary.NativeEndian.AppendUint16(b.b, uint16(typ))
	b.b = binary.NativeEndian.AppendUint16(b.b, uint16(flags))
	b.b = binary.NativeEndian.AppendUint32(b.b, b.seq)
	b.b = binary.NativeEndian.AppendUint32(b.b, 0)
	b.b = append(b.b, byte(family), unix.NFNETLINK_V0)
	b.b = binary.BigEndian.AppendUint16(b.b, uint16(resource))
	b.seq++
}

func (b *batch) close() {
	binary.NativeEndian.PutUint32(b.b[b.open:], uint32(len(b.b)-b.open))
}

// label names the messages from the one being written on.
func (b *batch) label(text string) { b.what = append(b.what, label{b.seq - 1, text}) }

// labelNext names the messages from the next one on.
func (b *batch) labelNext(text string) { b.what = append(b.what, label{b.seq, text}) }

// nest starts an attribute that holds others; unnest ends it.
func (b *batch) nest(typ int) int {
	at := len(b.b)
	b.b = binary.NativeEndian.AppendUint16(b.b, 0)
	b.b = binary.NativeEndian.AppendUint16(b.b, uint16(typ)|unix.NLA_F_NESTED)
	return at
}

func (b *batch) unnest(at int) {
	binary.NativeEndian.PutUint16(b.b[at:], uint16(len(b.b)-at))
}

func (b *batch) attr(typ, size int) {
	b.b = binary.NativeEndian.AppendUint16(b.b, uint16(4+size))
	b.b = binary.NativeEndian.AppendUint16(b.b, uint16(typ))
}

func (b *batch) pad() {
	for len(b.b)%4 != 0 {
		b.b = append(b.b, 0)
	}
}

func (b *batch) bytes(typ int, v []byte) {
	b.attr(typ, len(v))
	b.b = append(b.b, v...)
	b.pad()
}

func (b *batch) str(typ int, v string) {
	b.attr(typ, len(v)+1)
	b.b = append(append(b.b, v...), 0)
	b.pad()
}

func (b *batch) u16(typ int, v uint16) {
	b.attr(typ, 2)
	b.b = binary.BigEndian.AppendUint16(b.b, v)
	b.pad()
}

func (b *batch) u32(typ int, v uint32) {
	b.attr(typ, 4)
	b.b = binary.BigEndian.AppendUint32(b.b, v)
}

func (b *batch) u64(typ int, v uint64) {
	b.attr(typ, 8)
	b.b = binary.BigEndian.AppendUint64(b.b, v)
}

// data writes a 16-bit key or value the way set elements carry it.
func (b *batch) data(typ int, v uint16) {
	n := b.nest(typ)
	b.u16(unix.NFTA_DATA_VALUE, v)
	b.unnest(n)
}

// intervals writes a message that adds or deletes elements of a map. The
// kernel keeps an interval as two elements: the start, with the value, and the
// first key behind it, flagged as an end. An interval up to 0xffff has no end.
func (b *batch) intervals(typ int, set string, list []interval) {
	flags := 0
	if typ == unix.NFT_MSG_NEWSETELEM {
		flags = unix.NLM_F_CREATE | unix.NLM_F_EXCL
	}
	b.msg(typ, flags)
	b.str(unix.NFTA_SET_ELEM_LIST_SET, set)
	all := b.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
	for _, e := range list {
		n := b.nest(unix.NFTA_LIST_ELEM)
		b.data(unix.NFTA_SET_ELEM_KEY, e.first)
		b.data(unix.NFTA_SET_ELEM_DATA, e.value)
		b.unnest(n)
		if e.last == 0xffff {
			continue
		}
		n = b.nest(unix.NFTA_LIST_ELEM)
		b.u32(unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END)
		b.data(unix.NFTA_SET_ELEM_KEY, e.last+1)
		b.unnest(n)
	}
	b.unnest(all)
	b.close()
}

// flushSet empties a set. Unlike deleting elements by name it cannot fail
// because one of them has expired in the meantime.
func (b *batch) flushSet(set string) {
	b.msg(unix.NFT_MSG_DELSETELEM, 0)
	b.str(unix.NFTA_SET_ELEM_LIST_SET, set)
	b.close()
}

// addKeys adds elements to a set, each with a timeout.
func (b *batch) addKeys(set string, keys []uint16, timeout time.Duration) {
	b.msg(unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE)
	b.str(unix.NFTA_SET_ELEM_LIST_SET, set)
	all := b.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
	for _, k := range keys {
		n := b.nest(unix.NFTA_LIST_ELEM)
		b.data(unix.NFTA_SET_ELEM_KEY, k)
		b.u64(unix.NFTA_SET_ELEM_TIMEOUT, leaseMillis(timeout))
		b.unnest(n)
	}
	b.unnest(all)
	b.close()
}
