package counters

import (
	"fmt"
	"math/bits"

	"github.com/csig-agent/csig/quantize"
)

// Damping keeps a bucket from flapping: a worse one is passed on at once, a better
// one only when it has proved itself. The zero value passes everything on.
type Damping struct {
	// Hold is for how many readings in a row a better bucket must have been
	// seen; 0 and 1 are at once.
	Hold int
	// Margin is how far the value must be inside the better bucket, in
	// thousandths of its width.
	Margin uint32
}

// Validate says what is wrong with the settings.
func (d Damping) Validate() error {
	switch {
	case d.Hold < 0:
		return fmt.Errorf("damping: hold of %d readings: want 0 or more", d.Hold)
	case d.Margin > 1000:
		return fmt.Errorf("damping: margin of %d/1000 of a bucket: want 1000 at most", d.Margin)
	}
	return nil
}

// Damper is the damping of one signal of one port. It is not safe for concurrent
// use.
type Damper struct {
	cfg   Damping
	have  bool
	now   uint8 // passed on last
	count int   // readings in a row that were better
	worst uint8 // the worst bucket of these
}

// NewDamper returns a Damper that passes on whatever comes first.
func NewDamper(cfg Damping) *Damper { return &Damper{cfg: cfg} }

// Bucket takes the signal's next value, in the table's unit, and returns the bucket to
// advertise. After Hold better readings that is the worst bucket of these.
func (d *Damper) Bucket(table *quantize.Buckets, value uint64) uint8 {
	s := table.Bucket(value)
	sig := table.Signal
	if !d.have || sig.Worse(s, d.now) || d.cfg.Hold <= 1 && d.cfg.Margin == 0 {
		d.have, d.now, d.count = true, s, 0
		return s
	}
	if s = d.proven(table, value, s); !sig.Worse(d.now, s) {
		d.count = 0
		return d.now
	}
	if d.count == 0 || sig.Worse(s, d.worst) {
		d.worst = s
	}
	if d.count++; d.count >= d.cfg.Hold {
		d.now, d.count = d.worst, 0
	}
	return d.now
}

// Reset deletes everything, as after a reading that says nothing about the time
// before: the next value is passed on as it is.
func (d *Damper) Reset() { *d = Damper{cfg: d.cfg} }

// proven is the best bucket that the value is far enough inside of, s or worse.
func (d *Damper) proven(table *quantize.Buckets, value uint64, s uint8) uint8 {
	low, high := table.Range(s)
	hi, lo := bits.Mul64(high-low, uint64(d.cfg.Margin))
	margin, _ := bits.Div64(hi, lo, 1000) // at most high-low
	if table.Signal.Max() {
		if s < quantize.NumBuckets-1 && high-value < margin {
			s++
		}
		return s
	}
	if s > 0 && value-low < margin {
		s--
	}
	return s
}

// BucketRange is an estimate in buckets: the nominal one, and the worst and the best
// that its uncertain Δt allows.
type BucketRange struct {
	S, Worst, Best uint8
}

// Doubtful reports whether the uncertainty reaches into another bucket.
func (b BucketRange) Doubtful() bool { return b.Worst != b.Best }

// BucketsOf returns the buckets of an estimate; ok is false where it is not Valid, as a
// first one is, and for a table of a signal that counters cannot show (draft-00 §6.4).
func BucketsOf(e *Estimate, table *quantize.Buckets) (b BucketRange, ok bool) {
	value, low, high, ok := e.values(table.Signal)
	if !ok || !e.State.Valid() {
		return BucketRange{}, false
	}
	return BucketRange{table.Bucket(value), table.Bucket(low), table.Bucket(high)}, true
}

// values is what an estimate that is Valid says of a signal, in its unit: the nominal
// value, and the least and the most. ok is false where it says nothing.
func (e *Estimate) values(sig quantize.Signal) (value, low, high uint64, ok bool) {
	switch sig {
	case quantize.MinABW:
		low, high = e.ABWRange()
		return e.ABW, low, high, true
	case quantize.MinABWC:
		low, high := e.ABWCRange()
		return uint64(e.ABWC), uint64(low), uint64(high), true
	}
	return 0, 0, 0, false
}
