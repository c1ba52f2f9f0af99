package simulate

import "github.com/csig-agent/csig/cc"

// control is the congestion control of a flow at a host whose link has so many bit/s.
func (m *Simulation) control(rate uint64) cc.Control {
	c := &m.scenario.Control
	if c.Kind == "window" {
		return constant(c.Window)
	}
	t := c.T.Nanoseconds() * 1000
	if t == 0 {
		t = m.rtt
	}
	p := cc.DefaultHPCC(rate, t, c.N)
	p.MaxStage = c.Stage
	return cc.NewHPCC(p)
}

// constant is a window that stays, in bytes.
type constant uint64

func (c constant) On(_ *cc.Event, o *cc.Output) { o.Window = uint64(c) }

// tell has a flow's control know of n.event, of which the caller has set all but the time.
func (n *Network) tell(id int32) {
	f := &n.flows[id]
	n.event.Now = n.now
	f.control.On(&n.event, &f.out)
	if t := f.out.Timer; t != f.timer {
		if f.timer = t; t != 0 {
			n.heap.push(t, timed, id)
		}
	}
}

// timer is when a control's timer may be: where it was moved since, this one is none.
func (n *Network) timer(id int32) {
	f := &n.flows[id]
	if f.timer != n.now || f.ended >= 0 {
		return
	}
	f.timer, f.out.Timer = 0, 0
	n.event = cc.Event{Kind: cc.Timer}
	n.tell(id)
	n.kick(n.hosts[f.from].link)
}
