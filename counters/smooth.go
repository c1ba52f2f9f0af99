package counters

import (
	"fmt"
	"math/bits"
	"time"
)

// Method is a way to average a port's load (draft-00 §5.1.1 leaves it open).
type Method uint8

// The methods. τ is EstimatorConfig.Tau; what an idle port shows of a step to load
// L after t:
//
//	raw    0 … L in a straight line while the step is inside the window Δt, then L
//	ewma   L·(1-e^(-t/τ)): 63 % after τ, 95 % after 3τ, 99 % after 4.6τ
//	dre    the same for readings much closer than τ; between readings T apart
//	       1-T/τ of the difference remains, so that it is faster the coarser T is,
//	       and equal to the last gap's rate from T = τ on
const (
	// Raw is the rate over the last Δt: every bit counts alike until it falls
	// out of the window. See Estimator.
	Raw Method = iota
	// EWMA is an exponentially weighted moving average in continuous time: a gap
	// of length d leaves e^(-d/τ) of what was known before, however regular the
	// readings are.
	EWMA
	// DRE is CONGA's discounting rate estimator (Alizadeh et al., SIGCOMM 2014,
	// §3.2): a register that grows by what is sent and is multiplied by 1-α every
	// T; the rate is the register over τ = T/α. A counter shows at each reading
	// what was sent since the one before, so T is the distance of the readings and
	// α = T/τ.
	DRE
)

var methodNames = [...]string{"raw", "ewma", "dre"}

// String returns raw, ewma or dre.
func (m Method) String() string {
	if int(m) < len(methodNames) {
		return methodNames[m]
	}
	return "invalid"
}

// ParseMethod is the inverse of String.
func ParseMethod(name string) (Method, error) {
	for i, n := range methodNames {
		if n == name {
			return Method(i), nil
		}
	}
	return 0, fmt.Errorf("unknown averaging method %q: want raw, ewma or dre", name)
}

// Averager turns the samples of one port into available bandwidth. It is not safe for
// concurrent use.
type Averager interface {
	// Update takes the port's next sample and returns the estimate that ends
	// with it.
	Update(Sample) Estimate

	// configure has it go on with what it knows by another configuration.
	configure(EstimatorConfig)
}

// NewAverager returns an Estimator for Raw, a Smoother for the other methods.
func NewAverager(m Method, cfg EstimatorConfig) Averager {
	if m == Raw {
		return NewEstimator(cfg)
	}
	return NewSmoother(m, cfg)
}

// Smoother is the EWMA or DRE of the rates from one sample to the next. Start, End,
// Bits and Error of its estimates describe the newest gap; Load, ABW and ABWC, and
// their ranges, come from the filter. It starts from the first gap's rate, not from
// zero, and restarts whenever an Estimator would: after a link that was down, a counter that
// restarted or a speed that changed.
//
// Arithmetic is in integers of 2^-16 bit/s, rounded so that the load is never
// understated: a constant load is reached exactly from below, and to within
// τ/d · 2^-16 bit/s from above, with d the distance of the samples.
type Smoother struct {
	method Method
	tau    time.Duration
	gaps   Estimator
	have   bool
	load   [3]uint64 // nominal, least, most; in 2^-16 bit/s
}

// loadShift is how many fraction bits loads have, and maxLoad the largest one.
const (
	loadShift = 16
	maxLoad   = 1<<(64-loadShift) - 1
)

// NewSmoother returns a Smoother that has seen no sample; m is EWMA or DRE. A Tau of
// 0 takes the Interval; where that is 0 too, nothing is smoothed.
func NewSmoother(m Method, cfg EstimatorConfig) *Smoother {
	f := &Smoother{method: m}
	f.configure(cfg)
	return f
}

func (f *Smoother) configure(cfg EstimatorConfig) {
	if f.tau = cfg.Tau; f.tau <= 0 {
		f.tau = max(cfg.Interval, 0)
	}
	cfg.Interval, cfg.Least = 0, 0 // short gaps weigh little
	f.gaps.cfg = cfg
}

// Update takes the port's next sample. It allocates nothing as long as the samples
// are good.
func (f *Smoother) Update(s Sample) Estimate {
	est := f.gaps.update(&s)
	switch est.State {
	case OK:
	case First, Down, Discontinuity:
		f.have = false
		return est
	default:
		return est
	}
	least, most := est.LoadRange()
	keep := f.keep(est.End.Sub(est.Start))
	for i, l := range [...]uint64{est.Load(), least, most} {
		l = min(l, maxLoad) << loadShift
		if f.have {
			l = mix(f.load[i], l, keep)
		}
		f.load[i] = l
	}
	f.have = true
	est.smoothed = loads{true, whole(f.load[0]), whole(f.load[1]), whole(f.load[2])}
	est.ABW = left(est.Capacity, est.smoothed.load)
	est.ABWC = ppm(est.ABW, est.Capacity)
	return est
}

// keep is the part of what was known that a gap of d leaves, in 2^-32.
func (f *Smoother) keep(d time.Duration) uint64 {
	switch {
	case f.tau == 0:
		return 0
	case f.method == EWMA:
		return expNeg(uint64(d), uint64(f.tau))
	case d >= f.tau:
		return 0
	}
	hi, lo := bits.Mul64(uint64(f.tau-d), 1<<32)
	q, _ := bits.Div64(hi, lo, uint64(f.tau))
	return q
}

// mix is now + (old-now)·keep, rounded up.
func mix(old, now, keep uint64) uint64 {
	if old < now {
		hi, lo := bits.Mul64(now-old, keep)
		return now - (hi<<32 | lo>>32)
	}
	hi, lo := bits.Mul64(old-now, keep)
	d := hi<<32 | lo>>32
	if uint32(lo) != 0 {
		d++
	}
	return now + d
}

// whole is l in bit/s, rounded up.
func whole(l uint64) uint64 {
	w := l >> loadShift
	if l&(1<<loadShift-1) != 0 {
		w++
	}
	return w
}

// expNeg returns e^(-a/b) in 2^-32, to within 2^-30; b must not be 0.
func expNeg(a, b uint64) uint64 {
	const ln2 = 2977044472 // in 2^-32
	if a/b >= 32 {
		return 0
	}
	hi, lo := bits.Mul64(a, 1<<32)
	x, _ := bits.Div64(hi, lo, b) // a/b < 2^5, so x < 2^37
	halvings := x / ln2
	x %= ln2
	// 1 - x + x²/2! - …, from its end: 1 - x/1·(1 - x/2·(1 - …)).
	sum := uint64(1 << 32)
	for n := uint64(12); n > 0; n-- {
		sum = 1<<32 - x*sum>>32/n
	}
	return sum >> halvings
}
