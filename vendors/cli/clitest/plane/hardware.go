// Package plane is the data plane of a fake switch, whose frames change at the egress by rules
// that a fake compiles from the configuration it accepted. What a configuration means is seen
// in frames. It can do wrong what hardware does wrong. One is a bridge of the kernel in a
// network namespace, on veth ports, with rules of nftables; the other computes in memory what
// becomes of a frame.
package plane

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Hardware is a data plane, of the kernel or in memory.
type Hardware interface {
	// Program gives all ports their rules, in one transaction. It returns how many of the
	// rules of each port are in hardware: those that its table had room for.
	Program(ports []Port) (in []int, err error)

	// Set changes what the hardware does wrong. An error is the next Program's.
	Set(f Faults)

	// Exchange sends a frame with each stack of tags in by port 1 and out by another port, and
	// returns the tags they leave with, in the same order. A frame without an answer is an
	// error, but for those that dropped says may vanish: they have nil.
	Exchange(t testing.TB, port int, stacks [][]Tag, dropped func([]Tag) bool) [][]Tag

	// Passes reports whether a frame of so many bytes, with the L2 header and the FCS, leaves
	// by a port as it was.
	Passes(t testing.TB, port int, stack []Tag, length int) bool
}

// Leaves is what Exchange returns, as text, of frames that may all be dropped.
func Leaves(t testing.TB, h Hardware, port int, stacks [][]Tag) string {
	t.Helper()
	return fmt.Sprintf("%04x", h.Exchange(t, port, stacks, func([]Tag) bool { return true }))
}

// Tag is one tag of a frame.
type Tag struct{ TPID, TCI uint16 }

// Range is the VIDs First to Last.
type Range struct{ First, Last uint16 }

// Rule is an entry of a port's outbound table, the first that matches of which wins. All
// conditions have to hold.
type Rule struct {
	Outer []Range // VIDs of the outer tag; none: any
	Inner []Range // of the tag behind it; none: any

	OuterPCP, InnerPCP int // -1: any

	SetOuter, SetInner int // the new VID; -1: as it is

	TPID    uint16 // of the outer tag; 0: the port's
	SetTPID uint16 // of the outer tag; 0: as it is
	Drop    bool   // instead of anything else
}

// Any is a rule without conditions and actions, to start from.
func Any() Rule { return Rule{OuterPCP: -1, InnerPCP: -1, SetOuter: -1, SetInner: -1} }

// Port is what the switch does at one egress port. Tags are those with its TPIDs: the
// inner one only behind an outer one.
type Port struct {
	Outer, Inner uint16
	Rules        []Rule

	// Trunk is whether a frame whose tag is not one of Outer is dropped: the switch takes it
	// for untagged, and there is no VLAN for those. Frames without any tag pass.
	Trunk bool

	// Longest is how long frames may be, in bytes with the L2 header and the FCS: longer ones
	// are dropped. 0: no matter.
	Longest int
}

// Faults are what the hardware does wrong.
type Faults struct {
	Entries  int           // of the TCAM, over all ports: rules for which it has no room are accepted and not there; 0: all are
	Drop4095 bool          // frames whose outer or inner tag has VID 4095 are dropped
	LoseDEI  bool          // a rewritten tag loses its DEI
	Gap      time.Duration // a change removes the port's rules for so long; In is called meanwhile
	In       func()

	BridgeByVID   bool // the outer tag's VID chooses the VLAN, of which there are 1 to 999
	MatchBridging bool // rules see the bridging VLAN, which is 1, in place of the outer tag's VID
	LoseByFlap    bool // a port's rules are gone when its link has been down
}

// native is the VLAN of frames without a tag.
const native = 1

// hold is what the hardware has of ports, and how many rules of each.
func (f *Faults) hold(ports []Port) (held []Port, in []int) {
	left := f.Entries
	for _, port := range ports {
		n := len(port.Rules)
		if f.Entries > 0 {
			n = slices.IndexFunc(port.Rules, func(r Rule) bool {
				left -= r.entries()
				return left < 0
			})
			if n < 0 {
				n = len(port.Rules)
			}
		}
		in = append(in, n)
		port.Rules = port.Rules[:n]
		held = append(held, port)
	}
	return held, in
}

// entries is how many of a TCAM a rule takes: each has a value and a mask, and a range is several.
func (r *Rule) entries() int { return max(1, entries(r.Outer)) * max(1, entries(r.Inner)) }

func entries(list []Range) (n int) {
	for _, r := range list {
		for at := int(r.First); at <= int(r.Last); n++ {
			size := 1
			for at%(2*size) == 0 && at+2*size-1 <= int(r.Last) {
				size *= 2
			}
			at += size
		}
	}
	return n
}
