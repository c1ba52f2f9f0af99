package vendors

import (
	"context"
	"errors"
)

// LinkFrame is a test frame that stays on one link: its destination is a group
// address that no bridge forwards.
type LinkFrame struct {
	Nonce uint64 // by which it is known again
	Tag   []byte // the CSIG tag from its TPID on: 4 bytes, or 8 of a wide one; empty: none
	Size  int    // bytes of the frame with its tag, without FCS
}

// ErrNotYet is what an error of a test frame wraps when the device would take it
// once the plan has given it its configuration.
var ErrNotYet = errors.New("it is not set up for test frames yet")

// LinkProber is a driver that can try the links of its ports with test frames.
// Like the other methods of a driver these are not safe for concurrent use. An
// error that wraps errors.ErrUnsupported says why it cannot after all.
type LinkProber interface {
	// ListenLink begins to take in the test frames that arrive at a port. The
	// listener is independent of the driver, and ends with ctx.
	ListenLink(ctx context.Context, port string) (LinkListener, error)

	// SendLink sends a test frame out of a port, through what the port does to
	// tags on their way out. A port may send a frame that is longer than its
	// MTU where it forwards such frames, too. That the port drops the frame is
	// no error: it does not arrive.
	SendLink(ctx context.Context, port string, f LinkFrame) error
}

// LinkListener takes in test frames.
type LinkListener interface {
	// Next waits for the next test frame from any sender. The error is ctx's
	// when it ends.
	Next(ctx context.Context) (LinkFrame, error)
	Close() error
}
