package simulate

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/cc"
	"github.com/csig-agent/csig/inventory"
)

// Control is a congestion control. A key that is not given has the default of its kind, which package cc has from its paper or
// draft.
type Control struct {
	Kind      string        `key:"kind" words:"window hpcc hpcc-receiver hpcc-rate hpcc-pint hpcc-csig swift poseidon dctcp dctcp-rate dcqcn timely cubic csig" default:"hpcc" doc:"Which one."`
	Window    uint64        `key:"window" is:"bytes" doc:"Of kind window."`
	T         time.Duration `key:"rtt" range:"1ns 1s" doc:"T, the round trip without queues; that of the network unless given."`
	Eta       int           `key:"eta" range:"1 100" doc:"HPCC's η, the utilisation that is aimed at, in percent; 95 unless given."`
	Stage     int           `key:"max_stage" range:"0 1000" doc:"HPCC's maxStage; 5 unless given, of the forms by rate 0."`
	N         int           `key:"flows" range:"1 1000000" default:"100" doc:"HPCC++'s N: the flows on a link that additive increase is for. hpcc-receiver measures it where the last link has most in flight."`
	Telemetry string        `key:"telemetry" words:"each some trip congested" default:"each" doc:"Which packets of hpcc carry telemetry: each; some, one in every; trip, one in a round trip; congested, each, and it is returned where there is a queue, and once in a round trip."`
	Every     int           `key:"every" range:"1 100000" doc:"Of telemetry: some."`
	RoCE      bool          `key:"roce" doc:"The receiver of hpcc returns the link with most bytes in flight, and no other."`
	Delay     string        `key:"delay" words:"pd queue rtt" doc:"Where hpcc-csig has u1 from: pd, max(PD); queue, max(qlen/B), which no draft of CSIG has; rtt, the round trip, which is no CSIG signal. Where swift has its delay from: rtt unless given, or pd."`
	Hold      time.Duration `key:"hold" range:"0s 1h" doc:"hpcc-csig commits no two windows nearer than this. swift and csig take head-room again this long, and a round trip, after they have: until what they do is in the signal."`
	Increase  uint64        `key:"increase" is:"rate" doc:"Additive increase of the forms by rate."`
	Least     uint64        `key:"least" is:"rate" doc:"Least rate of the forms by rate."`
	Windowed  bool          `key:"windowed" doc:"dcqcn and timely have a window that follows the rate; dcqcn with the timers of HPCC's public ns-3 code."`
	Initial   uint64        `key:"initial" is:"bytes" doc:"The window that a flow begins with; that of the kind's paper unless given."`
	Target    time.Duration `key:"target" range:"1ns 1s" doc:"Swift's base target delay."`
	Ramp      int           `key:"ramp" range:"0 1000" doc:"swift's kλ in percent: the part of the head-room that it takes in a round trip. csig's N of 1/N, 2 unless given, as hosts have it."`
	JumpShare int           `key:"jump_share" range:"1 1000" doc:"N of 1/N: the share of the head-room that a flow of csig begins with, 8 unless given, as hosts have it."`
	Unguarded bool          `key:"unguarded" doc:"swift's ramp-up takes head-room before the last one is in the signal, as draft-ravi-ippm-csig-00 §8.1.2 has it."`
	Jump      bool          `key:"jump" doc:"swift begins with what min(ABW) leaves."`

	stage bool // max_stage is given
	m     inventory.Mapping
}

// controlKeys are the keys that a kind has besides kind.
var controlKeys = map[string]string{
	"window":        "window",
	"hpcc":          "rtt eta max_stage flows telemetry every roce",
	"hpcc-receiver": "rtt eta max_stage flows",
	"hpcc-rate":     "rtt eta max_stage increase least",
	"hpcc-pint":     "rtt eta max_stage increase least",
	"hpcc-csig":     "rtt eta max_stage flows delay hold",
	"swift":         "rtt target delay ramp unguarded jump hold initial",
	"poseidon":      "rtt target",
	"dctcp":         "initial",
	"dctcp-rate":    "rtt increase least",
	"dcqcn":         "rtt increase least windowed",
	"timely":        "rtt increase least windowed",
	"cubic":         "initial",
	"csig":          "ramp jump_share hold initial",
}

// Check has the rules about several keys.
func (c *Control) Check(m inventory.Mapping) {
	keys, ok := controlKeys[c.Kind]
	if !ok {
		return // it is said already
	}
	has := strings.Fields(keys)
	for _, key := range strings.Fields("window rtt eta max_stage flows telemetry every roce delay hold increase least windowed initial target ramp jump_share unguarded jump") {
		if m.Has(key) && !slices.Contains(has, key) {
			m.Wrong(key, "leave it out", "kind %s has no %s", c.Kind, key)
		}
	}
	switch {
	case c.Kind == "window" && c.Window == 0 && !m.Has("window"):
		m.Wrong("kind", "e.g. window: 100k", "a constant window needs its size")
	case c.Telemetry == "some" && c.Every == 0 && !m.Has("every"):
		m.Wrong("telemetry", "e.g. every: 10", "telemetry on some packets needs one in how many")
	case c.Telemetry != "some" && m.Has("every"):
		m.Wrong("every", "leave it out, or give telemetry: some", "every is a key of telemetry: some")
	case c.Kind == "swift" && c.Delay == "queue":
		m.WrongValue("delay", "pd or rtt", "swift has no max(qlen/B)")
	case c.Unguarded && c.Ramp == 0:
		m.Wrong("unguarded", "e.g. ramp: 100", "the guard is of a ramp-up, and there is none")
	}
	c.stage, c.m = m.Has("max_stage"), m
}

// control is the congestion control of a flow from a host whose link has so many bit/s to another host.
func (m *Simulation) control(rate uint64, to int32) cc.Control {
	c := &m.scenario.Control
	t := c.T.Nanoseconds() * 1000
	if t == 0 {
		t = m.rtt
	}
	mss, hold := int(m.network.payload), c.Hold.Nanoseconds()*1000
	switch c.Kind {
	case "hpcc":
		return cc.NewHPCC(c.hpcc(rate, t))
	case "hpcc-receiver":
		return cc.NewHPCCReceiver(c.hpcc(rate, t), m.peers(to))
	case "hpcc-rate", "hpcc-pint":
		p := cc.DefaultRate(rate, t)
		p.PINT, p.MaxStage = c.Kind == "hpcc-pint", c.Stage
		p.AI, p.Least, p.Eta = or(c.Increase, p.AI), or(c.Least, p.Least), c.eta()
		m.network.pintT = t
		return cc.NewHPCCRate(p)
	case "hpcc-csig":
		return cc.NewHPCCCSIG(cc.CSIGConfig{HPCCConfig: c.hpcc(rate, t), Delay: delays[c.Delay], Hold: hold})
	case "swift":
		p := cc.DefaultSwift(rate, t, mss)
		p.MaxPD, p.Ramp, p.Guard, p.Age, p.Jump = c.Delay == "pd", float64(c.Ramp)/100, !c.Unguarded, hold, c.Jump
		if p.MaxPD {
			p.Base -= t // of one hop, where nothing but queues counts
		}
		if c.Target > 0 {
			p.Base = c.Target.Nanoseconds() * 1000
		}
		if p.Jump {
			p.Initial = min(p.Initial, 10)
		}
		p.Initial = or(c.Initial, p.Initial*p.MSS) / p.MSS
		return cc.NewSwift(p)
	case "poseidon":
		p := cc.DefaultPoseidon(rate, t, mss)
		if c.Target > 0 {
			p.K = c.Target.Nanoseconds() * 1000
		}
		return cc.NewPoseidon(p)
	case "dctcp":
		p := cc.DefaultDCTCP(mss)
		p.Initial = or(c.Initial, p.Initial)
		return cc.NewDCTCP(p)
	case "dctcp-rate":
		p := cc.DefaultDCTCPRate(rate, t, mss)
		p.AI, p.Least = or(c.Increase, p.AI), or(c.Least, p.Least)
		return cc.NewDCTCPRate(p)
	case "dcqcn":
		p := cc.DefaultDCQCN(rate)
		if c.Windowed {
			p = cc.DCQCNWindow(rate, t)
		}
		p.AI, p.Least = or(c.Increase, p.AI), or(c.Least, p.Least)
		return cc.NewDCQCN(p)
	case "timely":
		p := cc.DefaultTIMELY(rate, t)
		p.AI, p.Least = or(c.Increase, p.AI), or(c.Least, p.Least)
		if c.Windowed {
			p.Window = float64(rate) / 8 * float64(t) / cc.Second
		}
		return cc.NewTIMELY(p)
	case "cubic":
		cubic := cc.NewCubic(mss)
		c.begin(cubic)
		return cubic
	case "csig":
		h := cc.NewCubicCSIG(mss, cc.NewHeadroom(uint64(c.Hold.Nanoseconds()), freshSignal, uint64(cmp.Or(c.JumpShare, 8)), uint64(cmp.Or(c.Ramp, 2))), rate)
		c.begin(&h.Cubic)
		return h
	}
	return constant(c.Window)
}

// least is the least rate of the forms by rate, in bit/s; 0: it is a part of the host's.
func (c *Control) least() uint64 {
	switch {
	case c.Least > 0:
		return c.Least
	case c.Kind == "hpcc-rate" || c.Kind == "hpcc-pint":
		return uint64(cc.DefaultRate(1, 1).Least)
	case c.Kind == "dctcp-rate":
		return uint64(cc.DefaultDCTCPRate(1, 1, 1).Least)
	case c.Kind == "dcqcn" && c.Windowed:
		return uint64(cc.DCQCNWindow(1, 1).Least)
	}
	return 0
}

// begin has CUBIC begin with the window that is given.
func (c *Control) begin(cubic *cc.Cubic) {
	cubic.W = or(c.Initial, cubic.W*cubic.MSS) / cubic.MSS
}

// String is which control it is, in which form: HPCC by window and by rate are not the same, and u1 of the round trip is no signal.
func (c *Control) String() string {
	switch c.Kind {
	case "window":
		return "a constant window"
	case "hpcc":
		return "HPCC++ by window"
	case "hpcc-receiver":
		return "HPCC++ by window, at the receiver"
	case "hpcc-rate":
		return "HPCC by rate"
	case "hpcc-pint":
		return "HPCC by rate, PINT"
	case "hpcc-csig":
		return "HPCC++ on CSIG by window, u1 from " + map[string]string{"": "max(PD)", "pd": "max(PD)", "queue": "max(qlen/B)", "rtt": "the round trip, which is no CSIG signal"}[c.Delay]
	case "swift":
		text := "Swift"
		if c.Delay == "pd" {
			text += " on max(PD)"
		}
		if c.Ramp > 0 {
			text += map[bool]string{false: ", ramp-up", true: ", ramp-up without guard"}[c.Unguarded]
		}
		if c.Jump {
			text += ", jump-start"
		}
		return text
	case "dcqcn":
		return map[bool]string{false: "DCQCN", true: "DCQCN with a window"}[c.Windowed]
	case "timely":
		return map[bool]string{false: "TIMELY", true: "TIMELY with a window"}[c.Windowed]
	}
	return map[string]string{"poseidon": "Poseidon", "dctcp": "DCTCP", "dctcp-rate": "DCTCP by rate", "cubic": "CUBIC", "csig": "CUBIC and head-room, as hosts have it"}[c.Kind]
}

// freshSignal is how long a signal counts, in ns, as hosts have it.
const freshSignal = 200_000_000

// delays are the words of delay; "" is pd of hpcc-csig.
var delays = map[string]cc.DelayFrom{"queue": cc.DelayQueueTime, "rtt": cc.DelayRTT}

func (c *Control) eta() float64 {
	if c.Eta == 0 {
		return 0.95
	}
	return float64(c.Eta) / 100
}

func (c *Control) hpcc(rate uint64, t int64) cc.HPCCConfig {
	p := cc.DefaultHPCC(rate, t, c.N)
	p.AI *= (1 - c.eta()) / (1 - p.Eta)
	p.Eta = c.eta()
	if c.stage {
		p.MaxStage = c.Stage
	}
	p.When = map[string]cc.When{"some": cc.WhenSome, "trip": cc.WhenTrip, "congested": cc.WhenCongested}[c.Telemetry]
	p.Every, p.RoCE = uint32(max(c.Every, 1)), c.RoCE
	return p
}

func or(given uint64, otherwise float64) float64 {
	if given > 0 {
		return float64(given)
	}
	return otherwise
}

// peers are the flows of a receiver, which count themselves.
func (m *Simulation) peers(to int32) *cc.Peers {
	if m.receivers == nil {
		m.receivers = make(map[int32]*cc.Peers)
	}
	p, ok := m.receivers[to]
	if !ok {
		p = new(cc.Peers)
		m.receivers[to] = p
	}
	return p
}

// constant is a window that stays, in bytes.
type constant uint64

func (c constant) On(_ *cc.Event, o *cc.Output) { o.Window = uint64(c) }

// endless is a control that asks for what another one does, and never holds a flow back.
type endless struct{ of cc.Control }

func (c endless) On(e *cc.Event, o *cc.Output) {
	c.of.On(e, o)
	o.Window, o.Rate = 1<<40, 0
}

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
