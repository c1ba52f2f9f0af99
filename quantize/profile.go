package quantize

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Profile is what every device of a CSIG domain must agree on (draft-00
// §5.3.3, §5.5.1), plus the domain's defaults.
type Profile struct {
	Name     string
	TPID     uint16 // of the compact tag; no value is assigned by IEEE yet
	WideTPID uint16 // of the wide tag; 0 where the domain has none
	Layout   Layout
	Signals  map[Signal]SignalProfile // the signals the domain carries

	// Outside the hash: senders and schedules may differ (draft-00 §5.3.2).
	Interval time.Duration    // default averaging window Δt; 0 where not set
	InitialS map[Signal]uint8 // what senders start with; Signal.InitialBucket where absent
}

// SignalProfile is how one signal is written in the tag.
type SignalProfile struct {
	Buckets     Buckets // compact S
	Quantum     uint64  // wide S counts multiples of this many units; 0 where unused
	Locator     Locator // how the LM bits of the compact tag are read
	WideLocator Locator // how those of the wide tag are read
}

// Problem is one thing wrong with a profile.
type Problem struct {
	Field string // e.g. "tpid", "wide_tpid" or "signals.abw.locator"
	Err   error
}

func (p *Problem) Error() string { return p.Field + ": " + p.Err.Error() }

func (p *Problem) Unwrap() error { return p.Err }

func problem(field, format string, args ...any) *Problem {
	return &Problem{Field: field, Err: fmt.Errorf(format, args...)}
}

// TPIDs returns the profile's two TPIDs.
func (p *Profile) TPIDs() TPIDs { return TPIDs{Compact: p.TPID, Wide: p.WideTPID} }

// Carried are the signals of the profile, in wire order.
func (p *Profile) Carried() []Signal {
	return slices.DeleteFunc(slices.Clone(Signals[:]), func(s Signal) bool {
		_, carried := p.Signals[s]
		return !carried
	})
}

// Initial is the compact S that senders start with for a signal: the
// profile's, or the one that every switch may replace. Not part of the hash.
func (p *Profile) Initial(sig Signal) uint8 {
	if s, ok := p.InitialS[sig]; ok {
		return s
	}
	return sig.InitialBucket()
}

// Validate checks all that this package can know to be wrong with a profile.
// Every problem is a *Problem, all of them joined, in the same order each time.
// Whether 0x88a8 is free for CSIG in the domain is for the caller to check.
func (p *Profile) Validate() error {
	errs := []error{p.TPIDs().Validate()}
	if p.Layout != Draft00 && p.Layout != UEC {
		// Widths are unknown without a layout, so nothing below can be judged.
		return errors.Join(append(errs, problem("layout", "%d is not a layout: want draft-00 or uec", p.Layout))...)
	}
	if len(p.Signals) == 0 {
		errs = append(errs, problem("signals", "the profile carries no signal: want at least one of %s", strings.Join(SignalNames(), ", ")))
	}
	for _, sig := range sortedKeys(p.Signals) {
		sp := p.Signals[sig]
		errs = append(errs, p.validateSignal(sig, &sp)...)
	}
	if p.Interval < 0 {
		errs = append(errs, problem("interval", "%s is negative", p.Interval))
	}
	for _, sig := range sortedKeys(p.InitialS) {
		field, s := "initial_s."+sig.String(), p.InitialS[sig]
		_, carried := p.Signals[sig]
		switch {
		case !carried:
			errs = append(errs, problem(field, "the profile does not carry %s", sig))
		case s >= NumBuckets:
			errs = append(errs, problem(field, "%d is not a bucket: want 0 to 31", s))
		case s == sig.WorstBucket():
			errs = append(errs, problem(field, "%d is the worst bucket, which no switch replaces: want %d, or a bucket near it", s, sig.InitialBucket()))
		}
	}
	return errors.Join(errs...)
}

func (p *Profile) validateSignal(sig Signal, sp *SignalProfile) []error {
	field := "signals." + sig.String()
	if !sig.Known() {
		return []error{problem(field, "signal type %d is not defined: want %s", uint8(sig), SignalChoice())}
	}
	var errs []error
	add := func(part string, err error) {
		if err != nil {
			errs = append(errs, &Problem{Field: field + part, Err: err})
		}
	}
	if signals[sig].uec && p.Layout != UEC {
		errs = append(errs, problem(field, "%s exists only in the uec layout: in draft-00 its type %d is reserved", sig, uint8(sig)))
	}
	if sp.Buckets.Signal != sig {
		errs = append(errs, problem(field+".buckets", "the table is one of %s", sp.Buckets.Signal))
	} else {
		add(".buckets", sp.Buckets.validate())
	}
	add(".locator", sp.Locator.Validate(p.Layout.LMBits()))
	if p.WideTPID != 0 {
		if sp.Quantum == 0 {
			errs = append(errs, problem(field+".quantum", "the domain has a wide TPID, so its quantum cannot be 0"))
		}
		add(".wide_locator", sp.WideLocator.Validate(p.Layout.WideLMBits()))
	}
	return errs
}

// Reading is the content of one tag, in a domain's terms.
type Reading struct {
	Signal  Signal
	Range   Range  // values the tag stands for, in the signal's unit
	Open    bool   // values above Range.High are meant too
	Locator string // Locator.Text
}

// Read returns what a tag means. It is an error when the domain does not carry
// the tag's signal, or S or LM do not fit the tag's format.
func (p *Profile) Read(t Tag) (Reading, error) {
	sp, ok := p.Signals[t.T]
	if !ok {
		return Reading{}, fmt.Errorf("the profile does not carry signal %s", t.T)
	}
	if _, err := t.Encode(p.Layout); err != nil {
		return Reading{}, err
	}
	r := Reading{Signal: t.T}
	if !t.Wide {
		r.Range.Low, r.Range.High = sp.Buckets.Range(uint8(t.S))
		r.Open = t.S == NumBuckets-1
		r.Locator = sp.Locator.Text(p.Layout.LMBits(), t.LM)
		return r, nil
	}
	if sp.Quantum == 0 {
		return Reading{}, fmt.Errorf("the profile has no quantum for %s: it cannot read wide tags", t.T)
	}
	r.Range.Low, r.Range.High = QuantumRange(sp.Quantum, t.S)
	r.Open = t.S == MaxWideS
	r.Locator = sp.WideLocator.Text(p.Layout.WideLMBits(), t.LM)
	return r, nil
}

// String writes the range as people read it: "1–1.25 Gbit/s", "90 Gbit/s and above".
func (r Reading) String() string {
	if r.Open {
		return FormatValue(r.Signal, r.Range.Low) + " and above"
	}
	return FormatRange(r.Signal, r.Range.Low, r.Range.High)
}

func sortedKeys[V any](m map[Signal]V) []Signal { return slices.Sorted(maps.Keys(m)) }

// Misfit is Buckets.Misfit of the signals of a port of so many bit/s, joined; "" where all tell its loads apart.
func (p *Profile) Misfit(capacity uint64) string {
	var all []string
	for _, sig := range Signals {
		sp, ok := p.Signals[sig]
		top := capacity
		switch {
		case !ok || capacity == 0:
			continue
		case sig == MinABWC:
			top = whole
		case sig != MinABW:
			continue // no bound of theirs follows from the port
		}
		if why := sp.Buckets.Misfit(top); why != "" {
			all = append(all, why)
		}
	}
	return strings.Join(all, "; ")
}
