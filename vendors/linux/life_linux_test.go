package linux

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

func TestSelfTest(t *testing.T) {
	t.Parallel()
	d := openDriver(t, newNetNS(t))
	for range 5 {
		start := time.Now()
		v, err := d.SelfTest(context.Background())
		t.Log(time.Since(start))
		if err == nil && v.Level == vlanrules.Full {
			return
		}
		if t.Logf("%s %s, %v", v.Level, v.Reason, err); !strings.Contains(v.Reason, "too busy") {
			break
		}
	}
	t.Error("the self-test does not pass")
}

func TestProbe(t *testing.T) {
	t.Parallel()
	n := newNetNS(t)
	d := openDriver(t, n)
	before := n.run("nft", "list", "ruleset")
	f, err := d.Probe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if f.Update.Level != vlanrules.Full || f.Lease.Level != vlanrules.Full || f.Wide.Level != vlanrules.Refused || len(f.TagDepths) != 5 {
		t.Errorf("%+v", f)
	}
	if release := strings.TrimSpace(n.run("uname", "-r")); f.Identity != (vendors.Identity{Version: release}) {
		t.Errorf("it is %+v, with Linux %s", f.Identity, release)
	}
	if root := realRoot(t); root != (f.Strip.Level == vlanrules.Full) {
		t.Errorf("strip: %+v as root %v", f.Strip, root)
	}
	if after := n.run("nft", "list", "ruleset"); after != before {
		t.Errorf("the probe changed something:\n%s", after)
	}
}

// value sends one tagged frame through the port and returns its data.
func (w *wire) value(data uint16) uint16 {
	w.t.Helper()
	w.port.send(frame(0, tag{testTPID, data}))
	return binary.BigEndian.Uint16(w.far.receive()[14:])
}

const (
	initial = 31<<7 | 126
	stale   = 125 // S=0 with the stale locator
)

func one(s uint8, lm uint16) vendors.PortUpdate {
	return vendors.PortUpdate{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MinABW, s, lm)}}
}

// leaseEnds waits until a value gives way, which it does neither before the lease
// that began some time after a moment nor long after it. What counts is when a
// frame was sent and when it had arrived: in between the machine may have stalled.
func (w *wire) leaseEnds(lease time.Duration, began time.Time, value uint16) {
	w.t.Helper()
	latest := time.Now().Add(lease + 100*time.Millisecond)
	for {
		sent := time.Now()
		if w.value(initial) != value {
			break
		}
		if sent.After(latest) {
			w.t.Fatalf("a lease of %v holds %v after it was given", lease, sent.Sub(began))
		}
	}
	if took := time.Since(began); took < lease*8/10 {
		w.t.Errorf("a lease of %v ended after %v", lease, took)
	}
}

func TestLease(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	d := openDriver(t, w.netns)
	apply(t, d, setupFor(updatePort))
	if got := w.value(initial); got != stale {
		t.Errorf("before the first update: 0x%04x, want the stale value 0x%04x", got, stale)
	}
	const lease = 150 * time.Millisecond
	var renewed time.Time
	for range 20 { // renewed for twice its length: no frame falls back
		for try := 0; ; try++ { // an update that was held up for longer than the lease is refused
			renewed = time.Now()
			_, err := d.Update(t.Context(), []vendors.PortUpdate{one(9, 4)}, lease)
			if err == nil {
				break
			}
			if time.Since(renewed) < lease || try == 100 {
				t.Fatal(err)
			}
		}
		for end := time.Now().Add(lease / 10); time.Now().Before(end); {
			// A machine that stalls lets a lease run out.
			if got := w.value(initial); got != 9<<7|4 && (got != stale || time.Since(renewed) < lease*8/10) {
				t.Fatalf("under a lease: 0x%04x", got)
			}
		}
	}
	w.leaseEnds(lease, renewed, 9<<7|4)
	if got := w.value(initial); got != stale {
		t.Errorf("after the lease: 0x%04x, want 0x%04x", got, stale)
	}
	update(t, d, time.Minute, one(9, 4)) // the expired elements are no obstacle
	if got := w.value(initial); got != 9<<7|4 {
		t.Errorf("after a new lease: 0x%04x", got)
	}
	if err := d.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := w.value(initial); got != stale {
		t.Errorf("after the release: 0x%04x", got)
	}
}

// TestFlips changes a bucket under a flood: every frame leaves with the old or
// the new value.
func TestFlips(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	d := openDriver(t, w.netns)
	apply(t, d, setupFor(updatePort))
	update(t, d, time.Minute, one(3, 1))
	stop := make(chan struct{})
	sent := make(chan int)
	go func() {
		n := 0
		for f := frame(0, tag{testTPID, initial}); ; n++ {
			select {
			case <-stop:
				sent <- n
				return
			default:
			}
			if _, err := unix.Write(w.port.fd, f); err != nil {
				n--
			}
		}
	}()
	seen := map[uint16]int{}
	received := make(chan error)
	go func() {
		for {
			f, err := w.far.tryReceive()
			if f == nil {
				received <- err
				return
			}
			seen[binary.BigEndian.Uint16(f[14:])]++
		}
	}()
	const flips = 3000
	for i := range flips {
		if i%2 == 0 {
			update(t, d, time.Minute, one(20, 2))
		} else {
			update(t, d, time.Minute, one(3, 1))
		}
	}
	close(stop)
	n := <-sent
	if err := <-received; err != nil {
		t.Fatal(err)
	}
	t.Logf("%d frames sent, %d flips, received %v", n, flips, seen)
	if len(seen) != 2 || seen[3<<7|1] == 0 || seen[20<<7|2] == 0 {
		t.Errorf("values %v, want only the two", seen)
	}
}

// TestTakeOver restarts the agent: a second driver finds the setup and the
// signal, and the first update with the same intents changes nothing.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	s := setupFor(updatePort)
	first := openDriver(t, w.netns)
	apply(t, first, s)
	update(t, first, time.Minute, one(9, 4))

	second := openDriver(t, w.netns)
	have, err := second.Observe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if changes, err := second.Diff(have, s); err != nil || len(changes) != 0 {
		t.Errorf("observed %+v: %v, %v", have, changes, err)
	}
	for _, apply := range []bool{false, true} {
		d := openDriver(t, w.netns)
		if apply {
			before := generation(t, d)
			if err := d.Apply(context.Background(), s); err != nil {
				t.Fatal(err)
			}
			if after := generation(t, d); after != before {
				t.Errorf("Apply of the same setup made %d transactions", after-before)
			}
		}
		if got := w.value(initial); got != 9<<7|4 {
			t.Errorf("0x%04x before the new agent's first update", got)
		}
		if res := update(t, d, time.Minute, one(9, 4)); !reflect.DeepEqual(res, vendors.UpdateResult{Leased: true, ReadBack: vendors.ReadBackAfter}) {
			t.Errorf("the first update changed %+v", res)
		}
		if res := update(t, d, time.Minute, one(8, 4)); res.Ports != 1 || res.Ops != 4 || res.Repaired != nil {
			t.Errorf("%+v, want one port, two elements deleted and two added", res)
		}
		if got := w.value(initial); got != 8<<7|4 {
			t.Errorf("0x%04x", got)
		}
		update(t, d, time.Minute, one(9, 4))
	}
}

// TestLostAnswer breaks the connection to nftables: that cycle is an error, the
// next one knows again what the kernel has.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	d := openDriver(t, w.netns)
	apply(t, d, setupFor(updatePort))
	update(t, d, time.Minute, one(9, 4))
	if err := d.sock.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Update(context.Background(), []vendors.PortUpdate{one(8, 4)}, time.Minute); err == nil {
		t.Fatal("an update over a closed socket succeeds")
	}
	if res := update(t, d, time.Minute, one(8, 4)); res.Ports != 1 || res.Repaired != nil {
		t.Errorf("%+v", res)
	}
	if got := w.value(initial); got != 8<<7|4 {
		t.Errorf("0x%04x", got)
	}
}

// TestApplyKeepsTheSignal changes what all ports share: the lease and what the
// map says stay, so that no frame falls back in between.
func TestApplyKeepsTheSignal(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	d := openDriver(t, w.netns)
	s := setupFor(updatePort)
	apply(t, d, s)
	update(t, d, time.Minute, one(9, 4))
	s.Signals = append(s.Signals, quantize.MaxPD)
	apply(t, d, s)
	if got := w.value(initial); got != 9<<7|4 {
		t.Errorf("0x%04x after Apply", got)
	}
	s.Layout = quantize.UEC // the old elements mean something else now
	apply(t, d, s)
	if got, want := w.value(31<<7|62<<1), quantize.UEC.VID(0, quantize.UEC.LMStale()); got != want {
		t.Errorf("0x%04x after a change of layout, want the stale value 0x%04x", got, want)
	}
}

func generation(t *testing.T, d *Driver) uint32 {
	t.Helper()
	g, err := d.sock.generation()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestForeignTable(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, script, why string }{
		{"theirs", `table netdev csig { chain mine { }; }`, "did not make"},
		{"another version", `table netdev csig { comment "csig v2"; }`, "another version"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newNetNS(t)
			n.ip("link add swp1 type veth peer name far0")
			n.nft(tc.script)
			before := n.run("nft", "-j", "list", "ruleset")
			d := openDriver(t, n)
			_, err := d.Observe(context.Background())
			permanent(t, err, "", tc.why)
			permanent(t, d.Apply(context.Background(), setupFor(updatePort)), "", tc.why)
			if err := d.Remove(context.Background()); err != nil {
				t.Error(err)
			}
			if after := n.run("nft", "-j", "list", "ruleset"); after != before {
				t.Errorf("it touched another's table:\n%s\n%s", before, after)
			}
		})
	}
}

// nft runs a script.
func (n *netns) nft(script string) {
	n.t.Helper()
	n.run("nft", script)
}

// TestNeighbours checks that what others have in nftables stays as it is.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.nft(`
		table netdev other { chain c { type filter hook egress device "swp1" priority -10; ether type 0x1234 counter drop; }; }
		table inet filter { set s { type ipv4_addr; elements = { 192.0.2.1 }; }; chain input { type filter hook input priority 0; ip saddr @s drop; }; }`)
	theirs := func() string {
		return w.run("nft", "list", "table", "netdev", "other") + w.run("nft", "list", "table", "inet", "filter")
	}
	before := theirs()
	d := openDriver(t, w.netns)
	apply(t, d, setupFor(updatePort))
	update(t, d, time.Minute, one(9, 4))
	for i := range 5 {
		// Their changes raise the generation: our update has to notice, and
		// to find that nothing of ours is touched.
		w.nft("add element inet filter s { 192.0.2.7 }")
		w.nft("delete element inet filter s { 192.0.2.7 }")
		if res := update(t, d, time.Minute, one(uint8(10+i), 4)); res.Repaired != nil || res.Ports != 1 {
			t.Errorf("%+v", res)
		}
	}
	if got := w.value(initial); got != 14<<7|4 {
		t.Errorf("0x%04x", got)
	}
	if err := d.Remove(context.Background()); err != nil {
		t.Fatal(err)
	}
	if after := w.run("nft", "list", "ruleset"); strings.Contains(after, "csig") {
		t.Errorf("something of ours is left:\n%s", after)
	}
	if after := theirs(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if err := d.Remove(context.Background()); err != nil {
		t.Errorf("a second Remove: %v", err)
	}
	if got := w.value(initial); got != initial {
		t.Errorf("0x%04x after Remove", got)
	}
}

// TestDamage breaks our table in many ways: Observe says so, Update repairs it
// and says so.
func TestDamage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, script string
		port         bool // the damage is the port's
	}{
		{"a rule deleted", "flush chain netdev csig p_swp1", true},
		{"a rule added", "insert rule netdev csig p_swp1 accept", true},
		{"as many rules, but others", "flush chain netdev csig stale" + strings.Repeat("; add rule netdev csig stale accept", 9), false},
		{"the stale chain flushed", "flush chain netdev csig stale", false},
		{"a stale element deleted", "delete element netdev csig stale { 0x80-0xfff }", false},
		{"a lease key added", "add element netdev csig lease { 0x9100 }", false},
		{"the live map flushed", "flush map netdev csig p_swp1", false},
		{"a chain added", "add chain netdev csig mine", false},
		{"a set added", `add set netdev csig mine { type ipv4_addr; }`, false},
		{"the port's chain deleted", "flush chain netdev csig p_swp1; delete chain netdev csig p_swp1", true},
		{"the table flushed", "flush table netdev csig", false},
		{"the table deleted", "delete table netdev csig", false},
		{"everything deleted", "flush ruleset", false},
		{"the chain moved to another device", `flush chain netdev csig p_swp1; delete chain netdev csig p_swp1; add chain netdev csig p_swp1 { type filter hook egress device "sw0" priority 0; }`, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWire(t)
			d := openDriver(t, w.netns)
			s := setupFor(updatePort)
			apply(t, d, s)
			update(t, d, time.Minute, one(9, 4))
			good := withoutTime(w.run("nft", "list", "ruleset"))
			w.nft(tc.script)

			live := strings.Contains(tc.name, "live map")
			have, err := openDriver(t, w.netns).Observe(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			changes, err := d.Diff(have, s)
			if err != nil || len(changes) == 0 && !live {
				t.Errorf("observed %+v: %v, %v", have, changes, err)
			}
			if tc.port && (len(have.Ports) != 1 || have.Ports[0].Damaged == "") {
				t.Errorf("observed %+v, want a damaged port", have)
			}
			res := update(t, d, time.Minute, one(9, 4))
			if res.Repaired == nil {
				t.Errorf("%+v, want repairs", res)
			}
			t.Log(res.Repaired)
			if got := w.value(initial); got != 9<<7|4 {
				t.Errorf("0x%04x after the repair", got)
			}
			if now := withoutTime(w.run("nft", "list", "ruleset")); sorted(now) != sorted(good) {
				t.Errorf("before:\n%s\nafter the repair:\n%s", good, now)
			}
			if res := update(t, d, time.Minute, one(9, 4)); !reflect.DeepEqual(res, vendors.UpdateResult{Leased: true, ReadBack: vendors.ReadBackAfter}) {
				t.Errorf("not settled: %+v", res)
			}
		})
	}
}

// withoutTime removes what passes by itself from a listing.
func withoutTime(listing string) string {
	var out []string
	for _, l := range strings.Split(listing, "\n") {
		if strings.Contains(l, "expires") {
			l = "elements with a lease"
		}
		out = append(out, l)
	}
	return strings.Join(out, "\n")
}

// sorted makes the order of objects not matter.
func sorted(listing string) string {
	blocks := strings.Split(strings.TrimSuffix(strings.TrimSpace(listing), "}"), "\n\n")
	for i := range blocks {
		blocks[i] = strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(blocks[i], "table netdev csig {\n"), "\tcomment \"csig v1\"\n"))
	}
	slices.Sort(blocks)
	return strings.Join(blocks, "\n\n")
}

func TestDeviceComesAndGoes(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	d := openDriver(t, w.netns)
	w.ip("link add swp2 type veth peer name far2")
	s := setupFor(updatePort, vendors.PortSetup{Port: "swp2", Action: vlanrules.Update}, vendors.PortSetup{Port: "swp3", Action: vlanrules.Update})
	err := d.Apply(context.Background(), s)
	if err == nil || !strings.Contains(err.Error(), "swp3") || strings.Contains(err.Error(), "swp1") {
		t.Fatalf("%v, want an error about swp3 alone", err)
	}
	three := []vendors.PortUpdate{one(9, 4), one(9, 5), one(9, 6)}
	three[1].Port, three[2].Port = "swp2", "swp3"
	check := func(missing ...string) vendors.UpdateResult {
		t.Helper()
		res, err := d.Update(context.Background(), three, time.Minute)
		for _, p := range []string{"swp1", "swp2", "swp3"} {
			want := false
			for _, m := range missing {
				want = want || m == p
			}
			if got := err != nil && strings.Contains(err.Error(), "port "+p+":"); got != want {
				t.Errorf("error %v: about %s %v, want %v", err, p, got, want)
			}
		}
		if got := w.value(initial); got != 9<<7|4 {
			t.Errorf("swp1 gives 0x%04x", got)
		}
		return res
	}
	check("swp3")
	w.ip("link del swp2")
	check("swp2", "swp3")
	check("swp2", "swp3")
	w.ip(`
		link add swp2 type veth peer name far2
		link add swp3 type veth peer name far3
		link set swp3 up
		link set far3 up
		link set swp2 up
		link set far2 up`)
	check()
	for port, want := range map[string]uint16{"swp2": 9<<7 | 5, "swp3": 9<<7 | 6} {
		w.waitUp(port)
		w2 := &wire{netns: w.netns, port: w.open(port), far: w.open("far" + port[3:])}
		if got := w2.value(initial); got != want {
			t.Errorf("%s gives 0x%04x, want 0x%04x", port, got, want)
		}
	}
	w.ip("link set swp3 down\nlink set swp3 name elsewhere")
	check("swp3")
	w.ip("link set elsewhere name swp3")
	check()
}

func TestRefusedIntents(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	d := openDriver(t, w.netns)
	apply(t, d, setupFor(updatePort))
	_, err := d.Update(context.Background(), []vendors.PortUpdate{one(9, 4)}, 0)
	permanent(t, err, "", "lease")
	_, err = d.Update(context.Background(), []vendors.PortUpdate{{Port: "swp9"}}, time.Minute)
	permanent(t, err, "swp9", "not in the setup")
	update(t, d, time.Minute, one(9, 4))
	for range 2 {
		_, err = d.Update(context.Background(), []vendors.PortUpdate{one(0, 0)}, time.Minute)
		permanent(t, err, "swp1", "VID 0")
		if got := w.value(initial); got != stale {
			t.Errorf("a refused port gives 0x%04x, want 0x%04x", got, stale)
		}
	}
	_, err = d.Update(context.Background(), []vendors.PortUpdate{{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MaxPD, 4, 4)}}}, time.Minute)
	permanent(t, err, "swp1", "not a signal")
	update(t, d, time.Minute, one(9, 4))
	if got := w.value(initial); got != 9<<7|4 {
		t.Errorf("0x%04x", got)
	}
}

func TestRefusedSetups(t *testing.T) {
	t.Parallel()
	d := openDriver(t, newNetNS(t))
	for _, tc := range []struct {
		name string
		edit func(*vendors.Setup)
		why  string
	}{
		{"on_stale strip", func(s *vendors.Setup) { s.OnStale = inventory.StaleStrip }, "strip is not possible"},
		{"no policy", func(s *vendors.Setup) { s.OnStale = "" }, "want conservative"},
		{"no signal", func(s *vendors.Setup) { s.Signals = nil }, "no signal"},
		{"an ordinary ethertype", func(s *vendors.Setup) { s.TPID = 0x0800 }, "IPv4"},
		{"a port twice", func(s *vendors.Setup) { s.Ports = append(s.Ports, s.Ports[0]) }, "twice"},
		{"a long name", func(s *vendors.Setup) { s.Ports[0].Port = "0123456789abcdef" }, "no name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := setupFor(updatePort)
			tc.edit(&s)
			err := d.Apply(context.Background(), s)
			var p *vendors.PermanentError
			if !errors.As(err, &p) || !strings.Contains(err.Error(), tc.why) {
				t.Errorf("%v, want a permanent error that says %q", err, tc.why)
			}
			if _, err := d.Diff(vendors.Setup{}, s); err == nil {
				t.Error("Diff accepts it")
			}
		})
	}
	if _, err := d.Update(context.Background(), nil, time.Minute); err == nil || !strings.Contains(err.Error(), "Apply first") {
		t.Errorf("update without a setup: %v", err)
	}
}

func TestOtherProgramsStay(t *testing.T) {
	t.Parallel()
	if !realRoot(t) {
		return // there are no programs without BPF: TestStrip checks the refusal
	}
	w := newWire(t)
	other := attachOther(t, w.netns, "swp1")
	d := openDriver(t, w.netns)
	s := setupFor(vendors.PortSetup{Port: "swp1", Action: vlanrules.Strip})
	apply(t, d, s)
	apply(t, d, s)
	s.TPID = 0x9aa0 // another program of ours takes the place
	apply(t, d, s)
	in := frame(1, tag{0x9aa0, initial})
	w.port.send(in)
	if got := w.far.receive(); !bytes.Equal(got, frame(1)) {
		t.Errorf("got %x", got)
	}
	if got := programs(t, w.netns, "swp1"); len(got) != 2 || got[0] != other || got[1] != stripName {
		t.Errorf("programs on tcx egress: %v", got)
	}
	s.Ports[0].Action = vlanrules.Update
	apply(t, d, s)
	if got := programs(t, w.netns, "swp1"); len(got) != 1 || got[0] != other {
		t.Errorf("programs on tcx egress: %v", got)
	}
	s.Ports[0].Action = vlanrules.Strip
	apply(t, d, s)
	if err := d.Remove(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := programs(t, w.netns, "swp1"); len(got) != 1 || got[0] != other {
		t.Errorf("programs on tcx egress: %v", got)
	}
}
