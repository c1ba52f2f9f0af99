package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/csig-agent/csig/agent/api"
)

// Lock is who has a device's change lock, and whose csig off ended.
type Lock struct {
	Held  *api.Operator `json:"held,omitempty"`  // nil: none
	Ended *api.Operator `json:"ended,omitempty"` // this run of a command, and no later one; nil: none
	By    *api.Operator `json:"by,omitempty"`    // who ended it
}

// Store keeps what the device's next agent has to find, which may run on another machine.
type Store interface {
	Lock(ctx context.Context) (Lock, error)
	KeepLock(ctx context.Context, l Lock) error

	KeepConfig(ctx context.Context) error                     // the one that is in force: the daemon's file
	Earlier(ctx context.Context, hash string) (string, error) // one that was kept; "": none has this hash

	// KeepRevert keeps to which configuration an auto-revert goes back that is pending, by its
	// hash ("": to none); nil: none is pending. The next agent goes back at once.
	KeepRevert(ctx context.Context, to *string) error
}

// changeLock is a device's: one operator at a time changes it.
type changeLock struct {
	mu    sync.Mutex
	store Store // nil: none
	known bool  // what the store has was read
	now   Lock
	until time.Time // of what it has
}

// Admit lets an operator change the device and takes the lock for them, or keeps it.
func (d *Daemon) Admit(ctx context.Context, op api.Operator) error {
	l, now := &d.operators, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store != nil && !l.known {
		kept, err := l.store.Lock(ctx)
		switch {
		case err == nil:
			l.known, l.now, l.until = true, kept, now.Add(api.LockTerm) // since when is not known
		case !op.Force: // an emergency stop needs no store
			return fmt.Errorf("the operator that holds the device cannot be read: %w", err)
		}
	}
	if !now.Before(l.until) {
		l.now = Lock{}
	}
	held, ended := l.now.Held, l.now.Ended
	own := held != nil && held.Session == op.Session
	switch {
	case op.Force:
		if held == nil {
			return nil
		}
		l.now = Lock{Ended: held, By: &op}
		_ = l.keep(ctx, l.now) // it is ended here, whatever the store says
	case ended != nil && op.Session == ended.Session && op.Since.Equal(ended.Since):
		return api.EndedError(d.device(), l.now.By)
	case held != nil && !own:
		return api.LockedError(d.device(), held)
	case op.Session == "":
		return nil
	case !own:
		if err := l.keep(ctx, Lock{Held: &op, Ended: ended, By: l.now.By}); err != nil {
			return fmt.Errorf("the operator that holds the device cannot be stored: %w", err)
		}
	}
	l.until = now.Add(api.LockTerm)
	return nil
}

// keep has it as it is to be now.
func (l *changeLock) keep(ctx context.Context, now Lock) error {
	if now.Held == nil {
		l.now.Held = nil // whatever the store says
	}
	if l.store != nil {
		if err := l.store.KeepLock(ctx, now); err != nil {
			return err
		}
	}
	l.now = now
	return nil
}

// Leave frees the lock, where that session has it.
func (d *Daemon) Leave(ctx context.Context, session string) error {
	l := &d.operators
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now.Held == nil || l.now.Held.Session != session {
		return nil
	}
	return l.keep(ctx, Lock{Ended: l.now.Ended, By: l.now.By})
}

// device is the name of the device, where it is known.
func (d *Daemon) device() string {
	if r := d.current(); r != nil {
		return r.dev.Name
	}
	return "this device"
}
