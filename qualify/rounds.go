package qualify

import (
	"context"
	"slices"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// rounds is how often frames are sent where several ports, or none, may get them.
const rounds = 5

// tried is what became of one frame that was sent several times.
type tried []*Seen

// reached reports whether it arrived at a port once at least.
func (l tried) reached(port int) bool { return l.at(port) != nil }

// at is a time that it arrived at a port, if there is one untouched; nil: it never did.
func (l tried) at(port int) (best *Seen) {
	for _, s := range l {
		switch {
		case s.Count(port) == 0:
		case Difference(s.Sent, s.At(port)) == "":
			return s
		case best == nil:
			best = s
		}
	}
	return best
}

// changed is how it was altered each time that it arrived at a port; "" for not.
func (l tried) changed(port int) string {
	s := l.at(port)
	return Difference(s.Sent, s.At(port))
}

// ports are those that it arrived at.
func (l tried) ports() (out []int) {
	for _, s := range l {
		for _, a := range s.Where {
			if !slices.Contains(out, a.Port) {
				out = append(out, a.Port)
			}
		}
	}
	slices.Sort(out)
	return out
}

// several sends each frame several times: it counts as lost at a port where it never
// arrived there, as some losses are of chance. Sentinels need not take a frame's way through
// a LAG or a mirror, so what is missing after Settle may still come within stalled.
func (t *Trial) several(ctx context.Context, from int, frames []Frame) ([]tried, error) {
	out := make([]tried, len(frames))
	l := t.Listen()
	defer l.Close()
	sent := make(map[uint64]*Seen, rounds*len(frames))
	for range rounds {
		seen, err := t.Exchange(ctx, from, frames)
		if err != nil {
			return nil, err
		}
		for i := range seen {
			seen[i].Where = nil // l has those of Exchange, too
			sent[seen[i].Seq] = &seen[i]
			out[i] = append(out[i], &seen[i])
		}
	}
	for last := time.Now(); ; {
		for _, a := range l.Take() {
			if s := sent[a.Seq]; s != nil && a.Port != from {
				t.arrived(s, a)
			}
		}
		if !slices.ContainsFunc(out, tried.varies) || time.Since(last) > stalled {
			break
		}
		if err := vendors.Wait(ctx, t.Settle); err != nil {
			return nil, err
		}
	}
	for _, list := range out {
		for _, s := range list {
			if len(s.Where) == 0 && len(list.ports()) > 0 {
				t.returned++
			}
		}
	}
	return out, nil
}

// varies reports whether it did not arrive each time, and at as many ports.
func (l tried) varies() bool {
	return slices.ContainsFunc(l, func(s *Seen) bool { return len(s.Where) == 0 || len(s.Where) != len(l[0].Where) })
}

// tooMany reports whether so many losses by chance leave too few frames to judge by.
func tooMany(n, of int) bool { return n > 0 && n*maxLoss > of }

// maxLoss is the share of losses by chance above which nothing is judged: one in so many.
const maxLoss = 11

// sampledLoss is how many frames without a tag show, from each port to each other, how many
// the path loses.
const sampledLoss = 64

// lossy is the error of a path that loses many frames without a tag: it would be taken for
// what the tag does.
func (t *Trial) lossy(ctx context.Context) error {
	p := &Trial{Bench: t.Bench, runner: t.runner}
	sent, gone := 0, 0
	for from := range 2 {
		seen, err := p.Exchange(ctx, from, slices.Repeat([]Frame{{To: 1 - from}}, sampledLoss))
		if err != nil {
			return err
		}
		for i := range seen {
			if sent++; seen[i].Fate() == lost {
				gone++
			}
		}
	}
	if tooMany(gone, sent) {
		return losesFrames(gone, sent, "frames without a tag do not arrive")
	}
	return nil
}

func losesFrames(n, of int, what string) error {
	return Cannot("the path loses frames: %d of %d %s: look at cables, queues, storm control and the load of both machines", n, of, what)
}
