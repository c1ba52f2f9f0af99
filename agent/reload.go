package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
)

// fileLook is how often the daemon looks whether a user has changed its file.
const fileLook = time.Second

// userFile is what the daemon knows of its file, where that is a user's.
type userFile struct {
	theirs bool // it was, when it was read
	watch  inventory.Watch
}

// read reads the daemon's file, and remembers it, with those that it includes, as it was then.
func (d *Daemon) read() (*inventory.Fleet, error) {
	theirs, err := foreign(d.cfg.File)
	d.users.theirs = err == nil && theirs
	fleet, err := d.cfg.Load(d.cfg.File)
	if err == nil && d.cfg.NoCommands && !d.users.theirs { // it came from elsewhere
		err = withoutCommands(fleet)
	}
	d.users.watch.Note(d.cfg.File, fleet, err)
	return fleet, err
}

// lookAtFile puts the daemon's file in force where a user has changed it.
func (d *Daemon) lookAtFile(ctx context.Context) {
	d.change.Lock()
	defer d.change.Unlock()
	if !d.users.watch.Changed() {
		return
	}
	theirs, err := foreign(d.cfg.File)
	switch missing := errors.Is(statError(d.cfg.File), fs.ErrNotExist); {
	case missing && !d.users.theirs:
		return // nothing is lost of ours that is not in force
	case !missing && !theirs && err == nil:
		d.users.theirs = false // csig wrote it, and runs it
		d.users.watch.Note(d.cfg.File, nil, nil)
		return
	}
	d.reload(ctx)
}

// reloadNow is a user's wish to have the file put in force as it is now.
func (d *Daemon) reloadNow(ctx context.Context) {
	if d.cfg.Reloading != nil {
		defer d.cfg.Reloading()()
	}
	d.change.Lock()
	defer d.change.Unlock()
	d.reload(ctx)
}

// reload puts the daemon's file in force, and notes how that ended. d.change is held.
func (d *Daemon) reload(ctx context.Context) {
	if d.closed || !d.ready || ctx.Err() != nil {
		return
	}
	log := d.cfg.Log.WithField("file", d.cfg.File)
	if theirs, err := foreign(d.cfg.File); err == nil && !theirs && !errors.Is(statError(d.cfg.File), fs.ErrNotExist) {
		log.Info("nothing to reload: the configuration comes from csig apply, which wrote the file")
		return
	}
	before := d.current()
	busy, err := d.tryReload(ctx)
	last, lacks := &api.Reload{Time: time.Now(), File: d.cfg.File}, (*incompleteError)(nil)
	if errors.As(err, &lacks) {
		log.WithError(err).Error("file reloaded, but not all of it is on the device yet")
		err = nil
	}
	if err != nil {
		last.Error = inventory.Mistakes(err)
	}
	d.mu.Lock()
	previous := d.reloaded
	d.reloaded = last
	d.mu.Unlock()
	after := d.current()
	switch {
	case err != nil && busy && previous != nil && previous.Error == last.Error:
		// It is tried again at each look, and logged once.
	case err != nil:
		log.WithField("error", last.Error).Error("file not reloaded: the configuration stays as it is")
	case after == before:
		log.Info("file reloaded: nothing changed for this device")
	default:
		log.WithFields(logrus.Fields{"config": after.hash[:12]}).Info("file reloaded")
	}
	if d.cfg.OnCycle != nil { // the status has changed
		d.cfg.OnCycle()
	}
}

func statError(path string) error {
	_, err := os.Lstat(path)
	return err
}

// tryReload puts the daemon's file in force. An operator who changes the device is not
// interrupted: then it is to be tried again.
func (d *Daemon) tryReload(ctx context.Context) (busy bool, err error) {
	if err := d.Admit(ctx, api.Operator{}); err != nil {
		return true, err
	}
	fleet, err := d.read()
	if off := d.checkOffMarker(); off != nil {
		err = off
	}
	if err == nil {
		_, err = fleet.LocalDevice()
	}
	if err != nil {
		return false, err
	}
	if err := d.cancelRevert(ctx); err != nil { // as any other change
		return false, err
	}
	d.bypassed()
	return false, d.putInForce(ctx, fleet, nil)
}
