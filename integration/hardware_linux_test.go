package integration

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
)

// hardware is a switch of OpenFlow 1.3 at a host from which csig drives it.
type hardware struct {
	*operator
	sw    *oftest.Switch
	proxy *oftest.Proxy
	port  string // the proxy's
	seq   uint32

	mu   sync.Mutex
	busy int         // bytes of a frame of its load; 0: a short one
	sent []sentFrame // by the switch out of port 2, the newest of them
}

// sentFrame is a frame that was sent out of a port.
type sentFrame struct {
	at   time.Time
	bits uint64
}

// onWire is what a frame takes beside its bytes: check sum, preamble, gap.
const onWire = 24

// note has a frame among those that have left port 2.
func (h *hardware) note(bytes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	const most = 1 << 14
	if len(h.sent) == most {
		h.sent = append(h.sent[:0], h.sent[most/2:]...)
	}
	h.sent = append(h.sent, sentFrame{time.Now(), uint64(8 * (bytes + onWire))})
}

// setLoad has the traffic be of frames of so many bytes.
func (h *hardware) setLoad(bytes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy = bytes
}

// least is the fewest bits that have left port 2 in any time of that length that began since then.
func (h *hardware) least(since time.Time, length time.Duration) (least uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	least = math.MaxUint64
	for at := since; !at.After(time.Now().Add(-length)); at = at.Add(20 * time.Millisecond) {
		bits := uint64(0)
		i, _ := slices.BinarySearchFunc(h.sent, at, func(f sentFrame, at time.Time) int { return f.at.Compare(at) })
		for ; i < len(h.sent) && h.sent[i].at.Before(at.Add(length)); i++ {
			bits += h.sent[i].bits
		}
		least = min(least, bits)
	}
	return least
}

// The data of a tag that comes in, and of what the fallback writes.
const bestTCI, staleTCI = 31<<7 | 126, 0<<7 | 125

// newHardware has a proxy before the switch, whose port stands for PORT in the fleet file.
func newHardware(t *testing.T, sw *oftest.Switch, o oftest.Options, text string) *hardware {
	t.Helper()
	h := &hardware{sw: sw}
	here := newHost(t, "here")
	o.Bridge = sw.Path()
	h.proxy, h.port = proxyIn(t, here, o)
	h.operator = newOperator(t, here, strings.ReplaceAll(text, "PORT", h.port))
	return h
}

// proxyIn starts a proxy at a host, and returns its port.
func proxyIn(t *testing.T, host *fabric.Node, o oftest.Options) (p *oftest.Proxy, port string) {
	t.Helper()
	if err := host.Do(func() error {
		p = oftest.Start(t, o, oftest.Faults{})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	_, port, _ = strings.Cut(p.Addr(), ":")
	return p, port
}

// traffic sends some frames to port 2 until the test ends: of a switch that may have a cache,
// counters that rest say nothing.
func (h *hardware) traffic() {
	h.sw.Ports[1].Left(func(frame []byte) { h.note(len(frame)) })
	every(h.t, 20*time.Millisecond, func(int) {
		h.mu.Lock()
		size := max(60, h.busy)
		h.mu.Unlock()
		h.sw.Ports[2].Send(append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 3, 0, 0x88, 0xb5}, make([]byte, size-14)...))
	})
}

// leaves is the tag with which a frame leaves a port that came with the best one; -1: none.
func (h *hardware) leaves(to int) int {
	h.t.Helper()
	h.seq++
	f := append([]byte{2, 0, 0, 0, 0, byte(to), 2, 0, 0, 0, 1, 0, 0x88, 0xa8, bestTCI >> 8, bestTCI & 0xff, 0x88, 0xb5}, make([]byte, 46)...)
	binary.BigEndian.PutUint32(f[len(f)-4:], h.seq)
	h.sw.Settled()
	h.sw.Ports[0].Send(f)
	for {
		b := h.sw.Ports[to-1].Receive(patience)
		switch {
		case b == nil:
			h.t.Fatalf("no frame leaves port %d", to)
		case binary.BigEndian.Uint32(b[len(b)-4:]) != h.seq:
		case binary.BigEndian.Uint16(b[12:]) == 0x88a8:
			return int(binary.BigEndian.Uint16(b[14:]))
		default:
			return -1
		}
	}
}

// until sends frames to a port until one leaves as wanted.
func (h *hardware) until(what string, to int, is func(tci int) bool) {
	h.t.Helper()
	got := 0
	if !within(patience, func() bool { got = h.leaves(to); return is(got) }) {
		h.t.Fatalf("%s: it leaves with %04x", what, got)
	}
}

// ofAgent is whether an agent writes a tag, with the locator 5.
func ofAgent(tci int) bool { return tci&0x7f == 5 && tci>>7 > 0 && tci>>7 < 31 }

func isBest(tci int) bool    { return tci == bestTCI }
func fallsBack(tci int) bool { return tci == staleTCI }
