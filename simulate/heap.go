package simulate

// event is what happens at a time; events of one time happen in the order in which they were made.
type event struct {
	at   int64 // ps
	made uint64
	kind kind
	of   int32 // a link, a flow, a host or a switch, as kind says
}

type kind uint8

const (
	sent    kind = iota // a link has sent a packet
	arrives             // the first packet on a link's wire is at its end
	paced               // a host may have something to send
	timed               // a flow's control has asked for it
	repeats             // nothing was acknowledged to a flow, perhaps
	pauses              // a link (PFC)
	resumes             // a link
	reads               // the agent of a switch
	writes              // it has written what it read
	lapses              // the lease of its rules is over
)

// heap is a 4-ary heap of events, the next one first. It keeps its memory.
type heap struct {
	events []event
	made   uint64
}

func (h *heap) before(a, b *event) bool { return a.at < b.at || a.at == b.at && a.made < b.made }

func (h *heap) push(at int64, k kind, of int32) {
	h.made++
	e := event{at, h.made, k, of}
	h.events = append(h.events, e)
	i := len(h.events) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !h.before(&e, &h.events[up]) {
			break
		}
		h.events[i] = h.events[up]
		i = up
	}
	h.events[i] = e
}

// pop takes the next event out; there is one.
func (h *heap) pop() event {
	first, n := h.events[0], len(h.events)-1
	e := h.events[n]
	h.events = h.events[:n]
	if n == 0 {
		return first
	}
	i := 0
	for {
		down := 4*i + 1
		if down >= n {
			break
		}
		least := down
		for c := down + 1; c < min(down+4, n); c++ {
			if h.before(&h.events[c], &h.events[least]) {
				least = c
			}
		}
		if !h.before(&h.events[least], &e) {
			break
		}
		h.events[i] = h.events[least]
		i = least
	}
	h.events[i] = e
	return first
}
