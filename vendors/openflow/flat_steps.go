package openflow

import (
	"maps"
	"slices"

	"github.com/csig-agent/csig/protocol/ofp"
)

// flatPort is what the switch has of one port's.
type flatPort struct {
	rows   [rowRecord][]ofp.Flow // by row, stale and both bands
	groups map[uint32]ofp.Group
}

// live is the band that frames meet, and other the one that an update writes.
func (p *flatPort) live() (band, other int) {
	if len(p.rows[rowBand1]) > 0 {
		return rowBand1, rowBand0
	}
	return rowBand0, rowBand1
}

// refill gives a port entries in place of those of its bands: see flat. It is carried
// out by clear, groups, fill and drop, each of which are changes in any order. None
// leaves the stale value alone.
type refill struct {
	from, to int        // bands
	before   []ofp.Flow // of to, left over
	values   []ofp.Group
	flows    []ofp.Flow // of to
	old      []ofp.Flow // of from
	then     flatPort   // the port afterwards
}

func (f *flat) band(number uint32, p *flatPort, entries []cover) *refill {
	from, to := p.live()
	r := &refill{from: from, to: to, before: p.rows[to], values: f.groups(to, number, entries), flows: f.flows(to, number, entries, 0), old: p.rows[from]}
	r.then = flatPort{rows: p.rows, groups: maps.Clone(p.groups)}
	r.then.rows[from], r.then.rows[to] = nil, r.flows
	return r
}

func (r *refill) clear() []ofp.Mod { return deletes(r.before) }

// groups writes them whatever they are known to be: no flow refers to them, and what is
// known may be wrong.
func (r *refill) groups() []ofp.Mod { return r.then.write(r.values, true) }

// fill gives the entries a timer.
func (r *refill) fill(seconds uint16) []ofp.Mod {
	for i := range r.flows {
		r.flows[i].HardTimeout = seconds
	}
	return adds(r.flows)
}

// empty leaves the port the stale value.
func (r *refill) empty() { r.flows, r.then.rows[r.to] = nil, nil }

func (r *refill) drop() []ofp.Mod { return deletes(r.old) }

// undo leaves the port what it had.
func (r *refill) undo() []ofp.Mod { return deletes(r.flows) }

// write are the changes that give groups their content. Those with another, or with always
// all, are not in use by any flow.
func (p *flatPort) write(groups []ofp.Group, always bool) (mods []ofp.Mod) {
	for i := range groups {
		g := &groups[i]
		have, there := p.groups[g.ID]
		switch {
		case there && have.Same(g) && !always:
			continue
		case there:
			mods = append(mods, ofp.Mod{Kind: ofp.Modify, Group: g})
		default:
			mods = append(mods, ofp.Mod{Kind: ofp.Add, Group: g})
		}
		p.groups[g.ID] = *g
	}
	return mods
}

// setStale are the steps after which a port has its stale entries, and no others in their
// place. Between a deletion of one and the addition of what replaces it tags pass:
// that is with another layout, whose tags nothing of before has a meaning for.
func (f *flat) setStale(number uint32, p *flatPort, entries []cover) (steps [][]ofp.Mod, then flatPort) {
	then = *p
	want := f.flows(rowStale, number, entries, 0)
	var wrong, missing []ofp.Flow
	for _, h := range p.rows[rowStale] {
		if !slices.ContainsFunc(want, func(w ofp.Flow) bool { return sameFlat(&h, &w) }) {
			wrong = append(wrong, h)
		}
	}
	for _, w := range want {
		if !slices.ContainsFunc(p.rows[rowStale], func(h ofp.Flow) bool { return sameFlat(&h, &w) }) {
			missing = append(missing, w)
		}
	}
	groups := f.groups(rowStale, number, entries)
	changed := slices.ContainsFunc(groups, func(g ofp.Group) bool {
		have, there := p.groups[g.ID]
		return there && !have.Same(&g)
	})
	if changed { // a group is not modified while flows refer to it
		wrong, missing = p.rows[rowStale], want
	}
	then.groups = maps.Clone(p.groups)
	var unused []ofp.Mod
	for _, id := range slices.Sorted(maps.Keys(p.groups)) {
		if g := p.groups[id]; id&rowMask == rowStale && !slices.ContainsFunc(groups, func(w ofp.Group) bool { return w.ID == id }) {
			unused = append(unused, ofp.Mod{Kind: ofp.Delete, Group: &g})
			delete(then.groups, id)
		}
	}
	for _, mods := range [][]ofp.Mod{deletes(wrong), then.write(groups, false), adds(missing), unused} {
		if len(mods) > 0 {
			steps = append(steps, mods)
		}
	}
	then.rows[rowStale] = want
	return steps, then
}

// removeAll are the steps after which a port has nothing of csig's: tags have the value of
// before, then the stale one, then they pass.
func (f *flat) removeAll(p *flatPort) (steps [][]ofp.Mod) {
	for _, row := range []int{rowBand0, rowBand1, rowStale} {
		if mods := deletes(p.rows[row]); len(mods) > 0 {
			steps = append(steps, mods)
		}
	}
	var groups []ofp.Mod
	for _, id := range slices.Sorted(maps.Keys(p.groups)) {
		g := p.groups[id]
		groups = append(groups, ofp.Mod{Kind: ofp.Delete, Group: &g})
	}
	if len(groups) > 0 {
		steps = append(steps, groups)
	}
	return steps
}

// sameFlat reports whether a flow read back is as csig writes it.
func sameFlat(have, want *ofp.Flow) bool {
	return have.Key() == want.Key() && have.Cookie == want.Cookie && have.SameInstructions(want) && have.IdleTimeout == 0 && have.HardTimeout == want.HardTimeout
}

func adds(flows []ofp.Flow) (mods []ofp.Mod) {
	for i := range flows {
		mods = append(mods, ofp.Mod{Kind: ofp.Add, Flow: &flows[i]})
	}
	return mods
}

func deletes(flows []ofp.Flow) (mods []ofp.Mod) {
	for i := range flows {
		mods = append(mods, remove(&flows[i], ""))
	}
	return mods
}
