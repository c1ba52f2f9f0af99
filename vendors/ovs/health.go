package ovs

import (
	"context"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/ofp"
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
	ports, err := d.of.Ports(ctx)
	if err != nil {
		return nil, d.broken(err)
	}
	stats, err := d.of.PortStats(ctx, nil)
	if err != nil {
		return nil, d.broken(err)
	}
	of := make(map[uint32]*ofp.PortStats, len(stats))
	for i := range stats {
		of[stats[i].Number] = &stats[i]
	}
	var out []vendors.PortHealth
	for _, p := range ports {
		if st := of[p.Number]; st != nil {
			out = append(out, vendors.PortHealth{Port: p.Name, Errors: st.Errors, Discards: st.Dropped})
		}
	}
	return out, nil
}
