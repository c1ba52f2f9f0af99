package main

import (
	"fmt"
	"strings"

	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
)

// planCommands is what each device is sent, step by step: the exact script
// where a device takes commands, the configuration where its daemon takes one.
func planCommands(p *plans.Plan, only []string, registry *all.Registry) (string, error) {
	var b strings.Builder
	shown := map[string]bool{}
	for _, name := range only {
		shown[name] = true
	}
	have := map[string]vendors.Setup{}
	devices := map[string]*plans.Device{}
	for i := range p.Devices {
		d := &p.Devices[i]
		have[d.Device], devices[d.Device] = d.Observed, d
	}
	for _, s := range p.Stages {
		for _, w := range s.Waves {
			for _, step := range w.Steps {
				before := have[step.Device]
				if len(step.MTU) == 0 {
					have[step.Device] = step.Want
				}
				if len(only) > 0 && !shown[step.Device] {
					continue
				}
				text, err := stepCommands(registry, devices[step.Device].Platform, before, &step)
				if err != nil {
					return "", fmt.Errorf("device %s: %w", step.Device, err)
				}
				fmt.Fprintf(&b, "# step %d, %s/%s: device %s (%s)\n%s\n", step.ID, s.Name, w.Name, step.Device, orDash(devices[step.Device].Via), text)
			}
		}
	}
	return b.String(), nil
}

func stepCommands(registry *all.Registry, platform string, before vendors.Setup, step *plans.Step) (string, error) {
	var b strings.Builder
	for _, m := range step.MTU {
		fmt.Fprintf(&b, "ip link set dev %s mtu %d\n", m.Port, m.To)
	}
	switch {
	case len(step.MTU) > 0:
		return b.String(), nil
	case step.Want.Config != "":
		return "# the daemon's configuration\n" + step.Want.Config, nil
	}
	p, err := registry.Platform(platform)
	if err != nil {
		return "", err
	}
	if p.Commands == nil {
		return "", fmt.Errorf("platform %s is not driven by commands", platform)
	}
	text, err := p.Commands(before, step.Want)
	return string(text), err
}
