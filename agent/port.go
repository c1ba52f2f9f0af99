package agent

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// port is one egress port's way from sample to intent.
type port struct {
	cfg     inventory.Port
	pipe    *counters.Pipeline
	at      int                 // in the pipeline
	view    *counters.PortState // there
	came    time.Time           // when the counters came last
	counted time.Time           // what they were the state of, by the source's clock
	repeats bool                // readings came since, without news
	state   string
	logged  string // the state that the log has
	reason  string
	code    findings.Code // of the reason
	current bool          // what was measured last still holds
	seen    time.Time     // when the last complete window came
	up      bool          // its link was, when that was last read
	downs   uint64        // times that it was read as down and had been up

	records *records // of its cycles

	prof   *quantize.Profile
	fitted uint64 // the capacity that misfit is about
	misfit string // why the buckets cannot tell its loads apart; "" when they can

	supervised supervision // of a device that measures by itself

	intents    []vlanrules.Intent // wanted, in the order of the view's signals
	doubtful   []bool             // beside intents: Δt is too uncertain for one bucket
	refused    string             // why the device did not take them; "" when it did
	programmed []vlanrules.Intent // what the device took last
	took       counters.Estimate  // the window behind programmed
	since      time.Time          // when the device had taken it
	taken      uint64             // times that it took another one
	unread     string             // why the device is not known to have that: it was not read back; "" when it was

	// Of devices whose updates are changes of configuration.
	urgent  bool               // it got worse
	held    bool               // its value waits for its turn
	sent    []vlanrules.Intent // what the device was told last, taken or not
	waiting []vlanrules.Intent // the value that waits; none: none does
	pending time.Time          // since when one does
}

func newPort(pipe *counters.Pipeline, at int, recs *records, prof *quantize.Profile, cfg inventory.Port) port {
	p := port{
		cfg: cfg, prof: prof, records: recs,
		pipe: pipe, at: at, view: pipe.Port(at),
		state: api.StateWaiting, logged: api.StateWaiting,
	}
	if cfg.Action != vlanrules.Update {
		return p
	}
	for _, sig := range p.view.Signals {
		p.intents = append(p.intents, vlanrules.Intent{Signal: sig.Signal})
	}
	p.programmed = make([]vlanrules.Intent, 0, len(p.intents))
	p.doubtful = make([]bool, len(p.intents))
	return p
}

// continueFrom takes over what another agent's port has measured.
func (p *port) continueFrom(q *port, sameProfile bool) {
	if sameProfile && p.cfg.Action == vlanrules.Update && q.cfg.Action == vlanrules.Update {
		p.programmed, p.took, p.since = append(p.programmed, q.programmed...), q.took, q.since // until the next cycle
	}
	p.taken, p.up, p.downs, p.unread = q.taken, q.up, q.downs, q.unread
	if !sameProfile {
		p.unread = notReadBack // what it has may be the fallback, as its values mean something else
	}
	p.pipe.Continue(p.at, q.pipe, q.at)
	if sameProfile {
		p.records = q.records
	}
	p.state, p.logged, p.reason, p.code, p.current, p.seen, p.came, p.counted = q.state, q.logged, q.reason, q.code, q.current, q.seen, q.came, q.counted
	switch {
	case p.cfg.Action == vlanrules.Strip:
		p.state = api.StateStrip
	case p.cfg.Action == vlanrules.Passthrough:
		p.state = api.StatePassthrough
	case p.state != api.StateStrip && p.state != api.StatePassthrough:
	case p.view.Known:
		p.state = api.StateLive // the next reading tells better
	default:
		p.state = api.StateWaiting
	}
}

// PipelineConfig is how a device's readings become buckets, as its fleet file says.
func PipelineConfig(prof *quantize.Profile, pol *inventory.Policy, dev *inventory.Device) (counters.PipelineConfig, error) {
	c := counters.PipelineConfig{
		Interval: dev.Interval, Tau: dev.Estimator.TimeConstant, Overhead: dev.Counters.Overhead,
		Refresh: counters.RefreshConfig{Period: dev.Counters.Refresh},
		// The file counts the margin in ppm of a bucket's width.
		Damping: counters.Damping{Hold: pol.Damping.Hold, Margin: uint32(pol.Damping.Margin / 1000)},
	}
	if dev.Estimator.Method != "" {
		var err error
		if c.Method, err = counters.ParseMethod(string(dev.Estimator.Method)); err != nil {
			return c, fmt.Errorf("device %s: %w", dev.Name, err)
		}
	}
	for _, sig := range quantize.Signals {
		if sp, ok := prof.Signals[sig]; ok {
			c.Tables = append(c.Tables, &sp.Buckets)
		}
	}
	for _, p := range dev.Ports {
		c.Ports = append(c.Ports, counters.PipelinePort{Name: p.Name, Speed: p.Speed, Override: p.SpeedOverride})
	}
	return c, nil
}

// readingCodes are the codes of what is wrong with a reading.
var readingCodes = map[counters.State]findings.Code{
	counters.First: findings.Measuring, counters.OK: findings.CountersInexact, counters.Down: findings.LinkDown,
	counters.Discontinuity: findings.CountersRestarted, counters.NoProgress: findings.CountersUnchanged,
	counters.Error: findings.CountersFail, counters.NotRefreshed: findings.CountersUnchanged, counters.Stale: findings.CountersStopped,
}

// observe takes one reading and decides what state the port is in.
func (p *port) observe(s *counters.Sample, lease time.Duration, now time.Time) {
	outage := p.forgetOutage(s, lease, now)
	est := &p.pipe.Take(p.at, s).Now
	p.reason, p.code = est.Reason, ""
	if est.Reason != "" {
		p.code = readingCodes[est.State]
	}
	if outage > 0 && est.State == counters.First {
		what := "nothing was read"
		if p.repeats {
			what = "each reading repeated the one before"
		}
		p.reason, p.repeats = fmt.Sprintf("%s for %v: measuring again", what, outage.Round(time.Millisecond)), false
	}
	switch est.State {
	case counters.Down:
		if p.up {
			p.downs++
		}
		p.up = false
	case counters.Error, counters.NotRefreshed, counters.Stale: // says nothing about it
	default:
		p.up = true
	}
	switch {
	case est.State.Valid():
		p.current, p.seen = true, now
	case est.State == counters.NotRefreshed: // as it was
	default:
		p.current = p.view.Known && est.State != counters.Stale && now.Sub(p.seen) <= lease
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
	case est.State == counters.NotRefreshed:
		// The source repeats itself until it refreshes: no news, not no traffic.
	case p.view.Known && est.State != counters.Stale && now.Sub(p.seen) <= lease:
		// One reading is missing: what was measured last still holds.
	case p.view.Known || est.State == counters.Error || est.State == counters.Stale:
		p.state = api.StateStale
	default:
		p.state = api.StateWaiting
	}
	if p.view.Slow != 0 && p.state == api.StateLive && s.Err == nil {
		p.code, p.reason = findings.SlowLink, findings.Join(findings.SlowLinkReason(p.cfg.Speed, p.view.Slow), p.reason)
	}
	if p.state != api.StateLive || s.Err != nil {
		return
	}
	if c := est.Capacity; c != p.fitted && est.State.Valid() {
		p.fitted, p.misfit = c, p.prof.Misfit(c)
	}
	if p.misfit != "" {
		p.code, p.reason = cmp.Or(p.code, findings.BucketsMisfit), findings.Join(p.misfit, p.reason)
	}
}

// forgetOutage restarts the port's average where its counters did not come for
// longer than the lease, and returns for how long, else 0: the mean over all that time says nothing about the last
// Δt, and the data plane has fallen back meanwhile. It goes by both clocks, as a
// reading may be held up before it comes.
func (p *port) forgetOutage(s *counters.Sample, lease time.Duration, now time.Time) (outage time.Duration) {
	if s.Err != nil || s.Fresh == counters.Held || s.Fresh == counters.Stuck {
		p.repeats = s.Err == nil
		return 0 // says nothing new
	}
	if !p.came.IsZero() {
		outage = max(now.Sub(p.came), s.At.Sub(p.counted))
	}
	p.came, p.counted = now, s.At
	if outage <= lease {
		p.repeats = false
		return 0
	}
	p.pipe.Restart(p.at)
	return outage
}

// intend writes what the port should advertise into p.intents. A port that
// has nothing measured advertises the worst bucket with the stale locator,
// never what an earlier agent left behind.
func (p *port) intend(prof *quantize.Profile, native, unaided bool) {
	for i := range p.intents {
		in, sig := &p.intents[i], &p.view.Signals[i]
		if !sig.Possible && !native || unaided {
			// Counters cannot tell a frame's delay or queue (draft-00 §6.4);
			// limitations reports it. What a chip writes by itself nothing here tells.
			in.Action = vlanrules.Passthrough
			continue
		}
		in.Action, p.doubtful[i] = vlanrules.Update, false
		if p.state == api.StateStale || p.state == api.StateWaiting {
			in.S, in.LM = in.Signal.WorstBucket(), prof.Layout.LMStale()
			p.pipe.ResetDamping(p.at)
			continue
		}
		in.S, in.LM, p.doubtful[i] = sig.Bucket, p.cfg.LM[in.Signal], sig.Range.Doubtful()
	}
}

// commit remembers that the device has taken the intents, unless it refused.
func (p *port) commit(at time.Time) {
	if p.refused != "" || p.cfg.Action != vlanrules.Update {
		p.programmed = p.programmed[:0]
		return
	}
	if !slices.Equal(p.programmed, p.intents) {
		p.taken++
	}
	p.programmed = append(p.programmed[:0], p.intents...)
	p.took, p.since = p.view.Last, at
}

// noteFacts takes in what the device has become able or unable to do while we
// run; nil is nothing.
func (a *Agent) noteFacts(f *vendors.Facts) {
	if f == nil {
		return
	}
	before := a.limitations()
	a.mu.Lock()
	a.facts = *f
	now := a.limitationsLocked()
	a.mu.Unlock()
	for _, v := range now {
		if !slices.Contains(before, v) {
			a.log.WithFields(logrus.Fields{"what": v.What, "verdict": v.Level}).Warn("the device has changed: " + v.Reason)
		}
	}
	if len(now) == 0 {
		a.log.Info("the device can do everything again")
	}
}

// noteRefusals marks the ports that an otherwise complete update left out.
func (a *Agent) noteRefusals(err error) {
	if err == nil && !a.refusals {
		return
	}
	why := map[string]string{}
	var changed []findings.Finding
	vendors.EachPort(err, func(port string, err error) { why[port] = err.Error() })
	for i := range a.ports {
		p := &a.ports[i]
		now := why[p.cfg.Name]
		if now == p.refused || p.held {
			continue
		}
		p.refused = now
		changed = append(changed, findings.Finding{Code: findings.NotTaken, Ports: []string{p.cfg.Name}, Reason: now})
	}
	a.refusals = slices.ContainsFunc(a.ports, func(p port) bool { return p.refused != "" }) // also of ports whose value was held
	for _, f := range findings.Merge(changed) {
		log := a.log.WithField("port", vendors.Names(f.Ports))
		switch {
		case f.Reason != "" && a.cfg.Shadow:
			log.Error("would not be programmed: " + f.Reason)
		case f.Reason != "":
			log.Error("not programmed: " + f.Reason)
		default:
			log.Info("programmed again")
		}
	}
}
