package vendors

import (
	"context"
	"errors"
	"time"
)

// ErrDeadManFired is wrapped by the error of a renewal that comes too late: the ports of
// the device have fallen back, and the dead-man has to be armed again.
var ErrDeadManFired = errors.New("the dead-man on the device has fired: its ports have fallen back")

// ErrDeadManNotArmed is of a driver that has not armed the dead-man of its device.
var ErrDeadManNotArmed = errors.New("this process has not armed the dead-man")

// ErrNotProved is the error of a dead-man that has not fired yet, as it has to once.
var ErrNotProved = errors.New("it has not fired yet")

// DeadManProver is a device whose agent lets its dead-man fire once before it updates anything.
type DeadManProver interface {
	// DeadManProof is nil where it has fired, with the time within which it does, or none is needed: 0. Else it
	// is ErrNotProved, with that time where it is armed already, or says why it never will.
	DeadManProof(ctx context.Context) (after time.Duration, err error)
}

// DeadMan is a driver whose device makes its ports fall back by itself when the agent is
// gone, though its data plane has no lease: by a script or a timer of its own
// (ConfigUpdates.DeadMan names it). Driver.Remove removes it, and what it leaves when it has
// fired. A firing changes the ports behind the driver: after it, by DeadManFired, an
// ErrDeadManFired or a restart of the agent, the driver relies on nothing that it remembers
// of them, and the next Update writes what differs from what they have.
type DeadMan interface {
	// ArmDeadMan has the device make its ports fall back when no RenewDeadMan has come for
	// so long, counted from now. The device may make more of the time: it returns what.
	// It is a change of configuration, and may be called many times.
	ArmDeadMan(ctx context.Context, after time.Duration) (time.Duration, error)

	// RenewDeadMan has the time start again. It is never a change of configuration, and it
	// needs an exchange in which this process takes part: what the kernel does for a process
	// that is stopped (an open connection, TCP keepalives, an accepted connection) must renew nothing.
	// The error wraps ErrDeadManFired where it was too late.
	RenewDeadMan(ctx context.Context) error

	// DeadManFired reads from the device whether it has fired since it was armed, and the ports
	// have fallen back. The error wraps ErrDeadManFired where it is no longer there.
	DeadManFired(ctx context.Context) (bool, error)
}
