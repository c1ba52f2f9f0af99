package gnmi

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/csig-agent/csig/protocol/gnmi"
)

// Mode says how a target is read, as the fleet file spells it.
type Mode string

// The modes.
const (
	// Auto takes the first of the others that the target accepts, in the order
	// in which they are listed here.
	Auto Mode = "auto"
	// Sample is a STREAM subscription with SAMPLE for counters, and ON_CHANGE or
	// SAMPLE for status and speed.
	Sample Mode = "sample"
	// TargetDefined is a STREAM subscription that leaves it to the target when to send
	// what.
	TargetDefined Mode = "target-defined"
	// Get asks for everything at every reading.
	Get Mode = "get"
)

// Config is what a Source needs to know. It prints without its secrets.
type Config struct {
	gnmi.Config
	Ports []string // names of interfaces, in the order of the samples

	// Interval is how often the target is to sample its counters; 0 is 1 s. A
	// target that refuses it is asked for its shortest one.
	Interval time.Duration
	Mode     Mode // "" is Auto

	// silence is how long a stream may be without any message before it is
	// opened again; 0 is 30 s, or 10 intervals where that is longer.
	silence time.Duration
}

const (
	defaultInterval = time.Second
	defaultSilence  = 30 * time.Second
)

// withDefaults returns the configuration without zeros. The fleet file's reader has
// checked what it says.
func (c Config) withDefaults() (Config, error) {
	c.Config = c.WithDefaults()
	switch {
	case len(c.Ports) == 0:
		return c, fmt.Errorf("device %s: gNMI: no ports: name at least one interface", c.Device)
	case slices.Contains(c.Ports, "*"):
		return c, fmt.Errorf("device %s: gNMI: port *: name the interfaces one by one", c.Device)
	}
	c.Mode = cmp.Or(c.Mode, Auto)
	c.Interval = cmp.Or(c.Interval, defaultInterval)
	c.silence = cmp.Or(c.silence, max(defaultSilence, 10*c.Interval))
	return c, nil
}
