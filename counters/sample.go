package counters

import (
	"context"
	"time"
)

// Sample is one reading of one egress port's counters.
type Sample struct {
	Port    string    // the device's name of the port
	Octets  uint64    // bytes sent, as the source counts them (see Overhead)
	Packets uint64    // frames sent
	Speed   uint64    // capacity C in bit/s; 0 where the source does not know
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

	// Degraded says in what way this reading is only approximately right,
	// "" when it is exact.
	Degraded string

	// Err is set when this port could not be read; nothing but Port and At is
	// valid then.
	Err error
}

// Source reads the egress counters of a device.
type Source interface {
	// Read appends one sample for every configured port, in the configured
	// order, to dst[:0] and returns it; a port that could not be read has Err
	// set. The error is for the whole device: then no sample is valid.
	// Read is not safe for concurrent use.
	Read(ctx context.Context, dst []Sample) ([]Sample, error)
	Close() error
}
