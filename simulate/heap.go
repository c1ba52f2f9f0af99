package simulate

import "math/bits"

// event is what happens at a time; events of one time happen in the order in which they were made.
type event struct {
	at   int64  // ps
	what uint64 // from the top down: the number of the event, its kind, and of what: a link, a flow, a host or a switch
}

// Bits of what: enough for 10^12 events, and a million of each.
const (
	ofBits   = 20
	kindBits = 4
)

func (e *event) kind() kind { return kind(e.what >> ofBits & (1<<kindBits - 1)) }
func (e *event) of() int32  { return int32(e.what & (1<<ofBits - 1)) }

type kind uint8

const (
	sent         kind = iota // a link has sent a packet, and has more to send
	arrives                  // the first packet on a link's wire is at its end
	paced                    // a host may have something to send
	timed                    // a flow's control has asked for it
	repeats                  // nothing was acknowledged to a flow, perhaps
	pauses                   // a link (PFC)
	resumes                  // a link
	reads                    // the agent of a switch
	writes                   // it has written what it read
	lapses                   // the lease of its rules is over
	follows                  // a flow begins, as the one before it has come (flow-level)
	acknowledged             // a flow has its last ACK (flow-level)
)

// heap is a 4-ary heap of events, the next one first. It keeps its memory. The first of its places are not used, so that the
// four children of each are in one line of the processor's cache.
type heap struct {
	events []event
	made   uint64
	taken  bool // the first one was: its place waits for what is pushed next
}

// root is the place of the next event; the children of place i are 4i−8 to 4i−5.
const root = 3

func (h *heap) len() int {
	h.settle()
	return max(len(h.events)-root, 0)
}

// next is when the next event is; there is one.
func (h *heap) next() int64 {
	h.settle()
	return h.events[root].at
}

// before is 1 where a is before b, else 0: without a branch, which no processor could predict.
func before(a, b *event) int {
	_, less := bits.Sub64(a.what, b.what, 0)
	_, less = bits.Sub64(uint64(a.at), uint64(b.at), less)
	return int(less)
}

func (h *heap) push(at int64, k kind, of int32) {
	if len(h.events) == 0 {
		h.events = append(h.events, make([]event, root)...)
	}
	h.made++
	e := event{at, h.made<<(ofBits+kindBits) | uint64(k)<<ofBits | uint64(of)}
	if h.taken {
		h.taken = false
		h.sink(e)
		return
	}
	h.events = append(h.events, e)
	i := len(h.events) - 1
	for i > root {
		up := i/4 + 2
		if before(&e, &h.events[up]) == 0 {
			break
		}
		h.events[i] = h.events[up]
		i = up
	}
	h.events[i] = e
}

// pop takes the next event out; there is one.
func (h *heap) pop() event {
	h.settle()
	h.taken = true
	return h.events[root]
}

// settle has the last event take the place of the one that was taken.
func (h *heap) settle() {
	if !h.taken {
		return
	}
	h.taken = false
	n := len(h.events) - 1
	e := h.events[n]
	if h.events = h.events[:n]; n > root {
		h.sink(e)
	}
}

// sink puts an event in the first place, or as far down as it belongs.
func (h *heap) sink(e event) {
	i, n := root, len(h.events)
	for {
		down := 4*i - 8
		if down >= n {
			break
		}
		var least int
		if down+4 <= n {
			c := (*[4]event)(h.events[down:])
			a, b := before(&c[1], &c[0]), 2+before(&c[3], &c[2])
			least = down + a + (b-a)*before(&c[b&3], &c[a&3])
		} else {
			least = down
			for c := down + 1; c < n; c++ {
				if before(&h.events[c], &h.events[least]) == 1 {
					least = c
				}
			}
		}
		if before(&h.events[least], &e) == 0 {
			break
		}
		h.events[i] = h.events[least]
		i = least
	}
	h.events[i] = e
}
