//go:build !linux

package linux

import (
	"errors"
	"runtime"

	"github.com/csig-agent/csig/vendors"
)

// Driver exists only on Linux; here nothing makes one.
type Driver struct{ vendors.Driver }

// Open returns an error: nftables and BPF are Linux's.
func Open(Config) (*Driver, error) {
	return nil, &vendors.PermanentError{Err: errors.New("the linux platform drives the ports of the machine it runs on, and this is " + runtime.GOOS + ": run csig on the switch itself")}
}
