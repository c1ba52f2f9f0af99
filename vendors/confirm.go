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
// device has auto-reverted, or another process has changed its setup.
var ErrReverted = errors.New("the device has auto-reverted to the setup it had before the change")

// Confirmer is a driver whose device auto-reverts a change that is not confirmed in
// time (commit-confirm): a connection that the change has cut is restored by it.
type Confirmer interface {
	// Arm starts the device's auto-revert: after the delay the device restores the
	// setup it has now, whatever this driver's Apply or Remove change until then, even
	// when it is unreachable. A pending auto-revert of an earlier Arm is cancelled
	// first: the device was reached, so it keeps what it has. Apply and Remove of a
	// driver that did not arm the device cancel a pending auto-revert, too. Those of
	// the driver that did change nothing once the device has auto-reverted, and their
	// error wraps ErrReverted. The mark is the token for Confirm, which another driver
	// of the same device may call. An error that wraps errors.ErrUnsupported says why
	// the device has no auto-revert; nothing is changed then.
	Arm(ctx context.Context, after time.Duration) (mark string, err error)

	// Confirm keeps the setup as it is now. Its error wraps ErrReverted when no
	// auto-revert is pending any more.
	Confirm(ctx context.Context, mark string) error
}

// NewMark returns a token for Arm, or for whatever else needs a unique name: 16
// random hexadecimal digits.
func NewMark() string {
	var b [8]byte
	rand.Read(b[:]) //nolint:errcheck // never fails
	return hex.EncodeToString(b[:])
}

// ArmedReader is a driver that can read whether an auto-revert is pending on its
// device, however it was armed.
type ArmedReader interface {
	// Armed returns an *ArmedError while an auto-revert is pending, nil otherwise.
	Armed(ctx context.Context) error
}

// ArmedError says that an auto-revert is pending on a device: an earlier csig armed
// it and never confirmed its change.
type ArmedError struct {
	Left time.Duration // until it runs, by the device's clock; negative: overdue
}

func (e *ArmedError) Error() string {
	when := fmt.Sprintf("runs in %v", e.Left)
	if e.Left < 0 {
		when = fmt.Sprintf("should have run %v ago", -e.Left)
	}
	return "an auto-revert from an earlier csig is pending and " + when +
		": wait for it, or finish that run (csig apply --resume JOURNAL, csig rollback JOURNAL); csig off cancels it, too"
}

// ArmedBy returns an *ArmedError while an auto-revert is pending on the driver's
// device; nil where the driver cannot tell.
func ArmedBy(ctx context.Context, driver any) error {
	if a, ok := As[ArmedReader](driver); ok {
		return a.Armed(ctx)
	}
	return nil
}
