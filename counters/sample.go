package counters

import (
	"context"
	"errors"
	"time"
)

// Sample is one reading of one egress port's counters.
type Sample struct {
	Port    string    // the device's name of the port
	Octets  uint64    // bytes sent, as the source counts them (see Overhead)
	Packets uint64    // frames sent
	Speed   uint64    // the device's own speed of the port in bit/s, whatever is configured; 0 where it does not say
	Up      bool      // the link can carry frames
	At      time.Time // the device's timestamp, or the midpoint of the reading
	Bits    uint8     // width of the octet counter: 64 or 32

	// Overhead is what each packet costs on the wire beyond what Octets
	// counts, in bytes: preamble and gap (20), and the FCS (4) where the
	// counter omits it.
	Overhead uint8

	// Epoch changes when the counters restarted (reboot, discontinuity time,
	// interface recreated); samples of different epochs are not compared.
	Epoch uint64

	// Local is when the reading was taken by our clock, where At is the device's;
	// zero where At is ours too. Together they distinguish a step of the device's
	// clock from the passing of time.
	Local time.Time

	// Live says that the source knows these values to be of the instant At: it
	// counts in software, or the device timestamps each value. Other values may
	// come from a cache, and a Refresh learns how old they are.
	Live bool

	// Cache is how often the device refreshes its counters, as it says itself or as is
	// documented of its software: values may be that old. 0 where nothing is known.
	Cache time.Duration

	// Lag is how much older than its refresh a cached value may be: where the cache is
	// filled from another one, that one's period. It is not in Cache.
	Lag time.Duration

	// Within is how far the instant of the reading may be from At, either way: half
	// of the time that the reading took, where At is its midpoint.
	Within time.Duration

	// Fresh, Doubt, AtError, StepError and Likely are what a Refresh found out; a source leaves
	// them alone. The values' instant is At, give or take AtError, and it is
	// later than the instant of the port's values before by the difference of the
	// two Ats, give or take StepError. Most likely it is At + Likely. With Doubt more may have been sent than the
	// values say, since it is not known yet how old they may be.
	Fresh     Freshness
	Doubt     bool
	AtError   time.Duration
	StepError time.Duration
	Likely    time.Duration

	// Degraded says in what way this reading is only approximately right,
	// "" when it is exact.
	Degraded string

	// Inflated: where it is Degraded, Octets may be more than what was sent, not only less.
	Inflated bool

	// Err is set when this port could not be read; nothing but Port and At is
	// valid then.
	Err error
}

// Freshness reports whether a reading has anything new.
type Freshness uint8

// What a reading can be.
const (
	// Current is a reading whose values are of the instant At. An idle port's
	// values are current too, however long they have been the same.
	Current Freshness = iota
	// Held is a reading that repeats the one before because the source has not
	// refreshed its counters yet: it says nothing about traffic.
	Held
	// Stuck is a reading that repeats the one before for longer than the source
	// can be expected to take: it may have stopped counting.
	Stuck
	// Anchor is a reading whose values are of the instant At, after values whose
	// instant is unknown: the next window starts here.
	Anchor
)

// ErrUnfinished is in the error of a reading that was too short for what a Source has to
// find out first: the next one continues it, unless the Source is closed.
var ErrUnfinished = errors.New("not finished")

// Source reads the egress counters of a device.
type Source interface {
	// Read appends one sample for every configured port, in the configured
	// order, to dst[:0] and returns it; a port that could not be read has Err
	// set. The error is for the whole device: then no sample is valid.
	// Read is not safe for concurrent use.
	Read(ctx context.Context, dst []Sample) ([]Sample, error)
	Close() error
}

// Detailed is what a Source implements that can say how it reads, and what it does not
// show, a sentence each.
type Detailed interface {
	Details() (details, limitations []string)
}
