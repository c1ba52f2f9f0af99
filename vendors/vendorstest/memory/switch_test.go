package memory

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

const tpid = 0x9900

// wires are a switch's cards, at its ports p1, p2 …
type wires struct {
	*Switch
	t     testing.TB
	cards []*Card
}

func lab(t testing.TB, f Faults, ports int) *wires {
	w := &wires{Switch: New(Config{TPID: tpid, Faults: f, Octets: 1<<32 - 1000}), t: t}
	for i := range ports {
		w.cards = append(w.cards, w.Cable(fmt.Sprint("p", i+1)))
	}
	return w
}

type tag struct{ tpid, tci uint16 }

func mac(n byte) []byte { return []byte{2, 0, 0, 0, 0, n} }

// frame is from station a to station b, with an id.
func frame(a, b byte, id uint32, size int, tags ...tag) []byte {
	f := append(slices.Clone(mac(b)), mac(a)...)
	for _, t := range tags {
		f = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(f, t.tpid), t.tci)
	}
	f = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(f, 0x88b5), id)
	return append(f, make([]byte, max(0, size-len(f)))...)
}

// send sends a frame from a card, and returns what then leaves at each port.
func (w *wires) send(card int, f []byte) map[string][][]byte {
	w.t.Helper()
	if err := w.cards[card].Send(f); err != nil {
		w.t.Fatal(err)
	}
	out := map[string][][]byte{}
	for _, c := range w.cards {
		for got := c.Next(); got != nil; got = c.Next() {
			out[c.port.name] = append(out[c.port.name], got)
		}
	}
	return out
}

// through is what becomes of a frame from card 0 to card 1: nil where it is lost.
func (w *wires) through(f []byte) (got []byte) {
	w.t.Helper()
	for _, got = range w.send(0, f)["p2"] {
	}
	return got
}

// model is what a port that writes s and lm for both signals makes of a TCI, by the
// draft's comparison.
func model(tci, s, lm uint16) uint16 {
	if t := tci >> 13; t > 1 || tci>>7&31 <= s {
		return tci
	}
	return tci&0xf000 | s<<7 | lm
}

func intents(s uint8, lm uint16) []vlanrules.Intent {
	return []vlanrules.Intent{
		{Signal: quantize.MinABW, Action: vlanrules.Update, S: s, LM: lm},
		{Signal: quantize.MinABWC, Action: vlanrules.Update, S: s, LM: lm},
	}
}

func (w *wires) programmed(s uint8, lm uint16, lease time.Duration) *Driver {
	w.t.Helper()
	d := w.Driver()
	if err := d.Apply(w.t.Context(), Setup(tpid, "p1", "p2")); err != nil {
		w.t.Fatal(err)
	}
	w.update(d, s, lm, lease)
	return d
}

func (w *wires) update(d *Driver, s uint8, lm uint16, lease time.Duration) {
	w.t.Helper()
	res, err := d.Update(w.t.Context(), []vendors.PortUpdate{{Port: "p2", Intents: intents(s, lm)}}, lease)
	if err != nil || !res.Leased {
		w.t.Fatalf("%+v, %v", res, err)
	}
}

// TestEveryTag sends every tag through a healthy switch, whose rules were changed.
func TestEveryTag(t *testing.T) {
	w := lab(t, Faults{}, 2)
	w.update(w.programmed(9, 99, time.Hour), 9, 44, time.Hour)
	for tci := range 1 << 16 {
		got, want := w.through(frame(1, 2, uint32(tci), 60, tag{tpid, uint16(tci)})), frame(1, 2, uint32(tci), 60, tag{tpid, model(uint16(tci), 9, 44)})
		if !bytes.Equal(got, want) {
			t.Fatalf("TCI %#04x: %x, want %x", tci, got, want)
		}
	}
}

// TestFaults has one fault in a switch each: it shows in what f finds, and not where the
// switch is healthy.
func TestFaults(t *testing.T) {
	alters := func(tags ...tag) func(*wires) string {
		return func(w *wires) string {
			f := frame(1, 2, 7, 60, tags...)
			w.send(1, frame(2, 1, 0, 60)) // station 2 is learned
			if got := w.through(f); !bytes.Equal(got, f) {
				return fmt.Sprintf("got %x", got)
			}
			return ""
		}
	}
	rewrites := func(in, want uint16) func(*wires) string {
		return func(w *wires) string {
			w.programmed(9, 44, time.Hour)
			if got := w.through(frame(1, 2, 7, 60, tag{tpid, in})); !bytes.Equal(got, frame(1, 2, 7, 60, tag{tpid, want})) {
				return fmt.Sprintf("got %x", got)
			}
			return ""
		}
	}
	const in, out = 0x1f85, 0x14ac // T=0 R=1 S=31 LM=5; S=9 LM=44
	counted := func(n int, octets uint64, bit uint) func(*wires) string {
		return func(w *wires) string {
			src := w.Counters("p2")
			before, _ := src.Read(t.Context(), nil)
			w.through(frame(1, 2, 1, n-4, tag{tpid, in}))
			after, _ := src.Read(t.Context(), nil)
			if got := after[0].Octets - before[0].Octets; got != octets || after[0].Octets>>bit > 1 {
				return fmt.Sprint(got)
			}
			return ""
		}
	}
	rows := []struct {
		name   string
		faults Faults
		f      func(*wires) string
	}{
		{"bridges by VID", Faults{BridgesByVID: true}, alters(tag{tpid, in})},
		{"drops VIDs", Faults{DropsVIDs: []vlanrules.VIDRange{{First: 4095, Last: 4095}}}, alters(tag{tpid, 0x0fff})},
		{"small MTU", Faults{TightMTU: true}, func(w *wires) string {
			if w.through(frame(1, 2, 1, 1518, tag{tpid, in})) == nil {
				return "lost"
			}
			return ""
		}},
		{"loses DEI", Faults{LosesDEI: true}, alters(tag{tpid, in})},
		{"remarks PCP", Faults{RemarksPCP: true}, alters(tag{tpid, 0x3f85})},
		{"reorders tags", Faults{ReordersTags: true}, alters(tag{cTag, 7}, tag{tpid, in})},
		{"tags the untagged", Faults{TagsUntagged: true}, alters()},
		{"rules take VLANs", Faults{RulesTakeVLANs: true}, func(w *wires) string {
			w.programmed(0, 44, time.Hour)
			return alters(tag{cTag, 900})(w)
		}},
		{"matches the bridging VLAN", Faults{MatchesBridgingVLAN: true}, rewrites(in, out)},
		{"rewrite clears DEI", Faults{RewriteClearsDEI: true}, rewrites(in, out)},
		{"ignores PCP", Faults{IgnoresPCP: true}, rewrites(0x7f85, 0x7f85)},
		{"strips payload", Faults{StripsPayload: true}, func(w *wires) string {
			s := Setup(tpid, "p2")
			s.Ports[0].Action = vlanrules.Strip
			if err := w.Driver().Apply(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if got := w.through(frame(1, 2, 7, 64, tag{tpid, in})); !bytes.Equal(got, frame(1, 2, 7, 60)) {
				return fmt.Sprintf("got %x", got)
			}
			return ""
		}},
		{"a small table", Faults{Table: 5}, func(w *wires) string {
			d := w.programmed(0, 44, time.Hour)
			if _, err := d.Update(t.Context(), []vendors.PortUpdate{{Port: "p1", Intents: intents(9, 4)}, {Port: "p2", Intents: intents(10, 44)}}, time.Hour); err != nil {
				return err.Error()
			}
			return ""
		}},
		{"acknowledges early", Faults{AckEarly: time.Hour}, rewrites(in, out)},
		{"gap", Faults{Gap: time.Hour}, rewrites(in, out)},
		{"forgets when the link is lost", Faults{ForgetsOnLinkDown: true}, func(w *wires) string {
			w.programmed(9, 44, time.Hour)
			for _, up := range []bool{false, true} {
				if err := w.cards[1].Link(up); err != nil {
					return err.Error()
				}
			}
			return rewriteOf(w, in, out)
		}},
		{"a lease for ever", Faults{LeaseForever: true}, func(w *wires) string {
			w.programmed(9, 44, minLease)
			time.Sleep(2 * minLease)
			return rewriteOf(w, in, 0x107d) // the stale locator
		}},
		{"no fallback", Faults{NoFallback: true}, func(w *wires) string {
			w.programmed(9, 44, minLease)
			time.Sleep(2 * minLease)
			return rewriteOf(w, in, 0x107d)
		}},
		{"learns by VID", Faults{LearnsByVID: true}, func(w *wires) string {
			if len(w.send(1, frame(2, 1, 0, 60))["p3"]) != 1 {
				return "a frame to an unknown station is lost"
			}
			if len(w.send(0, frame(1, 2, 7, 60, tag{tpid, in}))["p3"]) != 0 {
				return "floods"
			}
			return ""
		}},
		{"stale counters", Faults{StaleCounters: time.Hour}, counted(100, 100, 40)},
		{"counts no FCS", Faults{CountsNoFCS: true}, counted(100, 100, 40)},
		{"counts no tag", Faults{CountsNoTag: true}, counted(100, 100, 40)},
		{"wraps at 32 bits", Faults{Counters32: true}, func(w *wires) string {
			w.through(frame(1, 2, 1, 1500, tag{tpid, in}))
			if s, _ := w.Counters("p2").Read(t.Context(), nil); s[0].Octets < 1<<32 {
				return "wrapped"
			}
			return ""
		}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := r.f(lab(t, Faults{}, 3)); got != "" {
					t.Errorf("a healthy switch: %s", got)
				}
				if got := r.f(lab(t, r.faults, 3)); got == "" {
					t.Error("the fault does not show")
				}
			})
		})
	}
}

func rewriteOf(w *wires, in, want uint16) string {
	if got := w.through(frame(1, 2, 7, 60, tag{tpid, in})); !bytes.Equal(got, frame(1, 2, 7, 60, tag{tpid, want})) {
		return fmt.Sprintf("got %x", got)
	}
	return ""
}

// TestRestart loses frames for a moment and then forwards without csig's rules.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := lab(t, Faults{}, 2)
		d := w.programmed(9, 44, time.Hour)
		w.Restart()
		if w.through(frame(1, 2, 1, 60)) != nil {
			t.Error("it forwards while it starts")
		}
		time.Sleep(boot)
		if got := rewriteOf(w, 0x1f85, 0x1f85); got != "" {
			t.Errorf("a rule survives: %s", got)
		}
		if s, err := d.Observe(t.Context()); err != nil || !s.Nothing() {
			t.Errorf("observed %+v, %v", s, err)
		}
	})
}

// TestSetupsInAnyOrder brings a switch from some setups to others.
func TestSetupsInAnyOrder(t *testing.T) {
	ports := func(a vlanrules.Action) []vendors.PortSetup {
		return []vendors.PortSetup{{Port: "p1", Action: vlanrules.Passthrough}, {Port: "p2", Action: a}}
	}
	both := Setup(0).Signals
	rows := []vendorstest.Row{
		{Name: "nothing"},
		{Name: "update", Setup: vendors.Setup{TPID: tpid, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Update)}},
		{Name: "another TPID", Setup: vendors.Setup{TPID: 0x9aa0, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Update)}},
		{Name: "passthrough when stale", Setup: vendors.Setup{TPID: tpid, Signals: both, OnStale: inventory.StalePassthrough, Ports: ports(vlanrules.Update)}},
		{Name: "passthrough", Setup: vendors.Setup{TPID: tpid, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Passthrough)}},
		{Name: "strip", Setup: vendors.Setup{TPID: tpid, WideTPID: 0x9901, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Strip)}},
		{Name: "strip others", Setup: vendors.Setup{TPID: tpid, Signals: both, OnStale: inventory.Conservative, Others: []vendors.OtherTPID{{TPID: 0x9aa0}},
			Ports: []vendors.PortSetup{{Port: "p2", Action: vlanrules.Update, StripOthers: true}}}},
	}
	for i := range rows {
		rows[i].Want = "as the setup has it"
	}
	vendorstest.AnyOrder(t, rows, 20, func(t *testing.T) vendorstest.Lab {
		w := lab(t, Faults{}, 2)
		d := w.Driver()
		return vendorstest.Lab{
			Driver: d,
			State:  func(testing.TB) string { return w.dump() },
			Frames: func(t testing.TB, s vendors.Setup) string {
				action := s.ActionOf("p2")
				if action == vlanrules.Update {
					w.update(d, 5, 33, time.Hour)
				}
				for i, typ := range []uint16{tpid, 0x9aa0, 0x8100} {
					f := frame(1, 2, uint32(i), 60, tag{0x8100, 7}, tag{typ, 0x1f85})
					want := f
					switch {
					case typ == s.TPID && action == vlanrules.Update:
						want = frame(1, 2, uint32(i), 60, tag{0x8100, 7}, tag{typ, model(0x1f85, 5, 33)})
					case typ == s.TPID && action == vlanrules.Strip, slices.ContainsFunc(s.Others, func(o vendors.OtherTPID) bool { return o.TPID == typ }):
						want = slices.Delete(slices.Clone(f), 16, 20)
					}
					if got := w.through(f); !bytes.Equal(got, want) {
						return fmt.Sprintf("%#x: in %x, out %x, want %x", typ, f, got, want)
					}
				}
				return "as the setup has it"
			},
		}
	})
}

// dump is all that a switch has of csig, without IDs and times.
func (s *Switch) dump() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := ""
	if s.setup != nil {
		text = fmt.Sprintf("%+v\n", *s.setup)
	}
	for _, p := range s.ports {
		text += fmt.Sprintf("%s rows %v\n hw %+v\n", p.name, plain(p.rows), func() hardware {
			h := p.hw
			h.live, h.stale = plain(h.live), plain(h.stale)
			return h
		}())
	}
	return text
}

func plain(t vlanrules.Table) vlanrules.Table {
	t = slices.Clone(t)
	for i := range t {
		t[i].ID = 0
	}
	return t
}
