package agent

import (
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// port is one egress port's way from sample to intent.
type port struct {
	cfg inventory.Port
	// overhead replaces what the source says a frame costs beyond its octets,
	// where the fleet file knows better; nil: the source knows.
	overhead *uint8
	est      *counters.Estimator
	state    string
	reason   string
	window   bool              // there has been a complete window
	last     counters.Estimate // the last complete window
	seen     time.Time         // when it came

	intents    []vlanrules.Intent // wanted
	refused    string             // why the device did not take them; "" when it did
	programmed []vlanrules.Intent // what the device took last
	took       counters.Estimate  // the window behind programmed
	at         time.Time          // when the device had taken it
}

func newPort(prof *quantize.Profile, dev *inventory.Device, cfg inventory.Port) port {
	p := port{
		cfg:      cfg,
		overhead: dev.Counters.Overhead,
		est:      counters.NewEstimator(counters.EstimatorConfig{Interval: dev.Interval, Speed: cfg.Speed}),
		state:    api.StateWaiting,
	}
	if cfg.Action != vlanrules.Update {
		return p
	}
	for _, sig := range quantize.Signals {
		if _, ok := prof.Signals[sig]; ok {
			p.intents = append(p.intents, vlanrules.Intent{Signal: sig})
		}
	}
	p.programmed = make([]vlanrules.Intent, 0, len(p.intents))
	return p
}

// observe takes one reading and decides what state the port is in.
func (p *port) observe(s *counters.Sample, lease time.Duration, now time.Time) {
	if p.overhead != nil {
		s.Overhead = *p.overhead
	}
	est := p.est.Update(*s)
	p.reason = est.Reason
	if est.State.Valid() {
		p.window, p.last, p.seen = true, est, now
	}
	switch {
	case p.cfg.Action == vlanrules.Strip:
		p.state = api.StateStrip
	case p.cfg.Action == vlanrules.Passthrough:
		p.state = api.StatePassthrough
	case est.State == counters.Down:
		p.state = api.StateDown
	case est.State.Valid():
		p.state = api.StateLive
	case p.window && now.Sub(p.seen) <= lease:
		// One reading is missing: what was measured last still holds.
	case p.window || est.State == counters.Error:
		p.state = api.StateStale
	default:
		p.state = api.StateWaiting
	}
}

// intend writes what the port should advertise into p.intents. A port that
// has nothing measured advertises the worst bucket with the stale locator,
// never what an earlier agent left behind.
func (p *port) intend(prof *quantize.Profile) {
	for i := range p.intents {
		in := &p.intents[i]
		sp := prof.Signals[in.Signal]
		var v uint64
		switch in.Signal {
		case quantize.MinABW:
			v = p.last.ABW
		case quantize.MinABWC:
			v = uint64(p.last.ABWC)
		default:
			// Counters cannot tell a frame's delay or queue (draft-00 §6.4);
			// shortcomings reports it.
			in.Action = vlanrules.Passthrough
			continue
		}
		in.Action = vlanrules.Update
		if p.state == api.StateStale || p.state == api.StateWaiting {
			in.S, in.LM = in.Signal.WorstBucket(), prof.Layout.LMStale()
			continue
		}
		in.S, in.LM = sp.Buckets.Bucket(v), p.cfg.LM[in.Signal]
	}
}

// commit remembers that the device has taken the intents, unless it refused.
func (p *port) commit(at time.Time) {
	if p.refused != "" {
		p.programmed = p.programmed[:0]
		return
	}
	p.programmed = append(p.programmed[:0], p.intents...)
	p.took, p.at = p.last, at
}

func (p *port) logState(log *logrus.Entry, old string) {
	e := log.WithFields(logrus.Fields{"port": p.cfg.Name, "from": old, "to": p.state})
	if p.reason != "" {
		e = e.WithField("reason", p.reason)
	}
	switch p.state {
	case api.StateStale, api.StateDown:
		e.Warn("port changed state")
	default:
		e.Info("port changed state")
	}
}
