package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory/outfile"
	"github.com/csig-agent/csig/vendors"
)

// The range of an auto-revert's delay, and how soon a failed one is retried.
const (
	minRevertDelay = time.Second
	maxRevertDelay = 24 * time.Hour
	revertRetry    = 5 * time.Second
)

// pendingRevert is a pending auto-revert: without a confirmation in time the daemon restores
// its earlier configuration. It is on disk, too: a daemon that is killed meanwhile
// reverts when it is restarted.
type pendingRevert struct {
	Token string    `json:"mark"`
	Until time.Time `json:"until"`
	Hash  string    `json:"config_hash"` // of the configuration to restore; "": none

	timer *time.Timer
}

func (d *Daemon) revertFile() string { return RevertFile(d.cfg.File) }

// RevertFile is where a daemon with that file keeps an auto-revert that is pending.
func RevertFile(file string) string { return file + ".armed" }

// StartRevert starts an auto-revert: after the delay the daemon restores the configuration
// that it runs now, or none. A pending one is cancelled first. An error that wraps
// errors.ErrUnsupported says why it cannot.
func (d *Daemon) StartRevert(ctx context.Context, device api.Described, after time.Duration) (token string, err error) {
	release, err := d.lockChanges(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	if after < minRevertDelay || after > maxRevertDelay {
		return "", refuse(fmt.Errorf("auto-revert after %v: want %v to %v", after, minRevertDelay, maxRevertDelay))
	}
	if err := d.cancelRevert(ctx); err != nil {
		return "", err
	}
	d.bypassed()
	a := &pendingRevert{Until: time.Now().Add(after)}
	if r := d.current(); r != nil {
		a.Hash = r.hash
		err = d.saveHistory(r)
	} else if _, there, e := d.file(); e != nil || there && d.checkOffMarker() == nil { // broken
		err = errors.Join(e, fmt.Errorf("the daemon does not run its file %s, and could not restore it: %w", d.cfg.File, errors.ErrUnsupported))
	} else {
		err = d.look(device, func(driver vendors.Driver) error {
			have, err := driver.Observe(ctx)
			if err == nil && !have.Nothing() {
				err = fmt.Errorf("the device has a setup that belongs to no configuration of this daemon, so an auto-revert could not restore it: %w", errors.ErrUnsupported)
			}
			return err
		})
	}
	if err != nil {
		return "", err
	}
	a.Token = vendors.NewToken()
	text, err := json.Marshal(a)
	if err == nil {
		err = writeFile(d.revertFile(), text)
	}
	if err == nil && d.cfg.Store != nil {
		err = d.cfg.Store.KeepRevert(ctx, &a.Hash)
	}
	if err != nil {
		return "", errors.Join(err, d.cancelRevert(context.WithoutCancel(ctx)))
	}
	a.timer = time.AfterFunc(after, func() { d.revert(a) })
	d.pending = a
	return a.Token, nil
}

// Confirm keeps the changes since StartRevert. Its error wraps vendors.ErrReverted when no
// auto-revert is pending any more.
func (d *Daemon) Confirm(ctx context.Context, token string) error {
	release, err := d.lockChanges(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := d.checkToken(token); err != nil {
		return err
	}
	if d.current() == nil { // a removal is confirmed: the next start is not to undo it
		if theirs, err := foreign(d.cfg.File); err != nil || theirs {
			if err = errors.Join(err, d.writeOffMarker()); err != nil {
				return err
			}
		}
	}
	return d.cancelRevert(ctx)
}

// PendingRevert returns a *vendors.PendingRevertError while an auto-revert is pending.
func (d *Daemon) PendingRevert(context.Context) error {
	d.change.Lock()
	defer d.change.Unlock()
	if d.pending != nil {
		return &vendors.PendingRevertError{Left: time.Until(d.pending.Until).Round(time.Second)}
	}
	return nil
}

// checkToken returns vendors.ErrReverted unless the auto-revert of this token is pending.
func (d *Daemon) checkToken(token string) error {
	if d.pending == nil || d.pending.Token != token {
		return vendors.ErrReverted
	}
	return nil
}

// beginChange is lockChanges for a change of the setup. One with a token belongs to an
// auto-revert, and comes too late after it; any other cancels a pending auto-revert, so
// that the change stays.
func (d *Daemon) beginChange(ctx context.Context, token string) (release func(), err error) {
	if release, err = d.lockChanges(ctx); err != nil {
		return nil, err
	}
	if token == "" {
		err = d.cancelRevert(ctx)
	} else if err = d.checkToken(token); err != nil {
		err = fmt.Errorf("the change came too late: %w", err)
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// cancelRevert cancels a pending auto-revert.
func (d *Daemon) cancelRevert(ctx context.Context) error {
	if text, err := os.ReadFile(d.revertFile()); err == nil && (json.Unmarshal(text, &pendingRevert{}) != nil || !bytes.Contains(text, []byte(`"mark"`))) {
		return refuse(fmt.Errorf("the file %s is in the way, and was not written by csig: move it away", d.revertFile()))
	}
	if d.cfg.Store != nil { // where one failed to begin, the store may have it all the same
		if err := d.cfg.Store.KeepRevert(ctx, nil); err != nil {
			return fmt.Errorf("cancelling the auto-revert: %w", err)
		}
	}
	if err := os.Remove(d.revertFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cancelling the auto-revert: %w", err)
	}
	if d.pending == nil {
		return nil
	}
	d.pending.timer.Stop()
	d.pending = nil
	return outfile.SyncDir(filepath.Dir(d.revertFile()))
}

// revert runs the auto-revert a, unless it was cancelled meanwhile. A failure is
// retried.
func (d *Daemon) revert(a *pendingRevert) {
	d.change.Lock()
	defer d.change.Unlock()
	if d.pending != a || d.closed {
		return
	}
	ctx := context.Background()
	log := d.cfg.Log.WithField("config", fmt.Sprintf("%.12s", a.Hash))
	err := d.checkOffMarker() // csig off bypassed this daemon: the setup is no longer ours to choose
	if err == nil {
		log.Warn("change not confirmed in time; rolling back")
		if err = d.rollBackTo(ctx, a.Hash); err == nil {
			err = d.keepConfig(ctx)
		}
	}
	if err == nil || errors.As(err, new(*OffError)) {
		err = d.cancelRevert(ctx)
	}
	if err != nil {
		log.WithError(err).WithFields(logrus.Fields{"again_in": revertRetry.String()}).Error("rollback of the unconfirmed change failed")
		a.timer.Reset(revertRetry)
	}
}

// rollBackTo puts the configuration of that hash in force; "": none.
func (d *Daemon) rollBackTo(ctx context.Context, hash string) error {
	r := d.current()
	switch {
	case hash == "" && r == nil, r != nil && r.hash == hash:
		return nil // no change came
	case hash == "":
		return d.removeSetup(ctx, api.Described{}, "")
	}
	text, err := d.Config(ctx, hash)
	if err == nil {
		err = d.configure(ctx, []byte(text))
	}
	if r := d.current(); err != nil && r != nil && r.hash == hash {
		d.cfg.Log.WithError(err).Warn("configuration rolled back; its setup is not complete")
		return nil // it is retried like any other
	}
	return err
}

// revertAfterRestart restores the daemon's file from before a change that was not confirmed
// when the daemon ended. It does not touch the device.
func (d *Daemon) revertAfterRestart() error {
	if d.cfg.Shadow {
		return nil
	}
	text, err := os.ReadFile(d.revertFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var a pendingRevert
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	var kept string
	switch {
	case err != nil:
	case a.Hash == "":
		_, err = d.retireFile(false)
	default:
		if kept, err = d.Config(context.Background(), a.Hash); err == nil {
			err = d.saveFile([]byte(kept), a.Hash)
		}
	}
	if err != nil {
		return fmt.Errorf("the last change was not confirmed, and the configuration before it cannot be restored: %w; remove %s to run the present one", err, d.revertFile())
	}
	d.cfg.Log.WithField("config", fmt.Sprintf("%.12s", a.Hash)).Warn("change not confirmed before the daemon stopped; rolling back")
	return d.cancelRevert(context.Background())
}
