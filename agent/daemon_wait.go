package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// startRetry is how long a daemon that may wait leaves its device alone after a
// start that failed.
const startRetry = 5 * time.Second

// retry starts the daemon's own file again, where that failed and may pass.
func (d *Daemon) retry(ctx context.Context) {
	d.change.Lock()
	defer d.change.Unlock()
	if !d.again || d.closed || ctx.Err() != nil {
		return
	}
	d.again = false
	r, err := d.load(ctx)
	if err == nil {
		err = d.begin(ctx, r)
	} else {
		err = d.orWait(ctx, err, false)
	}
	if err != nil && ctx.Err() == nil {
		d.cfg.Log.WithError(err).Error("the configuration cannot be run")
	}
}

// orWait turns the error of a start into waiting, where the daemon may: for its device
// where the error may pass, else for another configuration.
func (d *Daemon) orWait(ctx context.Context, err error, passes bool) error {
	if !d.cfg.Wait || ctx.Err() != nil || errors.As(err, new(*UndoError)) {
		return err
	}
	why := err.Error()
	switch {
	case passes:
		d.wait(fmt.Sprintf("for its device, which it tries every %v, or for another configuration: %s", startRetry, why))
		if why != d.failed {
			d.cfg.Log.WithError(err).Error("the device does not take its configuration yet: trying again")
		}
		d.again, d.failed = true, why
	case errors.Is(err, fs.ErrNotExist):
		d.wait("for a configuration: csig apply gives it one")
		d.cfg.Log.WithField("file", d.cfg.File).Info("there is no configuration yet: waiting for one")
	case errors.As(err, new(*OffError)), errors.Is(err, errBare):
		d.wait("for a configuration: " + why)
		d.cfg.Log.Warn(why)
	default:
		d.wait("for another configuration: " + why)
		d.cfg.Log.WithError(err).Error("the configuration cannot be run: waiting for another")
	}
	return nil
}
