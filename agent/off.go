package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/csig-agent/csig/agent/api"
)

// OffError says that csig off has taken the device off and left a mark: nothing is
// programmed until a user decides otherwise.
type OffError struct {
	Mark string    // the file that says so
	At   time.Time // when
	File string    // the configuration that is not run
}

func (e *OffError) Error() string {
	return fmt.Sprintf("csig off took this device off at %s and left the mark %s: nothing is programmed; csig apply gives a daemon with --wait its next configuration; to run %s again as it is, remove the mark and restart the agent",
		e.At.Format(time.RFC3339), e.Mark, e.File)
}

// off is an *OffError while there is a mark of csig off. One that cannot be
// read is an error, too: the emergency stop is not to be undone by accident.
func (d *Daemon) off() error {
	if d.cfg.OffMark == "" || d.cfg.Shadow { // it puts nothing back
		return nil
	}
	info, err := os.Lstat(d.cfg.OffMark) // a link that leads nowhere is a mark, too
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("is there a mark of csig off? %w", err)
	}
	return &OffError{Mark: d.cfg.OffMark, At: info.ModTime().UTC(), File: d.cfg.File}
}

// on removes the mark of csig off: what the device is to do has been decided
// since.
func (d *Daemon) on() error {
	if d.cfg.OffMark == "" {
		return nil
	}
	if err := api.RemoveOffMark(d.cfg.OffMark); err != nil {
		return fmt.Errorf("removing the mark of csig off, at which the next start would stop: %w", err)
	}
	return nil
}
