package demo

import "time"

// maxEdge is how far from an interval's end a frame may be counted in the neighbour, at most:
// between the judge's record of it and the data plane's own lies an interrupt now and then.
const maxEdge = 25 * time.Microsecond

// edgeOf is how far that is in intervals of a length, most of which have to be certain.
func edgeOf(length time.Duration) time.Duration { return min(maxEdge, length/8) }

// late is how long after an interval's end records of its frames may come.
const late = 20 * time.Millisecond

// intervals makes the windows of a hop that measures by itself from its single frames. They
// begin at whole lengths of the hop's own clock.
type intervals struct {
	truth
	phase, length uint64 // ns
	first         uint64 // which interval open[0] is
	open          []tally
}

// tally is what passed in one interval, in bits on the wire.
type tally struct{ sent, less, more uint64 } // less: of sent, what may count for a neighbour; more: of neighbours

// keptWindows are as many as probes that wait for their judge may need, of 100 us.
const keptWindows = 1 << 16

// passed takes in one frame.
func (v *intervals) passed(at, sent uint64) {
	n, off := (at-v.phase)/v.length, (at-v.phase)%v.length
	if len(v.open) == 0 && len(v.windows) == 0 {
		v.first = n
	}
	if n < v.first { // a processor was kept from writing its record
		for i := range min(v.first-n, uint64(len(v.windows))) {
			v.windows[len(v.windows)-1-int(i)].vague = true
		}
		return
	}
	v.at(n).sent += sent
	edge := uint64(v.edge)
	if off < edge {
		v.at(n).less += sent
		if n > v.first {
			v.at(n - 1).more += sent
		}
	}
	if off+edge >= v.length {
		v.at(n).less += sent
		v.at(n + 1).more += sent
	}
}

func (v *intervals) at(n uint64) *tally {
	for uint64(len(v.open)) <= n-v.first {
		v.open = append(v.open, tally{})
	}
	return &v.open[n-v.first]
}

// close completes the intervals whose frames have all come by an instant of the hop's clock.
// wall is that clock's distance from the wall clock; vague: records were lost.
func (v *intervals) close(now uint64, wall int64, vague bool) {
	for first := len(v.windows) == 0; ; first = false {
		end := v.phase + (v.first+1)*v.length
		if end+uint64(late) > now {
			break
		}
		t, at := *v.at(v.first), time.Unix(0, int64(end)+wall)
		w := v.window(t.sent, time.Duration(v.length), at)
		w.vague = vague || first // recording began within the first one
		for _, other := range []uint64{t.sent - min(t.less, t.sent), t.sent + t.more} {
			if s := v.window(other, time.Duration(v.length), at).s; s != w.s {
				w.also = append(w.also, s)
			}
		}
		v.windows = append(v.windows, w)
		v.open = v.open[1:]
		v.first++
	}
	if len(v.windows) > 2*keptWindows {
		v.windows = append(v.windows[:0], v.windows[len(v.windows)-keptWindows:]...)
	}
}
