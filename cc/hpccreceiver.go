package cc

// Peers are the flows that a receiver has, which count themselves (draft-miao-tsv-hpcc §6.3.2): all of one receiver have the
// same one.
type Peers struct {
	epoch     uint64
	began     int64
	now, last int
}

// HPCCReceiver is HPCC++ whose windows are computed at the receiver (draft-miao-tsv-hpcc §6.3.2, Rx-HPCC).
type HPCCReceiver struct {
	HPCC
	peers   *Peers
	epoch   uint64 // behind the one in which it was counted
	updated int64  // Figure 8, lastUpdateTime
	allowed float64
	fair    float64 // W_init·(1−η), which is shared by the flows of the last link
}

// NewHPCCReceiver is a flow's control; peers are those of its receiver, nil where W_ai is to stay what it is.
func NewHPCCReceiver(c HPCCConfig, peers *Peers) *HPCCReceiver {
	h := &HPCCReceiver{peers: peers, allowed: c.Initial, fair: c.Initial * (1 - c.Eta)}
	h.Begin(c)
	return h
}

// Data is NewINT (Figure 8). The window goes back on the acknowledgement of the packet.
func (h *HPCCReceiver) Data(e *Event) {
	path := e.Path
	e.Path = nil
	if path == nil {
		return
	}
	h.count(e.Now)
	if !samePath(h.path, path) {
		h.reset()
		h.path = append(h.path[:0], path...)
		h.updated = e.Now
		return
	}
	u, tau, link := h.busiest(h.path, path)
	h.U = h.average(h.U, u, tau)
	if h.peers != nil && link == len(path)-1 {
		h.AI = h.fair / float64(max(h.peers.last, h.peers.now))
	}
	update := e.Now > h.updated+h.T
	h.Compute(update)
	if update {
		h.updated = e.Now
		e.Window = h.W
	}
	copy(h.path, path)
}

// count has the flow be among those that the receiver has got data of lately: in this T, or the one before.
func (h *HPCCReceiver) count(now int64) {
	p := h.peers
	if p == nil {
		return
	}
	if now >= p.began+h.T {
		p.last, p.now = p.now, 0
		p.began = now
		p.epoch++
	}
	if h.epoch != p.epoch+1 { // 0: it never was
		h.epoch = p.epoch + 1
		p.now++
	}
}

// On has the sender do what its receiver has computed.
func (h *HPCCReceiver) On(e *Event, o *Output) {
	if e.Kind == Acked && e.Window > 0 {
		h.allowed = e.Window
	}
	o.Window, o.Rate, o.Ask = window(h.allowed), h.allowed*8*Second/float64(h.T), AskTelemetry
}
