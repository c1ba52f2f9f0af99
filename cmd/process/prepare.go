package process

import (
	"errors"
	"os"
	"runtime/debug"

	"github.com/sirupsen/logrus"
)

// Prepare gives up what a daemon of devices of these platforms does not need; nil: they
// are not known yet. group reports whether its socket is to be given to one. From memory
// bytes on it collects garbage more eagerly.
func Prepare(log *logrus.Entry, platforms []string, group bool, memory int64) error {
	if err := dropPrivileges(platforms, group); errors.Is(err, errors.ErrUnsupported) {
		log.WithError(err).Warn("this csig was built with cgo, and keeps its capabilities")
	} else if err != nil {
		return err
	}
	debug.SetMemoryLimit(memoryLimit(memory))
	debug.SetGCPercent(25) // a cycle allocates next to nothing: a small heap costs no time
	return nil
}

// memoryLimit is the memory in bytes from which on this process collects garbage more
// eagerly, where the environment does not set another.
func memoryLimit(bytes int64) int64 {
	if os.Getenv("GOMEMLIMIT") != "" {
		return -1 // as it is
	}
	return bytes
}
