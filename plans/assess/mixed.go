package assess

import (
	"time"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// linuxRules is the platform whose switches have the choice of a data plane of csig's own.
const linuxRules = "linux"

// mixed warns of what a tag means behind devices that do not all do the same: they measure
// over different Δt, or some do not update wide tags.
func (a *assessor) mixed() {
	var shortest, longest *assessed
	var passed []string // wide tags, as they are
	var linux []string  // by rules, where its kernel can measure by itself
	age := int64(0)     // of their signal at most, in ns
	for i := range a.devices {
		d := &a.devices[i]
		forwards, updates := false, false
		for j := range d.ports {
			updates = updates || d.ports[j].Updates()
			if d.ports[j].Updates() && (shortest == nil || d.dev.Interval < shortest.dev.Interval) {
				shortest = d
			}
			if d.ports[j].Updates() && (longest == nil || d.dev.Interval > longest.dev.Interval) {
				longest = d
			}
			forwards = forwards || d.dev.Ports[j].Action != vlanrules.Strip
		}
		if forwards && !d.blind() && d.seen.Facts.Wide.Level == vlanrules.Refused {
			passed = append(passed, d.dev.Name)
		}
		if s := a.out.Devices[i].Signal; s != nil && updates && d.dev.Platform == linuxRules {
			linux, age = append(linux, d.dev.Name), max(age, s.AgeNS)
		}
	}
	if age > 0 {
		a.find(findings.NativePossible, findings.Info, "", nil, "the signal of %s is up to %v old, by rules that the agent rewrites; platform linux-ebpf, where eBPF is allowed, has the kernel measure by itself: a signal as old as its interval, which may be %v",
			vendors.Names(linux), time.Duration(age).Round(time.Millisecond), inventory.MinInterval)
	}
	if shortest != nil && shortest.dev.Interval != longest.dev.Interval {
		level, demand := findings.Info, ""
		if a.fleet.Profile.Layout == quantize.UEC {
			level, demand = findings.Warning, "; a uec domain may demand one Δt of all"
		}
		spread := float64(longest.dev.Interval) / float64(shortest.dev.Interval)
		a.find(findings.IntervalsDiffer, level, "", nil, "S of one path is over windows of Δt from %v (%s) to %v (%s), %.4g times as long: a burst that the shorter shows may be none in the longer%s",
			shortest.dev.Interval.Round(time.Microsecond), shortest.dev.Name, longest.dev.Interval.Round(time.Microsecond), longest.dev.Name, spread, demand)
	}
	if a.fleet.Profile.WideTPID != 0 && len(passed) > 0 && len(passed) < len(a.devices) {
		a.find(findings.WideTags, findings.Warning, "", nil, "wide tags are correct only on paths where every hop updates them, and are forwarded unchanged by %s: hosts send wide tags only where the whole path is native, else compact ones", vendors.Names(passed))
	}
}
