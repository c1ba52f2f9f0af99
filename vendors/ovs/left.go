package ovs

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/csig-agent/csig/protocol/ofp"
)

// FlowsLeft returns the flows that csig has on a switch as platform ovs, without those that
// Remove leaves there. leased is whether an agent renews them, or did so a moment ago.
func FlowsLeft(ctx context.Context, of *ofp.Conn) (flows []ofp.Flow, leased bool, err error) {
	flows, err = of.Flows(ctx, ofp.Filter{Table: ofp.AllTables, Cookie: cookie, CookieMask: math.MaxUint64})
	flows = slices.DeleteFunc(flows, func(f ofp.Flow) bool { return isHook(&f) || sendsOn(&f) })
	return flows, slices.ContainsFunc(flows, func(f ofp.Flow) bool { return f.HardTimeout > 0 }), err
}

// RemoveFlowsLeft deletes what FlowsLeft returned, and the group behind them. Frames come to
// the lowest of the tables first: without its flows the one that stays there sends them on.
func RemoveFlowsLeft(ctx context.Context, of *ofp.Conn, flows []ofp.Flow) error {
	slices.SortStableFunc(flows, func(a, b ofp.Flow) int { return cmp.Compare(a.Table, b.Table) })
	var steps [][]ofp.Mod
	for i := range flows {
		if i == 0 || flows[i].Table != flows[i-1].Table {
			steps = append(steps, nil)
		}
		last := &steps[len(steps)-1]
		*last = append(*last, remove(&flows[i], ""))
	}
	steps = append(steps, []ofp.Mod{{Kind: ofp.Delete, Group: &ofp.Group{ID: groupID}}})
	_, err := of.Apply(ctx, steps...)
	return err
}

// Holder returns the process that programs a bridge as platform ovs, "" where none does.
func Holder(ctx context.Context, cfg Config) (string, error) {
	d, err := Open(cfg)
	if err != nil {
		return "", err
	}
	defer d.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := d.reach(ctx); err != nil {
		return "", err
	}
	by := ""
	err = d.db.during(ctx, func() error {
		info, err := d.db.ask(cfg.Bridge)
		if err != nil {
			return err
		}
		free, err := d.db.isFree(cfg.Bridge)
		if !free {
			by = cmp.Or(info.writer, "another csig")
		}
		return err
	})
	return by, err
}
