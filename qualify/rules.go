package qualify

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Means are what only some experiments use. Where one is nil, its experiments are not
// tested.
type Means struct {
	Reopen   func(ctx context.Context) (vendors.Driver, error) // another management session
	Waits    func(ackToWire time.Duration)                     // what the next session's driver waits behind the device's answers
	Restart  func(ctx context.Context) error                   // has the switch restart, and may return before it has
	Counters counters.Source                                   // of the switch's ports
	SFlow    net.PacketConn                                    // where the switch's sFlow datagrams come in
	Routed   *Routed                                           // what the switch routes

	// Every has experiments over all tag values try one in so many; 0: all of them.
	Every int
}

// Rules are the experiments about the rules that csig makes, which program the switch by
// its driver, and about the counters that they are made from.
func Rules() []Experiment {
	driver := Needs{Driver: true, Switch: true}
	update := Needs{Driver: true, Update: true, Switch: true}
	also := func(n Needs, what string) Needs {
		n.Also = what
		return n
	}
	full := update
	full.Destructive = true
	return []Experiment{
		{ID: "rule-key", Title: "Do rules see the VID on the wire?", Key: "sees_wire_vid", Needs: update, Run: ruleKey, Facts: func(r *Result, f *inventory.Facts) {
			f.SeesWireVID = fact(r.Outcome == Pass)
		}},
		{ID: "rewrite", Title: "Is the rewrite right for every tag?", Key: "update_exact", Needs: update, Run: rewrite, Facts: func(r *Result, f *inventory.Facts) {
			f.UpdateExact = fact(r.Outcome == Pass)
		}},
		{ID: "untagged", Title: "Do rules leave frames without the tag alone?", Key: "vlans_unchanged", Needs: update, Run: leavesAlone, Facts: func(r *Result, f *inventory.Facts) {
			f.VLANsUnchanged = fact(r.Outcome == Pass)
		}},
		{ID: "strip", Title: "Does a port remove the tag, and nothing else?", Key: "strip", Needs: driver, Run: strip, Facts: func(r *Result, f *inventory.Facts) {
			f.Strip = fact(r.Outcome == Pass)
		}},
		{ID: "rule-change", Title: "How long does a change take, and when do frames show it?", Key: "ack_to_wire", Needs: update, Run: ruleChange, Facts: func(r *Result, f *inventory.Facts) {
			f.RuleChange, f.AckToWire = r.duration("change_max_ms"), r.duration("ack_to_wire_max_ms")
		}},
		{ID: "hitless", Title: "Does each frame see the old or the new value while rules change?", Key: "hitless", Needs: update, Run: hitless, Facts: func(r *Result, f *inventory.Facts) {
			f.Hitless = fact(r.Outcome == Pass)
		}},
		{ID: "session-lost", Title: "What happens when the management session ends?", Key: "lease", Needs: also(update, "a second management session"), Run: sessionLost, Facts: func(r *Result, f *inventory.Facts) {
			after := r.duration("fallback_after_lease_ms")
			f.Lease = fact(r.Outcome == Pass && after != nil)
			if *f.Lease {
				f.FallbackAfter = after
			}
		}},
		{ID: "link-flap", Title: "Are the rules there after a link was down?", Key: "survives_link_flap", Needs: also(update, "links of the cards that can be taken down"), Run: linkFlap, Facts: func(r *Result, f *inventory.Facts) {
			f.SurvivesFlap = fact(r.Outcome == Pass)
		}},
		{ID: "counters", Title: "How old are the counters, and what do they count?", Needs: also(Needs{Switch: true}, "a source of the switch's counters"), Run: counterAge, Facts: func(r *Result, f *inventory.Facts) {
			f.CounterRefresh = r.duration("refresh_ms")
			if n, ok := r.Number("overhead_bytes"); ok {
				f.CounterOverhead = fact(uint8(n))
			}
		}},
		{ID: "entries", Title: "How many entries fit?", Key: "entries", Needs: also(full, "a driver that can fill its table"), Run: entries, Facts: func(r *Result, f *inventory.Facts) {
			if n, ok := r.Number("entries"); ok {
				f.Entries = fact(int(n))
			}
		}},
		{ID: "restart", Title: "What happens when the switch restarts?", Needs: also(full, "a command that restarts the switch"), Run: restarts, Facts: func(r *Result, f *inventory.Facts) {
			if n, ok := r.Number("setup_survives"); ok {
				f.SurvivesReboot = fact(n > 0)
			}
		}},
	}
}

// duration is a number of milliseconds, rounded up: it is how long something takes at most.
func (r *Result) duration(name string) *time.Duration {
	n, ok := r.Number(name)
	if !ok {
		return nil
	}
	return fact(time.Duration(max(1, math.Ceil(n))) * time.Millisecond) // an upper bound, never 0
}

// heldFor is a lease that no experiment outlives without renewing it.
const heldFor = time.Minute

// local is what a port writes: a bucket and a locator, of the setup's first signal; the
// others have the next bucket and locator each.
type local struct {
	s  uint8
	lm uint16
}

func (l local) intents(s *vendors.Setup) []vlanrules.Intent {
	out := make([]vlanrules.Intent, 0, len(s.Signals))
	for i, sig := range s.Signals {
		b := min(int(l.s)+i, quantize.NumBuckets-1)
		out = append(out, vlanrules.Intent{Signal: sig, Action: vlanrules.Update, S: uint8(b), LM: l.lm + uint16(i)})
	}
	return out
}

// compared is what a port that writes these intents makes of a tag's 16 bits: draft-00
// §5.4, and the D bit of the uec layout. It is independent of package vlanrules.
func compared(tci uint16, layout quantize.Layout, intents []vlanrules.Intent) uint16 {
	for _, in := range intents {
		if in.Action != vlanrules.Update || uint16(in.Signal) != tci>>13 {
			continue
		}
		s, local := tci>>7&31, uint16(in.S)
		worse := local < s
		if in.Signal.Max() {
			worse = local > s
		}
		shift := 0
		if layout == quantize.UEC {
			shift = 1
			worse = worse && tci&1 == 0
		}
		if worse {
			return tci&0xf000 | local<<7 | in.LM<<shift
		}
	}
	return tci
}

// wrote reports whether a tag left as compared has it, but for PCP and DEI: what becomes of
// these is for the experiments marks and rewrite.
func wrote(sent, got uint16, setup *vendors.Setup, intents []vlanrules.Intent) bool {
	return (got^compared(sent, setup.Layout, intents))&0xfff == 0
}

// patient repeats what is wrong, for a change that is not on the wire yet: how late one
// is, is for the experiment rule-change. What stays wrong for as long as patience once is
// not repeated any more.
type patient struct {
	*Trial
	spent bool
}

func (p *patient) try(ctx context.Context, f func() (wrong bool, err error)) error {
	for a := within(p.patience()); ; {
		wrong, err := f()
		if err != nil || !wrong || p.spent {
			return err
		}
		if a.over() {
			p.spent = true
			return nil
		}
		if err := vendors.Wait(ctx, still/5); err != nil {
			return err
		}
	}
}

// both are the ports whose rules are judged: the first two.
var both = []int{1, 0}

func (b *Bench) bothNames() string { return b.Ports[0].Name + " and " + b.Ports[1].Name }

// program applies a setup in which all ports update, and gives both what they write; the
// others write their fallback.
func (t *Trial) program(ctx context.Context, l local, lease time.Duration) (vendors.Setup, error) {
	setup := t.Setup(vlanrules.Update)
	if err := t.Apply(ctx, setup); err != nil {
		return setup, Cannot("the driver cannot apply the setup: %v", err)
	}
	_, err := t.write(ctx, &setup, l, lease, both...)
	return setup, err
}

// write gives ports what they write.
func (t *Trial) write(ctx context.Context, setup *vendors.Setup, l local, lease time.Duration, ports ...int) (vendors.UpdateResult, error) {
	var updates []vendors.PortUpdate
	for _, port := range ports {
		updates = append(updates, vendors.PortUpdate{Port: t.Ports[port].Name, Intents: l.intents(setup)})
	}
	res, err := t.Driver.Update(ctx, updates, lease)
	if err == nil && !res.Leased {
		err = errors.New("the lease was not renewed")
	}
	if err != nil {
		return res, Cannot("the driver cannot program bucket %d: %v", l.s, err)
	}
	return res, nil
}

// probes are tags that every bucket from 1 to 29 replaces: one of each signal. Their VIDs
// are below 3968, which some switches reserve.
func probes(setup *vendors.Setup) []uint16 {
	var out []uint16
	for _, sig := range setup.Signals {
		s := uint8(30)
		if sig.Max() {
			s = 0
		}
		out = append(out, uint16(sig)<<13|setup.Layout.VID(s, probeLM))
	}
	return out
}

const probeLM = 10

func tagged(to int, tpid uint16, tcis ...uint16) []Frame {
	out := make([]Frame, 0, len(tcis))
	for _, tci := range tcis {
		out = append(out, Frame{To: to, Tags: VLAN(tpid, tci)})
	}
	return out
}

// tagOf is the last tag that was sent with a frame, and of what arrived its 16 bits; rest
// is how all else differs, lost where nothing arrived.
func tagOf(s *Seen) (sent, got uint16, rest string) {
	at := 12 + len(s.Tags) - 2
	sent = binary.BigEndian.Uint16(s.Sent[at:])
	if n := s.Count(s.To); n != 1 {
		return sent, sent, s.Fate()
	}
	arrived := s.At(s.To)
	if len(arrived) != len(s.Sent) {
		return sent, sent, Difference(s.Sent, arrived)
	}
	got = binary.BigEndian.Uint16(arrived[at:])
	masked := append([]byte(nil), arrived...)
	binary.BigEndian.PutUint16(masked[at:], sent)
	return sent, got, Difference(s.Sent, masked)
}
