package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/inventory/discovery"
	"github.com/csig-agent/csig/quantize"
)

// initInterval is the Δt that a first fleet file has: 100 ms, or where the
// counters are not that fresh, what they are.
func initInterval(shortest time.Duration) time.Duration {
	interval := 100 * time.Millisecond
	if shortest > interval {
		interval = (shortest + time.Second - 1).Truncate(time.Second)
	}
	return interval
}

// initFile is a fleet file for this machine. It loads as it is, and names what
// only a person knows.
func initFile(r *machineResult) (string, error) {
	ports := r.egress()
	fastest, unknown, why := uint64(0), 0, ""
	for _, p := range ports {
		if fastest = max(fastest, p.Speed); p.Speed == 0 {
			unknown++
		}
	}
	if known := len(ports) - unknown; fastest > 0 && unknown > 0 {
		why = fmt.Sprintf("; here of the %d of %d ports whose speed is known", known, len(ports))
	}
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("# A fleet file for this machine, by csig assess --init. Look through what is marked")
	p("# FILL IN, check it with csig inventory check -i, and watch it with")
	p("# csig agent -i … --dry-run, which programs nothing.")
	p("format: csig.fleet/v1")
	p("")
	p("profile:                   # every device of the domain has to have the same")
	p("  name: lab                # FILL IN: the domain's name")
	p("  tpid: 0x9900             # FILL IN: IEEE has assigned none, so one that nothing else uses")
	p("  interval: %-15v# Δt, over which the available bandwidth is averaged", initInterval(time.Duration(r.ShortestNS)))
	if r.Readings > 0 && r.ShortestNS == 0 {
		p("                           # FILL IN: how often the counters are refreshed could not be seen without traffic")
	}
	p("  signals:")
	p("    abw:  {buckets: %s}  # FILL IN: named by the fastest link of the domain%s", discovery.Buckets(fastest), why)
	p("    abwc: {buckets: log}")
	p("")
	p("devices:")
	p("  - name: %s", discovery.QuoteName(r.Name))
	p("    platform: linux")
	p("    local: true            # csig agent runs here")
	p("    # Each port that updates the tag gets a locator, its name in the tag, by itself;")
	p("    # to choose one: lm: 1 (1 to %d).", quantize.Draft00.LMStale()-1)
	p("    # FILL IN peer: what is at the other end, a host's name or \"device:port\".")
	p("    # Where that is a host which does not read tags, or a switch outside of the")
	p("    # domain, the tag has to go: action: strip.")
	p("    ports:")
	for i := range r.Ports {
		q := &r.Ports[i]
		if q.Excluded != "" {
			continue
		}
		speed, why := "", "FILL IN speed, e.g. speed: 10G: the kernel does not know it, and the port stays stale without one"
		if q.Speed > 0 {
			speed, why = ", speed: "+inventory.FormatSpeed(q.Speed), "speed from "+q.SpeedFrom
		} else if r.Readings == 0 {
			why = "FILL IN speed where the kernel does not know it"
		}
		if !q.Up {
			why += "; its link is down"
		}
		mtu := ""
		if q.MTU >= 576 && q.MTU <= 65535 { // what fleet files take
			mtu = fmt.Sprintf(", mtu: %d", q.MTU)
		}
		line := fmt.Sprintf("{name: %s%s%s, action: update}  # %s", discovery.QuoteName(q.Name), speed, mtu, why)
		if slices.Contains(ports, q) {
			p("      - %s", line)
		} else {
			p("      # - %s; left out: in no bridge (management?)", line)
		}
	}
	p("")
	p("# FILL IN the hosts at these ports that read tags:")
	p("# hosts:")
	p("#   - {name: h1, mtu: 1500, csig: true}")
	text := b.String()
	if _, err := inventory.Parse("assess --init", []byte(text)); err != nil {
		return "", fmt.Errorf("the fleet file for this machine would not load, which is a bug in csig: %w", err)
	}
	return text, nil
}
