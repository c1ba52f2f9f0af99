package plans

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Measure lays what was measured of a device's model over what was found out about it,
// and returns what is to be said of that.
func (o *Observation) Measure(f *inventory.Fleet, d *inventory.Device) []findings.Finding {
	q := d.Facts
	if q == nil || o.Facts.Platform == "" { // nothing is known of it, not even what it is
		return nil
	}
	if why := o.Facts.Contradicts(q, f.Profile.TPID); why != "" {
		return []findings.Finding{{Code: findings.FactsNotUsed, Level: findings.Warning, Device: d.Name, Reason: fmt.Sprintf("facts %s are not used: %s", q.Name, why)}}
	}
	o.Facts, o.measured = o.Facts.Qualified(q), true
	var out []findings.Finding
	first, last := VIDs(&f.Profile)
	if q.DroppedVIDs != nil {
		for _, r := range *q.DroppedVIDs {
			if r.First <= last && first <= r.Last {
				out = append(out, findings.Finding{Code: findings.VIDsDropped, Level: findings.Error, Device: d.Name,
					Reason: fmt.Sprintf("frames do not get past it whose tag has the VIDs %v, and the domain's tags have VIDs from %d to %d (%v); initial_s: 30 keeps a signal clear of those from 3968 up", r, first, last, o.Facts.Traits.VIDs.Source)})
			}
		}
	}
	return out
}

// Unproven is why a device's driver is experimental, and what of these setups was not
// shown to be right on its model; both are "" where everything was, or the driver ran on
// hardware. It is asked after Measure.
func (o *Observation) Unproven(d *inventory.Device, setups ...*vendors.Setup) (why, untested string) {
	if o.Experimental == "" {
		return "", ""
	}
	if untested = Untested(o.Measured(d), setups...); untested == "" {
		return "", ""
	}
	return o.Experimental, untested
}

// Untested is what of these setups facts do not show to be right, "" where they show all
// of it. nil: there are no facts.
func Untested(q *inventory.Facts, setups ...*vendors.Setup) string {
	if q == nil {
		return "no facts are of its model"
	}
	var updates, strips bool
	for _, s := range setups {
		strips = strips || s.Strips()
		updates = updates || slices.ContainsFunc(s.Ports, func(p vendors.PortSetup) bool { return p.Action == vlanrules.Update })
	}
	var lacking []string
	need := func(key string, is *bool) {
		switch {
		case is == nil:
			lacking = append(lacking, "they have no "+key)
		case !*is:
			lacking = append(lacking, key+" failed")
		}
	}
	if updates {
		need("update_exact", q.UpdateExact)
		for _, s := range setups {
			if other := untried(q, s); other != "" && !slices.Contains(lacking, other) {
				lacking = append(lacking, other)
			}
		}
		if q.Hitless != nil {
			need("hitless", q.Hitless)
		}
		if q.VLANsUnchanged != nil {
			need("vlans_unchanged", q.VLANsUnchanged)
		}
		if q.Reasons["lease"] != "" { // else the device has none, and its driver says so
			need("lease", q.Lease)
		}
	}
	if strips {
		need("strip", q.Strip)
	}
	if lacking == nil {
		return ""
	}
	return fmt.Sprintf("facts %s do not show that its rules are right: %s", q.Name, strings.Join(lacking, ", "))
}

// untried says which tags of a setup the rules were not tried with; "" where they were with all,
// or facts do not say with which.
func untried(q *inventory.Facts, s *vendors.Setup) string {
	if q.Layout != "" && q.Layout != s.Layout.String() {
		return fmt.Sprintf("they were tried with tags of layout %s, and the domain's are of %s", q.Layout, s.Layout)
	}
	for _, name := range s.SignalNames() {
		if q.Signals != nil && !slices.Contains(*q.Signals, name) {
			return fmt.Sprintf("they were not tried with the signal %s", name)
		}
	}
	return ""
}

// Measured is what was measured of a device's model, where Measure has laid it over what
// was found out; nil where there is none, or none that is of this device.
func (o *Observation) Measured(d *inventory.Device) *inventory.Facts {
	if !o.measured {
		return nil
	}
	return d.Facts
}

// VIDs is the range of VIDs that a domain's tags have: senders start at one end, and
// the worst bucket is the other.
func VIDs(p *quantize.Profile) (first, last uint16) {
	first = 4095
	for sig := range p.Signals {
		start, end := p.Initial(sig), sig.WorstBucket()
		first = min(first, p.Layout.VID(min(start, end), 1))
		last = max(last, p.Layout.VID(max(start, end), p.Layout.LMNone()))
	}
	return first, last
}

// unproven stops csig from setting up a device by a driver that never ran on hardware.
func (b *builder) unproven(n *node) {
	if n.seen.Err != nil || n.want.Nothing() {
		return
	}
	setups := []*vendors.Setup{&n.want}
	if n.fenced {
		on := b.fenceOn(n)
		setups = append(setups, &on)
	}
	why, untested := n.seen.Unproven(n.dev, setups...)
	switch {
	case why == "":
	case n.dev.Experimental:
		b.find(findings.Experimental, findings.Warning, n, nil, "its driver is experimental (%s), and %s; experimental: true lets csig set it up all the same", why, untested)
	default:
		b.find(findings.Experimental, findings.Error, n, nil, "%s", Unproven(b.fleet, n.dev, why, untested))
	}
}

// updates stops csig from updating a device by changes of configuration that the fleet file
// does not allow, and says what those cost that it does.
func (b *builder) updates(n *node) {
	buckets := Buckets(&n.want)
	if n.seen.Err != nil || buckets == 0 {
		return
	}
	if v := n.seen.Facts.TooFast(n.dev); v.Level == vlanrules.Refused {
		b.find(findings.ScheduleTooFast, findings.Error, n, nil, "%s", v.Reason)
	}
	if why := n.seen.Facts.UpdatesRefused(n.dev); why != "" {
		b.find(findings.UpdatesRefused, findings.Error, n, nil, "%s", why)
	} else if cost := n.seen.Facts.UpdatesCost(buckets); cost != "" {
		b.find(findings.UpdatesCost, findings.Info, n, nil, "%s", cost)
	}
}

// Buckets is how many buckets a setup's agent writes: one for each signal that counters
// show, at each port that updates.
func Buckets(s *vendors.Setup) (n int) {
	for i := range s.Ports {
		for _, sig := range s.Signals {
			if s.Ports[i].Action == vlanrules.Update && sig.Counted() {
				n++
			}
		}
	}
	return n
}

// Unproven says that the driver of a device's platform is experimental, why, where the
// fleet file names the platform, what was not tested, and what to do.
func Unproven(f *inventory.Fleet, d *inventory.Device, why, untested string) string {
	where := ""
	if at := f.DeviceOrigins(d.Name)["platform"]; at.File != "" {
		where = fmt.Sprintf(" (%s:%d:%d)", at.File, at.Line, at.Col)
	}
	return fmt.Sprintf("its driver is experimental%s: %s, and %s; measure its model with csig qualify and name the result (facts: NAME), or let csig set it up without that (experimental: true)", where, why, untested)
}
