package quantize

import (
	"fmt"
	"strings"
)

// Signal is the signal type T a tag asks for (CSIG draft-00 §4.1.3.1).
// Values outside the constants below are valid on the wire and pass through
// every device untouched.
type Signal uint8

// The signal types CSIG defines (draft-00 §5; MaxNQD is the uec layout's).
const (
	MinABW  Signal = 0 // least available bandwidth, bit/s
	MinABWC Signal = 1 // least available bandwidth relative to capacity, ppm
	MaxPD   Signal = 2 // largest per-hop delay, ns
	MaxNQD  Signal = 3 // largest normalised queue depth, ppm (uec, extended)
)

// Signals lists the known signal types in wire order.
var Signals = [...]Signal{MinABW, MinABWC, MaxPD, MaxNQD}

// Unit is the unit in which a signal's values and bucket bounds are counted.
// Every signal is an unsigned integer of its unit; nothing is a float.
type Unit string

// Units of signals.
const (
	BitPerSecond Unit = "bit/s"
	PPM          Unit = "ppm" // parts per million: 1,000,000 is 100 %
	Nanosecond   Unit = "ns"
)

// signals is what is known of each signal, by its type.
var signals = [...]struct {
	name    string
	unit    Unit
	max     bool // aggregated by max along the path
	counted bool // byte counters show it
	uec     bool // of the uec layout alone
}{
	MinABW:  {name: "abw", unit: BitPerSecond, counted: true},
	MinABWC: {name: "abwc", unit: PPM, counted: true},
	MaxPD:   {name: "pd", unit: Nanosecond, max: true},
	MaxNQD:  {name: "nqd", unit: PPM, max: true, uec: true},
}

// SignalNames are the names of the known signal types, in wire order.
func SignalNames() []string {
	var names []string
	for _, s := range Signals {
		names = append(names, s.String())
	}
	return names
}

// SignalChoice is SignalNames as a message offers them: "abw, abwc, pd or nqd".
func SignalChoice() string {
	names := SignalNames()
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// String returns the name used in files and on the command line: abw, abwc,
// pd or nqd; an unknown type prints as t4 … t15.
func (s Signal) String() string {
	if s.Known() {
		return signals[s].name
	}
	return fmt.Sprintf("t%d", uint8(s))
}

// ParseSignal is the inverse of String for the known types.
func ParseSignal(name string) (Signal, error) {
	for _, s := range Signals {
		if s.String() == name {
			return s, nil
		}
	}
	return 0, fmt.Errorf("unknown signal %q: want %s", name, SignalChoice())
}

// Known reports whether T is one of the defined signal types.
func (s Signal) Known() bool { return int(s) < len(signals) }

// Max reports whether the signal is aggregated by max along the path; the
// others are aggregated by min.
func (s Signal) Max() bool { return s.Known() && signals[s].max }

// Counted reports whether byte counters show the signal: available bandwidth they do,
// a frame's delay or queue they do not (draft-00 §6.4).
func (s Signal) Counted() bool { return s.Known() && signals[s].counted }

// Unit returns the unit of the signal's values.
func (s Signal) Unit() Unit {
	if s.Known() {
		return signals[s].unit
	}
	return PPM
}

// NumBuckets is the number of values of S in a compact tag.
const NumBuckets = 32

// WorstBucket is the compact S that means "no worse is possible": 0 for min
// signals, 31 for max signals. A port whose counters are stale advertises it,
// with the locator Layout.LMStale.
func (s Signal) WorstBucket() uint8 {
	if s.Max() {
		return NumBuckets - 1
	}
	return 0
}

// InitialBucket is the compact S every switch may replace: 31 for min
// signals, 0 for max signals (draft-00 §4.1.3.2).
func (s Signal) InitialBucket() uint8 {
	if s.Max() {
		return 0
	}
	return NumBuckets - 1
}

// WideInitial is InitialBucket for the wide tag's 20-bit S: 1,048,575 for min
// signals, 0 for max signals.
func (s Signal) WideInitial() uint32 {
	if s.Max() {
		return 0
	}
	return MaxWideS
}

// Worse reports whether bucket a is worse than bucket b, that is, whether a
// device whose own bucket is a replaces b (draft-00 §5.3.3, and §5.4.2.3
// with its erratum: max signals are mirrored).
func (s Signal) Worse(a, b uint8) bool {
	if s.Max() {
		return a > b
	}
	return a < b
}
