package main

import (
	"fmt"
	"strings"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/linux"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// openLinux opens the counters of this machine's kernel.
func openLinux(prof *quantize.Profile, dev *inventory.Device) (counters.Source, error) {
	cfg := linux.Config{}
	for _, p := range dev.Ports {
		cfg.Ports = append(cfg.Ports, linux.Port{
			Name: p.Name, Speed: p.Speed,
			// The kernel moves such tags out of the frame, where its counters
			// miss them.
			Tagged: prof.TPID == 0x88a8,
		})
	}
	return linux.New(cfg)
}

// linuxDetails says how this machine's counters are read, and what they cannot
// tell; each sentence once, with the ports it is true of.
func linuxDetails(src counters.Source) (details, limitations []string) {
	details, limitations = []string{}, []string{}
	s, ok := src.(*linux.Source)
	if !ok {
		return details, limitations
	}
	ports := map[string][]string{}
	var order []string
	note := func(text, port string) {
		if ports[text] == nil {
			order = append(order, text)
		}
		ports[text] = append(ports[text], port)
	}
	for _, f := range s.Facts() {
		if f.Counter == "" {
			continue // no such interface: the port's own note says so
		}
		note(fmt.Sprintf("counter of the %s, speed from %s", f.Counter, orDash(f.SpeedFrom)), f.Port)
	}
	for _, text := range order {
		details = append(details, text+": "+strings.Join(ports[text], ", "))
	}
	ports, order = map[string][]string{}, nil
	for _, f := range s.Facts() {
		for _, n := range append(f.Notes, f.Degraded) {
			if n != "" {
				note(n, f.Port)
			}
		}
	}
	for _, text := range order {
		limitations = append(limitations, strings.Join(ports[text], ", ")+": "+text)
	}
	return details, limitations
}
