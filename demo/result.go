package demo

import (
	"math"
	"slices"
	"time"

	"github.com/csig-agent/csig/quantize"
)

// Format names the shape of Result.
const Format = "csig.demo/v1"

// Result is a whole run.
type Result struct {
	Format     string    `json:"format"`
	Version    string    `json:"version"`
	Started    time.Time `json:"started"`
	DurationNS int64     `json:"duration_ns"`
	IntervalNS int64     `json:"interval_ns"` // averaging window Δt
	Profile    string    `json:"profile"`
	Steps      []Step    `json:"steps"`
	Hops       []Hop     `json:"hops"`
	Probes     []Probe   `json:"probes"`
	Summary    Summary   `json:"summary"`

	abw *quantize.Buckets // nil: no second axis in pictures
}

// Kind is how a hop measures.
type Kind string

// The kinds.
const (
	Software Kind = "software" // an agent polls counters and rewrites rules
	Native   Kind = "native"   // the data plane, by itself
)

// Step is one change of the background load. It begins with a burst, which the
// kernel's pacers send at every change of their rate, and is done when the
// fullest hop's queue has got rid of that.
type Step struct {
	Time     time.Time     `json:"time"`
	Name     string        `json:"name"`
	Burst    time.Duration `json:"burst_ns"`  // from Time until the burst is gone
	LoadsBPS []uint64      `json:"loads_bps"` // wanted on each hop's link, probes included
}

// Hop is one switch's egress port on the path, as its own counters saw it last.
type Hop struct {
	Device      string      `json:"device"`
	Kind        Kind        `json:"kind"`
	IntervalNS  int64       `json:"interval_ns"` // its Δt
	Port        string      `json:"port"`
	Locator     string      `json:"locator"`
	CapacityBPS uint64      `json:"capacity_bps"`
	LoadBPS     uint64      `json:"load_bps"`
	ABWBPS      uint64      `json:"abw_bps"`
	ABWCPPM     uint64      `json:"abwc_ppm"`
	Signals     []HopSignal `json:"signals"`
	Cycles      uint64      `json:"cycles"` // of its agent
	Failed      uint64      `json:"failed"`
	Skipped     uint64      `json:"skipped"`
}

// HopSignal is a hop's bucket for one signal.
type HopSignal struct {
	Signal string `json:"signal"`
	Bucket uint8  `json:"bucket"`
	LM     uint16 `json:"lm"`
}

// Probe is one tagged frame that arrived. Low and High are the range of S in
// the signal's unit: bit/s for abw, ppm of the capacity for abwc. TruthS and
// TruthLocator have no meaning where Unjudged.
type Probe struct {
	Time         time.Time     `json:"time"` // of arrival
	Signal       string        `json:"signal"`
	S            uint8         `json:"s"`
	Low          uint64        `json:"low"`
	High         uint64        `json:"high"`
	LM           uint16        `json:"lm"`
	Locator      string        `json:"locator"` // the port that wrote, "none" or "stale"
	TruthS       uint8         `json:"truth_s"`
	TruthLocator string        `json:"truth_locator"`
	Age          time.Duration `json:"age_ns"`   // end of the counter window behind S → arrival
	Settling     bool          `json:"settling"` // on its way within 2 Δt of a load step
	Unjudged     bool          `json:"unjudged"` // the judge itself was held up: no truth for this instant
	Exact        bool          `json:"exact"`
}

// Summary counts. Probes = Exact + the wrong ones + Settling + Unjudged + Lost;
// WithinOne includes Exact; WrongLocator counts among the exact and the wrong
// ones; a probe that is both settling and unjudged counts as settling.
type Summary struct {
	Probes       int           `json:"probes"` // sent
	Exact        int           `json:"exact"`
	WithinOne    int           `json:"within_one"`
	Settling     int           `json:"settling"`
	Unjudged     int           `json:"unjudged"`
	WrongLocator int           `json:"wrong_locator"`
	Lost         int           `json:"lost"`
	AgeP50       time.Duration `json:"age_p50_ns"`
	AgeP99       time.Duration `json:"age_p99_ns"`

	Kinds []KindSummary `json:"kinds"` // of the probes whose locator names a hop of the kind
}

// KindSummary is that of the probes that hops of one kind wrote last.
type KindSummary struct {
	Kind         Kind          `json:"kind"`
	IntervalNS   int64         `json:"interval_ns"` // their Δt
	Exact        int           `json:"exact"`
	Wrong        int           `json:"wrong"`
	WrongLocator int           `json:"wrong_locator"`
	AgeP50       time.Duration `json:"age_p50_ns"`
	AgeP99       time.Duration `json:"age_p99_ns"`
}

// of is the part of a kind; nil where there is none.
func (s *Summary) of(k Kind) *KindSummary {
	for i := range s.Kinds {
		if s.Kinds[i].Kind == k {
			return &s.Kinds[i]
		}
	}
	return nil
}

// add counts one probe that arrived.
func (k *KindSummary) add(p *Probe, locatorOK bool) {
	if k == nil || p.Settling || p.Unjudged {
		return
	}
	if p.Exact {
		k.Exact++
	} else {
		k.Wrong++
	}
	if !locatorOK {
		k.WrongLocator++
	}
}

// ages are those of the signals that arrived, by the kind of the hop that wrote; those
// that no hop wrote are of all kinds only.
type ages struct {
	all  []time.Duration
	kind map[Kind][]time.Duration
}

func (a *ages) add(k Kind, age time.Duration) {
	a.all = append(a.all, age)
	if k == "" {
		return
	}
	if a.kind == nil {
		a.kind = map[Kind][]time.Duration{}
	}
	a.kind[k] = append(a.kind[k], age)
}

// Wrong is how many steady probes did not agree with the truth.
func (s *Summary) Wrong() int { return s.Probes - s.Exact - s.Settling - s.Unjudged - s.Lost }

// add counts one probe that arrived.
func (s *Summary) add(p *Probe, locatorOK bool) {
	if p.Settling {
		s.Settling++
		return
	}
	if p.Unjudged {
		s.Unjudged++
		return
	}
	if p.Exact {
		s.Exact++
	}
	if d := int(p.S) - int(p.TruthS); d >= -1 && d <= 1 {
		s.WithinOne++
	}
	if !locatorOK {
		s.WrongLocator++
	}
}

// percentile returns the q-quantile of ages, rounded to 10 µs; 0 without
// any.
func percentile(ages []time.Duration, q float64) time.Duration {
	if len(ages) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(ages))
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[max(i, 0)].Round(10 * time.Microsecond)
}
