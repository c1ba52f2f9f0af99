package openflow

import (
	"context"
	"slices"

	"github.com/csig-agent/csig/protocol/ofp"
)

// FlowsLeft counts the flows that csig has on a switch as a platform of OpenFlow 1.3, without
// those that Remove may leave there. leased is whether an agent renews them, or did so a
// moment ago.
func FlowsLeft(ctx context.Context, of *ofp.Conn) (n int, leased bool, err error) {
	flows, err := of.Flows(ctx, ofp.Filter{Table: ofp.AllTables, Cookie: cookie, CookieMask: cookieMask})
	flows = slices.DeleteFunc(flows, func(f ofp.Flow) bool { return isPass(&f, priorityOther) })
	return len(flows), slices.ContainsFunc(flows, func(f ofp.Flow) bool { return f.HardTimeout > 0 }), err
}

// RemoveFlowsLeft is Driver.Remove of a switch that another platform drives now.
func RemoveFlowsLeft(ctx context.Context, of *ofp.Conn) error {
	d, err := Open(Config{Connect: func(context.Context) (*ofp.Conn, error) { return of, nil }})
	if err != nil {
		return err
	}
	return d.Remove(ctx)
}
