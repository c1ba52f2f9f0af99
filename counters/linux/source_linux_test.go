package linux

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/quantize"
)

// noIPv6 keeps the kernel from sending frames of its own.
func noIPv6(t testing.TB, names ...string) {
	t.Helper()
	for _, n := range names {
		must(t, netlink.LinkSetIP6AddrGenMode(byName(t, n), 1))
	}
}

// quietVeth makes a pair on which only the test sends.
func quietVeth(t testing.TB, name, peer string) {
	t.Helper()
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: peer}))
	noIPv6(t, name, peer)
	must(t, netlink.LinkSetARPOff(byName(t, name)))
	must(t, netlink.LinkSetARPOff(byName(t, peer)))
	up(t, name)
	up(t, peer)
}

// quietBridge makes a bridge that sends nothing by itself: one that snoops joins a
// multicast group some time after it comes up, with a frame that its ports count.
func quietBridge(t testing.TB, name string) {
	t.Helper()
	snooping := false
	must(t, netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}, MulticastSnooping: &snooping}))
}

func TestExactFrames(t *testing.T) {
	tests := []struct {
		name   string
		shaped bool
	}{{"interface counter", false}, {"tbf counter", true}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			enter(t)
			quietVeth(t, "swp1", "far1")
			quietVeth(t, "swp2", "far2")
			if tt.shaped {
				tbf(t, "swp1", 1_000_000_000)
			}
			s := source(t, "swp2", "swp1") // the order is ours, not the kernel's
			before := ready(t, s)
			out := open(t, "swp1")
			var octets, packets uint64
			for n := 60; n <= 1514; n += 7 {
				out.send(t, frame(n))
				octets += uint64(n)
				packets++
			}
			var after []counters.Sample
			for deadline := time.Now().Add(time.Minute); ; {
				after = read(t, s)
				if after[1].Packets-before[1].Packets >= packets || time.Now().After(deadline) {
					break
				}
			}
			if after[0].Port != "swp2" || after[1].Port != "swp1" {
				t.Fatalf("order: %s, %s", after[0].Port, after[1].Port)
			}
			if d := after[0].Octets - before[0].Octets; d != 0 {
				t.Errorf("the idle port sent %d octets", d)
			}
			if o, p := after[1].Octets-before[1].Octets, after[1].Packets-before[1].Packets; o != octets || p != packets {
				t.Errorf("%d octets in %d packets, want %d in %d", o, p, octets, packets)
			}
			for i, a := range after {
				speed := uint64(0) // a veth's is made up
				if tt.shaped && a.Port == "swp1" {
					speed = 1_000_000_000
				}
				if a.Err != nil || !a.Up || a.Bits != 64 || a.Overhead != 24 || a.Speed != speed ||
					a.Epoch == 0 || a.Epoch != before[i].Epoch || !a.At.After(before[i].At) {
					t.Errorf("sample %+v after %+v", a, before[i])
				}
			}
			if got := after[1].Degraded; (got == "") != tt.shaped {
				t.Errorf("degraded %q", got)
			}
		})
	}
}

// A super-frame is many frames on the wire, and every counter either says so
// or says that it does not.
func TestSuperFrames(t *testing.T) {
	const segments, size, headers = 20, 1000, 14 + 20 + 8
	const sent = segments*size + headers
	const wire = segments * (size + headers)
	tests := []struct {
		name    string
		prepare func(t *testing.T)
		octets  uint64
		packets uint64
		exact   bool
		counter string
	}{
		{"offloads on", func(*testing.T) {}, sent, 1, false, "interface"},
		{"shaped", func(t *testing.T) { tbf(t, "swp1", 1_000_000_000) }, wire, segments, true, "qdisc tbf"},
		{"the remedy that the sample names", func(t *testing.T) { runRemedy(t, one(t, source(t, "swp1")).Degraded) }, wire, segments, true, "interface"},
		{"shaped, offloads off", func(t *testing.T) {
			tbf(t, "swp1", 1_000_000_000)
			runRemedy(t, "`ethtool -K swp1 tso off tx-udp-segmentation off tx-sctp-segmentation off`")
		}, wire, segments, true, "interface"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			enter(t)
			quietVeth(t, "swp1", "far1")
			tt.prepare(t)
			s := source(t, "swp1")
			before := ready(t, s)[0]
			sendSuperFrame(t, "swp1", segments, size)
			after := until(t, s, "the super-frame", func(a counters.Sample) bool { return a.Packets-before.Packets >= tt.packets })
			if o, p := after.Octets-before.Octets, after.Packets-before.Packets; o != tt.octets || p != tt.packets {
				t.Errorf("%d octets in %d packets, want %d in %d", o, p, tt.octets, tt.packets)
			}
			if (after.Degraded == "") != tt.exact {
				t.Errorf("degraded: %q", after.Degraded)
			}
			if got := s.Facts()[0].Counter; got != tt.counter {
				t.Errorf("read from %q, want %q", got, tt.counter)
			}
		})
	}
}

// runRemedy runs the command between the backquotes of a reason.
func runRemedy(t *testing.T, reason string) {
	t.Helper()
	parts := strings.Split(reason, "`")
	if len(parts) != 3 {
		t.Fatalf("no command in %q", reason)
	}
	args := strings.Fields(strings.ReplaceAll(parts[1], "PORT", "swp1"))
	if _, err := exec.LookPath(args[0]); err != nil {
		t.Fatalf("this test runs ethtool: apt-get install ethtool: %v", err)
	}
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", parts[1], err, out)
	}
}

// A tag beside the frame is 4 bytes that only the named remedy makes visible.
func TestTaggedFrames(t *testing.T) {
	enter(t)
	quietVeth(t, "swp1", "far1")
	s := sourceOf(t, Config{Ports: []Port{{Name: "swp1", Speed: 1e9, Tagged: true}}})
	first := one(t, s)
	if !strings.Contains(first.Degraded, "VLAN tag") {
		t.Fatalf("degraded: %q", first.Degraded)
	}
	reasons := strings.Split(first.Degraded, "; ")
	for _, r := range reasons {
		runRemedy(t, r)
	}
	before := until(t, s, "an exact reading", func(a counters.Sample) bool { return a.Degraded == "" })

	// A tag in the bytes handed to a packet socket stays in the frame; one that
	// crossed a bridge travels beside it. Only the counter is of interest here.
	tagged := frame(104)
	copy(tagged[12:], []byte{0x81, 0x00, 0, 5, 0x88, 0xb5})
	quietBridge(t, "br0")
	quietVeth(t, "swp2", "far2")
	for _, n := range []string{"swp1", "swp2"} {
		must(t, netlink.LinkSetMaster(byName(t, n), byName(t, "br0")))
	}
	noIPv6(t, "br0")
	up(t, "br0")
	out := open(t, "far2")
	// The bridge learns that both ports may forward in its own time.
	after := until(t, s, "a forwarded frame", func(a counters.Sample) bool {
		out.send(t, tagged)
		return a.Packets > before.Packets
	})
	if o, p := after.Octets-before.Octets, after.Packets-before.Packets; o != 104*p {
		t.Errorf("%d octets in %d packets, want 104 each", o, p)
	}
	if after.Epoch != before.Epoch {
		t.Error("joining a bridge started a new epoch")
	}
}

func TestRecreated(t *testing.T) {
	enter(t)
	quietVeth(t, "swp1", "far1")
	s := source(t, "swp1")
	first := one(t, s)
	index := s.Facts()[0].Index

	remove(t, "swp1")
	gone := one(t, s)
	if !errors.Is(gone.Err, ErrNoInterface) || gone.Port != "swp1" || gone.At.IsZero() {
		t.Fatalf("deleted: %+v", gone)
	}
	// With the same number, so that only the notification shows it.
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "swp1", Index: index}, PeerName: "far1"}))
	noIPv6(t, "swp1", "far1")
	up(t, "swp1")
	up(t, "far1")
	back := until(t, s, "the link", func(a counters.Sample) bool { return a.Up })
	if back.Err != nil || back.Epoch == first.Epoch {
		t.Fatalf("recreated: %+v, before %+v", back, first)
	}

	// Deleted and recreated between two readings.
	remove(t, "swp1")
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "swp1", Index: index}, PeerName: "far1"}))
	again := one(t, s)
	if again.Err != nil || again.Epoch == back.Epoch || again.Up {
		t.Fatalf("recreated at once: %+v, before %+v", again, back)
	}
}

func TestRenamed(t *testing.T) {
	enter(t)
	quietVeth(t, "swp1", "far1")
	quietVeth(t, "swp2", "far2")
	s := source(t, "swp1", "swp3")
	first := read(t, s)
	if first[0].Err != nil || !errors.Is(first[1].Err, ErrNoInterface) {
		t.Fatalf("%+v", first)
	}
	must(t, netlink.LinkSetName(byName(t, "swp1"), "swp3"))
	got := read(t, s)
	if !errors.Is(got[0].Err, ErrNoInterface) || got[1].Err != nil {
		t.Fatalf("after swp1 became swp3: %+v", got)
	}
	must(t, netlink.LinkSetName(byName(t, "swp2"), "swp1"))
	got = read(t, s)
	if got[0].Err != nil || got[1].Err != nil || got[0].Epoch == first[0].Epoch {
		t.Fatalf("after swp2 became swp1: %+v", got)
	}
}

func TestLinkState(t *testing.T) {
	enter(t)
	quietVeth(t, "swp1", "far1")
	s := source(t, "swp1")
	epoch := until(t, s, "the link to come up", func(a counters.Sample) bool { return a.Up }).Epoch
	isDown := func(a counters.Sample) bool { return !a.Up }
	down(t, "far1")
	until(t, s, "the carrier to go", isDown)
	up(t, "far1")
	until(t, s, "the carrier to come", func(a counters.Sample) bool { return a.Up })
	down(t, "swp1")
	if got := one(t, s); got.Up || got.Err != nil {
		t.Fatalf("taken down: %+v", got)
	}
	up(t, "swp1")
	if got := until(t, s, "the link to come back", func(a counters.Sample) bool { return a.Up }); got.Epoch != epoch {
		t.Errorf("epoch went from %d to %d: counters did not restart", epoch, got.Epoch)
	}
}

func TestQdiscReplaced(t *testing.T) {
	enter(t)
	quietVeth(t, "swp1", "far1")
	s := sourceOf(t, Config{Ports: []Port{{Name: "swp1"}}})
	bare := one(t, s)
	if bare.Speed != 0 || bare.Degraded == "" {
		t.Fatalf("veth without a shaper: %+v", bare)
	}
	q := tbf(t, "swp1", 100_000_000)
	shaped := one(t, s)
	if shaped.Epoch == bare.Epoch || shaped.Speed != 100_000_000 {
		t.Fatalf("shaped: %+v", shaped)
	}
	if !strings.Contains(shaped.Degraded, "rate of its tbf") {
		t.Errorf("capacity without overhead passes as exact: %q", shaped.Degraded)
	}
	q.Rate = 200_000_000 / 8
	must(t, netlink.QdiscChange(q))
	faster := one(t, s)
	if faster.Epoch != shaped.Epoch || faster.Speed != 200_000_000 {
		t.Fatalf("changed in place: %+v", faster)
	}
	out := open(t, "swp1")
	out.send(t, frame(100))
	counted := until(t, s, "the frame", func(a counters.Sample) bool { return a.Octets >= 100 })

	// A new one under the old handle starts at 0.
	must(t, netlink.QdiscDel(q))
	tbf(t, "swp1", 200_000_000)
	renewed := one(t, s)
	if renewed.Epoch == counted.Epoch || renewed.Octets != 0 {
		t.Fatalf("replaced: %+v, before %+v", renewed, counted)
	}
	must(t, netlink.QdiscDel(q))
	if got := one(t, s); got.Epoch == renewed.Epoch || s.Facts()[0].Counter != "interface" || got.Speed != 0 {
		t.Fatalf("removed: %+v", got)
	}
}

// A shaper's rate below the configured speed is the capacity, and a veth's made-up 10 Gbit/s never.
func TestShapedBelowConfiguredSpeed(t *testing.T) {
	enter(t)
	quietVeth(t, "swp1", "far1")
	ports := []Port{{Name: "swp1", Speed: 25_000_000_000}}
	table, err := quantize.Preset(quantize.MinABW, "log-100G")
	must(t, err)
	pipe, err := counters.NewPipeline(counters.PipelineConfig{Ports: []counters.PipelinePort{{Name: "swp1", Speed: ports[0].Speed}}, Tables: []*quantize.Buckets{&table}})
	must(t, err)
	s := sourceOf(t, Config{Ports: ports})
	state := func(what string, capacity, slow uint64, from string) {
		t.Helper()
		list := read(t, s)
		pipe.Observe(list)
		if got := pipe.Take(0, &list[0]); got.Now.Capacity != capacity || got.Slow != slow || s.Facts()[0].Speed != capacity || s.Facts()[0].SpeedFrom != from {
			t.Errorf("%s: capacity %d, slow %d, facts %+v; want %d, %d from %s", what, got.Now.Capacity, got.Slow, s.Facts()[0], capacity, slow, from)
		}
	}
	state("a veth", 25_000_000_000, 0, "configuration")
	q := tbf(t, "swp1", 100_000_000)
	state("shaped", 100_000_000, 100_000_000, "tbf rate")
	must(t, netlink.QdiscDel(q))
	state("shaped no longer", 25_000_000_000, 0, "configuration")
}

// A qdisc that is not read from does not disturb the readings.
func TestUnusedQdiscKeepsTheEpoch(t *testing.T) {
	enter(t)
	quietVeth(t, "swp1", "far1")
	runRemedy(t, one(t, source(t, "swp1")).Degraded)
	s := source(t, "swp1")
	first := one(t, s)
	q := tbf(t, "swp1", 100_000_000)
	second := one(t, s)
	must(t, netlink.QdiscDel(q))
	third := one(t, s)
	if first.Epoch != second.Epoch || second.Epoch != third.Epoch || s.Facts()[0].Counter != "interface" {
		t.Errorf("epochs %d, %d, %d", first.Epoch, second.Epoch, third.Epoch)
	}
}

// Lost notifications are made up for.
func TestNotificationsOverflow(t *testing.T) {
	tests := []struct {
		name       string
		change     func(t *testing.T)
		swp1, swp2 bool // exist afterwards
	}{
		{"of an interface that is gone", func(t *testing.T) { remove(t, "swp1") }, false, false},
		{"of a new interface", func(t *testing.T) { quietVeth(t, "swp2", "far2") }, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			enter(t)
			quietVeth(t, "swp1", "far1")
			s := source(t, "swp1", "swp2")
			read(t, s)
			must(t, s.events.conn.SetReadBuffer(1))
			for range 20 {
				down(t, "swp1")
				up(t, "swp1")
			}
			tt.change(t)
			if drops(t, s.events.conn.PID()) == 0 {
				t.Fatal("the socket did not overflow: the test proves nothing")
			}
			got := read(t, s)
			if (got[0].Err == nil) != tt.swp1 || (got[1].Err == nil) != tt.swp2 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A dump that was not read to its end neither blocks the next reading nor
// passes for it.
func TestAbandonedDump(t *testing.T) {
	enter(t)
	quietVeth(t, "swp1", "far1")
	s := source(t, "swp1")
	before := ready(t, s)[0]
	must(t, s.dumps.send(s.getStats))
	open(t, "swp1").send(t, frame(100))
	if after := one(t, s); after.Octets-before.Octets != 100 || after.At.Before(before.At) {
		t.Errorf("%+v after %+v", after, before)
	}
}

// A bridge speaks of its ports in notifications of its own kind.
func TestBridgePort(t *testing.T) {
	enter(t)
	quietVeth(t, "swp1", "far1")
	quietBridge(t, "br0")
	s := source(t, "swp1")
	first := ready(t, s)[0]
	must(t, netlink.LinkSetMaster(byName(t, "swp1"), byName(t, "br0")))
	joined := one(t, s)
	must(t, netlink.LinkSetNoMaster(byName(t, "swp1")))
	left := one(t, s)
	for _, a := range []counters.Sample{joined, left} {
		if a.Err != nil || !a.Up || a.Epoch != first.Epoch {
			t.Errorf("%+v, first %+v", a, first)
		}
	}
	m, _, _ := nextMessage(netlinkMessage(unix.RTM_NEWLINK, 0, 0, u32(unix.AF_BRIDGE, uint32(s.Facts()[0].Index), 0, 0), attr(unix.IFLA_IFNAME, str("swp1")...)))
	s.takeEvent(m)
	if got := s.ports[0]; got.dev.kind != "veth" || !got.up {
		t.Errorf("taken for a link's: %+v", got)
	}
}

// A qdisc that took the place of the one that is read is not read for it.
func TestStrangeQdisc(t *testing.T) {
	enter(t)
	quietVeth(t, "swp1", "far1")
	q := tbf(t, "swp1", 100_000_000)
	s := source(t, "swp1")
	read(t, s)
	for handle, want := range map[uint32]bool{q.Handle: true, q.Handle + 1<<16: false} {
		s.ports[0].seen = false
		m, _, _ := nextMessage(netlinkMessage(unix.RTM_NEWQDISC, 0, 0, tcMessage(uint32(q.LinkIndex), handle, netlink.HANDLE_ROOT, nest(nl.TCA_STATS2, attr(nl.TCA_STATS_BASIC, u64(1, 2)...)))))
		s.takeQdiscStats(m, instant{at: time.Now()})
		if s.ports[0].seen != want {
			t.Errorf("handle %x: read is %v, want %v", handle, s.ports[0].seen, want)
		}
	}
}

// The kernel attaches a default qdisc without a notification: only the link's
// names it.
func TestDefaultQdiscIsLookedUp(t *testing.T) {
	enter(t)
	quietVeth(t, "swp1", "far1")
	s := source(t, "swp1")
	ready(t, s)
	index := uint32(byName(t, "swp1").Attrs().Index)
	for qdisc, want := range map[string]bool{"noqueue": false, "noop": false, "fq_codel": true} {
		s.qdiscsStale = false
		m, _, _ := nextMessage(netlinkMessage(unix.RTM_NEWLINK, 0, 0, u32(0, index, 0, 0), attr(unix.IFLA_IFNAME, str("swp1")...), attr(unix.IFLA_QDISC, str(qdisc)...)))
		s.takeEvent(m)
		if s.qdiscsStale != want {
			t.Errorf("a link with %s: listed again is %v, want %v", qdisc, s.qdiscsStale, want)
		}
	}
}

// drops returns how many messages a netlink socket of this namespace has lost.
func drops(t *testing.T, pid uint32) uint64 {
	t.Helper()
	b, err := os.ReadFile("/proc/thread-self/net/netlink")
	must(t, err)
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line) // sk, family, port id, groups, rmem, wmem, dump, locks, drops, inode
		if len(f) < 9 || f[1] != "0" || f[2] != strconv.FormatUint(uint64(pid), 10) {
			continue
		}
		n, err := strconv.ParseUint(f[8], 10, 64)
		must(t, err)
		return n
	}
	t.Fatalf("no netlink socket %d in:\n%s", pid, b)
	return 0
}

func TestNamespaceOfChoice(t *testing.T) {
	enter(t)
	far := aside(t)
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "here"}, PeerName: "there", PeerNamespace: netlink.NsFd(far)}))
	s := sourceOf(t, Config{Ports: []Port{{Name: "there"}, {Name: "here"}}, NetNS: int(far)})
	got := read(t, s)
	if got[0].Err != nil || got[1].Err == nil {
		t.Errorf("%+v", got)
	}
	if f := s.Facts()[0]; f.Device != "veth" || f.Degraded == "" || strings.Contains(f.Degraded, "cannot be read") {
		t.Errorf("%+v", f)
	}
}

func TestContextAndClose(t *testing.T) {
	enter(t)
	veth(t, "swp1", "far1")
	s, err := New(Config{Ports: []Port{{Name: "swp1"}}})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := s.Read(ctx, nil); !errors.Is(err, context.Canceled) || len(got) != 0 {
		t.Errorf("cancelled: %v, %v", got, err)
	}
	if got := one(t, s); got.Err != nil {
		t.Errorf("after a cancelled reading: %+v", got)
	}
	must(t, s.Close())
	if got, err := s.Read(t.Context(), nil); err == nil {
		t.Errorf("closed: %v", got)
	}
}

func TestConfig(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no ports":        {},
		"not a namespace": {Ports: []Port{{Name: "a"}}, NetNS: 1 << 20},
	} {
		if s, err := New(cfg); err == nil {
			_ = s.Close()
			t.Errorf("%s: no error", name)
		}
	}
}
