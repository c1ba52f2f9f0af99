package integration

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mdlayher/packet"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/fabric"
)

// The TPIDs of a migration.
const (
	oldTPID = 0x9900
	newTPID = 0x9aaa
)

// mixture is numbered frames from h1 to h2: one without a tag, one with each
// TPID, in turns.
type mixture struct {
	t        testing.TB
	from, to *packet.Conn
	near     net.HardwareAddr
	far      net.HardwareAddr
	sent     atomic.Uint32
	all      atomic.Uint32 // once the last one is known
	stop     chan struct{}
	ended    sync.WaitGroup

	// came is the TPID with which each frame came, 0 for none; touched whether
	// its tag had been written on the way.
	came    []uint16
	touched []bool
}

// sentTPID is the TPID with which the nth frame is sent.
func sentTPID(n uint32) uint16 { return [...]uint16{0, oldTPID, newTPID}[n%3] }

const sentTCI = 31<<7 | 126

func (r *row) mixture() *mixture {
	r.t.Helper()
	open := func(p *fabric.Port, protocol int) *packet.Conn {
		var c *packet.Conn
		err := p.Node().Do(func() error {
			i, err := net.InterfaceByName(p.Name)
			if err == nil {
				c, err = packet.Listen(i, packet.Raw, protocol, nil)
			}
			if err == nil {
				err = keepAll(c)
			}
			return err
		})
		if err != nil {
			r.t.Fatal(err)
		}
		return c
	}
	m := &mixture{t: r.t, from: open(r.h1, 0x88b6), to: open(r.h2, unix.ETH_P_ALL), near: r.h1.MAC, far: r.h2.MAC, stop: make(chan struct{})}
	m.ended.Add(2)
	go m.send()
	go m.receive()
	return m
}

// frame is the nth frame, with the tag of a TPID or without; what it is
// otherwise follows from n.
func (m *mixture) frame(n uint32, tpid uint16) []byte {
	b := append(slices.Clone(m.far), m.near...)
	if tpid != 0 {
		b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, tpid), sentTCI)
	}
	b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(b, 0x88b6), n)
	for i := range 46 + int(n*97%1400) {
		b = append(b, byte(n>>(i%4*8))^byte(i))
	}
	return b
}

func (m *mixture) send() {
	defer m.ended.Done()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for m.all.Load() == 0 {
		n := m.sent.Load()
		select {
		case <-m.stop:
			m.all.Store(n + 1) // this one is the last
		case <-tick.C:
		}
		if _, err := m.from.WriteTo(m.frame(n, sentTPID(n)), &packet.Addr{HardwareAddr: m.far}); err != nil {
			m.t.Errorf("send: %v", err)
		}
		m.sent.Add(1)
	}
}

func (m *mixture) receive() {
	defer m.ended.Done()
	buf := make([]byte, 2000)
	for n := m.all.Load(); n == 0 || uint32(len(m.came)) < n; n = m.all.Load() {
		size, _, err := m.to.ReadFrom(buf)
		if err != nil {
			return
		}
		f := buf[:size]
		if size < 22 || !bytes.Equal(f[:6], m.far) || !bytes.Equal(f[6:12], m.near) {
			continue // the kernel's own
		}
		n, tpid, touched := uint32(len(m.came)), binary.BigEndian.Uint16(f[12:]), false
		switch tpid {
		case 0x88b6:
			tpid = 0
		case sentTPID(n):
			tci := f[14:16]
			touched = binary.BigEndian.Uint16(tci) != sentTCI
			binary.BigEndian.PutUint16(tci, sentTCI)
		}
		if !bytes.Equal(f, m.frame(n, tpid)) {
			m.t.Errorf("frame %d, sent with TPID 0x%04x, did not come as it was sent: %x", n, sentTPID(n), f[:22])
			return
		}
		m.came, m.touched = append(m.came, tpid), append(m.touched, touched)
	}
}

// now is a frame that is sent after all that has been done.
func (m *mixture) now() uint32 { return m.sent.Load() + 1 }

// pass waits until some more frames have been sent.
func (m *mixture) pass() {
	m.t.Helper()
	if until := m.sent.Load() + 60; !within(patience, func() bool { return m.sent.Load() >= until }) {
		m.t.Fatal("no frames are sent any more")
	}
}

// end stops the traffic and wants every frame to have come.
func (m *mixture) end() {
	m.t.Helper()
	close(m.stop)
	// What is on its way takes a moment, the last one too.
	if err := m.to.SetReadDeadline(time.Now().Add(patience)); err != nil {
		m.t.Error(err)
	}
	m.ended.Wait()
	if got, sent := uint32(len(m.came)), m.sent.Load(); got != sent || sent == 0 {
		m.t.Errorf("%d of %d frames came, in order and with nothing altered but their tags", got, sent)
	}
	if err := errors.Join(m.from.Close(), m.to.Close()); err != nil {
		m.t.Error(err)
	}
}

// want wants the tags of a TPID to have come, or not, among the frames from one
// to another.
func (m *mixture) want(when string, tpid uint16, tagged, touched bool, from, to uint32) {
	m.t.Helper()
	count := 0
	for n := from; n < min(to, uint32(len(m.came))); n++ {
		if sentTPID(n) != tpid {
			continue
		}
		count++
		if is := m.came[n] == tpid; is != tagged || is && m.touched[n] != touched {
			m.t.Errorf("%s: frame %d (of %d to %d), sent with TPID 0x%04x, came with 0x%04x, written on the way: %v; want a tag: %v, written: %v", when, n, from, to, tpid, m.came[n], m.touched[n], tagged, touched)
			return
		}
	}
	if count < 5 {
		m.t.Errorf("%s: only %d frames from %d to %d", when, count, from, to)
	}
}

// A row migrates from one TPID to another while hosts send both, one of its
// switches through its daemon: its receivers get tags of the old profile, then
// none, then those of the new one; never an old one again, and never one over a
// path that is half changed. Rolling back is the same the other way round, and
// leaves what was there.
func TestLongNewTPID(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	r := newMixedRow(t, byDaemon, byRow, byRow)
	r.daemons()[0].await("that it waits", waits)
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("first"))
	r.want(0, "apply", r.path("first"), "--soak", "0s")
	before := r.rulesets()
	m := r.mixture()
	m.pass()
	start := m.now()
	m.pass()

	r.edit("tpid: 0x9900", "tpid: 0x9aaa")
	fenced := m.now()
	if out := strings.Join(strings.Fields(r.want(1, "plan", "-i", r.fleet)), " "); !strings.Contains(out, "the TPID changes from 0x9900, found on s1 … s3, to 0x9aaa") || !strings.Contains(out, "add retired_tpids: [0x9900] to the profile") {
		t.Errorf("a TPID that no switch strips any more:\n%s", out)
	}
	r.edit("tpid: 0x9aaa", "tpid: 0x9aaa\n  retired_tpids: [0x9900]")
	out := r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	for _, want := range []string{"stripped, too: 0x9900", "profile", "1. fence", "2. ready", "3. open"} {
		if !strings.Contains(out, want) {
			t.Errorf("the plan lacks %q:\n%s", want, out)
		}
	}

	// Three parts, so that what comes in between is visible.
	fence, ready := lastWaves(t, r.path("plan"))
	if _, code := r.csig("apply", r.path("plan"), "--soak", "0s", "--stop-after", fence); code != 3 {
		t.Fatalf("exit code %d, want 3 for a pause", code)
	}
	closed := m.now()
	m.pass()
	if _, code := r.csig("apply", "--resume", r.path("plan.journal"), "--soak", "0s", "--stop-after", ready); code != 3 {
		t.Fatalf("exit code %d, want 3 for a pause", code)
	}
	m.pass()
	opening := m.sent.Load()
	r.want(0, "apply", "--resume", r.path("plan.journal"), "--soak", "0s")
	open := m.now()
	m.pass()
	r.want(0, "plan", "-i", r.fleet)
	after := r.rulesets()
	if !strings.Contains(after, "others=0x9900") || strings.Contains(before, "others=") {
		t.Errorf("the retired TPID is not where it belongs:\n%s", after)
	}

	// Once no host sends it, it is removed from the file, and nothing else changes.
	restore := r.edit("  retired_tpids: [0x9900]\n", "")
	removing := m.sent.Load()
	if out := r.want(2, "plan", "-i", r.fleet, "-o", r.path("remove")); !strings.Contains(out, "no longer stripped: 0x9900") || strings.Contains(out, "fence") {
		t.Errorf("the plan to strip the old TPID no longer:\n%s", out)
	}
	r.want(0, "apply", r.path("remove"), "--soak", "0s")
	removed := m.now()
	m.pass()
	r.want(0, "rollback", r.path("remove.journal"))
	restore()
	again := m.now()
	m.pass()
	if got := r.rulesets(); got != after {
		t.Errorf("after the rollback of that:\n%s\nwant\n%s", got, after)
	}

	back := m.sent.Load()
	r.want(0, "rollback", r.path("plan.journal"))
	undone := m.now()
	m.pass()
	if got := r.rulesets(); got != before {
		t.Errorf("after the rollback:\n%s\nwant\n%s", got, before)
	}
	m.end()
	if t.Failed() {
		return
	}

	m.want("before", oldTPID, true, true, start, fenced)
	m.want("before", newTPID, true, false, start, fenced) // no switch has it yet
	for _, tpid := range []uint16{oldTPID, newTPID} {
		m.want("behind the fence", tpid, false, false, closed, opening)
	}
	m.want("from the fence on", oldTPID, false, false, closed, removing)
	m.want("in the end", newTPID, true, true, open, back)
	m.want("removed", oldTPID, true, false, removed, removed+50)
	m.want("stripped again", oldTPID, false, false, again, back)
	m.want("undone", oldTPID, true, true, undone, m.sent.Load())
	m.want("undone", newTPID, true, false, undone, m.sent.Load())

	// While paths open and are undone, too, all switches do the same with a tag.
	for n := fenced; n < uint32(len(m.came)); n++ {
		switch tpid, in := m.came[n], func(a, b uint32) bool { return a <= n && n < b }; {
		case tpid == oldTPID && m.touched[n] && in(closed, back), tpid == newTPID && m.touched[n] && (n < opening || n >= undone):
			t.Errorf("frame %d came with a written tag of 0x%04x at the wrong time", n, tpid)
		case tpid == newTPID && !m.touched[n] && in(closed, back):
			t.Errorf("frame %d came with a tag of 0x%04x that no switch wrote", n, tpid)
		}
	}
	// The two never came at the same time while the plan was undone.
	first, last := uint32(len(m.came)), uint32(0)
	for n := back; n < uint32(len(m.came)); n++ {
		if m.touched[n] && m.came[n] == oldTPID {
			first = min(first, n)
		}
		if m.touched[n] && m.came[n] == newTPID {
			last = n
		}
	}
	if first <= last {
		t.Errorf("old tags came from frame %d on, new ones until frame %d", first, last)
	}
}

// lastWaves are the last waves of a plan's stages fence and ready.
func lastWaves(t *testing.T, plan string) (fence, ready string) {
	t.Helper()
	text := readFile(t, plan)
	var p struct {
		Stages []struct {
			Name  string
			Waves []struct{ Name string }
		}
	}
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	last := map[string]string{}
	for _, s := range p.Stages {
		last[s.Name] = s.Name + "/" + s.Waves[len(s.Waves)-1].Name
	}
	return last["fence"], last["ready"]
}
