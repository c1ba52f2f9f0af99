package agent

import (
	"fmt"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// port is one egress port's way from sample to intent.
type port struct {
	cfg     inventory.Port
	action  vlanrules.Action // the file's or, where a set-up is followed, what that says
	found   bool             // a set-up that is followed has the port
	intends bool             // it may be asked what it would write
	// overhead replaces what the source says a frame costs beyond its octets,
	// where the fleet file knows better; nil: the source knows.
	overhead *uint8
	est      counters.Averager
	anew     func() counters.Averager
	heard    time.Time // when the counters came last
	counted  time.Time // what they were the state of, by the source's clock
	state    string
	reason   string
	current  bool              // what was measured last still holds
	window   bool              // there has been a complete window
	fresh    bool              // the last reading completed one
	last     counters.Estimate // the last complete window
	seen     time.Time         // when it came

	intents    []vlanrules.Intent // wanted
	damp       []*counters.Damper // beside intents
	doubtful   []bool             // beside intents: Δt is too uncertain for one bucket
	refused    string             // why the device did not take them; "" when it did
	programmed []vlanrules.Intent // what the device took last
	took       counters.Estimate  // the window behind programmed
	at         time.Time          // when the device had taken it
}

func newPort(prof *quantize.Profile, dev *inventory.Device, how averaging, cfg inventory.Port, follow bool) port {
	p := port{
		cfg:      cfg,
		action:   cfg.Action,
		intends:  cfg.Action == vlanrules.Update || follow && len(cfg.LM) > 0,
		overhead: dev.Counters.Overhead,
		anew: func() counters.Averager {
			return counters.NewAverager(how.method, counters.EstimatorConfig{Interval: dev.Interval, Speed: cfg.Speed, Tau: how.tau})
		},
		state: api.StateWaiting,
	}
	p.est = p.anew()
	if !p.intends {
		return p
	}
	for _, sig := range quantize.Signals {
		if _, ok := prof.Signals[sig]; ok {
			p.intents = append(p.intents, vlanrules.Intent{Signal: sig})
			p.damp = append(p.damp, counters.NewDamper(how.damping))
		}
	}
	p.programmed = make([]vlanrules.Intent, 0, len(p.intents))
	p.doubtful = make([]bool, len(p.intents))
	return p
}

// continueFrom takes over what another agent's port has measured.
func (p *port) continueFrom(q *port, cfg *Config, sameProfile bool) {
	if sameProfile && p.action == vlanrules.Update && q.action == vlanrules.Update {
		p.programmed, p.took, p.at = append(p.programmed, q.programmed...), q.took, q.at // until the next cycle
	}
	p.est, p.state, p.reason, p.current, p.window, p.last, p.seen = q.est, q.state, q.reason, q.current, q.window, q.last, q.seen
	p.heard, p.counted = q.heard, q.counted
	switch {
	case p.action == vlanrules.Strip:
		p.state = api.StateStrip
	case p.action == vlanrules.Passthrough:
		p.state = api.StatePassthrough
	case p.state != api.StateStrip && p.state != api.StatePassthrough:
	case p.window:
		p.state = api.StateLive // the next reading tells better
	default:
		p.state = api.StateWaiting
	}
	if !p.window {
		return
	}
	for i := range p.intents { // a reading that brings nothing new keeps these
		in := &p.intents[i]
		sp := cfg.Profile.Signals[in.Signal]
		if v, ok := measured(&p.last, in.Signal); ok {
			in.S = p.damp[i].Next(&sp.Buckets, v)
		}
	}
}

// averaging is how samples become buckets, for all ports of a device.
type averaging struct {
	method  counters.Method
	tau     time.Duration
	damping counters.Damping
}

// newAveraging reads the fleet file's choice.
func newAveraging(dev *inventory.Device, pol *inventory.Policy) (averaging, error) {
	a := averaging{
		tau: dev.Estimator.TimeConstant,
		// The file counts the margin in ppm of a bucket's width.
		damping: counters.Damping{Hold: pol.Damping.Hold, Margin: uint32(pol.Damping.Margin / 1000)},
	}
	if dev.Estimator.Method != "" {
		var err error
		if a.method, err = counters.ParseMethod(string(dev.Estimator.Method)); err != nil {
			return a, err
		}
	}
	return a, a.damping.Validate()
}

// observe takes one reading and decides what state the port is in.
func (p *port) observe(s *counters.Sample, lease time.Duration, now time.Time) {
	if p.overhead != nil {
		s.Overhead = *p.overhead
	}
	outage := p.forgetOutage(s, lease, now)
	est := p.est.Update(*s)
	p.reason = est.Reason
	if outage > 0 && est.State == counters.First {
		p.reason = fmt.Sprintf("no reading came for %v: measuring anew", outage.Round(time.Millisecond))
	}
	p.fresh = est.State.Valid()
	if p.fresh {
		p.window, p.last, p.seen = true, est, now
	}
	switch {
	case est.State.Valid():
		p.current = true
	case est.State == counters.NotRefreshed: // as it was
	default:
		p.current = p.window && est.State != counters.Stale && now.Sub(p.seen) <= lease
	}
	switch {
	case p.action == vlanrules.Strip:
		p.state = api.StateStrip
	case p.action == vlanrules.Passthrough:
		p.state = api.StatePassthrough
	case est.State == counters.Down:
		p.state = api.StateDown
	case est.State.Valid():
		p.state = api.StateLive
	case est.State == counters.NotRefreshed:
		// The source repeats itself until it refreshes: no news, not no traffic.
	case p.window && est.State != counters.Stale && now.Sub(p.seen) <= lease:
		// One reading is missing: what was measured last still holds.
	case p.window || est.State == counters.Error || est.State == counters.Stale:
		p.state = api.StateStale
	default:
		p.state = api.StateWaiting
	}
}

// forgetOutage starts the port's average anew where its counters did not come for
// longer than the lease, and returns for how long, else 0: the mean over all that time says nothing about the last
// Δt, and the data plane has fallen back meanwhile. It goes by both clocks, as a
// reading may be held up before it comes.
func (p *port) forgetOutage(s *counters.Sample, lease time.Duration, now time.Time) (outage time.Duration) {
	if s.Err != nil || s.Fresh == counters.Held || s.Fresh == counters.Stuck {
		return 0 // says nothing new
	}
	if !p.heard.IsZero() {
		outage = max(now.Sub(p.heard), s.At.Sub(p.counted))
	}
	p.heard, p.counted = now, s.At
	if outage <= lease {
		return 0
	}
	p.est = p.anew()
	return outage
}

// intend writes what the port should advertise into p.intents. A port that
// has nothing measured advertises the worst bucket with the stale locator,
// never what an earlier agent left behind.
func (p *port) intend(prof *quantize.Profile) {
	for i := range p.intents {
		in := &p.intents[i]
		sp := prof.Signals[in.Signal]
		v, ok := measured(&p.last, in.Signal)
		if !ok {
			// Counters cannot tell a frame's delay or queue (draft-00 §6.4);
			// shortcomings reports it.
			in.Action = vlanrules.Passthrough
			continue
		}
		in.Action, p.doubtful[i] = vlanrules.Update, false
		if p.state == api.StateStale || p.state == api.StateWaiting {
			in.S, in.LM = in.Signal.WorstBucket(), prof.Layout.LMStale()
			p.damp[i].Reset()
			continue
		}
		if p.fresh { // the damper counts readings that say something
			in.S = p.damp[i].Next(&sp.Buckets, v)
		}
		in.LM = p.cfg.LM[in.Signal]
		if r, ok := counters.BucketsOf(&p.last, &sp.Buckets); ok {
			p.doubtful[i] = r.Doubtful()
		}
	}
}

// measured is a signal's value in its unit, of those that counters can tell.
func measured(est *counters.Estimate, sig quantize.Signal) (v uint64, ok bool) {
	switch sig {
	case quantize.MinABW:
		return est.ABW, true
	case quantize.MinABWC:
		return uint64(est.ABWC), true
	}
	return 0, false
}

// commit remembers that the device has taken the intents, unless it refused.
func (p *port) commit(at time.Time) {
	if p.refused != "" || p.action != vlanrules.Update {
		p.programmed = p.programmed[:0]
		return
	}
	p.programmed = append(p.programmed[:0], p.intents...)
	p.took, p.at = p.last, at
}
