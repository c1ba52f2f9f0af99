package vendors

import (
	"iter"
	"slices"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// PortPairs goes through the ports of two setups: each wanted one with what it
// has, nil where it has nothing, in the wanted order; then those that are wanted
// no more, with nil for the wish, in theirs.
func PortPairs(have, want []PortSetup) iter.Seq2[*PortSetup, *PortSetup] {
	return func(yield func(have, want *PortSetup) bool) {
		if len(have) == 0 { // of a device that gets csig: there are many
			for i := range want {
				if !yield(nil, &want[i]) {
					return
				}
			}
			return
		}
		left := make(map[string]*PortSetup, len(have))
		for i := range have {
			left[have[i].Port] = &have[i]
		}
		for i := range want {
			h := left[want[i].Port]
			delete(left, want[i].Port)
			if !yield(h, &want[i]) {
				return
			}
		}
		for i := range have {
			if left[have[i].Port] != nil && !yield(&have[i], nil) {
				return
			}
		}
	}
}

// Wanted is a copy of a setup as Apply records it: without what only Observe gives,
// and without Config.
func (s *Setup) Wanted() *Setup {
	out := *s
	out.Damaged, out.Config = "", ""
	out.Signals, out.Others, out.Ports = slices.Clone(s.Signals), slices.Clone(s.Others), slices.Clone(s.Ports)
	for i := range out.Ports {
		out.Ports[i].Damaged = ""
	}
	return &out
}

// Fallback is what a port that updates writes while its signal is not known: with
// on_stale: conservative the worst buckets with the stale locator, else nothing.
func (s *Setup) Fallback() []vlanrules.Intent {
	out := make([]vlanrules.Intent, len(s.Signals))
	for i, sig := range s.Signals {
		out[i].Signal = sig
		if s.OnStale == inventory.Conservative {
			out[i] = vlanrules.Intent{Signal: sig, Action: vlanrules.Update, S: sig.WorstBucket(), LM: s.Layout.LMStale()}
		}
	}
	return out
}

// Worst is the worst bucket of a port that updates, counted as a min signal's: 0 is
// the worst of all.
func Worst(intents []vlanrules.Intent) int {
	least := quantize.NumBuckets
	for i := range intents {
		in := &intents[i]
		switch s := int(in.S); {
		case in.Action != vlanrules.Update:
		case in.Signal.Max():
			least = min(least, quantize.NumBuckets-1-s)
		default:
			least = min(least, s)
		}
	}
	return least
}

// ActionOf is what a setup wants of a port; one that it does not name passes
// tags through.
func (s *Setup) ActionOf(port string) vlanrules.Action {
	for i := range s.Ports {
		if s.Ports[i].Port == port {
			return s.Ports[i].Action
		}
	}
	return vlanrules.Passthrough
}

// HasPort reports whether a setup names a port.
func (s *Setup) HasPort(port string) bool {
	return slices.ContainsFunc(s.Ports, func(p PortSetup) bool { return p.Port == port })
}

// SignalNames are the names of the setup's signals, in their order.
func (s *Setup) SignalNames() []string {
	var names []string
	for _, sig := range s.Signals {
		names = append(names, sig.String())
	}
	return names
}
