package openflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

var _ vendors.TableFiller = (*Driver)(nil)

// noPort is no port's number: no frame is handed over with it.
const noPort = portMask

// Limits of Fill. A barrier is behind each fillBatch flows; a switch that takes as long as
// slowFill for it gets no more: past the patience of a connection it would be lost, with the
// flows there. maxFill is what a switch gets at most, whatever it promises.
const (
	fillBatch = 64
	maxFill   = 1 << 16
	slowFill  = 5 * time.Second
)

// fillVIDs is how many flows differ in their VIDs, and samePriority how many have the same
// priority: many priorities cost a switch more than many flows.
const (
	fillVIDs     = 1 << 11
	samePriority = fillVIDs * 8
)

// filler is a flow as those of signals are, of T and a part of the VID, which no frame meets.
func (p *pipeline) filler(i int) ofp.Flow {
	return p.entry(tableLive, noPort, &vlanrules.Entry{
		Priority: uint16(i / samePriority),
		Match: vlanrules.Match{
			PCP: vlanrules.Field{Kind: vlanrules.Ternary, Value: uint16(i / fillVIDs % 8), Mask: 7},
			VID: vlanrules.Field{Kind: vlanrules.Ternary, Value: uint16(i%fillVIDs) << 1, Mask: 0xffe},
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
	most = min(most, maxFill)
	for entries < most && !full {
		began := time.Now()
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
		took := time.Since(began)
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
		if took >= slowFill && !full { // nor is it asked what it has
			return entries, false, &vendors.BusyError{Took: took}
		}
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
	// In parts, each with its barrier: a switch takes its time for each flow that goes.
	for part := range 32 * 8 {
		f.Match.VID, f.Match.VIDMask = ofp.VLANPresent|uint16(part%32)<<7, ofp.VLANPresent|0xf80
		f.Match.PCP, f.Match.MatchPCP = uint8(part/32), true
		if err := d.deleteAll(ctx, f); err != nil {
			return err
		}
	}
	f.Match = to(noPort)
	err := d.deleteAll(ctx, f)
	d.filled = d.filled && err != nil
	return err
}

// deleteAll deletes csig's flows whose conditions are at least those of this one.
func (d *device) deleteAll(ctx context.Context, f ofp.Flow) error {
	refused, err := d.exchange(ctx, []ofp.Mod{{Kind: ofp.DeleteAll, Flow: &f, CookieMask: cookieMask}})
	for _, r := range refused {
		err = errors.Join(err, r)
	}
	return err
}
