package qualify

import (
	"context"
	"strings"
	"time"
)

// hop is a way from a port to another.
type hop struct{ from, to int }

// explore finds out which ports frames without a tag reach from which others. The first two
// have to reach each other, within start; another port may only receive, as that of a
// mirror session, or be a member of a LAG of all but the first: such ports do not reach each
// other, and which of them gets a frame is the switch's choice.
func (b *Bench) explore(ctx context.Context, start time.Duration) error {
	b.apart, b.lag = map[hop]bool{}, len(b.Ports) > 2
	if !b.lag {
		return b.learn(ctx, start)
	}
	until := time.Now().Add(start)
	err := b.sync(ctx, start, 0, 1)
	if err == nil {
		err = b.sync(ctx, time.Until(until), 1, 0)
	}
	if err != nil {
		return err
	}
	b.lag = false
	aggregated := true
	for from := range b.Ports {
		for _, to := range b.Others(from) {
			if from+to == 1 { // the first two
				continue
			}
			if b.sync(ctx, b.Patience, from, to) != nil {
				b.apart[hop{from, to}] = true
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if from > 0 {
				aggregated = aggregated && b.apart[hop{from, to}] == (to > 0)
			}
		}
	}
	if b.lag = aggregated; b.lag {
		for to := 2; to < len(b.Ports); to++ {
			b.apart[hop{0, to}] = true // one stands for all
		}
	}
	return b.Learn(ctx)
}

// Others are the ports that frames from one reach; of a LAG one.
func (b *Bench) Others(from int) []int {
	var out []int
	for i := range b.Ports {
		if i != from && !b.apart[hop{from, i}] {
			out = append(out, i)
		}
	}
	return out
}

// gets reports whether a frame for one port arrives where it should at another: at itself, or
// at any member of the LAG.
func (b *Bench) gets(to, at int) bool { return to == at || b.lag && to > 0 && at > 0 }

// arrived notes where a frame came in. Of a LAG it is for the member that gets it.
func (b *Bench) arrived(s *Seen, a Arrival) {
	if s.Where = append(s.Where, a); b.gets(s.To, a.Port) && s.Count(s.To) == 0 {
		s.To = a.Port
	}
}

// aggregates is the error of ports that are a LAG, or of ports that are none.
func (b *Bench) aggregates(want bool) error {
	var names []string
	for _, p := range b.Ports[1:] {
		names = append(names, p.Name)
	}
	switch {
	case want == b.lag:
		return nil
	case want:
		return Cannot("%s are no LAG: configure them as one, which the run has to begin with", strings.Join(names, ", "))
	}
	return Cannot("frames pass between %s and %s, and not between those: as members of a LAG, where lag alone can be tried", b.Ports[0].Name, strings.Join(names, ", "))
}
