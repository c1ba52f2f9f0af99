package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Trial is a change that the device takes back unless it is confirmed in time.
type Trial struct {
	Commands []string
	Commit   string        // puts them in force for a while
	Confirm  string        // keeps them
	Undo     []string      // takes them back at once; nil: the end of the session does
	Within   time.Duration // of Commit

	// Pending reports whether a commit waits for its confirmation, in the mode of the commands.
	Pending func(ctx context.Context) (bool, error)

	// Holds is why the change is not kept, nil where it is. It may use other sessions.
	Holds func(ctx context.Context) error
}

// TrialError is a change on trial that is not kept.
type TrialError struct {
	Err    error
	Undone bool // the device has what it had before; else it takes the change back by itself
}

func (e *TrialError) Error() string { return e.Err.Error() }
func (e *TrialError) Unwrap() error { return e.Err }

// ErrPending is a commit of another user that a commit would confirm.
var ErrPending = errors.New("a commit of another user is not confirmed yet, and a change would confirm it: nothing was changed")

// Commit is Configure where commands take effect by a commit, which is confirmed where it
// holds. Nothing is confirmed that csig did not commit, nor when a sixth of the time or less is
// left. An error once the commit was given is a *TrialError, unless nothing is on trial.
func (s *Session) Commit(ctx context.Context, t *Trial) error {
	n := len(t.Commands)
	all := append(slices.Clone(t.Commands), t.Commit, t.Confirm)
	return s.inMode(ctx, append(all[:n+2:n+2], t.Undo...), func() error {
		switch pending, err := t.Pending(ctx); {
		case err != nil:
			return err
		case pending:
			return ErrPending
		}
		if err := s.configure(ctx, t.Commands, 0); err != nil {
			return err
		}
		left := t.Within - t.Within/6
		within, cancel := context.WithTimeoutCause(ctx, left, fmt.Errorf("it was not read back within %v", left))
		defer cancel()
		err := s.configure(within, all[n:n+1], n)
		if err == nil {
			err = t.Holds(within)
		}
		if err == nil {
			err = s.configure(within, all[n+1:], n+1)
		}
		if err == nil {
			return nil
		}
		return s.undo(context.WithoutCancel(ctx), t, err)
	})
}

// undo takes a change on trial back, for a reason.
func (s *Session) undo(ctx context.Context, t *Trial, why error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	pending, err := false, s.Err()
	if err == nil {
		pending, err = t.Pending(ctx)
	}
	if err == nil && !pending { // it was refused, or the device was faster
		return why
	}
	if err == nil && t.Undo != nil {
		if err = s.configure(ctx, t.Undo, 0); err == nil {
			return &TrialError{Err: why, Undone: true}
		}
	}
	_ = s.lose(why) // which ends the trial on some devices
	return &TrialError{Err: why}
}
