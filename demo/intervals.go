package demo

import (
	"math"
	"slices"
	"sort"
	"time"
)

// late is how long after an interval's end records of its frames may come.
const late = 20 * time.Millisecond

// maxUnsure is how many frames may be on either side of one window's ends for the window to
// be judged: their sums are one short of 2 to that power at most.
const maxUnsure = 4

// keptWindows are as many as probes that wait for their judge may need, of 100 us.
const keptWindows = 1 << 16

// keptFrames are as many frames before a window as tell whether its first one waited.
const keptFrames = 8

// maxSkew is how much later than a shaper counts a frame the kernel stamps it, at most: an
// interrupt may lie between.
const maxSkew = int64(200 * time.Microsecond)

// intervals makes the windows of a hop that measures by itself from its single frames. They
// begin at whole lengths of the hop's own clock. The first frame behind an end closes the
// interval, and reads then how much the shaper has sent. Of each frame is known when the data
// plane had not begun with it yet, when it was done, and when the frame had left the shaper:
// the data plane's look at the clock and at the shaper's counter lies between the first two, and
// the counter counts the frame not before the second, and at the third at the latest.
type intervals struct {
	link
	phase, length int64   // ns
	first         int64   // which interval is open; its end closes next
	frames        []*pass // by from; those that may be of the open interval, or later, and some before
	queue         []*pass // of them, those that have not left yet, by to
	windows       []window
	vague         int64 // up to here some record is missing
}

// pass is one frame.
type pass struct {
	span
	bits uint64
	left int64 // 0: it has not, by what is known
}

// counted is when the shaper counted the frame.
func (p *pass) counted() span {
	if p.left == 0 {
		return span{math.MaxInt64, math.MaxInt64}
	}
	return span{max(p.to, p.left-maxSkew), max(p.to, p.left)}
}

// window is one that has ended.
type window struct {
	end   int64
	s     choices // nil: not known
	rolls [2]span // those of the frames of which one closed it, that were done last
}

// closedFor reports whether all of a frame's way through the data plane was after the window was
// closed, unless the frame closed it itself: then it sees the window's S.
func (w *window) closedFor(at span) bool {
	if at.from < w.end {
		return false
	}
	own := false
	for _, r := range w.rolls {
		if r == at && !own {
			own = true
		} else if r.to > at.from {
			return false
		}
	}
	return true
}

// passed takes in one frame.
func (v *intervals) passed(at span, sent uint64) {
	n := (at.from - v.phase) / v.length
	if len(v.frames) == 0 && len(v.windows) == 0 {
		v.first = n
		v.vague = v.phase + (n+1)*v.length // recording began within this one
	}
	if n < v.first { // a processor was kept from writing its record
		for i := len(v.windows) - 1; i >= 0 && v.windows[i].end > at.from; i-- {
			v.windows[i].s = nil
		}
		v.vague = max(v.vague, at.to+v.length)
	}
	f := &pass{span: at, bits: sent}
	v.frames = insert(v.frames, f, func(a *pass) bool { return a.from > at.from })
	v.queue = insert(v.queue, f, func(a *pass) bool { return a.to > at.to })
}

// insert puts a frame in front of the last ones that are behind it.
func insert(all []*pass, f *pass, behind func(*pass) bool) []*pass {
	i := len(all)
	for i > 0 && behind(all[i-1]) {
		i--
	}
	return slices.Insert(all, i, f)
}

// mostPassed is how many frames may leave before one that came to the queue earlier, as
// processors do not come to it in the order in which the data plane was done.
const mostPassed = 8

// leaves takes in that a frame has left the shaper, in order, once all of those are known that
// had come until then.
func (v *intervals) leaves(at int64, sent uint64) {
	v.queue = slices.DeleteFunc(v.queue, func(f *pass) bool { return at-f.to > int64(time.Second) }) // dropped
	for i, f := range v.queue {
		if i > mostPassed || f.to > at+maxSkew {
			break
		}
		if f.bits == sent {
			f.left = at
			v.queue = slices.Delete(v.queue, i, i+1)
			return
		}
	}
	v.vague = max(v.vague, at+v.length) // it was there before the record began, or has none
}

// closing returns the frames that may have closed the interval which ended then: the first
// one whose clock was past the end, or one that was there at the same time.
func (v *intervals) closing(end int64) []*pass {
	sure := int64(math.MaxInt64) // by then one had
	for _, f := range v.frames {
		if f.from >= end {
			sure = min(sure, f.to)
			if f.from > sure {
				break
			}
		}
	}
	var out []*pass
	for _, f := range v.frames {
		if f.from > sure {
			break
		}
		if f.to >= end {
			out = append(out, f)
		}
	}
	return out
}

// around is from when until when frames were in the data plane.
func around(frames []*pass) span {
	out := span{math.MaxInt64, 0}
	for _, f := range frames {
		out.from, out.to = min(out.from, f.from), max(out.to, f.to)
	}
	return out
}

// close completes the intervals whose frames have all come, and left as far as they have, by an
// instant of the hop's clock. lost: records were lost since the call before.
func (v *intervals) close(now int64, lost bool) {
	if lost {
		v.vague = max(v.vague, now)
	}
	if len(v.frames) == 0 && len(v.windows) == 0 {
		return
	}
	for {
		start, end := v.phase+v.first*v.length, v.phase+(v.first+1)*v.length
		closed := v.closing(end)
		if end+int64(late) > now || len(closed) > 0 && around(closed).to+int64(late) > now {
			break
		}
		if len(closed) == 0 && len(v.windows) > 0 && now < end+int64(time.Second) {
			break // nothing has closed it yet
		}
		v.windows = append(v.windows, v.window(start, end))
		v.first++
		// What has left long ago is in no later window; a few stay, and what those may have waited for.
		from := around(v.closing(start)).from - maxSkew
		keep := max(0, sort.Search(len(v.frames), func(i int) bool { return v.frames[i].from >= from })-keptFrames-1)
		if keep < len(v.frames) {
			from = min(from, v.frames[keep].from)
		}
		kept := 0
		for i, f := range v.frames {
			if i >= keep || f.left == 0 && now-f.to < int64(time.Second) || f.left >= from {
				v.frames[kept] = f
				kept++
			}
		}
		clear(v.frames[kept:])
		v.frames = v.frames[:kept]
	}
	if len(v.windows) > 2*keptWindows {
		v.windows = append(v.windows[:0], v.windows[len(v.windows)-keptWindows:]...)
	}
}

// window is the one between two ends.
func (v *intervals) window(start, end int64) window {
	w := window{end: end}
	opened, closed := v.closing(start), v.closing(end)
	for _, f := range closed {
		for i, r := range w.rolls {
			if f.to > r.to {
				copy(w.rolls[i+1:], w.rolls[i:])
				w.rolls[i] = f.span
				break
			}
		}
	}
	if start < v.vague || len(opened) == 0 || len(closed) == 0 {
		return w
	}
	from, to := around(opened), around(closed)
	last, dt := v.before(from.from), time.Duration(v.length)
	if last == nil || last.to > from.from {
		return w
	}
	again := uint64(0) // what of the frames that waited may count here, too
	bases := []span{from}
	switch waits := v.mayWait(last); {
	case slices.Equal(opened, closed) && len(opened) == 1: // no frame came in it
		if waits {
			again = v.since(last, from.to)
		}
		if !w.s.between(&v.link, 0, again, dt) {
			w.s = nil
		}
		return w
	case from.to >= to.from: // the one before may have been closed only behind this one
		return w
	case waits && last.from < start-v.length:
		again = v.since(last, from.to)
	case waits:
		bases = append(bases, last.span)
	}
	for _, base := range bases {
		sure, unsure := uint64(0), []uint64(nil)
		for _, f := range v.frames {
			switch c := f.counted(); {
			case c.to < base.from || c.from >= to.to:
			case c.from >= base.to && c.to < to.from:
				sure += f.bits
			default:
				unsure = append(unsure, f.bits)
			}
		}
		if len(unsure) > maxUnsure {
			w.s = nil
			return w
		}
		for set := range 1 << len(unsure) {
			sum := sure
			for i, b := range unsure {
				if set>>i&1 > 0 {
					sum += b
				}
			}
			if !w.s.between(&v.link, sum, sum+again, dt) {
				w.s = nil
				return w
			}
		}
	}
	return w
}

// since is how much may have left since a frame came, until an instant.
func (v *intervals) since(last *pass, until int64) (sum uint64) {
	for _, f := range v.frames {
		if c := f.counted(); c.to >= last.from && c.from < until {
			sum += f.bits
		}
	}
	return sum
}

// before is the last frame that came to the data plane before an instant; nil where it is not
// clear which one that was.
func (v *intervals) before(at int64) *pass {
	i := sort.Search(len(v.frames), func(i int) bool { return v.frames[i].from >= at }) - 1
	if i < 0 || slices.ContainsFunc(v.frames[:i], func(f *pass) bool { return f.to > v.frames[i].from }) {
		return nil
	}
	return v.frames[i]
}

// mayWait reports whether a frame may have found others waiting, or the link not free: at its
// rate it sends one after the other, and of what shows nothing waiting one more than the last
// at most.
func (v *intervals) mayWait(f *pass) bool {
	i := sort.Search(len(v.frames), func(i int) bool { return v.frames[i].from >= f.from })
	free := int64(math.MaxInt64) // at the latest
	for j := max(1, i-keptFrames); j <= i && j < len(v.frames); j++ {
		g, last, waits := v.frames[j], uint64(0), uint64(0)
		until, adds := g.to, g.bits // with those that are in the data plane beside it
		done := j - 1               // the last one that surely was before it
		for done > 0 && v.frames[done].to > g.from {
			done--
		}
		for _, before := range v.frames[:j] {
			if before.to >= v.frames[done].from {
				last = max(last, before.bits)
			}
			if before.left == 0 || before.counted().to >= g.from {
				waits += before.bits
			}
			if before.to > g.from {
				until, adds = max(until, before.to), adds+before.bits
			}
		}
		if j == i {
			return waits > 0 || free > f.from
		}
		busy := until + v.takes(waits)
		free = min(max(free, busy), busy+v.takes(last)) + v.takes(adds)
	}
	return true
}

// takes is how long so many bits take of the link, in ns.
func (v *intervals) takes(bits uint64) int64 { return int64(bits * uint64(time.Second) / v.capacity) }

// completed is how many windows had ended at an instant.
func (v *intervals) completed(at int64) int {
	return sort.Search(len(v.windows), func(i int) bool { return v.windows[i].end > at })
}

// possible has the last window that was closed, and what may have been before that at the
// frame's passage; nil, too, where the records are not there yet.
func (v *intervals) possible(at span) (out choices) {
	if at.to >= v.phase+(v.first+1)*v.length {
		return nil
	}
	for i := v.completed(at.to) - 1; i >= 0; i-- {
		w := &v.windows[i]
		if w.s == nil {
			return nil
		}
		for _, s := range w.s {
			out.add(s)
		}
		if w.closedFor(at) {
			return out
		}
	}
	return nil // before the first
}
