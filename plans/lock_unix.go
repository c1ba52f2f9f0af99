package plans

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lock keeps a second csig off a journal until the file is closed.
func lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errors.New("another csig is at work on this journal")
	}
	if err != nil {
		return fmt.Errorf("locking: %w", err)
	}
	return nil
}
