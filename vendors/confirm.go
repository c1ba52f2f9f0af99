package vendors

import (
	"context"
	"errors"
	"time"
)

// ErrReverted is what Confirm's error wraps when the device has put back what it
// had before.
var ErrReverted = errors.New("the device has gone back by itself to what it had before")

// Confirmer is a driver whose device takes a change back by itself, unless it
// is told in time that the change is good: contact that the change has cut comes
// back with it.
type Confirmer interface {
	// Arm has the device put the setup it has now back by itself after a delay,
	// whatever Apply or Remove do to it until then, even when nobody can reach
	// it any more. A device that is armed already keeps what it was to put back.
	// The mark is for Confirm, which may be called by another driver of the same
	// device. An error that wraps errors.ErrUnsupported says why the device
	// cannot, and has changed nothing.
	Arm(ctx context.Context, after time.Duration) (mark string, err error)

	// Confirm keeps the setup as it is now.
	Confirm(ctx context.Context, mark string) error
}
