package vendors

import (
	"context"
	"slices"
	"time"
)

// DataPlane is what a device's data plane does with tags, as it was read back at one
// instant.
type DataPlane struct {
	Setup  Setup           // as Observe returns it: nothing of ours is one without a TPID and ports
	Signal DataPlaneSignal // what the ports that update write
	Left   time.Duration   // until they fall back by themselves, of SignalWritten; 0: they do not
}

// DataPlaneSignal is what the ports that update were seen to write.
type DataPlaneSignal uint8

// What ports that update write.
const (
	SignalUnknown  DataPlaneSignal = iota // the driver cannot tell one from the other
	SignalWritten                         // what Update gave them last
	SignalFallback                        // what Setup.OnStale says
)

// Looker is a driver that reads back what its ports write, too.
type Looker interface {
	// Look reads the device, and not what the driver remembers. Errors are
	// those of Observe. It is not safe beside the driver's other methods.
	Look(ctx context.Context) (DataPlane, error)
}

// Look reads back what the data plane of a driver's device does.
func Look(ctx context.Context, d Driver) (DataPlane, error) {
	if l, ok := As[Looker](d); ok {
		return l.Look(ctx)
	}
	s, err := d.Observe(ctx)
	return DataPlane{Setup: s}, err
}

// IsDamaged reports whether something of the setup is not as Apply leaves it.
func (s *Setup) IsDamaged() bool {
	return s.Damaged != "" || slices.ContainsFunc(s.Ports, func(p PortSetup) bool { return p.Damaged != "" })
}

// Nothing reports whether there is nothing of ours, nor a daemon with a configuration.
func (s *Setup) Nothing() bool {
	return s.TPID == 0 && len(s.Ports) == 0 && s.Damaged == "" && s.Config == ""
}
