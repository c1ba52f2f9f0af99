package sai

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/quantize"
)

// Capabilities are a switch's answers to the capability queries of SAI (doc/CSIG §5.5).
type Capabilities struct {
	Compact, Wide bool              // SAI_TAM_INT_ATTR_TYPE
	Signals       []quantize.Signal // SAI_TAM_INT_ATTR_CSIG_SIGNAL_TYPE
	Timers        int               // SAI_SWITCH_ATTR_MAX_CSIG_TIMERS
	Intervals     []time.Duration   // SAI_SWITCH_ATTR_CSIG_BW_TIME_INTERVAL_IN_USEC, unless
	AnyInterval   bool              // it does not tell
	DBit          DBit              // SAI_TAM_INT_ATTR_CSIG_D_BIT
	Strip         bool              // SAI_PORT_ATTR_INT_DELETE
	Locator       bool              // SAI_PORT_ATTR_INT_METADATA
	Refuses       map[string]bool   // attributes that it does not have, or its SAI; nil: not known
}

// DBit is what a switch does with the D bit of packets that it trims.
type DBit string

// The ways. All switches leave tags that have D set as they are.
const (
	DBitSets   DBit = "sets"    // it can set it
	DBitNone   DBit = "none"    // it trims, and cannot set it
	DBitNoTrim DBit = "no-trim" // it trims nothing
)

// CapabilityError is what a setup needs and the switch, or SAI itself, does not have.
type CapabilityError struct {
	Capability string // its name, e.g. "wide"
	Port       string // "" for the whole device
	Why        string
}

func (e *CapabilityError) Error() string {
	text := "SAI capability " + e.Capability + ": " + e.Why
	if e.Port != "" {
		return "port " + e.Port + ": " + text
	}
	return text
}

func lacks(capability, format string, args ...any) error {
	return &CapabilityError{Capability: capability, Why: fmt.Sprintf(format, args...)}
}

// check is what a switch with these capabilities lacks for the input.
func (c *Capabilities) check(in *Input) error {
	var errs []error
	if !c.Compact {
		errs = append(errs, lacks("compact", "the switch has no TAM_INT of type %s", compactType))
	}
	if in.Profile.WideTPID != 0 && !c.Wide {
		errs = append(errs, lacks("wide", "the switch has no TAM_INT of type %s, and the profile has wide tags", wideType))
	}
	counted := false
	for _, sig := range in.signals() {
		counted = counted || sig.Counted()
		if !slices.Contains(c.Signals, sig) {
			errs = append(errs, lacks("signal "+sig.String(), "the switch has no %s", signalTypes[sig]))
		}
	}
	if counted {
		if c.Timers < 1 {
			errs = append(errs, lacks("timers", "the switch has no timer for available bandwidth (SAI_SWITCH_ATTR_MAX_CSIG_TIMERS is 0)"))
		}
		if !c.AnyInterval && !slices.Contains(c.Intervals, in.Interval) {
			errs = append(errs, lacks("interval", "the switch does not have %v, but %s", in.Interval, durations(c.Intervals)))
		}
	}
	if in.Profile.Layout == quantize.UEC && c.DBit == DBitNone {
		errs = append(errs, lacks("d-bit", "the switch trims packets and cannot set D, so that switches behind it would take their tags for good ones"))
	}
	for i := range in.Ports {
		p := &in.Ports[i]
		switch {
		case p.strips() && !c.Strip:
			errs = append(errs, &CapabilityError{"strip", p.Name, "the switch does not have " + portStrip})
		case !p.strips() && !c.Locator:
			errs = append(errs, &CapabilityError{"locator", p.Name, "the switch does not have " + portLocator})
		}
	}
	return errors.Join(errs...)
}

func durations(list []time.Duration) string {
	if len(list) == 0 {
		return "none"
	}
	var out []string
	for _, d := range list {
		out = append(out, d.String())
	}
	return strings.Join(out, ", ")
}
