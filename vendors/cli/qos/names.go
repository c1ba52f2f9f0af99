package qos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
)

// Prefix marks what is csig's.
const Prefix = "csig-"

// MaxName is how many bytes every vendor has for the name of a classifier, a behavior or a
// policy.
const MaxName = 31

// Position is which tag of a frame the CSIG tag is.
type Position byte

// The positions.
const (
	Inner Position = 'i'
	Outer Position = 'o'
)

func (p Position) known() bool { return p == Inner || p == Outer }

func (p Position) String() string {
	if p == Inner {
		return "inner"
	}
	return "outer"
}

// RecordName is the name of the behavior without actions that says which setup a switch
// has.
func RecordName(s *vendors.Setup, at Position) string {
	bits := 0
	for _, sig := range s.Signals {
		bits |= 1 << sig
	}
	return fmt.Sprintf("%ssetup-%04x-%x-%c-%c", Prefix, s.TPID, bits, s.OnStale[0], at)
}

// ParseRecord is the inverse of RecordName; ok is false for any other name.
func ParseRecord(name string) (s vendors.Setup, at Position, ok bool) {
	var tpid, bits uint16
	var stale, where byte
	if _, err := fmt.Sscanf(name, Prefix+"setup-%04x-%x-%c-%c", &tpid, &bits, &stale, &where); err != nil {
		return s, 0, false
	}
	s = vendors.Setup{TPID: tpid, OnStale: inventory.Conservative}
	if stale == inventory.StalePassthrough[0] {
		s.OnStale = inventory.StalePassthrough
	}
	for _, sig := range quantize.Signals {
		if bits>>sig&1 == 1 {
			s.Signals = append(s.Signals, sig)
		}
	}
	at = Position(where)
	return s, at, RecordName(&s, at) == name && at.known()
}

// PolicyName is that of a port's policy.
func PolicyName(port string) string { return Prefix + port }

// PortName is why no command can name a port, or its policy; "" where one can.
func PortName(name, example string) string {
	switch {
	case name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/:.-") != "":
		return "want the interface as the switch writes it, e.g. " + example
	case len(PolicyName(name)) > MaxName:
		return fmt.Sprintf("the switch has %d bytes for the name of its policy, %s", MaxName, PolicyName(name))
	}
	return ""
}

// Rule is what a classifier matches: a signal, in the tag at a position, with a VID from
// First to Last. Bank, a or b, tells two classifiers that match the same apart.
type Rule struct {
	At          Position
	PCP         uint16
	First, Last uint16
	Bank        byte
}

// Class is the name of the classifier.
func (r *Rule) Class() string {
	return fmt.Sprintf("%s%c%d-%d-%d%c", Prefix, r.At, r.PCP, r.First, r.Last, r.Bank)
}

// ParseClass is the inverse of Class; ok is false for any other name.
func ParseClass(name string) (r Rule, ok bool) {
	if _, err := fmt.Sscanf(name, Prefix+"%c%d-%d-%d%c", &r.At, &r.PCP, &r.First, &r.Last, &r.Bank); err != nil {
		return r, false
	}
	return r, r.Class() == name && r.At.known() && slices.Contains(banks, r.Bank)
}

// Value is the VID that a behavior gives the tag at a position. Bank tells two behaviors
// that give the same apart.
type Value struct {
	At   Position
	VID  uint16
	Bank byte
}

// banks are those of classifiers and behaviors: one that is in use and not as csig left it
// is replaced by the other, and no frame misses both.
var banks = []byte("ab")

// Behavior is the name of the behavior.
func (v *Value) Behavior() string { return fmt.Sprintf("%s%c%d%c", Prefix, v.At, v.VID, v.Bank) }

// ParseBehavior is the inverse of Behavior; ok is false for any other name.
func ParseBehavior(name string) (v Value, ok bool) {
	if _, err := fmt.Sscanf(name, Prefix+"%c%d%c", &v.At, &v.VID, &v.Bank); err != nil {
		return v, false
	}
	return v, v.Behavior() == name && v.At.known() && slices.Contains(banks, v.Bank)
}
