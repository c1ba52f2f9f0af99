package api

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// OffMarker is the path of the file with which csig off marks a device whose daemon at
// this socket does not answer, or runs a file that is not csig's to remove: the daemon
// programs nothing while it is there (docs/agent.md). It is beside the socket, but for
// sockets below /run, which is cleared at a reboot: theirs are in /var/lib/csig.
func OffMarker(socket string) string {
	path, err := filepath.Abs(socket)
	if err != nil { // there is no working directory
		path = filepath.Clean(socket)
	}
	below, ok := strings.CutPrefix(strings.TrimPrefix(path, "/var"), "/run/")
	if !ok || strings.HasPrefix(below, "user/") { // whose user has no place in /var/lib
		return path + ".off"
	}
	return "/var/lib/csig/" + strings.ReplaceAll(below, "/", "-") + ".off"
}

const offText = "csig off took this device off at "

// WriteOffMarker writes the off-marker file. Whatever stands at its path already is
// one, and stays as it is; no link is followed.
func WriteOffMarker(path string, at time.Time) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(OffMarkerText(at))
	return errors.Join(err, f.Sync(), f.Close()) // it is to outlive a power cut
}

// OffMarkerText is what an off-marker file holds.
func OffMarkerText(at time.Time) string { return offText + at.UTC().Format(time.RFC3339) + "\n" }

// RemoveOffMarker removes the off-marker file: one that csig left, or an empty
// one of a user's. Anything else is an error, and stays.
func RemoveOffMarker(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.Mode().IsRegular() {
		var text []byte
		if text, err = os.ReadFile(path); err == nil && (len(text) == 0 || bytes.HasPrefix(text, []byte(offText))) {
			return os.Remove(path)
		}
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%s was not left by csig off: remove it by hand", path)
}
