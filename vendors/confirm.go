package vendors

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// ErrReverted is wrapped by the error of a confirmation that comes too late: the
// device has restored what it had before, or another process has given it a
// setup.
var ErrReverted = errors.New("the device has gone back by itself to what it had before")

// Confirmer is a driver whose device takes a change back by itself, unless it
// is told in time that the change is good: contact that the change has cut comes
// back with it.
type Confirmer interface {
	// Arm has the device put the setup it has now back by itself after a delay,
	// whatever this driver's Apply or Remove do to it until then, even when
	// it cannot be reached any more. What an earlier Arm has left waiting ends
	// first: the device was reached, so it keeps what it has. Apply and Remove of
	// any driver that did not arm the device end what waits there, too; that of the one that did
	// changes nothing any more once the device has gone back, and its error wraps
	// ErrReverted. The mark is for Confirm, which may be called by another driver
	// of the same device. An error that wraps errors.ErrUnsupported says why the
	// device cannot, and has changed nothing.
	Arm(ctx context.Context, after time.Duration) (mark string, err error)

	// Confirm keeps the setup as it is now. Its error wraps ErrReverted when
	// nothing waits any more.
	Confirm(ctx context.Context, mark string) error
}

// NewMark makes a mark for Arm, or whatever else is to be told from all others:
// 16 hexadecimal digits at random.
func NewMark() string {
	var b [8]byte
	rand.Read(b[:]) //nolint:errcheck // never fails
	return hex.EncodeToString(b[:])
}

// ArmedReader is a driver that can tell whether the device waits to go back, by
// whatever way it was armed.
type ArmedReader interface {
	// Armed is an *ArmedError when the device waits to go back by itself, nil
	// when it does not.
	Armed(ctx context.Context) error
}

// ArmedError says that a device goes back by itself, because an earlier csig
// armed it and never confirmed its change.
type ArmedError struct {
	Left time.Duration // until it goes back, by the device's clock; negative: overdue
}

func (e *ArmedError) Error() string {
	when := fmt.Sprintf("goes back by itself in %v", e.Left)
	if e.Left < 0 {
		when = fmt.Sprintf("should have gone back by itself %v ago", -e.Left)
	}
	return "it is armed by an earlier csig that did not come back to it, and " + when +
		" to what it had before: wait until it has, or finish that run (csig apply --resume JOURNAL, csig rollback JOURNAL); csig off ends it, too"
}

// ArmedBy asks a device's driver whether the device waits to go back; nil where
// the driver cannot tell.
func ArmedBy(ctx context.Context, driver any) error {
	if a, ok := As[ArmedReader](driver); ok {
		return a.Armed(ctx)
	}
	return nil
}
