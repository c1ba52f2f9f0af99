package openflow

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

const (
	soon   = time.Minute // what must come may take that long on a busy machine
	noTag  = -1
	tpid   = 0x88a8
	source = "p1" // frames come in there, and leave by the port that is the last byte of their destination
)

// lab is a hardware switch, in memory or a real Open vSwitch, behind a proxy that refuses what
// OpenFlow 1.3 does not have.
type lab struct {
	oftest.Bench
	proxy  *oftest.Proxy
	driver *Driver
	seq    uint32
}

// newLab is a switch in memory, where a test may wait as long as it likes.
func newLab(t testing.TB, ports int, f oftest.Faults) *lab {
	t.Helper()
	return labOf(t, inMemory(ports), ports, f)
}

func inMemory(ports int) *oftest.Memory {
	m := &oftest.Memory{Tables: 64, Entries: 1_000_000, Speed: 10e9}
	for n := range ports {
		m.Ports = append(m.Ports, fmt.Sprint("p", n+1))
	}
	return m
}

func labOf(t testing.TB, b oftest.Bench, ports int, f oftest.Faults) *lab {
	t.Helper()
	l := &lab{Bench: b, proxy: oftest.Start(t, oftest.Options{Bench: b}, f)}
	l.handOver(ports)
	l.driver = l.open(t, Config{OrdinaryVLANs: NotHandedOver})
	return l
}

// handOver are the operator's flows.
func (l *lab) handOver(ports int) {
	for n := 1; n <= ports; n++ {
		l.Flow("add-flow", fmt.Sprintf("table=0,priority=10,dl_dst=02:00:00:00:00:%02x,actions=write_metadata:%d/0xfff,goto_table:%d", n, n, DefaultTable))
	}
}

// open opens another driver of the switch.
func (l *lab) open(t testing.TB, cfg Config) *Driver {
	t.Helper()
	if cfg.Connect == nil {
		cfg.Connect, cfg.Done = ofp.Dialed(l.proxy.Dial, ofp.Version13)
	}
	d, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// patient is one that waits for the switch as long as a test does.
func patient(t testing.TB, p *oftest.Proxy) func(context.Context) (*ofp.Conn, error) {
	t.Helper()
	s, err := ofp.Open(ofp.Config{Connect: "192.0.2.2:6653", Plain: true, Net: &way{p}, Patience: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.Conn
}

// way is the network of one switch.
type way struct{ p *oftest.Proxy }

func (w *way) Dial(ctx context.Context, _, _ string) (net.Conn, error) { return w.p.Dial(ctx) }
func (w *way) Listen(string, string) (net.Listener, error)             { return nil, net.ErrClosed }

func ports(action vlanrules.Action, names ...string) (list []vendors.PortSetup) {
	for _, name := range names {
		list = append(list, vendors.PortSetup{Port: name, Action: action})
	}
	return list
}

func setupFor(list ...vendors.PortSetup) vendors.Setup {
	return vendors.Setup{TPID: tpid, Signals: []quantize.Signal{quantize.MinABW, quantize.MaxPD}, OnStale: inventory.Conservative, Ports: list}
}

func (l *lab) apply(t testing.TB, s vendors.Setup) {
	t.Helper()
	if err := l.driver.Apply(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

func intent(sig quantize.Signal, s uint8, lm uint16) vlanrules.Intent {
	return vlanrules.Intent{Signal: sig, Action: vlanrules.Update, S: s, LM: lm}
}

func given(port string, intents ...vlanrules.Intent) vendors.PortUpdate {
	return vendors.PortUpdate{Port: port, Intents: intents}
}

func (l *lab) update(t testing.TB, lease time.Duration, updates ...vendors.PortUpdate) vendors.UpdateResult {
	t.Helper()
	res, err := l.driver.Update(t.Context(), updates, lease)
	if err != nil || !res.Leased {
		t.Fatalf("%+v, %v", res, err)
	}
	return res
}

// frame is one with a sequence number for a port; tci is its CSIG tag's, or noTag.
func frame(seq uint32, port int, tci int) []byte {
	b := []byte{2, 0, 0, 0, 0, byte(port), 2, 0, 0, 0, 1, 0}
	if tci != noTag {
		b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, tpid), uint16(tci))
	}
	b = append(b, 0x88, 0xb5)
	return append(binary.BigEndian.AppendUint32(b, seq), make([]byte, 42)...)
}

// parsed is a frame's sequence number and the tag it has; ok is false where the rest
// is not as frame makes it.
func parsed(b []byte, port int) (seq uint32, tci int, ok bool) {
	tci, at := noTag, 14
	if len(b) >= 18 && binary.BigEndian.Uint16(b[12:]) == tpid {
		tci, at = int(binary.BigEndian.Uint16(b[14:])), 18
	}
	if len(b) < at+4 {
		return 0, 0, false
	}
	seq = binary.BigEndian.Uint32(b[at:])
	return seq, tci, string(b) == string(frame(seq, port, tci))
}

// leaves is the tag with which a frame leaves a port, that comes with a tag.
func (l *lab) leaves(t testing.TB, port, tci int) int {
	t.Helper()
	l.seq++
	l.Send(1, frame(l.seq, port, tci))
	for {
		b := l.Receive(port)
		if b == nil {
			t.Fatalf("no frame leaves port %d that came with %04x", port, tci)
		}
		seq, got, ok := parsed(b, port)
		if !ok {
			t.Fatalf("port %d: a frame with %04x leaves as %x", port, tci, b)
		}
		if seq == l.seq {
			return got
		}
	}
}

// window is how many frames are under way at once: a port of Open vSwitch that is a socket keeps
// no more than 100.
const window = 90

// exchange sends a frame for each tag through a port and returns those they leave with.
func (l *lab) exchange(t testing.TB, port int, tags []uint16) []uint16 {
	t.Helper()
	got := make([]uint16, len(tags))
	for from := 0; from < len(tags); from += window {
		to := min(from+window, len(tags))
		first := l.seq + 1
		for _, tag := range tags[from:to] {
			l.seq++
			l.Send(1, frame(l.seq, port, int(tag)))
		}
		for range to - from {
			b := l.Receive(port)
			seq, tci, ok := parsed(b, port)
			if !ok || tci == noTag || seq < first || seq > l.seq {
				t.Fatalf("tags %04x to %04x: %x arrives", tags[from], tags[to-1], b)
			}
			got[from+int(seq-first)] = uint16(tci)
		}
	}
	return got
}

// model is vendorstest.Model without R, which Open vSwitch loses.
func model(layout quantize.Layout, intents []vlanrules.Intent, tci uint16) uint16 {
	return vendorstest.Model(layout, intents, tci) &^ 0x1000
}

// flows are csig's tables, as text.
func (l *lab) flows() string {
	var lines []string
	for line := range strings.Lines(l.Flow("dump-flows", "--no-stats")) {
		for table := DefaultTable; table < DefaultTable+tables; table++ {
			if strings.Contains(line, fmt.Sprintf("table=%d,", table)) {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
	}
	return strings.Join(lines, "\n")
}

// fewer is how many samples a test takes: few, and all in TestLongEverySample.
func fewer(t *testing.T, all, few int) int {
	if vendorstest.Long(t) {
		return all
	}
	return few
}

// bubble runs a test on virtual time, beside others.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// run is bubble for a part of a test.
func run(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubble(t, test) })
}
