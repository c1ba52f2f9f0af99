package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/inventory/outfile"
)

// OwnMark begins every configuration that csig writes. A file without it belongs
// to a user: csig reads it, and neither replaces nor removes it.
const (
	OwnMark  = "# Written by csig agent"
	ownFirst = OwnMark + ", which replaces and removes this file. Without this line csig leaves it alone.\n"
)

// own returns a configuration as csig writes it, with its mark.
func own(text []byte) []byte {
	if bytes.HasPrefix(text, []byte(OwnMark)) {
		return text
	}
	return append([]byte(ownFirst), text...)
}

// foreign reports whether there is something at path that csig did not write: a
// file without the mark, or no regular file.
func foreign(path string) (bool, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return true, err
	case !info.Mode().IsRegular():
		return true, nil
	}
	text, err := os.ReadFile(path)
	return !bytes.HasPrefix(text, []byte(OwnMark)), err
}

// saveFile makes a configuration the daemon's file; nil: it is already. A user's file
// stays: it has to say the same.
func (d *Daemon) saveFile(text []byte, hash string) error {
	if text == nil {
		return nil
	}
	theirs, err := foreign(d.cfg.File)
	if err != nil {
		return fmt.Errorf("keeping the configuration: %w", err)
	}
	if !theirs {
		return writeFile(d.cfg.File, own(text))
	}
	if f, err := inventory.Load(d.cfg.File); err == nil {
		if dev, err := f.LocalDevice(); err == nil && f.DeviceView(dev).Hash() == hash {
			return nil
		}
	}
	return fmt.Errorf("the file %s was not written by csig, which does not replace it: change it by hand, which a running agent notices, or start the agent with --wait and another file (where an older csig wrote it, make its first line %q)", d.cfg.File, OwnMark)
}

// retireFile takes the daemon's file out of force: its own becomes the note of a
// removal that is not finished. A user's file stays, and where the removal will not be
// confirmed, the mark of csig off keeps the next start from running it.
func (d *Daemon) retireFile(confirmed bool) (theirs bool, err error) {
	if theirs, err = foreign(d.cfg.File); err != nil {
		return theirs, err
	}
	if theirs {
		if !confirmed {
			return true, nil
		}
		return true, d.writeOffMarker()
	}
	if old, err := foreign(d.leaving()); err != nil || old {
		return false, errors.Join(err, fmt.Errorf("the file %s is in the way, and was not written by csig: move it away", d.leaving()))
	}
	err = os.Rename(d.cfg.File, d.leaving())
	switch {
	case err == nil:
		err = outfile.SyncDir(filepath.Dir(d.cfg.File))
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	return false, err
}

// writeOffMarker writes the off-marker file, where the daemon has a path for it.
func (d *Daemon) writeOffMarker() error {
	if d.cfg.OffMarker == "" {
		return nil
	}
	return api.WriteOffMarker(d.cfg.OffMarker, time.Now())
}
