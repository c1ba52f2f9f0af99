package quantize

import "time"

// Profile is what every device of a CSIG domain must agree on (draft-00
// §5.3.3, §5.5.1), plus the domain's defaults.
type Profile struct {
	Name     string
	TPID     uint16 // of the compact tag; no value is assigned by IEEE yet
	WideTPID uint16 // of the wide tag; 0 where the domain has none
	Layout   Layout
	Signals  map[Signal]SignalProfile // the signals the domain carries

	// Outside the hash: senders and schedules may differ (draft-00 §5.3.2).
	Interval time.Duration    // default averaging window Δt
	InitialS map[Signal]uint8 // what senders start with; Signal.InitialBucket where absent
}

// SignalProfile is how one signal is written in the tag.
type SignalProfile struct {
	Buckets Buckets // compact S
	Quantum uint64  // wide S counts multiples of this many units; 0 where unused
	Locator Locator // how the LM bits are read
}
