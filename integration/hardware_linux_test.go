package integration

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/integration/fabric"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
)

// hardware is a switch of OpenFlow 1.3 at a host from which csig drives it.
type hardware struct {
	*operator
	sw    *oftest.Switch
	proxy *oftest.Proxy
	port  string // the proxy's
	seq   uint32
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
	ended, stop := make(chan struct{}), make(chan struct{})
	h.t.Cleanup(func() { close(stop); <-ended })
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				h.sw.Ports[2].Send(append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 3, 0, 0x88, 0xb5}, make([]byte, 46)...))
			}
		}
	}()
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
	for limit := time.Now().Add(patience); ; {
		got := h.leaves(to)
		if is(got) {
			return
		}
		if time.Now().After(limit) {
			h.t.Fatalf("%s: it leaves with %04x", what, got)
		}
	}
}

// ofAgent is whether an agent writes a tag, with the locator 5.
func ofAgent(tci int) bool { return tci&0x7f == 5 && tci>>7 > 0 && tci>>7 < 31 }

func isBest(tci int) bool    { return tci == bestTCI }
func fallsBack(tci int) bool { return tci == staleTCI }
