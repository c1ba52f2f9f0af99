package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/vendors"
)

// OffError says that csig off has written the off-marker file: nothing is programmed
// until a user decides otherwise.
type OffError struct {
	Mark string    // the file that says so
	At   time.Time // when
	File string    // the configuration that is not run
}

func (e *OffError) Error() string {
	return fmt.Sprintf("csig off took this device off at %s and wrote the off-marker file %s: nothing is programmed; csig apply gives a daemon with --wait its next configuration; to run %s again as it is, remove that file and restart the agent",
		e.At.Format(time.RFC3339), e.Mark, e.File)
}

// checkOffMarker returns an *OffError while there is an off-marker file. One that cannot be
// read is an error, too: the emergency stop must not be undone by accident.
func (d *Daemon) checkOffMarker() error {
	if d.cfg.OffMarker == "" || d.cfg.Shadow { // it puts nothing back
		return nil
	}
	info, err := os.Lstat(d.cfg.OffMarker) // a dangling link is a marker, too
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("reading the off-marker file: %w", err)
	}
	return &OffError{Mark: d.cfg.OffMarker, At: info.ModTime().UTC(), File: d.cfg.File}
}

// errBare is of a device that may have been taken off where this daemon is told nothing of it.
var errBare = errors.New("nothing of csig is on the device any more: csig off, or a restart of the device, took it away; csig apply sets it up again")

// checkBare returns errBare for a device that has lost the setup of before, where that is to
// be a user's decision.
func (d *Daemon) checkBare(ctx context.Context, r *running) error {
	if !d.bare {
		return nil
	}
	have, err := r.driver.Observe(ctx)
	if err != nil {
		return fmt.Errorf("device %s: %w", r.dev.Name, err)
	}
	changes, err := r.driver.Diff(have, vendors.SetupOf(&r.fleet.Profile, r.fleet.Policy, r.dev))
	if err != nil {
		return err
	}
	if have.Nothing() && len(changes) > 0 { // else there never was anything
		return errBare
	}
	d.bare = false
	return nil
}

// clearOffMarker removes the off-marker file: a later decision of a user replaces it.
func (d *Daemon) clearOffMarker() error {
	d.bare = false
	if d.cfg.OffMarker == "" {
		return nil
	}
	if err := api.RemoveOffMarker(d.cfg.OffMarker); err != nil {
		return fmt.Errorf("removing the off-marker file, at which the next start would stop: %w", err)
	}
	return nil
}
