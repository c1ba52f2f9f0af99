package linux

import (
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
)

// fallback are a port's elements while its intents cannot be carried out.
func fallback(dst []interval, s *vendors.Setup, stale []interval) []interval {
	if s.OnStale != inventory.Conservative {
		return dst[:0]
	}
	return append(dst[:0], stale...)
}
