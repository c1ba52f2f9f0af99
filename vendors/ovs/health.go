package ovs

import (
	"context"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
)

var _ vendors.HealthReader = (*Driver)(nil)

// Health reads the error and drop counters of the bridge's ports from OpenFlow's
// port statistics, for which Open vSwitch asks its devices at that moment. Of a
// device of the kernel's they are the device's own, without those of its queueing
// discipline: a full queue is what congestion is. What flows drop is not among
// them.
func (d *Driver) Health(ctx context.Context) ([]vendors.PortHealth, error) {
	if err := d.connect(ctx); err != nil {
		return nil, err
	}
	var out []vendors.PortHealth
	if err := d.of.EachPort(ctx, func(p *ofp.Port, st *ofp.PortStats) {
		out = append(out, vendors.PortHealth{Port: p.Name, Errors: st.Errors, Discards: st.Dropped})
	}); err != nil {
		return nil, d.broken(err)
	}
	return out, nil
}
