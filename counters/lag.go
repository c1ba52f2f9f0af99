package counters

import "context"

// LAGs is what a Source implements that knows which ports are members of link
// aggregation groups (IEEE 802.1AX). An aggregate's own counters are sums, in which a
// member that is full does not show: measure the members, and write their signals.
type LAGs interface {
	// Members returns the names of each group's members, of all groups of the
	// device. It may ask the device, and is not safe for use concurrent with Read.
	Members(ctx context.Context) (map[string][]string, error)
}
