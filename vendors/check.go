package vendors

import (
	"errors"
	"fmt"
	"slices"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// Check refuses, with a *PermanentError, a setup that no platform can have. noStrip
// is why this one cannot have on_stale: strip, "" where it can, and port why it
// cannot have a port, nil where it can.
func (s *Setup) Check(noStrip string, port func(*PortSetup) error) error {
	if err := (quantize.TPIDs{Compact: s.TPID, Wide: s.WideTPID}).Validate(); err != nil {
		return &PermanentError{Err: err}
	}
	if len(s.Signals) == 0 {
		return permanent("the setup carries no signal")
	}
	for i, sig := range s.Signals {
		if !sig.Known() || slices.Contains(s.Signals[:i], sig) {
			return permanent("signal %s of the setup is unknown or named twice", sig)
		}
	}
	switch {
	case s.OnStale == inventory.Conservative || s.OnStale == inventory.StalePassthrough || s.OnStale == inventory.StaleStrip && noStrip == "":
	case s.OnStale == inventory.StaleStrip:
		return permanent("on_stale: strip is not possible here: %s; use conservative or passthrough", noStrip)
	case noStrip == "":
		return permanent("on_stale is %q: want conservative, passthrough or strip", s.OnStale)
	default:
		return permanent("on_stale is %q: want conservative or passthrough", s.OnStale)
	}
	seen := make(map[string]bool, len(s.Ports))
	for i := range s.Ports {
		p := &s.Ports[i]
		err := port(p)
		if err == nil && seen[p.Port] {
			err = errors.New("the setup names it twice")
		}
		if err != nil {
			return &PermanentError{Port: p.Port, Err: err}
		}
		seen[p.Port] = true
	}
	return nil
}

func permanent(format string, args ...any) error {
	return &PermanentError{Err: fmt.Errorf(format, args...)}
}
