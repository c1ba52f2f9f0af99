package demo

import (
	"slices"
	"sort"
	"time"
)

// polled is the history of a hop whose agent polls counters: a record of every frame that left,
// and when the agent has read the counter, as it says itself. What it read then is up to the record.
type polled struct {
	link
	interval int64 // ns

	began, until int64 // of the record, in ns of the wall clock
	left         []departure
	total        uint64   // bits
	gaps         []span   // in which records were lost
	stated       []stated // by end
}

// departure is a frame that left, and the bits that had left with it.
type departure struct {
	at          int64
	bits, total uint64
}

// stated is a window that the agent says its counter was read for, at either end give or take error.
type stated struct{ start, end, error int64 }

// leaves takes in one frame.
func (p *polled) leaves(at int64, sent uint64) {
	if n := len(p.left); n > 0 {
		at = max(at, p.left[n-1].at)
	}
	p.total += sent
	p.left = append(p.left, departure{at, sent, p.total})
}

// states takes in a window of the agent's.
func (p *polled) states(w stated) {
	if n := len(p.stated); n == 0 || w.end > p.stated[n-1].end {
		p.stated = append(p.stated, w)
	}
}

// forget keeps what was from an instant on.
func (p *polled) forget(until int64) {
	if n := p.by(until); n > len(p.left)/2 {
		p.left = append(p.left[:0], p.left[n-1:]...)
		p.began = max(p.began, p.left[0].at)
	}
	p.stated = slices.DeleteFunc(p.stated, func(w stated) bool { return w.end < until })
	p.gaps = slices.DeleteFunc(p.gaps, func(g span) bool { return g.to < until })
}

// by is how many frames had left at an instant.
func (p *polled) by(at int64) int {
	return sort.Search(len(p.left), func(i int) bool { return p.left[i].at > at })
}

// counted is what the port's counter had at an instant give or take some. The kernel counts a frame
// just before it leaves: the next one may be among them.
func (p *polled) counted(at, within int64) (least, most uint64) {
	if i := p.by(at - within); i > 0 {
		least = p.left[i-1].total
	} else {
		least = p.left[0].total - p.left[0].bits
	}
	i := p.by(at + within)
	return least, p.left[min(i, len(p.left)-1)].total
}

// choices are what S the link had in a window.
func (p *polled) choices(w stated) (out choices) {
	if len(p.left) == 0 || w.start-w.error < p.began || w.end+w.error >= p.until || w.end <= w.start {
		return nil
	}
	for _, g := range p.gaps {
		if g.to >= w.start-w.error && g.from <= w.end+w.error {
			return nil
		}
	}
	fromLeast, fromMost := p.counted(w.start, w.error)
	toLeast, toMost := p.counted(w.end, w.error)
	dt := time.Duration(w.end - w.start)
	out.add(p.values((toLeast+toMost)/2-(fromLeast+fromMost)/2, dt).s)
	if !out.between(&p.link, toLeast-min(fromMost, toLeast), toMost-fromLeast, dt) {
		return nil
	}
	return out
}

// ticks are the windows between whole intervals of the clock that had ended at an instant, the
// newest first.
func (p *polled) ticks(at int64, n int) []stated {
	out := make([]stated, n)
	end := at / p.interval * p.interval
	for i := range out {
		out[i] = stated{start: end - p.interval, end: end}
		end -= p.interval
	}
	return out
}

// windows are those that a frame's S may be of: the last two that had ended when it came, and
// what ended until it left. Older than two intervals is no excuse: where the agent has none of
// such, those of the clock are the truth.
func (p *polled) windows(at span) (out []stated) {
	n := sort.Search(len(p.stated), func(i int) bool { return p.stated[i].end > at.to })
	older := 0
	for i := n - 1; i >= 0 && older < 2 && p.stated[i].end > at.from-2*p.interval; i-- {
		out = append(out, p.stated[i])
		if p.stated[i].end <= at.from {
			older++
		}
	}
	if older == 0 {
		out = append(out, p.ticks(at.from, 2)...)
	}
	return out
}

func (p *polled) possible(at span) choices { return p.all(p.windows(at)) }

// overdue is the history of a hop by what its agent has read last, however late that is: an agent
// that was kept from running advertises it until its lease ends.
type overdue struct{ *polled }

func (p overdue) possible(at span) choices {
	n := sort.Search(len(p.stated), func(i int) bool { return p.stated[i].end > at.to })
	last := p.stated[max(n-2, 0):n]
	if n == 0 || last[len(last)-1].end < at.from-max(4*p.interval, int64(400*time.Millisecond)) {
		return nil
	}
	return p.all(append(slices.Clone(last), p.windows(at)...))
}

func (p *polled) all(windows []stated) (out choices) {
	for _, w := range windows {
		s := p.choices(w)
		if s == nil {
			return nil
		}
		for _, c := range s {
			out.add(c)
		}
	}
	return out
}

// newest is what the link carried in the last interval of the clock.
func (p *polled) newest() (values, bool) {
	if len(p.left) == 0 || p.until == 0 {
		return values{}, false
	}
	w := p.ticks(p.until-1, 1)[0]
	if w.start < p.began {
		return values{}, false
	}
	from, _ := p.counted(w.start, 0)
	to, _ := p.counted(w.end, 0)
	return p.values(to-from, time.Duration(p.interval)), true
}
