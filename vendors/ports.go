package vendors

import (
	"errors"
	"iter"
	"slices"

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

// HasPort tells whether a setup names a port.
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

// NoSetup is the *PermanentError of an Update on a device without a setup;
// damage is what there is in its place, "" for nothing.
func NoSetup(damage string) error {
	if damage == "" {
		damage = "there is no setup on this device"
	}
	return &PermanentError{Err: errors.New(damage + ": call Apply first")}
}

// NotInSetup is the *PermanentError of an Update of a port that the setup does
// not have.
func NotInSetup(port string) error {
	return &PermanentError{Port: port, Err: errors.New("it is not in the setup: call Apply with it first")}
}
