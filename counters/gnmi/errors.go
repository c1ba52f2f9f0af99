package gnmi

import (
	"errors"
	"fmt"

	"github.com/csig-agent/csig/protocol/gnmi"
)

// What can be wrong with a device beside what package protocol/gnmi has, for errors.Is.
var (
	// ErrRefused is a target that accepts none of the requests that could bring
	// the counters.
	ErrRefused = errors.New("no way to read the counters")
	// ErrStream is a stream that ended.
	ErrStream = errors.New("stream ended")
	// ErrSilent is a port about which the target has sent nothing for so long that
	// its counters cannot be distinguished from stuck ones.
	ErrSilent = errors.New("no update")
)

// advised is err with the next step to take, where it is one of the errors above.
func advised(err error) error {
	switch {
	case errors.Is(err, ErrRefused):
		return fmt.Errorf("%w: look at what the target's gNMI Capabilities list", err)
	case errors.Is(err, ErrSilent):
		return fmt.Errorf("%w: if the port is idle, let the target send unchanged counters too; if not, look at the device's telemetry process", err)
	}
	return err
}

// portError is what to say of err in a port's sample: with what to do next.
func portError(err error) error { return gnmi.Advised(advised(err)) }

// deviceError says which device, what, and what to do next.
func (s *Source) deviceError(err error) error { return s.target.Error(advised(err)) }
