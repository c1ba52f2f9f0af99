package plans

import (
	"fmt"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
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

// Unproven is why a device's driver is experimental, "" where facts of its model show
// what it does, or its driver ran on hardware. It is asked after Measure.
func (o *Observation) Unproven() string {
	if o.measured {
		return ""
	}
	return o.Experimental
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
	why := n.seen.Unproven()
	if why == "" || n.seen.Err != nil || n.want.Nothing() {
		return
	}
	if n.dev.Experimental {
		b.find(findings.Experimental, findings.Warning, n, nil, "its driver is experimental (%s), and no facts are of its model; experimental: true lets csig set it up all the same", why)
		return
	}
	b.find(findings.Experimental, findings.Error, n, nil, "%s", Unproven(b.fleet, n.dev, why))
}

// proveOrOptIn is what to do where a driver is experimental.
const proveOrOptIn = "measure its model with csig qualify and name the result (facts: NAME), or let csig set it up without that (experimental: true)"

// Unproven says that the driver of a device's platform is experimental, why, where the
// fleet file names the platform, and what to do.
func Unproven(f *inventory.Fleet, d *inventory.Device, why string) string {
	where := ""
	if at := f.DeviceOrigins(d.Name)["platform"]; at.File != "" {
		where = fmt.Sprintf(" (%s:%d:%d)", at.File, at.Line, at.Col)
	}
	return fmt.Sprintf("its driver is experimental%s: %s; %s", where, why, proveOrOptIn)
}
