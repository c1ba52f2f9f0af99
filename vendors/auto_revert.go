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

// AutoReverter is a device that auto-reverts a change that is not confirmed in time
// (commit-confirm): a connection that the change has cut is restored by it.
type AutoReverter interface {
	// StartRevert starts the device's auto-revert: after the delay the device restores the
	// setup it has now, whatever is changed until then, even when it is unreachable. A
	// pending auto-revert is cancelled first: the device was reached, so it keeps what it
	// has. Changes over another connection cancel a pending auto-revert, too. Those over
	// this one change nothing once the device has auto-reverted, and their error wraps
	// ErrReverted. The token is for Confirm, also over another connection. An error that
	// wraps errors.ErrUnsupported says why the device has no auto-revert; nothing is
	// changed then.
	StartRevert(ctx context.Context, after time.Duration) (token string, err error)

	// Confirm keeps the setup as it is now. Its error wraps ErrReverted when no
	// auto-revert is pending any more.
	Confirm(ctx context.Context, token string) error

	// PendingRevert returns a *PendingRevertError while an auto-revert is pending,
	// of any client.
	PendingRevert(ctx context.Context) error
}

// NewToken returns a token for StartRevert, or for whatever else needs a unique name: 16
// random hexadecimal digits.
func NewToken() string {
	var b [8]byte
	rand.Read(b[:]) //nolint:errcheck // never fails
	return hex.EncodeToString(b[:])
}

// PendingRevertError says that an auto-revert is pending on a device: an earlier csig
// started it and never confirmed its change.
type PendingRevertError struct {
	Left time.Duration // until it runs, by the device's clock; negative: overdue; 0: the device does not say
}

func (e *PendingRevertError) Error() string {
	when := fmt.Sprintf("runs in %v", e.Left)
	switch {
	case e.Left == 0:
		when = "runs when the time is up that it was started with"
	case e.Left < 0:
		when = fmt.Sprintf("should have run %v ago", -e.Left)
	}
	return "an auto-revert from an earlier csig is pending and " + when +
		": wait for it, or finish that run (csig apply --resume JOURNAL, csig rollback JOURNAL); csig off cancels it, too"
}

// PendingRevert returns a *PendingRevertError while an auto-revert is pending on a device;
// nil for one without auto-revert.
func PendingRevert(ctx context.Context, device any) error {
	if a, ok := As[AutoReverter](device); ok {
		return a.PendingRevert(ctx)
	}
	return nil
}
