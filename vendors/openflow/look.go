package openflow

import (
	"context"
	"fmt"
	"time"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
)

var (
	_ vendors.Looker       = (*Driver)(nil)
	_ vendors.HealthReader = (*Driver)(nil)
)

// Look reads back the setup and the lease.
func (d *Driver) Look(ctx context.Context) (vendors.DataPlane, error) {
	var seen vendors.DataPlane
	if err := d.connect(ctx); err != nil {
		return seen, err
	}
	s, err := d.read(ctx, true)
	if err != nil {
		return seen, err
	}
	if err := d.refuseForeign(s); err != nil {
		return seen, err
	}
	seen.Setup, seen.Signal = d.setupOf(s), vendors.SignalFallback
	for _, left := range s.leases() {
		if left > 0 {
			seen.Signal, seen.Left = vendors.SignalWritten, max(seen.Left, left-time.Second) // an age is of whole seconds
		}
	}
	d.compareLook(s, &seen.Setup)
	return seen, nil
}

// leases are how long the flows of the lease have left.
func (s *state) leases() (left [leases]time.Duration) {
	pipe := pipeline{base: s.base}
	for i := range s.own {
		if f := &s.own[i]; isLease(&pipe, f) {
			left[f.Priority-priorityLease] = max(0, time.Duration(f.HardTimeout)-time.Duration(f.Age)) * time.Second
		}
	}
	return left
}

// compareLook notes what of the ports' values is not as the last update left it.
func (d *Driver) compareLook(s *state, found *vendors.Setup) {
	flows := s.portFlows()
	for i := range found.Ports {
		q := &found.Ports[i]
		p := d.byName[q.Port]
		if p == nil || !p.current || p.fallback || q.Damaged != "" {
			continue
		}
		if is := flows[p.number]; is == nil || is.unreadable || is.fallback || !sameEntries(is.entries, p.have) {
			q.Damaged = fmt.Sprintf("flows of table %s are not as this process left them", s.tableText(s.base+tableLive))
		}
	}
}

// Health reads the error and drop counters of the switch's ports. What flows drop is
// not among them.
func (d *Driver) Health(ctx context.Context) ([]vendors.PortHealth, error) {
	if err := d.connect(ctx); err != nil {
		return nil, err
	}
	var out []vendors.PortHealth
	if err := d.of.EachPort(ctx, func(p *ofp.Port, st *ofp.PortStats) {
		out = append(out, vendors.PortHealth{Port: p.Label(), Errors: st.Errors, Discards: st.Dropped})
	}); err != nil {
		return nil, d.broken(err)
	}
	return out, nil
}
