package openflow

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// flatSwitch is a table and groups as messages change them: a model that shares
// nothing with flat. What the switch refuses is a failure of the test.
type flatSwitch struct {
	t      *testing.T
	flows  map[ofp.Key]ofp.Flow
	groups map[uint32]ofp.Group
	list   map[frames][]rule // nil after a change
}

func newFlatSwitch(t *testing.T) *flatSwitch {
	return &flatSwitch{t: t, flows: map[ofp.Key]ofp.Flow{}, groups: map[uint32]ofp.Group{}}
}

func (s *flatSwitch) do(m ofp.Mod) {
	s.t.Helper()
	s.list = nil
	if g := m.Group; g != nil {
		_, there := s.groups[g.ID]
		used := false
		for _, f := range s.flows {
			used = used || f.Write.Same(ofp.Actions(nil).Group(g.ID))
		}
		switch {
		case m.Kind == ofp.Add && there, m.Kind == ofp.Modify && !there:
			s.t.Errorf("group %08x: change %d, there: %v", g.ID, m.Kind, there)
		case used:
			s.t.Errorf("group %08x is changed while a flow refers to it", g.ID)
		case m.Kind == ofp.Delete:
			delete(s.groups, g.ID)
		default:
			s.groups[g.ID] = *g
		}
		return
	}
	_, there := s.flows[m.Flow.Key()]
	switch {
	case m.Kind == ofp.Add && !there:
		s.flows[m.Flow.Key()] = *m.Flow
		for _, g := range m.Flow.Write.Effects().Groups {
			if _, ok := s.groups[g]; !ok && g>>28 == 1 {
				s.t.Errorf("a flow refers to group %08x, which is not there", g)
			}
		}
	case m.Kind == ofp.Delete && m.CookieMask == cookieMask:
		delete(s.flows, m.Flow.Key())
	default:
		s.t.Errorf("change %d of a flow, there: %v", m.Kind, there)
	}
}

// frames are those that come in by a port with a PCP.
type frames struct {
	in  uint32
	pcp uint16
}

// rule is a flow as frames meet it, with what it does.
type rule struct {
	priority, vid, mask uint16
	out                 uint32
	set                 bool
	to                  uint16
}

// rules are the flows that frames can meet, the highest priority first.
func (s *flatSwitch) rules(of frames) []rule {
	if s.list != nil {
		return s.list[of]
	}
	s.list = map[frames][]rule{}
	for k, f := range s.flows {
		if _, nowhere := isNowhere(&k.Match); nowhere {
			continue
		}
		if !k.Match.MatchPCP {
			s.t.Errorf("a flow of every signal: %+v", k)
		}
		r := rule{priority: k.Priority, vid: k.Match.VID, mask: k.Match.VIDMask}
		actions := append(f.Write, f.Actions...)
		for depth := 0; r.out == 0; depth++ {
			if vid, sets := setsVID(actions); sets {
				r.set, r.to = true, vid
			}
			switch e := actions.Effects(); {
			case depth > 2:
				s.t.Fatalf("a flow that outputs nothing: %+v", f)
			case len(e.Ports) == 1:
				r.out = e.Ports[0]
			case len(e.Groups) == 1 && e.Groups[0]>>28 == 11:
				r.out = e.Groups[0] & 0xffff
			case len(e.Groups) == 1:
				actions = s.groups[e.Groups[0]].Buckets[0]
			}
		}
		of := frames{k.Match.InPort, uint16(k.Match.PCP)}
		s.list[of] = append(s.list[of], r)
	}
	for _, list := range s.list {
		slices.SortFunc(list, func(a, b rule) int { return int(b.priority) - int(a.priority) })
	}
	return s.list[of]
}

// send is the tag with which a frame from a port leaves, and by which port: 0 where
// the operator's own flows have it.
func (s *flatSwitch) send(in uint32, tci uint16) (uint16, uint32) {
	var met *rule
	for i, list := 0, s.rules(frames{in, tci >> 13}); i < len(list); i++ {
		r := &list[i]
		if met != nil && met.priority > r.priority {
			break
		}
		if (tci&0xfff|0x1000)&r.mask == r.vid {
			if met != nil {
				s.t.Fatalf("two flows of priority %d take %04x", r.priority, tci)
			}
			met = r
		}
	}
	switch {
	case met == nil:
		return tci, 0
	case met.set:
		return tci&0xf000 | met.to, met.out
	}
	return tci, met.out
}

// replaced is compare-and-replace from the text of draft-00 §5.4, and nothing else.
func replaced(layout quantize.Layout, tci uint16, in vlanrules.Intent) uint16 {
	s := uint8(tci >> 7 & 31)
	worse := in.S < s
	if in.Signal == quantize.MaxPD || in.Signal == quantize.MaxNQD {
		worse = in.S > s
	}
	if in.Action != vlanrules.Update || tci>>13 != uint16(in.Signal) || !worse || layout == quantize.UEC && tci&1 == 1 {
		return tci
	}
	lm := in.LM
	if layout == quantize.UEC {
		lm <<= 1
	}
	return tci&0xf000 | uint16(in.S)<<7 | lm
}

func flatSetup(layout quantize.Layout, onStale inventory.OnStale) *vendors.Setup {
	return &vendors.Setup{TPID: 0x88a8, Layout: layout, Signals: []quantize.Signal{quantize.MinABW, quantize.MaxPD}, OnStale: onStale, Ports: []vendors.PortSetup{{Port: "p2", Action: vlanrules.Update}}}
}

func testFlat(t *testing.T, layout quantize.Layout, onStale inventory.OnStale, ofdpa bool) *flat {
	t.Helper()
	ports := &portNames{number: map[string]uint32{"p1": 1, "p2": 2, "p3": 3}}
	forwards, err := resolve([]Forwarding{{InPort: "p1", Port: "p2"}, {InPort: "p3", Port: "p2"}, {InPort: "p2", Port: "p1"}}, ports)
	if err != nil {
		t.Fatal(err)
	}
	return newFlat(60, 1000, ofdpa, flatSetup(layout, onStale), forwards)
}

func want(sig quantize.Signal, s int, lm uint16) vlanrules.Intent {
	return vlanrules.Intent{Signal: sig, Action: vlanrules.Update, S: uint8(s), LM: lm}
}

// TestFlatEveryTag: for every bucket, all tags of both inputs leave as the model has it,
// by the port; those of a third leave by the operator's flows.
func TestFlatEveryTag(t *testing.T) {
	for _, layout := range []quantize.Layout{quantize.Draft00, quantize.UEC} {
		for _, onStale := range []inventory.OnStale{inventory.Conservative, inventory.StalePassthrough} {
			for _, ofdpa := range []bool{true, false} {
				t.Run(fmt.Sprint(layout, onStale, ofdpa), func(t *testing.T) {
					f := testFlat(t, layout, onStale, ofdpa)
					for s := range 32 {
						if (s+layoutRuns(layout, ofdpa))%fewer(t, 4, 16) != 0 && s%31 != 0 {
							continue // each bucket is in one of the runs
						}
						sw, p := newFlatSwitch(t), &flatPort{}
						open(t, f, sw, p)
						in := []vlanrules.Intent{want(quantize.MinABW, s, 9), want(quantize.MaxPD, 31-s, 9)}
						change(t, f, sw, p, in)
						every(t, sw, layout, func(tci uint16) []uint16 {
							return []uint16{replaced(layout, replaced(layout, tci, in[0]), in[1])}
						})
						if tci, out := sw.send(2, 0x0f85); tci != 0x0f85 || out != 0 {
							t.Errorf("a frame that leaves by another port: %04x, %d", tci, out)
						}
					}
				})
			}
		}
	}
}

func layoutRuns(layout quantize.Layout, ofdpa bool) (n int) {
	if n = 2 * int(layout); ofdpa {
		n++
	}
	return n
}

// open and change carry steps out, in a random order.
func open(t *testing.T, f *flat, sw *flatSwitch, p *flatPort) {
	t.Helper()
	stale, err := f.stale()
	if err != nil {
		t.Fatal(err)
	}
	if p.groups == nil {
		p.groups = map[uint32]ofp.Group{}
	}
	steps, then := f.setStale(2, p, stale)
	for _, mods := range steps {
		for _, m := range mods {
			sw.do(m)
		}
	}
	*p = then
}

func change(t *testing.T, f *flat, sw *flatSwitch, p *flatPort, in []vlanrules.Intent) {
	t.Helper()
	entries, err := f.live(in)
	if err != nil {
		t.Fatal(err)
	}
	r := f.band(2, p, entries)
	for _, mods := range steps(r) {
		for _, m := range mods {
			sw.do(m)
		}
	}
	*p = r.then
}

// steps are those of a refill, in their order.
func steps(r *refill) [][]ofp.Mod { return [][]ofp.Mod{r.clear(), r.groups(), r.fill(4), r.drop()} }

// every compares all tags with what they may be, from both inputs.
func every(t *testing.T, sw *flatSwitch, layout quantize.Layout, may func(tci uint16) []uint16) {
	t.Helper()
	for tci := 0; tci < 1<<16; tci += fewer(t, 1, 37) {
		allowed := may(uint16(tci))
		for _, in := range []uint32{1, 3} {
			got, port := sw.send(in, uint16(tci))
			ok := slices.Contains(allowed, got)
			trimmed := layout == quantize.UEC && tci&1 == 1 // no flow of csig's has it
			if !ok || port != 0 && port != 2 || port != 0 && trimmed {
				t.Fatalf("%04x from %d leaves as %04x by %d, want one of %04x", tci, in, got, port, allowed)
			}
		}
	}
}

// sample are tags of each bucket, locators at both ends.
func sample() (out []uint16) {
	for _, t := range []uint16{0, 2, 3} {
		for s := range uint16(32) {
			out = append(out, t<<13|s<<7, t<<13|s<<7|0x7f, t<<13|s<<7|0x3a)
		}
	}
	return out
}

// TestFlatAnyOrder: after every single change, of each step in any order, cut short
// anywhere and taken up again from what is there, with entries expired at random, a
// tag leaves as before the update, as after it, or with the stale value.
func TestFlatAnyOrder(t *testing.T) {
	tags := sample()
	r := rand.New(rand.NewPCG(1, 2))
	for _, layout := range []quantize.Layout{quantize.Draft00, quantize.UEC} {
		for run := range fewer(t, 16, 2) {
			f := testFlat(t, layout, inventory.Conservative, run%2 == 0)
			sw, p := newFlatSwitch(t), &flatPort{}
			open(t, f, sw, p)
			stale := f.setup.Fallback()
			now, clean := stale, true // nothing expired, and no update was cut short
			for range 6 {
				next := []vlanrules.Intent{want(quantize.MinABW, r.IntN(32), uint16(1+r.IntN(50))), want(quantize.MaxPD, r.IntN(32), uint16(1+r.IntN(50)))}
				may := func(tci uint16) (out []uint16) {
					for i, in := range [][]vlanrules.Intent{now, next, stale} {
						if i == 2 && clean {
							break
						}
						out = append(out, replaced(layout, replaced(layout, tci, in[0]), in[1]))
					}
					return out
				}
				entries, err := f.live(next)
				if err != nil {
					t.Fatal(err)
				}
				steps := steps(f.band(2, p, entries))
				stop, n := r.IntN(200), 0
				whole := true
			carry:
				for _, mods := range steps {
					r.Shuffle(len(mods), func(i, j int) { mods[i], mods[j] = mods[j], mods[i] })
					for _, m := range mods {
						if n++; n == stop {
							whole = false
							break carry
						}
						sw.do(m)
						for range 6 {
							tci := tags[r.IntN(len(tags))]
							check(t, sw, tci, may)
						}
						if run%4 > 0 && r.IntN(10) == 0 {
							sw.expire(r)
							clean = false
						}
					}
				}
				for _, tci := range tags {
					check(t, sw, tci, may)
				}
				*p = sw.port(f, 2)
				if whole {
					now = next
				} else {
					clean = false
					// What is there is of two updates: the next one begins from what each tag has.
					change(t, f, sw, p, next)
					for _, tci := range tags {
						check(t, sw, tci, may)
					}
					*p, now = sw.port(f, 2), next
				}
			}
			for len(sw.live()) > 0 { // the agent is gone
				sw.expire(r)
				for range 6 {
					tci := tags[r.IntN(len(tags))]
					check(t, sw, tci, func(tci uint16) []uint16 {
						return []uint16{replaced(layout, replaced(layout, tci, now[0]), now[1]), replaced(layout, replaced(layout, tci, stale[0]), stale[1])}
					})
				}
			}
			for _, tci := range tags {
				check(t, sw, tci, func(tci uint16) []uint16 {
					return []uint16{replaced(layout, replaced(layout, tci, stale[0]), stale[1])}
				})
			}
			*p = sw.port(f, 2)
			for _, mods := range f.removeAll(p) {
				for _, m := range mods {
					sw.do(m)
				}
			}
			if len(sw.flows) > 0 || len(sw.groups) > 0 {
				t.Fatalf("what is left: %v, %v", sw.flows, sw.groups)
			}
		}
	}
}

func check(t *testing.T, sw *flatSwitch, tci uint16, may func(uint16) []uint16) {
	t.Helper()
	allowed := may(tci)
	for _, in := range []uint32{1, 3} {
		if got, _ := sw.send(in, tci); !slices.Contains(allowed, got) {
			t.Fatalf("%04x leaves as %04x, want one of %04x", tci, got, allowed)
		}
	}
}

// live are the keys of the flows that expire.
func (s *flatSwitch) live() (out []ofp.Key) {
	for k, f := range s.flows {
		if f.HardTimeout > 0 {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b ofp.Key) int { // a map has no order
		return cmp.Or(int(a.Priority)-int(b.Priority), int(a.Match.InPort)-int(b.Match.InPort), int(a.Match.PCP)-int(b.Match.PCP), int(a.Match.VID)-int(b.Match.VID), int(a.Match.VIDMask)-int(b.Match.VIDMask))
	})
	return out
}

// expire takes one away.
func (s *flatSwitch) expire(r *rand.Rand) {
	if keys := s.live(); len(keys) > 0 {
		delete(s.flows, keys[r.IntN(len(keys))])
		s.list = nil
	}
}

// port is what is read back of a port.
func (s *flatSwitch) port(f *flat, number uint32) flatPort {
	var flows []ofp.Flow
	for _, fl := range s.flows {
		flows = append(flows, fl)
	}
	var groups []ofp.Group
	for _, g := range s.groups {
		groups = append(groups, g)
	}
	ports, _ := f.sort(flows, groups)
	if p := ports[number]; p != nil {
		return *p
	}
	return flatPort{groups: map[uint32]ofp.Group{}}
}

// TestFlatCost counts by hand what the table has to hold.
func TestFlatCost(t *testing.T) {
	f := testFlat(t, quantize.Draft00, inventory.Conservative, true)
	n := f.entries()
	// Of one signal: 5 entries that stay, and twice 9 of a band, with s=30: 31 | 30, 28-29,
	// 24-27, 16-23, 8-15, 4-7, 2-3, 1.
	if n.flows != 2 || n.per != 2*(5+2*9) || n.need != 2*n.per+2+1 {
		t.Errorf("%s", n)
	}
	if l := flatLayout(); l.Entries != 5+9 || l.Headroom != 9 || l.OpsMax != 9+8 || l.OpsMean < 10 || l.OpsMean > 15 {
		t.Errorf("%+v", l)
	}
	for _, layout := range []quantize.Layout{quantize.Draft00, quantize.UEC} { // the same for every layout and signal
		for _, sig := range []quantize.Signal{quantize.MinABW, quantize.MinABWC, quantize.MaxPD} {
			f := testFlat(t, layout, inventory.Conservative, true)
			if f.setup.Signals = []quantize.Signal{sig}; f.entries().per != 5+2*9 {
				t.Errorf("%v, %v: %s", layout, sig, f.entries())
			}
		}
	}
}

// TestResolve: flows that take the same frames, or whose ports are not there, are
// refused by what they are.
func TestResolve(t *testing.T) {
	ports := newPortNames([]ofp.Port{{Number: 1, Name: "p1"}, {Number: 2, Name: "p2"}, {Number: 3, Name: "Ten-GigabitEthe", Shared: true}, {Number: 4, Name: "Ten-GigabitEthe", Shared: true}})
	for _, tc := range []struct {
		name string
		list []Forwarding
		want string
	}{
		{"none", nil, ""},
		{"two inputs", []Forwarding{{InPort: "p1", Port: "p2"}, {InPort: "p2", Port: "p1"}}, ""},
		{"two addresses", []Forwarding{{EthDst: "02:00:00:00:00:01", Port: "p1"}, {EthDst: "02:00:00:00:00:02", Port: "p2"}}, ""},
		{"two masks", []Forwarding{{EthDst: "02:01:00:00:00:00/ff:ff:00:00:00:00", Port: "p1"}, {EthDst: "02:02:00:00:00:00/ff:ff:00:00:00:00", Port: "p2"}}, ""},
		{"two prefixes", []Forwarding{{IPDst: "192.0.2.0/25", Port: "p1"}, {IPDst: "192.0.2.128/25", Port: "p2"}}, ""},
		{"masks that meet", []Forwarding{{EthDst: "02:01:00:00:00:00/ff:ff:00:00:00:00", Port: "p1"}, {EthDst: "02:01:00:00:00:02", Port: "p2"}}, "take the same frames"},
		{"masks that meet, the other way", []Forwarding{{EthDst: "02:01:00:00:00:02", Port: "p2"}, {EthDst: "02:01:00:00:00:00/ff:ff:00:00:00:00", Port: "p1"}}, "take the same frames"},
		{"an address and a prefix", []Forwarding{{EthDst: "02:01:00:00:00:00", Port: "p1"}, {IPDst: "192.0.2.0/24", Port: "p2"}}, `"eth_dst 02:01:00:00:00:00 → p1" and "ip_dst 192.0.2.0/24 → p2" take the same frames`},
		{"everything twice", []Forwarding{{Port: "p1"}, {Port: "p2"}}, `"every frame → p1" and "every frame → p2"`},
		{"no such port", []Forwarding{{InPort: "p1", Port: "p9"}}, `"in_port p1 → p9": port p9: the switch has no such port`},
		{"a name of two ports", []Forwarding{{InPort: "p1", Port: "Ten-GigabitEthe"}}, "port Ten-GigabitEthe: 2 ports of the switch have this name, of which OpenFlow has 15 bytes: write their numbers in its place (3, 4)"},
		{"the number of one", []Forwarding{{InPort: "p1", Port: "4"}}, ""},
		{"no such input", []Forwarding{{InPort: "p9", Port: "p1"}}, "no such port"},
		{"no address", []Forwarding{{EthDst: "02:01", Port: "p1"}}, "want a MAC address"},
		{"a long mask", []Forwarding{{EthDst: "02:00:00:00:00:01/ff:ff:ff:ff:ff:ff:ff:ff", Port: "p1"}}, "want a MAC address"},
		{"IPv6", []Forwarding{{IPDst: "2001:db8::/32", Port: "p1"}}, "want an IPv4"},
	} {
		_, err := resolve(tc.list, &ports)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// TestFlatCommands: what plan --commands prints, for both kinds of switches.
func TestFlatCommands(t *testing.T) {
	cfg := FlatConfig{OFDPA: true, Forwarding: []Forwarding{{InPort: "p1", EthDst: "02:00:00:00:00:01", Port: "p2"}}}
	for _, tc := range []struct {
		ofdpa bool
		want  string
	}{
		{true, "\ncookie=0x63736f6600000000,table=60,priority=30000,eth_dst=02:00:00:00:00:01,in_port={p1},vlan_vid=0x1800/0x1800,vlan_pcp=0,actions=clear_actions,write_actions(group:{L2 Rewrite: set_field:0x107d->vlan_vid,group:{L2 Unfiltered Interface of p2}})\n"},
		{false, "\ncookie=0x63736f6600000000,table=0,priority=30000,eth_dst=02:00:00:00:00:01,in_port={p1},vlan_vid=0x1800/0x1800,vlan_pcp=0,actions=set_field:0x107d->vlan_vid,output:{p2}\n"},
	} {
		cfg.OFDPA = tc.ofdpa
		got, err := FlatCommands(cfg, vendors.Setup{}, *flatSetup(quantize.Draft00, inventory.Conservative))
		if err != nil || !strings.Contains(string(got), tc.want) || strings.Count(string(got), "\n") != 1+2+1+10 || !strings.Contains(string(got), "in_port={p2},eth_src=03:63:73:69:67:ff") {
			t.Errorf("%s, %v", got, err)
		}
	}
	s := *flatSetup(quantize.Draft00, inventory.Conservative)
	if got, err := FlatCommands(cfg, s, s); got != nil || err != nil {
		t.Errorf("nothing to do: %s, %v", got, err)
	}
}
