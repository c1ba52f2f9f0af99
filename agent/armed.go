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

	"github.com/csig-agent/csig/inventory/outfile"
	"github.com/csig-agent/csig/vendors"
)

// How long a daemon may be told to wait for a confirmation, and how soon it
// tries again to go back where that failed.
const (
	minArmed    = time.Second
	maxArmed    = 24 * time.Hour
	revertRetry = 5 * time.Second
)

// armed is that the daemon goes back by itself, unless it is told in time that
// what it was given since is good. It is kept on disk, too: a daemon that is
// killed meanwhile goes back when it is started again.
type armed struct {
	Mark  string    `json:"mark"`
	Until time.Time `json:"until"`
	Hash  string    `json:"config_hash"` // of the configuration to go back to; "": to none

	timer *time.Timer
}

func (d *Daemon) armedFile() string { return d.cfg.File + ".armed" }

// Arm has the daemon go back by itself to the configuration that it runs now,
// or to none, after a delay. What an earlier Arm has left waiting ends first. An
// error that wraps errors.ErrUnsupported says why it cannot.
func (d *Daemon) Arm(ctx context.Context, platform string, after time.Duration) (mark string, err error) {
	release, err := d.takeTurn(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	if after < minArmed || after > maxArmed {
		return "", refuse(fmt.Errorf("go back after %v: want %v to %v", after, minArmed, maxArmed))
	}
	if err := d.disarm(); err != nil {
		return "", err
	}
	a := &armed{Until: d.cfg.Now().Add(after)}
	if r := d.current(); r != nil {
		a.Hash = r.hash
		err = d.keepEarlier(r)
	} else if _, there, e := d.file(); e != nil || there { // broken, or taken off past us
		err = errors.Join(e, fmt.Errorf("the daemon does not run its file %s, and could not put it back: %w", d.cfg.File, errors.ErrUnsupported))
	} else {
		err = d.look(platform, func(driver vendors.Driver) error {
			have, err := driver.Observe(ctx)
			if err == nil && (have.TPID != 0 || len(have.Ports) > 0 || have.Damaged != "") {
				err = fmt.Errorf("the device has a setup that is of no configuration of this daemon, which could not restore it: %w", errors.ErrUnsupported)
			}
			return err
		})
	}
	if err != nil {
		return "", err
	}
	a.Mark = vendors.NewMark()
	text, err := json.Marshal(a)
	if err == nil {
		err = writeFile(d.armedFile(), text)
	}
	if err != nil {
		return "", err
	}
	a.timer = time.AfterFunc(after, func() { d.revert(a) })
	d.armed = a
	return a.Mark, nil
}

// Confirm keeps what the daemon was given since Arm. Its error wraps
// vendors.ErrReverted when nothing waits any more.
func (d *Daemon) Confirm(ctx context.Context, mark string) error {
	release, err := d.takeTurn(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := d.holds(mark); err != nil {
		return err
	}
	if d.current() == nil { // a removal is confirmed: the next start is not to undo it
		if theirs, err := foreign(d.cfg.File); err != nil || theirs {
			if err = errors.Join(err, d.leaveOff()); err != nil {
				return err
			}
		}
	}
	return d.disarm()
}

// Armed is a *vendors.ArmedError when the daemon, or the device itself, waits to
// go back.
func (d *Daemon) Armed(ctx context.Context, platform string) error {
	d.change.Lock()
	defer d.change.Unlock()
	if d.armed != nil {
		return &vendors.ArmedError{Left: d.armed.Until.Sub(d.cfg.Now()).Round(time.Second)}
	}
	return d.look(platform, func(driver vendors.Driver) error { return vendors.ArmedBy(ctx, driver) })
}

// holds tells whether the daemon still waits for this mark.
func (d *Daemon) holds(mark string) error {
	if d.armed == nil || d.armed.Mark != mark {
		return vendors.ErrReverted
	}
	return nil
}

// changing tells whether a change may be made. One with a mark is what the
// daemon was armed for, and comes too late when it has gone back; any other
// ends what waits, so that it stays.
func (d *Daemon) changing(mark string) error {
	if mark == "" {
		return d.disarm()
	}
	if err := d.holds(mark); err != nil {
		return fmt.Errorf("the change came too late: %w", err)
	}
	return nil
}

// disarm ends what waits to go back.
func (d *Daemon) disarm() error {
	if text, err := os.ReadFile(d.armedFile()); err == nil && (json.Unmarshal(text, &armed{}) != nil || !bytes.Contains(text, []byte(`"mark"`))) {
		return refuse(fmt.Errorf("the file %s is in the way, and was not written by csig: move it away", d.armedFile()))
	}
	if err := os.Remove(d.armedFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("ending what waits to go back: %w", err)
	}
	if d.armed == nil {
		return nil
	}
	d.armed.timer.Stop()
	d.armed = nil
	return outfile.SyncDir(filepath.Dir(d.armedFile()))
}

// revert goes back, unless a has ended meanwhile. What fails is tried again.
func (d *Daemon) revert(a *armed) {
	d.change.Lock()
	defer d.change.Unlock()
	if d.armed != a || d.closed {
		return
	}
	log := d.cfg.Log.WithField("config", fmt.Sprintf("%.12s", a.Hash))
	err := d.off() // past this daemon: what it has is no longer ours to choose
	if err == nil {
		log.Warn("change not confirmed in time; rolling back")
		err = d.goBack(a.Hash)
	}
	if err == nil || errors.As(err, new(*OffError)) {
		err = d.disarm()
	}
	if err != nil {
		log.WithError(err).WithFields(logrus.Fields{"again_in": revertRetry.String()}).Error("going back to what was there before the last change")
		a.timer.Reset(revertRetry)
	}
}

// goBack puts the configuration of that hash in force, or none.
func (d *Daemon) goBack(hash string) error {
	r := d.current()
	switch {
	case hash == "" && r == nil, r != nil && r.hash == hash:
		return nil // no change came
	case hash == "":
		return d.forget(context.Background(), "", "")
	}
	text, err := d.Config(hash)
	if err == nil {
		err = d.configure(context.Background(), []byte(text))
	}
	if r := d.current(); err != nil && r != nil && r.hash == hash {
		d.cfg.Log.WithError(err).Warn("what was there before the last change is back, and not complete")
		return nil // it is tried again like any other
	}
	return err
}

// recall makes the daemon's file what it was before a change that was not
// confirmed when the daemon ended. It does not touch the device.
func (d *Daemon) recall() error {
	if d.cfg.Shadow {
		return nil
	}
	text, err := os.ReadFile(d.armedFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var a armed
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	var kept string
	switch {
	case err != nil:
	case a.Hash == "":
		_, err = d.unfile(false)
	default:
		if kept, err = d.Config(a.Hash); err == nil {
			err = d.keep([]byte(kept), a.Hash)
		}
	}
	if err != nil {
		return fmt.Errorf("the last change was never confirmed, and what was there before it cannot be put back: %w; remove %s to run what is there", err, d.armedFile())
	}
	d.cfg.Log.WithField("config", fmt.Sprintf("%.12s", a.Hash)).Warn("this daemon ended before anybody confirmed its last change: going back to what was there before it")
	return d.disarm()
}
