package rollout

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

var errInUse = errors.New("another csig is using this journal")

// lock keeps a second csig off a journal until the file is closed.
func lock(f *os.File) error {
	ok, err := flock(f)
	if err != nil {
		return err
	}
	// Another may have had the lock, and have removed the file, in between.
	now, err := os.Stat(f.Name())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	have, err := f.Stat()
	if err != nil {
		return err
	}
	if !ok || !os.SameFile(now, have) {
		return errInUse
	}
	return nil
}

// flock locks a file until it is closed; false: another process has the lock.
func flock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("locking: %w", err)
	}
	return true, nil
}
