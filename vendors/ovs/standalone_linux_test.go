package ovs

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
	"github.com/csig-agent/csig/vlanrules"
)

// normal is how many frames a bridge has switched by NORMAL.
func (s *sandwich) normal(t testing.TB, bridge string) int {
	t.Helper()
	m := regexp.MustCompile(`n_packets=(\d+).*actions=NORMAL`).FindStringSubmatch(s.Ofctl("dump-flows", bridge))
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestStandalone has csig's bridge switch by NORMAL, with two pairs of patch ports
// to the bridge behind it: no frame goes round, none leaves with its tag, and what
// is said of the ports is what their frames have.
func TestStandalone(t *testing.T) {
	t.Parallel()
	b := normalBed(t)
	b.Ofctl("add-flow", "br0", "actions=NORMAL")
	for _, port := range []string{"h1", "p-swp1", "p-swp2"} {
		b.Vsctl("set", "port", port, "vlan_mode=dot1q-tunnel", "tag=1")
	}
	b.becomes(t, soon, []tag{best}, at7s)
	before := b.normal(t, "br0")
	b.Vsctl("set-fail-mode", "csig", "standalone")
	for !strings.Contains(b.Ofctl("dump-flows", "csig"), "NORMAL") {
		if t.Context().Err() != nil {
			t.Fatal("it does not switch by itself")
		}
	}
	const n = 20
	for i := range uint32(n) {
		b.in.Send(frame(i, best))
		b.out.Send(frame(i, best)) // from outside
		b.strips.Send(frame(i))
	}
	// A frame that goes round is seen again and again, and these among them.
	for start := time.Now(); b.normal(t, "csig") < 2*n; {
		if time.Since(start) > soon {
			t.Fatalf("the frames do not come:\n%s", b.Ofctl("dump-flows", "csig"))
		}
	}
	// Counters that have a later frame have all before it.
	b.in.Send(frame(n, best))
	for start := time.Now(); b.normal(t, "br0")-before <= n; {
		if time.Since(start) > soon {
			t.Fatalf("the last frame does not come:\n%s", b.Ofctl("dump-flows", "br0"))
		}
	}
	if seen := b.normal(t, "br0") - before; seen > n+1 {
		t.Fatalf("br0 has seen %d frames, want %d: they go round", seen, n+1)
	}
	for _, w := range []*ovstest.Wire{b.out, b.strips} {
		for got := w.Receive(0); got != nil; got = w.Receive(0) {
			if seqOf(got) <= n {
				t.Errorf("a frame leaves as %x", head(got))
			}
		}
	}
	if err := b.driver.look(t.Context()); err != nil { // a cycle waits 50 ms for the database
		t.Fatal(err)
	}
	b.driver.checked, b.driver.othersReadAt = time.Time{}, time.Time{}
	res, err := b.driver.Update(t.Context(), []vendors.PortUpdate{{Port: "swp1", Intents: b.intents}}, time.Minute)
	if err != nil || !res.Leased || res.Repaired == nil {
		t.Errorf("%+v, %v", res, err)
	}
	if res.Facts == nil || res.Facts.Update.Level != vlanrules.Degraded || !strings.Contains(res.Facts.Update.Reason, "ovs-vsctl set-fail-mode csig secure") {
		t.Errorf("said: %+v", res.Facts)
	}
	b.becomes(t, soon, []tag{best}, at7s)
	for {
		got := b.strips.Receive(soon)
		if got == nil {
			t.Fatal("nothing leaves the port that strips")
		}
		if tags, _ := tagsOf(got); len(tags) > 0 {
			t.Fatalf("a port that strips sends %x", head(got))
		}
		if seqOf(got) >= n { // of the last becomes
			break
		}
	}
}

// TestIsolated has ports that come while csig drives its bridge, and such as have
// a VLAN: NORMAL on that bridge joins none with another.
func TestIsolated(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	s.Vsctl("set", "port", "swp1", "tag=3", "--", "set", "port", "csig", "tag=3", "--", "set", "port", "i-swp1", "trunks=1,2")
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	alone := func(ports ...string) {
		t.Helper()
		for start := time.Now(); ; {
			seen := map[string]bool{}
			for _, p := range ports {
				if s.Vsctl("get", "port", p, "vlan_mode") == "access\n" {
					seen[s.Vsctl("get", "port", p, "tag")] = true
				}
			}
			if len(seen) == len(ports) {
				return
			}
			if time.Since(start) > soon {
				t.Fatalf("%d of %v have a VLAN of their own: %v", len(seen), ports, seen)
			}
			s.driver.checked = time.Time{} // it is time to look
			update(t, s.driver, time.Minute, at7)
		}
	}
	alone("swp1", "csig", "i-swp1")
	update(t, s.driver, time.Minute, at7)
	s.becomes(t, soon, []tag{best}, at7s)
	s.AddPatch("br0", "p-swp2", "csig", "i-swp2")
	alone("swp1", "csig", "i-swp1", "i-swp2")
	s.Vsctl("clear", "port", "swp1", "tag")
	alone("swp1", "csig", "i-swp1", "i-swp2")
	if got := s.Vsctl("get", "port", "p-swp1", "vlan_mode"); got != "dot1q-tunnel\n" {
		t.Errorf("a port of the bridge behind has %s", got)
	}

	// A bridge that joins no patch ports is not csig's own.
	s.AddBridge("plain")
	s.AddWire("plain", "p1", 1)
	apply(t, s.open(t, "plain"), setupFor(quantize.Draft00))
	if got := s.Vsctl("get", "port", "p1", "tag"); got != "[]\n" {
		t.Errorf("a port of a bridge that is not csig's own has tag %s", got)
	}
}

// TestVLANsGivenBack has another process take csig off a bridge of csig's own: its
// ports have the VLANs of before, but those that an operator has changed since, and
// all of them where the bridge would send frames round without.
func TestVLANsGivenBack(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	s.AddPatch("br0", "p-swp2", "csig", "i-swp2")
	s.AddWire("csig", "swp2", 2)
	ports := []string{"swp1", "i-swp1", "swp2", "i-swp2", "csig"}
	read := func() (vlans []string) {
		var get []string
		for _, p := range ports {
			get = append(get, "--", "get", "port", p, "vlan_mode", "tag", "external_ids")
		}
		lines := slices.Collect(strings.Lines(s.Vsctl(get[1:]...)))
		for port := range slices.Chunk(lines, 3) {
			vlans = append(vlans, strings.Join(strings.Fields(strings.Join(port, "")), " "))
		}
		return vlans
	}
	want := func(what string, want []string) {
		t.Helper()
		if got := read(); !slices.Equal(got, want) {
			t.Errorf("%s: %s\n%q, want\n%q", what, ports, got, want)
		}
	}
	s.Vsctl("set", "port", "swp1", "vlan_mode=native-untagged", "tag=3", "external_ids:a=b", "--", "set", "port", "i-swp2", "tag=7", "--", "set", "port", "swp2", "vlan_mode=access", "tag=8")
	before := read()
	take := func() {
		d, err := Open(Config{Bridge: "csig", RunDir: s.Dir, Take: true})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if err := d.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Observe(t.Context()); err != nil { // as for csig status
			t.Fatal(err)
		}
	}
	drive := func(given int) {
		t.Helper()
		s.driver = s.openAt(t, DefaultTable)
		for range 2 { // the VLANs of the first time are none of an operator's
			apply(t, s.driver, setupFor(quantize.Draft00, swp1))
		}
		if got := read(); strings.Count(strings.Join(got, "\n"), vlanKey) != given || !strings.HasPrefix(got[2], "access 8 {}") {
			t.Errorf("the ports have %q", got)
		}
	}
	off := func(what ...string) {
		t.Helper()
		f, err := s.driver.Probe(t.Context())
		if err != nil || len(f.Off) != len(what) {
			t.Fatalf("probed: %q, %v", f.Off, err)
		}
		for i := range what {
			if !strings.Contains(f.Off[i], what[i]) {
				t.Errorf("it says %q, want %q", f.Off[i], what[i])
			}
		}
	}

	drive(4)
	off()
	take()
	want("taken off", before)
	take()
	want("and again", before)

	// A port that has to change its VLAN again still has the first one recorded.
	drive(4)
	lo, hi := "i-swp1", "csig"
	if s.Vsctl("get", "port", lo, "_uuid") > s.Vsctl("get", "port", hi, "_uuid") {
		lo, hi = hi, lo
	}
	s.Vsctl("set", "port", lo, "tag="+strings.TrimSpace(s.Vsctl("get", "port", hi, "tag")))
	s.driver.checked = time.Time{} // it is time to look
	update(t, s.driver, time.Minute, at7)
	off(lo + " were changed")
	take()
	s.Vsctl("clear", "port", lo, "vlan_mode", "tag")
	want("taken off a port that was given two VLANs", before)

	drive(4)
	s.Vsctl("set", "port", "i-swp1", "tag=3000", "--", "clear", "port", "csig", "vlan_mode", "tag", "--", "set", "port", "swp1", "vlan_mode=trunk", "trunks=5", "--", "clear", "port", "swp1", "tag")
	off("csig, i-swp1, swp1 were changed")
	s.driver.checked = time.Time{} // and csig puts right what would let frames round
	update(t, s.driver, time.Minute, at7)
	off("i-swp1 were changed")
	take()
	after := []string{"trunk [] {a=b}", "access 3000 {}", before[2], before[3], before[4]}
	want("with values of an operator's", after)

	drive(3)
	s.Vsctl("set-fail-mode", "csig", "standalone")
	is := read()
	off("set-fail-mode csig secure")
	take()
	want("with a bridge that switches by itself", is)
	s.Vsctl("set-fail-mode", "csig", "secure", "--", "clear", "port", "swp2", "tag") // which would be given a VLAN
	after[2] = "access [] {}"
	take()
	want("and no more", after)
}
