package device

import (
	"cmp"
	"fmt"
	"os"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/linux"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
)

// openLinux opens the counters of this machine's kernel.
func openLinux(prof *quantize.Profile, dev *inventory.Device) (counters.Source, error) {
	cfg := linux.Config{}
	for _, p := range dev.Ports {
		cfg.Ports = append(cfg.Ports, linux.Port{
			Name: p.Name, Speed: p.Speed, Override: p.SpeedOverride,
			// The kernel moves such tags out of the frame, where its counters
			// miss them.
			Tagged: prof.TPID == 0x88a8,
		})
	}
	if path := dev.Management.NetNS; path != "" && !dev.Local {
		ns, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("its network namespace: %w", err)
		}
		defer ns.Close() // its sockets are made in New
		cfg.NetNS = int(ns.Fd())
		src, err := linux.New(cfg)
		if err != nil {
			return nil, fmt.Errorf("in network namespace %s: %w", path, err) // not a nil *linux.Source in a Source that is not nil
		}
		return src, nil
	}
	return linux.New(cfg)
}

// linuxDetails returns how this machine's counters are read, and what they do not
// show; each sentence once, with the ports it is true of.
func linuxDetails(src counters.Source) (details, limitations []string) {
	s, ok := src.(*linux.Source)
	if !ok {
		return details, limitations
	}
	var counted, noted []findings.Finding
	for _, f := range s.Facts() {
		of := func(reason string) findings.Finding {
			return findings.Finding{Code: findings.CountersInexact, Ports: []string{f.Port}, Reason: reason}
		}
		if f.Counter != "" { // else no such interface: the port's own note says so
			counted = append(counted, of(fmt.Sprintf("counter of the %s, speed from %s", f.Counter, cmp.Or(f.SpeedFrom, "-"))))
		}
		for _, n := range append(f.Notes, f.Degraded) {
			if n != "" {
				noted = append(noted, of(n))
			}
		}
	}
	for _, f := range findings.Merge(counted) {
		details = append(details, f.Reason+": "+vendors.Names(f.Ports))
	}
	for _, f := range findings.Merge(noted) {
		limitations = append(limitations, f.String())
	}
	return details, limitations
}
