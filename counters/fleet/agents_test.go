package fleet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The agents of the benchmark run in a process of their own, so that what they cost
// is not taken for the poller's. It is this test binary, with these flags.
var (
	agentCount = flag.Int("fleet.agents", 0, "serve so many agents on loopback, print their ports and do nothing else")
	agentPorts = flag.Int("fleet.ports", 64, "ports of each agent")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *agentCount > 0 {
		if err := serveAgents(*agentCount, *agentPorts); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveAgents serves until standard input ends.
func serveAgents(n, ports int) error {
	var line []string
	table := newMIB(ports)
	for range n {
		conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return err
		}
		defer conn.Close()
		line = append(line, fmt.Sprint(conn.LocalAddr().(*net.UDPAddr).Port))
		go table.serve(conn)
	}
	fmt.Println(strings.Join(line, " "))
	_, err := os.Stdin.Read(make([]byte, 1))
	if err != nil && err.Error() != "EOF" {
		return err
	}
	return nil
}

// mib is what every agent answers from: SNMPv2c, or raw counters for a request of
// one byte.
type mib struct {
	started time.Time
	ports   int
	oids    [][]byte // encoded, in lexicographic order of their arcs
	index   map[string]int
	values  []func(now time.Duration) (tag byte, value []byte)
}

type row struct {
	arcs  []uint32
	value func(now time.Duration) (byte, []byte)
}

const (
	tagInteger, tagString, tagOID         = 0x02, 0x04, 0x06
	tagSequence                           = 0x30
	tagCounter32, tagGauge, tagTicks      = 0x41, 0x42, 0x43
	tagCounter64                          = 0x46
	tagNoInstance, tagEndOfView           = 0x81, 0x82
	pduGet, pduNext, pduResponse, pduBulk = 0xa0, 0xa1, 0xa2, 0xa5
)

func newMIB(ports int) *mib {
	m := &mib{started: time.Now().Add(-time.Hour), ports: ports, index: map[string]int{}}
	text := func(tag byte, s string) func(time.Duration) (byte, []byte) {
		return func(time.Duration) (byte, []byte) { return tag, []byte(s) }
	}
	number := func(tag byte, f func(now time.Duration) uint64) func(time.Duration) (byte, []byte) {
		return func(now time.Duration) (byte, []byte) { return tag, unsigned(f(now)) }
	}
	constant := func(tag byte, v uint64) func(time.Duration) (byte, []byte) {
		return number(tag, func(time.Duration) uint64 { return v })
	}
	arcs := func(s string, more ...uint32) (out []uint32) {
		for _, p := range strings.Split(s, ".") {
			v, err := strconv.ParseUint(p, 10, 32)
			if err != nil {
				panic(err) // of this file's own constants
			}
			out = append(out, uint32(v))
		}
		return append(out, more...)
	}
	rows := []row{
		{arcs("1.3.6.1.2.1.1.1.0"), text(tagString, "test switch")},
		{arcs("1.3.6.1.2.1.1.2.0"), text(tagOID, string(encodeOID(arcs("1.3.6.1.4.1.99999.1"))))},
		{arcs("1.3.6.1.2.1.1.3.0"), number(tagTicks, func(now time.Duration) uint64 { return uint64(now / (10 * time.Millisecond)) })},
		{arcs("1.3.6.1.2.1.31.1.5.0"), constant(tagTicks, 0)},
	}
	for i := uint32(1); i <= uint32(ports); i++ {
		frames := func(now time.Duration) uint64 { return uint64(now/time.Microsecond) * uint64(i) / 100 }
		rows = append(rows,
			row{arcs("1.3.6.1.2.1.2.2.1.5", i), constant(tagGauge, 1<<32-1)},
			row{arcs("1.3.6.1.2.1.2.2.1.8", i), constant(tagInteger, 1)},
			row{arcs("1.3.6.1.2.1.2.2.1.19", i), constant(tagCounter32, 0)},
			row{arcs("1.3.6.1.2.1.2.2.1.20", i), constant(tagCounter32, 0)},
			row{arcs("1.3.6.1.2.1.31.1.1.1.1", i), text(tagString, fmt.Sprintf("swp%d", i))},
			row{arcs("1.3.6.1.2.1.31.1.1.1.10", i), number(tagCounter64, func(now time.Duration) uint64 { return 1000 * frames(now) })},
			row{arcs("1.3.6.1.2.1.31.1.1.1.11", i), number(tagCounter64, frames)},
			row{arcs("1.3.6.1.2.1.31.1.1.1.12", i), constant(tagCounter64, 0)},
			row{arcs("1.3.6.1.2.1.31.1.1.1.13", i), constant(tagCounter64, 0)},
			row{arcs("1.3.6.1.2.1.31.1.1.1.15", i), constant(tagGauge, 100_000)},
			row{arcs("1.3.6.1.2.1.31.1.1.1.19", i), constant(tagTicks, 0)},
		)
	}
	slices.SortFunc(rows, func(a, b row) int { return slices.Compare(a.arcs, b.arcs) })
	for i, r := range rows {
		oid := encodeOID(r.arcs)
		m.oids = append(m.oids, oid)
		m.index[string(oid)] = i
		m.values = append(m.values, r.value)
	}
	return m
}

func (m *mib) serve(conn *net.UDPConn) {
	in, out := make([]byte, 65536), make([]byte, 0, 65536)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(in)
		if err != nil {
			return
		}
		now := time.Since(m.started)
		if n == 1 {
			out = m.raw(out[:0], now)
		} else if out, err = m.answer(out[:0], in[:n], now); err != nil {
			continue
		}
		if _, err := conn.WriteToUDPAddrPort(out, from); err != nil && errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// raw is 16 bytes a port: octets and packets.
func (m *mib) raw(out []byte, now time.Duration) []byte {
	for i := range m.ports {
		frames := uint64(now/time.Microsecond) * uint64(i+1) / 100
		out = binary.BigEndian.AppendUint64(out, 1000*frames)
		out = binary.BigEndian.AppendUint64(out, frames)
	}
	return out
}

var errBER = errors.New("malformed")

// value splits the first value off b.
func value(b []byte) (tag byte, val, rest []byte, err error) {
	if len(b) < 2 {
		return 0, nil, nil, errBER
	}
	n, head := int(b[1]), 2
	if n >= 0x80 {
		k := n & 0x7f
		if k > 3 || len(b) < 2+k {
			return 0, nil, nil, errBER
		}
		n = 0
		for _, c := range b[2 : 2+k] {
			n = n<<8 | int(c)
		}
		head += k
	}
	if len(b) < head+n {
		return 0, nil, nil, errBER
	}
	return b[0], b[head : head+n], b[head+n:], nil
}

func wrap(tag byte, val []byte) []byte {
	out := []byte{tag}
	switch n := len(val); {
	case n < 0x80:
		out = append(out, byte(n))
	case n < 0x100:
		out = append(out, 0x81, byte(n))
	default:
		out = append(out, 0x82, byte(n>>8), byte(n))
	}
	return append(out, val...)
}

func unsigned(v uint64) []byte {
	b := binary.BigEndian.AppendUint64([]byte{0}, v)
	for len(b) > 1 && b[0] == 0 && b[1] < 0x80 {
		b = b[1:]
	}
	return b
}

func encodeOID(arcs []uint32) []byte {
	out := []byte{byte(arcs[0]*40 + arcs[1])}
	for _, a := range arcs[2:] {
		var b []byte
		for b = []byte{byte(a & 0x7f)}; a >= 0x80; {
			a >>= 7
			b = append([]byte{byte(a&0x7f) | 0x80}, b...)
		}
		out = append(out, b...)
	}
	return out
}

// answer is the response to a Get, GetNext or GetBulk.
func (m *mib) answer(out, request []byte, now time.Duration) ([]byte, error) {
	_, msg, _, err := value(request)
	var fields [3][]byte // version, community, PDU
	var kind byte
	for i := range fields {
		if err != nil {
			return nil, err
		}
		var rest []byte
		if kind, _, rest, err = value(msg); err == nil {
			fields[i], msg = msg[:len(msg)-len(rest)], rest
		}
	}
	_, pdu, _, err := value(fields[2])
	var ids [3][]byte // request-id, and two that are errors or the limits of GetBulk
	for i := range ids {
		if err == nil {
			_, ids[i], pdu, err = value(pdu)
		}
	}
	if err != nil {
		return nil, err
	}
	_, list, _, err := value(pdu)
	var asked [][]byte
	for err == nil && len(list) > 0 {
		var one, oid []byte
		if _, one, list, err = value(list); err == nil {
			if _, oid, _, err = value(one); err == nil {
				asked = append(asked, oid)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	var bindings []byte
	bind := func(oid []byte, at int) {
		var v []byte
		if at >= 0 && at < len(m.oids) {
			tag, val := m.values[at](now)
			v = wrap(tag, val)
		} else if kind == pduGet {
			v = []byte{tagNoInstance, 0}
		} else {
			v = []byte{tagEndOfView, 0}
		}
		bindings = append(bindings, wrap(tagSequence, append(wrap(tagOID, oid), v...))...)
	}
	next := func(oid []byte) ([]byte, int) {
		at, found := m.index[string(oid)]
		if found {
			at++
		} else {
			at, _ = slices.BinarySearchFunc(m.oids, oid, compareOID)
		}
		if at < len(m.oids) {
			return m.oids[at], at
		}
		return oid, at
	}
	switch kind {
	case pduGet:
		for _, oid := range asked {
			at, ok := m.index[string(oid)]
			if !ok {
				at = -1
			}
			bind(oid, at)
		}
	case pduNext:
		for _, oid := range asked {
			bind(next(oid))
		}
	case pduBulk:
		single, repeat := int(ids[1][len(ids[1])-1]), int(ids[2][len(ids[2])-1])
		for _, oid := range asked[:min(single, len(asked))] {
			bind(next(oid))
		}
		walk := asked[min(single, len(asked)):]
		for range repeat {
			for i := range walk {
				var at int
				walk[i], at = next(walk[i])
				bind(walk[i], at)
			}
			if len(bindings) > 60_000 {
				break
			}
		}
	}
	body := wrap(tagInteger, ids[0])
	body = append(body, tagInteger, 1, 0, tagInteger, 1, 0)
	body = append(body, wrap(tagSequence, bindings)...)
	message := append(append([]byte{}, fields[0]...), fields[1]...)
	message = append(message, wrap(pduResponse, body)...)
	return append(out, wrap(tagSequence, message)...), nil
}

// compareOID orders encoded object identifiers by their arcs. Longer arcs take more
// bytes, the first of which is then larger, unless the shorter one's is; so
// bytes decide except between arcs of different lengths.
func compareOID(a, b []byte) int {
	for len(a) > 0 && len(b) > 0 {
		x, y := arc(a), arc(b)
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		if c := bytes.Compare(x, y); c != 0 {
			return c
		}
		a, b = a[len(x):], b[len(y):]
	}
	return len(a) - len(b)
}

func arc(b []byte) []byte {
	for i, c := range b {
		if c < 0x80 {
			return b[:i+1]
		}
	}
	return b
}
