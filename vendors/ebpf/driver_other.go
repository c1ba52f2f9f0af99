//go:build !linux

package ebpf

import (
	"errors"
	"runtime"

	"github.com/csig-agent/csig/vendors"
)

// Driver exists only on Linux; here nothing makes one.
type Driver struct{ vendors.Driver }

// Open returns an error: BPF is Linux's.
func Open(Config) (*Driver, error) {
	return nil, &vendors.PermanentError{Err: errors.New("the linux-ebpf platform drives the ports of the machine it runs on, and this is " + runtime.GOOS + ": run csig on the switch itself")}
}
