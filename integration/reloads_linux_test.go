package integration

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// TestLongReloads reloads an agent of many ports again and again at a schedule of 100 ms, while
// tagged frames leave every port: no lease expires, and each frame carries the old value or the
// new one. CSIG_RELOADS=50 reloads fifty times with 512 ports. Where the kernel has the agent wait for
// processors, leases may expire, and what was measured may be worse.
func TestLongReloads(t *testing.T) {
	ports, reloads := 64, 5
	if v := os.Getenv("CSIG_RELOADS"); v != "" {
		var err error
		if reloads, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
		ports = manyPorts
	}
	for _, platform := range []string{"linux", "linux-ebpf"} {
		t.Run(platform, func(t *testing.T) {
			if platform == "linux-ebpf" && !mayLoad(t, "--native") {
				return
			}
			m := newMany(t, platform, ports)
			for i := range reloads {
				m.reload(manyChanges[i%len(manyChanges)])
			}
			for i := range min(reloads, 6) {
				m.replug(2 + i%3)
			}
			m.report()
		})
	}
}

// many is an agent of many ports, each of which tagged frames leave all the time.
type many struct {
	t         testing.TB
	s1, far   *fabric.Node
	platform  string
	ports     int // in the fleet file, of one more
	fleet     *inventory.Fleet
	file      string
	a         *agent
	want      uint32 // S of every port, all of which are idle
	index     []int  // of each port's device; mu is held
	sent      phase  // of the frames that are sent now; mu is held
	mu        sync.Mutex
	rx        sync.Mutex // guards what was received
	phases    []*phase
	took      []time.Duration
	remadeFor []time.Duration // until a port that was made again was right
}

// phase is what frames may look like, between two changes.
type phase struct {
	what                           string
	lm                             map[int][]uint32 // of ports whose locator is not the usual one
	tpids                          []uint16         // that may be the domain's
	free                           int              // a port whose tags may be untouched; -1: none
	right, stale, untouched, wrong int              // stale: with the fallback, or a worse S than is so
	example                        string
	since                          time.Time
	first                          time.Time     // right frame of the port free
	ran, waited                    time.Duration // of the agent's threads until it began
}

var manyTPIDs = []uint16{0x9900, 0x9aa0}

// manyChanges are the changes of the fleet file, each of which turns back the one before of its kind.
var manyChanges = []string{"locator", "interval", "tpid", "port", "port"}

func newMany(t testing.TB, platform string, ports int) *many {
	t.Helper()
	m := &many{t: t, platform: platform, ports: ports}
	var fab fabric.Fabric
	t.Cleanup(func() {
		if err := fab.Close(); err != nil {
			t.Error(err)
		}
	})
	var err error
	if m.s1, err = fab.AddHost("s1"); err != nil {
		t.Fatal(err)
	}
	if m.far, err = fab.AddHost("far"); err != nil {
		t.Fatal(err)
	}
	if m.fleet, err = inventory.Parse("many.yaml", fmt.Appendf(nil, fleetText, quantize.Draft00)); err != nil {
		t.Fatal(err)
	}
	dev := &m.fleet.Devices[0]
	dev.Platform, dev.Ports, dev.Schedule = platform, nil, "@every 100ms"
	m.setInterval(interval)
	table := m.fleet.Profile.Signals[quantize.MinABW].Buckets
	m.want = 20
	low, high := table.Range(uint8(m.want))
	m.index = make([]int, ports+1)
	for i := range ports + 1 {
		m.plug(i)
		dev.Ports = append(dev.Ports, inventory.Port{Name: m.name(i), Speed: low + (high-low)*3/4, Action: vlanrules.Update,
			LM: map[quantize.Signal]uint16{quantize.MinABW: lmOf(i), quantize.MinABWC: lmOf(i)}})
	}
	m.file = filepath.Join(t.TempDir(), "many.yaml")
	m.write(ports)
	m.enter(phase{what: "start", tpids: manyTPIDs, free: ports})
	m.traffic()
	socket := filepath.Join(filepath.Dir(m.file), "agent.sock")
	m.a = launchIn(t, m.s1.Command(csig, "agent", "-i", m.file, "--socket", socket), socket)
	m.await("its ports are live", func(s *api.Status) bool { return len(s.Ports) == ports && m.live(s) })
	m.enter(phase{what: "before", tpids: manyTPIDs[:1], free: ports})
	return m
}

func (m *many) live(s *api.Status) bool {
	for i := range s.Ports {
		if s.Ports[i].State != api.StateLive {
			return false
		}
	}
	return true
}

func lmOf(port int) uint16 { return uint16(1 + port%100) }

func (m *many) name(i int) string { return "swp" + strconv.Itoa(i) }

func (m *many) setInterval(d time.Duration) {
	if m.platform == "linux-ebpf" {
		d /= 10
	}
	m.fleet.Profile.Interval, m.fleet.Devices[0].Interval = d, d
}

// plug makes the device of a port, with its other end.
func (m *many) plug(i int) {
	m.t.Helper()
	name := m.name(i)
	err := m.s1.Do(func() error {
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name, PeerNamespace: netlink.NsFd(m.far.FD())}
		if err := netlink.LinkAdd(veth); err != nil {
			return err
		}
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		m.mu.Lock()
		m.index[i] = l.Attrs().Index
		m.mu.Unlock()
		return netlink.LinkSetUp(l)
	})
	if err == nil {
		err = m.far.Do(func() error {
			l, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			return netlink.LinkSetUp(l)
		})
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// write has the file name so many ports.
func (m *many) write(ports int) {
	m.t.Helper()
	fleet := *m.fleet
	fleet.Devices = append([]inventory.Device{}, m.fleet.Devices...)
	fleet.Devices[0].Ports = fleet.Devices[0].Ports[:ports]
	text, err := inventory.Marshal(&fleet)
	if err == nil {
		err = errors.Join(os.WriteFile(m.file+".new", text, 0o600), os.Rename(m.file+".new", m.file))
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// enter begins another phase: every frame is of one.
func (m *many) enter(p phase) {
	p.since = time.Now()
	p.ran, p.waited = m.processor()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rx.Lock()
	defer m.rx.Unlock()
	m.phases, m.sent = append(m.phases, &p), p
}

// processor is for how long the agent's threads have run so far, and have waited for a processor.
func (m *many) processor() (ran, waited time.Duration) {
	if m.a == nil {
		return 0, 0
	}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", m.a.cmd.Process.Pid)) // a good pattern
	for _, name := range files {
		text, _ := os.ReadFile(name) // of a thread that may have ended
		var r, w time.Duration       // in nanoseconds
		_, _ = fmt.Sscan(string(text), &r, &w)
		ran, waited = ran+r, waited+w
	}
	return ran, waited
}

func (m *many) current() phase {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sent
}

// traffic sends a frame of each TPID from each port, and looks at what arrives, until the test ends.
func (m *many) traffic() {
	m.t.Helper()
	open := func(n *fabric.Node, protocol int) (fd int) {
		err := n.Do(func() (err error) {
			fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
			return err
		})
		if err != nil {
			m.t.Fatal(err)
		}
		return fd
	}
	tx, rx := open(m.s1, 0), open(m.far, int(htons(unix.ETH_P_ALL)))
	if err := errors.Join(unix.SetsockoptInt(rx, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
		unix.SetsockoptTimeval(rx, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000})); err != nil {
		m.t.Fatal(err)
	}
	stop := make(chan struct{})
	var all sync.WaitGroup
	m.t.Cleanup(func() {
		close(stop)
		all.Wait()
		unix.Close(tx)
		unix.Close(rx)
	})
	all.Go(func() {
		frame := make([]byte, 60)
		for i := range 6 {
			frame[i], frame[6+i] = 0xff, 2
		}
		tick := time.NewTicker(time.Duration(len(m.index)) * 200 * time.Microsecond)
		defer tick.Stop()
		for {
			for i := range m.index {
				for _, tpid := range manyTPIDs {
					binary.BigEndian.PutUint16(frame[12:], tpid)
					binary.BigEndian.PutUint16(frame[14:], 31<<7|quantize.Draft00.LMNone())
					binary.BigEndian.PutUint16(frame[16:], 0x88b5)
					m.mu.Lock()
					binary.BigEndian.PutUint32(frame[18:], uint32(i))
					binary.BigEndian.PutUint32(frame[22:], uint32(len(m.phases)-1))
					_ = unix.Sendto(tx, frame, 0, &unix.SockaddrLinklayer{Ifindex: m.index[i]}) // its device may be gone
					m.mu.Unlock()
				}
			}
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	})
	all.Go(func() {
		frame := make([]byte, 128)
		for {
			n, _, err := unix.Recvfrom(rx, frame, 0)
			if err == nil && n >= 26 && binary.BigEndian.Uint16(frame[16:]) == 0x88b5 {
				m.judge(frame)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// judge counts a frame that has arrived.
func (m *many) judge(f []byte) {
	tpid, tci, port := binary.BigEndian.Uint16(f[12:]), binary.BigEndian.Uint16(f[14:]), int(binary.BigEndian.Uint32(f[18:]))
	m.rx.Lock()
	defer m.rx.Unlock()
	p := m.phases[binary.BigEndian.Uint32(f[22:])]
	s, lm := uint32(tci>>7&31), uint32(tci&127)
	free := port == p.free || port == len(m.index)-1 // the last one is in the file in turns
	mayBe, is := false, len(p.tpids) == 1 && p.tpids[0] == tpid
	for _, have := range p.tpids {
		mayBe = mayBe || have == tpid
	}
	known := p.lm[port]
	if known == nil {
		known = []uint32{uint32(lmOf(port))}
	}
	right, worse := false, lm == uint32(quantize.Draft00.LMStale())
	for _, k := range known {
		right = right || s == m.want && lm == k
		worse = worse || mayBe && s < m.want && lm == k
	}
	switch {
	case mayBe && right:
		p.right++
		if port == p.free && p.first.IsZero() {
			p.first = time.Now()
		}
		return
	case s == 31 && lm == uint32(quantize.Draft00.LMNone()) && (!is || free):
		return
	case free: // told by how long it takes
		return
	case worse:
		p.stale++
	case s == 31 && lm == uint32(quantize.Draft00.LMNone()):
		p.untouched++
	default:
		p.wrong++
	}
	p.example = fmt.Sprintf("%s %v after: port %s, TPID %04x, S %d, LM %d", p.what, time.Since(p.since).Round(time.Millisecond), m.name(port), tpid, s, lm)
}

// reload makes a change of the fleet file, has the agent read it, and watches for some cycles.
func (m *many) reload(change string) {
	m.t.Helper()
	dev := &m.fleet.Devices[0]
	before := m.current()
	after := phase{tpids: before.tpids, lm: before.lm, free: before.free, what: "after " + change}
	during := phase{tpids: before.tpids, lm: before.lm, free: before.free, what: change}
	switch change {
	case "locator":
		old, next := dev.Ports[1].LM[quantize.MinABW], uint16(120)
		if old == next {
			next = lmOf(1)
		}
		dev.Ports[1].LM = map[quantize.Signal]uint16{quantize.MinABW: next, quantize.MinABWC: next}
		during.lm, after.lm = map[int][]uint32{1: {uint32(old), uint32(next)}}, map[int][]uint32{1: {uint32(next)}}
	case "interval":
		next := 2 * interval
		if m.fleet.Profile.Interval >= 2*interval || m.platform == "linux-ebpf" && m.fleet.Profile.Interval >= interval/5 {
			next = interval
		}
		m.setInterval(next)
	case "tpid":
		next := manyTPIDs[:1]
		if m.fleet.Profile.TPID == manyTPIDs[0] {
			next = manyTPIDs[1:]
		}
		m.fleet.Profile.TPID = next[0]
		during.tpids, after.tpids = manyTPIDs, next
	case "port":
		if m.ports == len(dev.Ports) {
			m.ports--
		} else {
			m.ports++
		}
	}
	m.write(m.ports)
	m.enter(during)
	began := time.Now()
	if err := m.a.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		m.t.Fatal(err)
	}
	s := m.await("a reload with "+change, func(s *api.Status) bool { return s.Reload != nil && s.Reload.Time.After(began) })
	m.took = append(m.took, time.Since(began))
	if s.Reload.Error != "" {
		m.t.Fatal(s.Reload.Error)
	}
	m.await("live ports after "+change, func(now *api.Status) bool { return now.Cycle.Count > s.Cycle.Count+4 && m.live(now) })
	m.enter(after)
	m.await("cycles after "+change, func(now *api.Status) bool { return now.Cycle.Count > s.Cycle.Count+8 })
}

// replug deletes a port's device and makes it again at once.
func (m *many) replug(port int) {
	m.t.Helper()
	before := m.current()
	m.enter(phase{tpids: before.tpids, lm: before.lm, free: port, what: "unplugged"})
	err := m.s1.Do(func() error {
		l, err := netlink.LinkByName(m.name(port))
		if err != nil {
			return err
		}
		return netlink.LinkDel(l)
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.enter(phase{tpids: before.tpids, lm: before.lm, free: port, what: "replugged"})
	made := time.Now()
	m.plug(port)
	for end := made.Add(patience); ; {
		m.rx.Lock()
		first := m.phases[len(m.phases)-1].first
		m.rx.Unlock()
		if !first.IsZero() {
			m.remadeFor = append(m.remadeFor, first.Sub(made))
			break
		}
		if time.Now().After(end) {
			m.t.Fatalf("%s is not right after it was made again", m.name(port))
		}
		time.Sleep(time.Millisecond) // the condition is above
	}
	m.enter(phase{tpids: before.tpids, lm: before.lm, free: before.free, what: "after replug"})
	n := m.status().Cycle.Count
	m.await("cycles after it", func(s *api.Status) bool { return s.Cycle.Count > n+5 })
}

// await waits until the agent's status shows something. It asks once a cycle: a status of many
// ports takes the agent longer than a few milliseconds.
func (m *many) await(what string, ok func(*api.Status) bool) *api.Status {
	m.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		select {
		case <-tick.C:
		case <-m.a.ended:
			m.t.Fatalf("the agent ended (%v) before: %s", m.a.err, what)
		}
		if s, err := m.a.client.Status(m.t.Context()); err == nil && ok(s) {
			return s
		}
	}
	m.t.Fatalf("the agent's status never showed: %s", what)
	return nil
}

func (m *many) status() *api.Status {
	m.t.Helper()
	s, err := m.a.client.Status(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	return s
}

// report fails for each frame that carried anything else.
func (m *many) report() {
	m.t.Helper()
	s := m.status()
	m.enter(phase{}) // the end of the last one
	m.rx.Lock()
	defer m.rx.Unlock()
	right, busy := 0, 0
	for i, p := range m.phases[1 : len(m.phases)-1] {
		right += p.right
		ran, waited := m.phases[i+2].ran-p.ran, m.phases[i+2].waited-p.waited
		if p.stale > 0 && waited > ran/2 { // it could not renew its lease
			m.t.Logf("%s: the agent ran for %v and waited for processors for %v: %d frames with the fallback or worse", p.what, ran, waited, p.stale)
			busy, p.stale = busy+1, 0
		}
		if p.stale+p.untouched+p.wrong > 0 {
			m.t.Errorf("%s: %d frames right, %d with the fallback, %d untouched, %d wrong: %s", p.what, p.right, p.stale, p.untouched, p.wrong, p.example)
		}
	}
	if s.Cycle.Lapses > 0 && busy == 0 || s.DataPlane != api.DataPlaneLeased {
		m.t.Errorf("%d leases expired, at last by %v; data plane %s: %s", s.Cycle.Lapses, time.Duration(s.Cycle.LastLapseNS), s.DataPlane, s.DataPlaneReason)
	}
	if i := strings.Count(m.a.log.String(), "restored"); i > 0 {
		m.t.Errorf("%d repairs that nothing made necessary", i)
	}
	m.t.Logf("%s, %d ports: %d frames right; reloads took %v; ports made again were right after %v", m.platform, m.ports, right, m.took, m.remadeFor)
}
