package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/csig-agent/csig/agent/api"
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

// clearOffMarker removes the off-marker file: a later decision of a user replaces it.
func (d *Daemon) clearOffMarker() error {
	if d.cfg.OffMarker == "" {
		return nil
	}
	if err := api.RemoveOffMarker(d.cfg.OffMarker); err != nil {
		return fmt.Errorf("removing the off-marker file, at which the next start would stop: %w", err)
	}
	return nil
}
