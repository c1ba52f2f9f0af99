package demo

import (
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

// intervals makes the windows of a hop that measures by itself from its single frames. They
// begin at whole lengths of the hop's own clock. Of each frame is known when the data plane
// had not begun with it yet, and when it was done: its reading of the clock and its counting
// lie between, and that is all that a frame may be on the wrong side of an end by.
type intervals struct {
	link
	phase, length int64  // ns
	first         int64  // which interval is open; its end closes next
	frames        []pass // by from; those that may be of the open interval, or later
	windows       []window
	vague         int64  // up to here some record is missing
	waiting       uint64 // bits that the link cannot have sent by the end of the last window
}

// pass is one frame, or the closing of an interval.
type pass struct {
	span
	bits uint64
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
	for _, r := range w.rolls {
		if r != at && r.to > at.from {
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
	i := len(v.frames)
	for i > 0 && v.frames[i-1].from > at.from {
		i--
	}
	v.frames = slices.Insert(v.frames, i, pass{at, sent})
}

// closing returns the frames that may have closed the interval which ended then: the first
// one whose clock was past the end, or one that was there at the same time.
func (v *intervals) closing(end int64) []pass {
	sure := int64(1<<63 - 1) // by then one had
	for _, f := range v.frames {
		if f.from >= end {
			sure = min(sure, f.to)
			if f.from > sure {
				break
			}
		}
	}
	var out []pass
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

// side is where a frame counts: before an end, behind it, or perhaps either.
type side int8

const (
	before side = iota
	either
	behind
)

// sideOf tells where a frame counts that was there while these closed the interval. One whose
// clock is past the end closes it first, unless another one is just about to.
func sideOf(f pass, end int64, rolls []pass) side {
	if f.to < end {
		return before
	}
	if f.from < end {
		return either
	}
	for _, r := range rolls {
		if r != f && r.to > f.from {
			return either
		}
	}
	return behind
}

// close completes the intervals whose frames have all come by an instant of the hop's clock.
// lost: records were lost since the call before.
func (v *intervals) close(now int64, lost bool) {
	if lost {
		v.vague = max(v.vague, now)
	}
	if len(v.frames) == 0 && len(v.windows) == 0 {
		return
	}
	for {
		start, end := v.phase+v.first*v.length, v.phase+(v.first+1)*v.length
		if end+int64(late) > now {
			break
		}
		v.windows = append(v.windows, v.window(start, end))
		v.first++
		v.frames = slices.DeleteFunc(v.frames, func(f pass) bool { return f.to < end && f.from < end })
	}
	if len(v.windows) > 2*keptWindows {
		v.windows = append(v.windows[:0], v.windows[len(v.windows)-keptWindows:]...)
	}
}

// window is the one between two ends.
func (v *intervals) window(start, end int64) window {
	w := window{end: end}
	opened, closed := v.closing(start), v.closing(end)
	slow := false // the one before may have been closed only behind this one, whose bytes count for it then
	for _, f := range opened {
		slow = slow || f.from < end && f.to >= end
	}
	for _, f := range closed {
		for i, r := range w.rolls {
			if f.to > r.to {
				copy(w.rolls[i+1:], w.rolls[i:])
				w.rolls[i] = f.span
				break
			}
		}
	}
	var sure, most uint64
	var unsure []uint64
	for _, f := range v.frames {
		if f.from > end+int64(late) {
			break
		}
		from, to := sideOf(f, start, opened), sideOf(f, end, closed)
		switch {
		case from == before || to == behind:
		case from == behind && to == before:
			sure += f.bits
			most += f.bits
		default:
			unsure = append(unsure, f.bits)
			most += f.bits
		}
	}
	capacity := v.capacity * uint64(v.length) / uint64(time.Second)
	behindQueue := v.waiting > 0 // what the link had sent by the end is not known
	v.waiting += most
	v.waiting -= min(v.waiting, capacity)
	if start < v.vague || behindQueue || slow || len(unsure) > maxUnsure {
		return w
	}
	for set := range 1 << len(unsure) {
		sum := sure
		for i, b := range unsure {
			if set>>i&1 > 0 {
				sum += b
			}
		}
		w.s.add(v.values(sum, time.Duration(v.length)).s)
	}
	return w
}

// completed is how many windows had ended at an instant.
func (v *intervals) completed(at int64) int {
	return sort.Search(len(v.windows), func(i int) bool { return v.windows[i].end > at })
}

// possible has the last window that was closed, and what may have been before that at the
// frame's passage.
func (v *intervals) possible(at span) (out choices) {
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
