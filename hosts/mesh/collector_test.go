package mesh

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// testFleet is two leaves with two hosts each, and one spine.
func testFleet(t testing.TB) *inventory.Fleet { return changedFleet(t) }

// changedFleet is testFleet with text in the place of other text, by turns.
func changedFleet(t testing.TB, change ...string) *inventory.Fleet {
	t.Helper()
	f, err := inventory.Parse("mesh.yaml", []byte(strings.NewReplacer(change...).Replace(`format: csig.fleet/v1
profile: {name: mesh, tpid: 0x9900, interval: 100ms, signals: {abw: {buckets: log-100M}, abwc: {buckets: log}}}
devices:
  - {name: leaf1, platform: linux, ports: [{name: up, speed: 50M, lm: 1, peer: "spine:down1"}, {name: host1, speed: 50M, lm: 2, peer: h1}, {name: host2, speed: 50M, lm: 3, peer: h2}]}
  - {name: leaf2, platform: linux, ports: [{name: up, speed: 50M, lm: 4, peer: "spine:down2"}, {name: host1, speed: 50M, lm: 5, peer: h3}, {name: host2, speed: 50M, lm: 6, peer: h4}]}
  - {name: spine, platform: linux, ports: [{name: down1, speed: 50M, lm: 7, peer: "leaf1:up"}, {name: down2, speed: 50M, lm: 8, peer: "leaf2:up"}]}
hosts:
  - {name: "h[1-4]", csig: true, address: "10.0.[1-4].9"}
mesh: {key: {env: KEY}, interval: 1s}
`)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// state has every pair of hosts read something; paths says what, by FROM and TO.
type state func(from, to string) Row

func idle(from, to string) Row {
	return Row{State: StateCapable, Read: true, S: 31, LM: 126, RTTNS: 1e6, Sent: 2, Tagged: 1}
}

// perFrame is testFleet with signals of single frames, which native switches measure: worse is more.
func perFrame(t testing.TB) *inventory.Fleet {
	t.Helper()
	return changedFleet(t, "platform: linux", "platform: linux-ebpf", "signals: {abw: {buckets: log-100M}, abwc: {buckets: log}}", "layout: uec, signals: {abwc: {buckets: log}, pd: {buckets: log-1ms}, nqd: {buckets: log}}")
}

// tell has all hosts send rows of all their paths.
func tell(t testing.TB, c *Collector, is state) {
	t.Helper()
	for _, from := range c.hosts {
		r := Report{Format: RowsFormat, Host: from.Name}
		for _, to := range c.hosts {
			for k := range Ports * len(c.signals) {
				if to == from {
					continue
				}
				row := is(from.Name, to.Name)
				row.To, row.Port, row.Signal = to.Name, k/len(c.signals), c.signals[k%len(c.signals)].String()
				r.Rows = append(r.Rows, row)
			}
		}
		if err := c.Add(from.Name, &r); err != nil {
			t.Fatal(err)
		}
	}
}

// passes reports whether the way from one host to another has a port.
func passes(c *Collector, from, to, name string) bool {
	return slices.ContainsFunc(c.ways.between(c.index[from], c.index[to]).hops, func(hop []*port) bool { return slices.Contains(hop, c.ways.named[name]) })
}

// congested has what passes a port read S 5 with its locator, and 31 elsewhere.
func congested(c *Collector, port string, lm uint16) state {
	return func(from, to string) Row {
		row := idle(from, to)
		if passes(c, from, to, port) {
			row.S, row.LM = 5, lm
		}
		return row
	}
}

// TestBottlenecks has each port limit those that pass it, and another path help or not.
func TestBottlenecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCollector(testFleet(t))
		for _, row := range []struct {
			port, place string
			lm          uint16
			pairs       int
		}{{"leaf1:up", "first hop", 1, 4}, {"spine:down2", "core", 8, 4}, {"leaf2:host1", "last hop", 5, 3}, {"leaf1:host2", "last hop", 3, 3}} {
			begin := time.Now()
			for range 5 {
				tell(t, c, congested(c, row.port, row.lm))
				time.Sleep(time.Second)
			}
			s := c.Status()
			if len(s.Bottlenecks) != 2 || s.States[StateCapable] != 12 || len(s.Pairs) != 12 || len(s.Findings) != 0 {
				t.Fatalf("%s: %+v", row.port, s)
			}
			for i, sig := range []string{"abw", "abwc"} {
				b := s.Bottlenecks[i]
				if !slices.Equal(b.Ports, []string{row.port}) || b.Place != row.place || b.Pairs != row.pairs || b.Signal != sig || b.S != 5 || b.LM != row.lm || b.Since.Sub(begin) > 5*time.Second || b.AgeNS != 1e9 || !passes(c, b.Example[0], b.Example[1], row.port) {
					t.Errorf("%s: %+v", row.port, b)
				}
			}
		}
		// Half of the speed is where it begins: 25 Mbit/s are in bucket 24 of abw, 50 % in another of abwc.
		for s, want := range map[uint8]int{14: 1, 31: 0} {
			tell(t, c, func(from, to string) Row {
				row := idle(from, to)
				row.S, row.LM = s, 126
				if from == "h1" && to == "h3" {
					row.LM = 1
				}
				return row
			})
			time.Sleep(time.Second)
			n := 0
			for _, b := range c.Status().Bottlenecks {
				if n += b.Pairs; b.Signal == "abwc" && s == 31 {
					t.Errorf("S %d limits: %+v", s, b)
				}
			}
			if n > 2 || (n > 0) != (want > 0) {
				t.Errorf("S %d limits %d", s, n)
			}
		}
	})
}

// TestSilentHosts has a host stop: its pairs are unknown after two intervals, and what it said limits nothing.
func TestSilentHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCollector(testFleet(t))
		if s := c.Status(); s.States[StateUnknown] != 12 || len(s.Findings) != 0 || s.Hosts[0].State != HostNever {
			t.Errorf("at first: %+v", s)
		}
		tell(t, c, congested(c, "leaf1:up", 1))
		time.Sleep(2 * time.Second)
		if s := c.Status(); s.States[StateCapable] != 12 || len(s.Bottlenecks) != 2 {
			t.Errorf("after two intervals: %+v", s)
		}
		time.Sleep(time.Second)
		s := c.Status()
		if s.States[StateUnknown] != 12 || len(s.Bottlenecks) != 0 || len(s.Findings) != 4 || s.Findings[0].Code != findings.MeshHostSilent || s.Hosts[0].State != HostSilent {
			t.Errorf("after three: %+v", s)
		}
	})
}

// TestMonths has a collector run for longer than 32 bits count milliseconds: what it says is of today.
func TestMonths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCollector(testFleet(t))
		tell(t, c, idle)
		time.Sleep(100 * 24 * time.Hour)
		tell(t, c, congested(c, "leaf1:up", 1))
		time.Sleep(time.Second)
		if s := c.Status(); len(s.Bottlenecks) != 2 || s.Bottlenecks[0].AgeNS != 1e9 {
			t.Errorf("%+v", s)
		}
		why, err := c.Why("h1", "h3")
		if err != nil {
			t.Fatal(err)
		}
		if n := len(why.Changes); n < 2 || time.Since(why.Changes[0].Time) < 100*24*time.Hour || time.Since(why.Changes[n-1].Time) != time.Second {
			t.Errorf("%+v", why.Changes)
		}
	})
}

// TestSlowLink has a host that probes less often than the fleet file says, as its link is slow: its readings hold for
// as long as it takes to come to the next, and no host stretches those of others.
func TestSlowLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCollector(testFleet(t))
		add := func(from string, interval time.Duration, rows ...Row) {
			t.Helper()
			if err := c.Add(from, &Report{Host: from, IntervalNS: interval.Nanoseconds(), Rows: rows}); err != nil {
				t.Fatal(err)
			}
		}
		row := congested(c, "leaf1:up", 1)
		first, second := row("h1", "h3"), row("h2", "h3")
		first.To, first.Signal, second.To, second.Signal = "h3", "abw", "h3", "abw"
		add("h1", 10*time.Second, first)
		add("h2", time.Second, second)
		for range 60 {
			time.Sleep(time.Second)
			add("h1", 10*time.Second)
			add("h2", time.Second)
		}
		if s := c.Status(); len(s.Bottlenecks) != 1 || s.Bottlenecks[0].Pairs != 1 || s.Bottlenecks[0].Example[0] != "h1" {
			t.Errorf("after a minute: %+v", s.Bottlenecks)
		}
		for range 150 {
			time.Sleep(time.Second)
			add("h1", 10*time.Second)
		}
		if s := c.Status(); len(s.Bottlenecks) != 0 {
			t.Errorf("after three: %+v", s.Bottlenecks)
		}
		for _, wrong := range []time.Duration{-1, longestInterval + 1} {
			if err := c.Add("h1", &Report{Host: "h1", Sockets: "others"}); err == nil {
				t.Error("sockets that no host has are taken")
			}
			if err := c.Add("h1", &Report{Host: "h1", IntervalNS: wrong.Nanoseconds()}); err == nil {
				t.Errorf("an interval of %v is taken", wrong)
			}
		}
	})
}

// TestOneStalePath has one of four source ports pass a switch without a signal: what the others read is not hidden.
func TestOneStalePath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCollector(testFleet(t))
		full := congested(c, "leaf1:up", 1)
		n := 0
		tell(t, c, func(from, to string) Row {
			row := full(from, to)
			if n++; n%(Ports*2) < 2 && passes(c, from, to, "leaf1:up") {
				row.S, row.LM = 0, 125
			}
			return row
		})
		s := c.Status()
		if len(s.Bottlenecks) != 2 || s.Bottlenecks[0].Pairs != 4 || s.Bottlenecks[0].S != 5 {
			t.Errorf("%+v", s.Bottlenecks)
		}
		has(t, c, "one path is stale", "mesh-stale leaf1:up or spine:down2")
	})
}

// TestNeverThere has a host of the fleet file send nothing at all.
func TestNeverThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCollector(testFleet(t))
		for range 30 {
			for _, h := range c.hosts[1:] {
				if err := c.Add(h.Name, &Report{Host: h.Name}); err != nil {
					t.Fatal(err)
				}
			}
			has(t, c, "at first")
			time.Sleep(time.Second)
		}
		has(t, c, "later", "mesh-host-silent h1")
	})
}

// TestUnwritten has no switch write into a probe: that is said, until one does.
func TestUnwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCollector(testFleet(t))
		during := func(d time.Duration, is state) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
				tell(t, c, is)
				c.Status()
			}
		}
		long := c.oldestOfAll() + c.silent()
		during(long-2*time.Second, idle)
		has(t, c, "at first")
		during(4*time.Second, idle)
		has(t, c, "later", "mesh-unwritten")
		c.Reload(testFleet(t))
		has(t, c, "with the same fleet file again", "mesh-unwritten")
		during(2*time.Second, congested(c, "leaf1:up", 1))
		has(t, c, "when a switch writes")
		c.Reload(testFleet(t))
		during(2*long, idle)
		has(t, c, "afterwards")
		c.Reload(changedFleet(t, "lm: 1,", "lm: 9,"))
		during(2*long, idle)
		has(t, c, "with other locators", "mesh-unwritten")
	})
}

// TestLossAndFamilies has pairs lose probes with tags and without, and a host with an address of another family.
func TestLossAndFamilies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCollector(changedFleet(t, `"h[1-4]", csig: true, address: "10.0.[1-4].9"`, `"h[1-3]", csig: true, address: "10.0.[1-3].9"}
  - {name: h4, csig: true, address: "2001:db8::4"`))
		c.written = true
		for range 20 {
			tell(t, c, func(from, to string) Row {
				row := idle(from, to)
				if row.Sent = 8; passes(c, from, to, "leaf1:up") {
					row.Lost = 1
				}
				return row
			})
			time.Sleep(time.Second)
		}
		has(t, c, "both", "mesh-families", "mesh-loses leaf1:up or spine:down2")
	})
}

// TestOneSlowHost has one host whose link is so slow that its readings may be old: findings about others do not wait for it.
func TestOneSlowHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCollector(testFleet(t))
		c.written = true
		for range 60 {
			tell(t, c, idle)
			if err := c.Add("h4", &Report{Host: "h4", IntervalNS: time.Hour.Nanoseconds()}); err != nil {
				t.Fatal(err)
			}
			c.Agents(map[string]*api.Status{"leaf1": nil})
			c.Status()
			time.Sleep(time.Second)
		}
		has(t, c, "after a minute", "mesh-no-agent leaf1")
	})
}

// TestLongReports has a host that could send nothing for a while send all it has: it comes in several reports that are taken.
func TestLongReports(t *testing.T) {
	name := strings.Repeat("h", 250)
	r := Report{Format: RowsFormat, Host: name, IntervalNS: 1e12}
	for range most(time.Minute) {
		r.Rows = append(r.Rows, Row{To: name, Port: 3, Signal: "abwc", State: StateUnreachable, Read: true, S: 31, LM: 126, AgeNS: 1e13, RTTNS: 1e12, Sent: mostCounted, Lost: mostCounted, Tagged: mostCounted, TaggedLost: mostCounted, Reordered: mostCounted, TwinsReordered: mostCounted, ExtraNS: -1e12})
	}
	text, err := json.Marshal(&r)
	if err != nil || len(text) > maxReport || len(r.Rows) < 1000 {
		t.Errorf("%d rows have %d bytes, want up to %d: %v", len(r.Rows), len(text), maxReport, err)
	}
}

// has wants exactly these findings, as CODE PLACE.
func has(t *testing.T, c *Collector, what string, want ...string) {
	t.Helper()
	var got []string
	for _, f := range c.Status().Findings {
		got = append(got, strings.TrimSpace(string(f.Code)+" "+f.Place()))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: found %q, want %q: %+v", what, got, want, c.Status().Findings)
	}
}

// TestFindings has switches do what is wrong, one after the other, and hosts name them.
func TestFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCollector(testFleet(t))
		c.written = true // TestUnwritten is about that
		agents := map[string]*api.Status{}
		written := map[string]uint8{} // S that an agent writes for abwc; 31 otherwise
		say := func() {
			for i := range c.fleet.Devices {
				d := &c.fleet.Devices[i]
				if s, known := agents[d.Name]; known && s == nil {
					continue
				}
				s := &api.Status{Device: d.Name}
				for j := range d.Ports {
					w, is := written[d.Name+":"+d.Ports[j].Name]
					if !is {
						w = 31
					}
					s.Ports = append(s.Ports, api.Port{Port: d.Ports[j].Name, State: api.StateLive, Signals: []api.Signal{{Signal: "abwc", Bucket: w}}})
				}
				agents[d.Name] = s
			}
			c.Agents(agents)
		}
		during := func(d time.Duration, is state) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
				say()
				tell(t, c, is)
				c.Status()
			}
		}
		long := c.oldestOfAll() + c.silent() + 2*time.Second
		via := func(port string, change func(*Row)) state {
			return func(from, to string) Row {
				row := idle(from, to)
				if port == "" || passes(c, from, to, port) {
					change(&row)
				}
				return row
			}
		}
		during(long, idle)
		has(t, c, "nothing")

		drops := func(r *Row) { r.State, r.Read, r.TaggedLost = StateDropsTags, false, 1 }
		during(2*time.Second, via("spine:down2", drops))
		// The leaf's port and the spine's are in series for the same pairs.
		has(t, c, "a port drops tags", "mesh-drops-tags leaf1:up or spine:down2")
		during(2*time.Second, via("", drops))
		if f := c.Status().Findings; len(f) != 1 || f[0].Code != findings.MeshDropsTags || f[0].Pairs != 12 {
			t.Errorf("all drop: %+v", f)
		}
		// Of a leaf all that comes and goes is lost, also between its own hosts.
		during(2*time.Second, func(from, to string) Row {
			row := idle(from, to)
			if slices.Contains([]string{"h3", "h4"}, from) || slices.Contains([]string{"h3", "h4"}, to) {
				drops(&row)
			}
			return row
		})
		has(t, c, "a switch drops tags", "mesh-drops-tags leaf2")
		during(2*time.Second, via("leaf2:host1", func(r *Row) { r.State, r.Read, r.Lost = StateUnreachable, false, 2 }))
		has(t, c, "a host is down", "mesh-unreachable leaf2:host1")
		during(2*time.Second, via("leaf2:up", func(r *Row) { r.State, r.Read = StateNotCapable, false }))
		has(t, c, "a port strips", "mesh-strips-tags leaf2:up or spine:down1")
		during(2*time.Second, via("leaf1:host2", func(r *Row) { r.S, r.LM = 0, 125 }))
		has(t, c, "an agent is gone", "mesh-stale leaf1:host2")
		during(2*time.Second, via("spine:down1", func(r *Row) { r.ExtraNS = 2e6 }))
		has(t, c, "a slow path for tags", "mesh-delays-tags leaf2:up or spine:down1")
		during(20*time.Second, via("spine:down1", func(r *Row) { r.Reordered = 1 }))
		has(t, c, "another order", "mesh-reorders-tags leaf2:up or spine:down1")
		during(time.Minute, via("spine:down1", func(r *Row) { r.Reordered, r.TwinsReordered = 1, 1 }))
		has(t, c, "of all, and not of tags alone")
		during(long, idle)

		// Between h1 and h2 is no port of leaf2.
		off := func(from, to string) Row {
			row := idle(from, to)
			if from == "h1" && to == "h2" {
				row.S, row.LM = 5, 6
			}
			return row
		}
		during(2*time.Second, off)
		has(t, c, "for a moment")
		during(long, off)
		has(t, c, "a swapped cable", "mesh-off-path")
		if f := c.Status().Findings; len(f) == 1 && !strings.Contains(f[0].Reason, "leaf2:host2") {
			t.Errorf("%+v", f)
		}
		during(long, idle)

		// A rule that is not the agent's.
		during(long, congested(c, "leaf1:up", 1))
		has(t, c, "a wrong rule", "mesh-names-idle leaf1:up")
		written["leaf1:up"] = 6 // a bucket apart is the same
		during(long, congested(c, "leaf1:up", 1))
		has(t, c, "the agent says the same")
		written["leaf1:up"] = 2 // nothing is left in either: two measurements are no closer
		during(long, func(from, to string) Row {
			row := congested(c, "leaf1:up", 1)(from, to)
			if row.S != idle(from, to).S {
				row.S = 0
			}
			return row
		})
		has(t, c, "the port is full in both")
		written["leaf1:up"] = 6
		during(long, idle)
		has(t, c, "no rule of a full port", "mesh-misses-full leaf1:up")
		// Another port is worse on all ways that pass it: nothing says that its rules are wrong.
		during(long, func(from, to string) Row {
			row := idle(from, to)
			if passes(c, from, to, "leaf1:up") {
				row.S, row.LM = 2, 8
			}
			return row
		})
		if f := c.Status().Findings; slices.ContainsFunc(f, func(f Finding) bool { return f.Code == findings.MeshMissesFull }) {
			t.Errorf("%+v", f)
		}
		delete(written, "leaf1:up")
		during(long, idle)
		has(t, c, "all is well again")

		agents["spine"] = nil
		during(long, idle)
		has(t, c, "an agent does not answer", "mesh-no-agent spine")
	})
}

// TestHostileRows has a host send what cannot be: all of it is refused, and changes nothing.
func TestHostileRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCollector(testFleet(t))
		right := idle("h1", "h2")
		right.To, right.Signal = "h2", "abw"
		for name, change := range map[string]func(*Row){
			"itself": func(r *Row) { r.To = "h1" }, "another signal": func(r *Row) { r.Signal = "pd" }, "no signal": func(r *Row) { r.Signal = "" },
			"a port too many": func(r *Row) { r.Port = Ports }, "a port below": func(r *Row) { r.Port = -1 }, "S": func(r *Row) { r.S = 32 }, "LM": func(r *Row) { r.LM = 128 },
			"no state": func(r *Row) { r.State = "" }, "more lost than sent": func(r *Row) { r.Lost = 3 }, "tags": func(r *Row) { r.TaggedLost = 2 }, "a time to come": func(r *Row) { r.AgeNS = -1 },
			"a round trip": func(r *Row) { r.RTTNS = -1 }, "many": func(r *Row) { r.Sent = 1 << 30 },
		} {
			wrong := right
			change(&wrong)
			if err := c.Add("h1", &Report{Rows: []Row{right, wrong}}); err == nil {
				t.Errorf("%s: it is taken", name)
			}
		}
		if err := c.Add("h1", &Report{Rows: make([]Row, MostRows+1)}); err == nil {
			t.Error("too many rows are taken")
		}
		if err := c.Add("elsewhere", &Report{}); err == nil {
			t.Error("rows of a stranger are taken")
		}
		if s := c.Status(); s.States[StateUnknown] != 12 || s.Hosts[0].State != HostNever {
			t.Errorf("%+v", s)
		}
		if err := c.Add("h1", &Report{Rows: []Row{right}}); err != nil {
			t.Error(err)
		}
	})
}

// TestWhy has a pair's changes, and those of no other.
func TestWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCollector(testFleet(t))
		tell(t, c, idle)
		time.Sleep(time.Second)
		tell(t, c, congested(c, "leaf1:up", 1))
		time.Sleep(time.Second)
		tell(t, c, congested(c, "leaf1:up", 1))
		w, err := c.Why("h1", "h3")
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(w.Hops); got != "[[leaf1:up] [spine:down2] [leaf2:host1]]" || len(w.Paths) != 8 || len(w.Changes) != 16 || w.Pair.State != StateCapable {
			t.Errorf("%s %+v", got, w)
		}
		if last := w.Changes[15]; last.S != 5 || !slices.Equal(last.Ports, []string{"leaf1:up"}) || last.Time.Sub(c.began) != time.Second || last.Port != 3 || last.Signal != "abwc" {
			t.Errorf("%+v", last)
		}
		if w, err := c.Why("h2", "h1"); err != nil || len(w.Changes) != 8 {
			t.Errorf("%+v, %v", w, err)
		}
		for _, pair := range [][2]string{{"h1", "h1"}, {"h1", "x"}, {"x", "h1"}, {"", ""}} {
			if _, err := c.Why(pair[0], pair[1]); err == nil {
				t.Errorf("%v: no error", pair)
			}
		}
	})
}

// TestCollectorReload has hosts join and go, ports get other locators, and another profile: the history of pairs
// that stay does, as long as their readings mean the same.
func TestCollectorReload(t *testing.T) {
	const hosts, five = `"h[1-4]", csig: true, address: "10.0.[1-4].9"`, `"h[2-5]", csig: true, address: "10.0.[2-5].9"`
	synctest.Test(t, func(t *testing.T) {
		c := NewCollector(testFleet(t))
		began := time.Now()
		for range 2 {
			tell(t, c, congested(c, "leaf1:up", 1))
			time.Sleep(time.Second)
		}
		pairs := func() int {
			n := 0
			for _, b := range c.Status().Bottlenecks {
				n += b.Pairs
			}
			return n
		}
		changes := func(from, to string) (int, time.Time) {
			w, err := c.Why(from, to)
			if err != nil {
				t.Fatal(err)
			}
			return len(w.Changes), w.Since
		}
		if n := pairs(); n != 8 {
			t.Fatalf("%d pairs are limited", n)
		}
		since := c.Status().Bottlenecks[0].Since

		// h1 goes, h5 comes, and each of the others has another number.
		next := changedFleet(t, hosts, five, "peer: h1}", "peer: h5}", "interval: 1s}\n", "interval: 2s}\n")
		if err := c.Add("h3", &Report{Rows: []Row{{To: "h5", Signal: "abw", State: StateCapable}}}); err != nil {
			t.Errorf("rows about a host that this fleet file does not have yet: %v", err)
		}
		c.Reload(next)
		s := c.Status()
		if len(s.Hosts) != 4 || s.Hosts[0].Name != "h2" || s.Hosts[0].State != HostLive || s.Hosts[3].Name != "h5" || s.Hosts[3].State != HostNever || s.IntervalNS != 2e9 {
			t.Errorf("%+v", s)
		}
		if n := pairs(); n != 4 || s.States[StateCapable] != 6 || s.States[StateUnknown] != 6 || !s.Bottlenecks[0].Since.Equal(since) || !slices.Equal(s.Bottlenecks[0].Example, []string{"h2", "h3"}) {
			t.Errorf("%d pairs are limited: %+v", n, s)
		}
		if n, at := changes("h2", "h3"); n != 8 || !at.Equal(began) {
			t.Errorf("%d changes since %v", n, at)
		}
		if n, _ := changes("h5", "h3"); n != 0 {
			t.Errorf("%d changes of a host that is new", n)
		}
		if err := c.Add("h1", &Report{}); err == nil {
			t.Error("rows of a host that has gone are taken")
		}
		tell(t, c, idle) // all of them, h5 too
		time.Sleep(time.Second)
		if s := c.Status(); s.States[StateCapable] != 12 {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Minute)
		from := map[string]bool{}
		for _, h := range c.Histograms().Histograms {
			from[h.Source] = true
		}
		if from["h1"] || !from["h2"] {
			t.Errorf("histograms of %v", from)
		}

		for name, change := range map[string][]string{
			"another locator": {"lm: 8,", "lm: 9,"}, "a port less": {"{name: host2, speed: 50M, lm: 6, peer: h4}", ""}, "other buckets": {"abw: {buckets: log-100M}", "abw: {buckets: log-10G}"},
			"a signal less": {"abw: {buckets: log-100M}, ", ""},
		} {
			c := NewCollector(testFleet(t))
			tell(t, c, congested(c, "leaf1:up", 1))
			time.Sleep(time.Second)
			c.Reload(changedFleet(t, change...))
			s := c.Status()
			w, err := c.Why("h1", "h3")
			if err != nil || len(s.Bottlenecks) != 0 || s.States[StateUnknown] != 12 || s.Hosts[0].State != HostLive || len(w.Changes) != 0 || !w.Since.Equal(time.Now()) {
				t.Errorf("%s: %+v %+v %v", name, s, w, err)
			}
			tell(t, c, idle)
			time.Sleep(time.Second)
			if s := c.Status(); s.States[StateCapable] != 12 {
				t.Errorf("%s: %+v", name, s)
			}
		}
	})
}

// TestRing keeps the last changes, in order.
func TestRing(t *testing.T) {
	r := ring{}
	for i := range MostChanges + 1000 {
		r.add(change{at: int64(i)})
	}
	want := int64(1000)
	r.each(func(c *change) {
		if c.at != want {
			t.Fatalf("change %d, want %d", c.at, want)
		}
		want++
	})
	if want != MostChanges+1000 {
		t.Errorf("the last is %d", want)
	}
}

// TestHistograms has a load for a known part of a minute.
func TestHistograms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCollector(testFleet(t))
		for s := range 61 {
			is := congested(c, "leaf1:up", 1)
			if s >= 15 {
				is = idle
			}
			tell(t, c, is)
			time.Sleep(time.Second)
		}
		h := c.Histograms()
		find := func(signal string, lm uint16) (out Histogram) {
			for _, one := range h.Histograms {
				if one.Source == "h1" && one.Destination == "10.0.3.0/24" && one.Signal == signal && one.LM == lm {
					out = one
				}
			}
			return out
		}
		full, free := find("abwc", 1), find("abwc", 126)
		if h.Until.Sub(h.From) != time.Minute || full.HeldNS == nil || free.HeldNS == nil {
			t.Fatalf("%+v", h)
		}
		if full.HeldNS[5] < 14.9e9*Ports || full.HeldNS[5] > 15e9*Ports || free.HeldNS[31] < 44e9*Ports || free.HeldNS[31] > 45e9*Ports || full.MeanS != 5 || !slices.Equal(full.Ports, []string{"leaf1:up"}) || len(free.Ports) != 0 {
			t.Errorf("%+v\n%+v", full, free)
		}
	})
}

// TestSignalsOfFrames has ports delay frames: of pd and nqd more is worse, and no agent knows what its device writes.
func TestSignalsOfFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCollector(perFrame(t))
		none := c.fleet.Profile.Layout.LMNone()
		var agents []*api.Status
		for i := range c.fleet.Devices {
			d := &c.fleet.Devices[i]
			s := &api.Status{Device: d.Name}
			for j := range d.Ports {
				s.Ports = append(s.Ports, api.Port{Port: d.Ports[j].Name, State: api.StateLive, Signals: []api.Signal{{Signal: "abwc", Bucket: 31}, {Signal: "pd"}, {Signal: "nqd"}}})
			}
			agents = append(agents, s)
		}
		// Frames wait at leaf1:up for the source ports 0 and 1, for 1 longer; at spine:down1 longer than anywhere for pd,
		// and not at all for nqd; at leaf2:host2 hardly.
		row := func(from, to string, port int, sig string) Row {
			r := Row{To: to, Port: port, Signal: sig, State: StateCapable, Read: true, LM: none, Sent: 2, Tagged: 1}
			switch {
			case sig == "abwc":
				r.S = 31
			case passes(c, from, to, "leaf1:up") && port < 2:
				r.S, r.LM = uint8(20+port), 1
			case passes(c, from, to, "spine:down1") && sig == "pd":
				r.S, r.LM = 30, 7
			case passes(c, from, to, "leaf2:host2"):
				r.S, r.LM = 2, 6
			}
			return r
		}
		for end := time.Now().Add(c.oldestOfAll() + c.silent() + time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
			byDevice := map[string]*api.Status{}
			for _, s := range agents {
				byDevice[s.Device] = s
			}
			c.Agents(byDevice)
			for _, from := range c.hosts {
				r := Report{Host: from.Name}
				for _, to := range c.hosts {
					for k := range Ports * len(c.signals) {
						if to != from {
							r.Rows = append(r.Rows, row(from.Name, to.Name, k/len(c.signals), c.signals[k%len(c.signals)].String()))
						}
					}
				}
				if err := c.Add(from.Name, &r); err != nil {
					t.Fatal(err)
				}
			}
			c.Status()
		}
		s := c.Status()
		var got []string
		for _, b := range s.Bottlenecks {
			got = append(got, fmt.Sprint(b.Ports[0], " ", b.Signal, " ", b.S, " ", b.Pairs))
		}
		if want := []string{"spine:down1 pd 30 4", "leaf1:up nqd 21 4", "leaf1:up pd 21 4"}; !slices.Equal(got, want) {
			t.Errorf("bottlenecks %q, want %q", got, want)
		}
		if len(s.Findings) != 0 {
			t.Errorf("%+v", s.Findings)
		}
		w, err := c.Why("h1", "h4")
		if err != nil {
			t.Fatal(err)
		}
		pd := quantize.MaxPD
		for _, r := range w.Pair.Signals {
			buckets := c.fleet.Profile.Signals[pd].Buckets
			if r.Signal == "pd" && (r.S != 21 || r.Range != buckets.FormatRange(21) || !slices.Equal(r.Ports, []string{"leaf1:up"})) {
				t.Errorf("the worst of the paths is %+v", r)
			}
		}
		for _, p := range w.Paths {
			if want := row("h1", "h4", p.Port, p.Signal); p.Reading.S != want.S || p.Reading.LM != want.LM {
				t.Errorf("%+v, want S %d, LM %d", p, want.S, want.LM)
			}
		}
		for _, h := range c.Histograms().Histograms {
			if h.Source == "h1" && h.Destination == "10.0.4.0/24" && h.Signal == "pd" && h.LM == 1 && (math.Abs(h.MeanS-20.5) > 1e-6 || h.HeldNS[20] != h.HeldNS[21] || h.HeldNS[20] == 0) {
				t.Errorf("%+v", h)
			}
		}
	})
}

// TestStatesAreAsked has every word of a state in the order of States.
func TestStatesAreAsked(t *testing.T) {
	for _, s := range []string{StateUnknown, StateUnreachable, StateUntagged, StateNotCapable, StateDropsTags, StateCapable} {
		if !slices.Contains(States, s) {
			t.Errorf("%q is missing", s)
		}
	}
	if quantize.NumBuckets != 32 {
		t.Error("S has 5 bits")
	}
}
