package openflow

import (
	"context"
	"errors"
	"fmt"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/ofp"
	"github.com/csig-agent/csig/vlanrules"
)

var _ vendors.TableFiller = (*Driver)(nil)

// noPort is no port's number: no frame is handed over with it.
const noPort = portMask

// fillBatch is how many flows are added with one barrier, and nearPriorities how many
// of them have the same match: S and T, as those of signals have.
const (
	fillBatch      = 64
	nearPriorities = 32 * 8
)

// filler is a flow as those of signals are, which no frame meets.
func (p *pipeline) filler(i int) ofp.Flow {
	return p.entry(tableLive, noPort, &vlanrules.Entry{
		Priority: uint16(i / nearPriorities),
		Match: vlanrules.Match{
			PCP: vlanrules.Field{Kind: vlanrules.Ternary, Value: uint16(i / 32 % 8), Mask: 7},
			VID: vlanrules.Field{Kind: vlanrules.Ternary, Value: uint16(i%32) << 7, Mask: 0xf80},
		},
		Type: vlanrules.RewriteVID, VID: 1,
	})
}

func (p *pipeline) isFiller(f *ofp.Flow) bool {
	return f.Table == p.base+tableLive && f.Match.Metadata == to(noPort).Metadata
}

// Fill adds flows to the live table that no frame meets, until it has so many of csig's
// or the switch has no room for another. It counts what the switch then shows.
func (d *Driver) Fill(ctx context.Context, most int) (entries int, full bool, err error) {
	if err := d.connect(ctx); err != nil {
		return 0, false, err
	}
	pipe := &pipeline{base: d.cfg.Table}
	count := func() (all, fillers int, err error) {
		s, err := d.read(ctx, false)
		if err != nil {
			return 0, 0, err
		}
		for i := range s.own {
			f := &s.own[i]
			if f.Table == pipe.base+tableLive {
				all++
			}
			if pipe.isFiller(f) {
				fillers++
			}
		}
		return all, fillers, nil
	}
	entries, i, err := count()
	if err != nil {
		return 0, false, err
	}
	d.filled = true
	for entries < most && !full {
		n := min(fillBatch, most-entries)
		mods := make([]ofp.Mod, n)
		for j := range mods {
			f := pipe.filler(i + j)
			mods[j] = ofp.Mod{Kind: ofp.Add, Flow: &f, Name: fillName}
		}
		refused, err := d.exchange(ctx, mods)
		if err != nil {
			return 0, false, err
		}
		if err := d.awaitEffect(ctx); err != nil {
			return 0, false, err
		}
		for _, r := range append(refused, d.of.LateErrors()...) {
			if !r.TableFull() || r.Name != fillName {
				return 0, false, fmt.Errorf("the switch refuses a flow, and not for want of room: %w", r)
			}
			full = true
		}
		i, entries = i+n, entries+n
	}
	entries, _, err = count()
	return entries, full, err
}

// fillName is what refusals call the flows of Fill; no port's name has a space.
const fillName = "table filler"

// Drain removes what Fill added, also what another process has left.
func (d *Driver) Drain(ctx context.Context) error {
	if err := d.connect(ctx); err != nil {
		return err
	}
	f := ofp.Flow{Table: d.cfg.Table + tableLive, Cookie: cookie, Match: to(noPort)}
	refused, err := d.exchange(ctx, []ofp.Mod{{Kind: ofp.DeleteAll, Flow: &f, CookieMask: cookieMask}})
	for _, r := range refused {
		err = errors.Join(err, r)
	}
	d.filled = d.filled && err != nil
	return err
}
