package main

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
)

// planCommands writes what each device is sent, step by step: the exact script
// where a device takes commands; the configuration where its daemon takes one,
// without the arguments of commands that fetch secrets.
func planCommands(w io.Writer, p *plans.Plan, fleet *inventory.Fleet, seen func(*inventory.Device) plans.Observation, only []string) error {
	registry := all.Default()
	have := map[string]vendors.Setup{}
	via := map[string]string{}
	for i := range p.Devices {
		d := &p.Devices[i]
		have[d.Device], via[d.Device] = d.Observed, d.Via
	}
	var todo []func() ([]byte, error)
	for name, wave := range p.EachWave() {
		for i := range wave.Steps {
			step := &wave.Steps[i]
			before := have[step.Device]
			if len(step.MTU) == 0 {
				have[step.Device] = step.Want
			}
			if len(only) > 0 && !slices.Contains(only, step.Device) {
				continue
			}
			todo = append(todo, func() (text []byte, err error) {
				defer untrusted.Recover(&err)
				d, _ := fleet.Device(step.Device)
				if t, ok := seen(d).Differ.(*device.Daemon); ok && len(step.MTU) == 0 {
					text, err = daemonCommands(t, registry, d, before, step)
				} else {
					text, err = stepCommands(registry, d, before, step)
				}
				if err != nil {
					return nil, fmt.Errorf("device %s: %w", step.Device, err)
				}
				return slices.Concat(stepHead(name, step, via[step.Device]), text, []byte("\n")), nil
			})
		}
	}
	// One at a time, the steps of a large fleet would take long.
	for some := range slices.Chunk(todo, 256) {
		texts, errs := make([][]byte, len(some)), make([]error, len(some))
		var wg sync.WaitGroup
		workers := runtime.GOMAXPROCS(0)
		for k := range workers {
			wg.Go(func() {
				for i := k; i < len(some); i += workers {
					texts[i], errs[i] = some[i]()
				}
			})
		}
		wg.Wait()
		for i, err := range errs {
			if err != nil {
				return err
			}
			if _, err := w.Write(texts[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// stepHead is the comment before a step: one line, whatever the names are.
func stepHead(wave string, step *plans.Step, via string) []byte {
	return fmt.Appendf(nil, "# %s\n", untrusted.Text(fmt.Sprintf("step %d, %s: device %s (%s)", step.ID, wave, step.Device, orDash(via)), 400))
}

// daemonCommands is the configuration that a daemon gets in a step, as comments, and
// what it then sends its device, as stepCommands.
func daemonCommands(t *device.Daemon, registry *all.Registry, d *inventory.Device, before vendors.Setup, step *plans.Step) ([]byte, error) {
	config, err := t.Commands(step.Want)
	if err != nil || step.Want.Config == "" {
		return config, err
	}
	var b bytes.Buffer
	for line := range bytes.Lines(config) {
		fmt.Fprintf(&b, "# %s", bytes.TrimPrefix(line, []byte("# ")))
	}
	commands, err := stepCommands(registry, d, before, step)
	if err == nil && len(commands) > 0 {
		fmt.Fprintf(&b, "#\n# what it sends the device\n%s", commands)
	}
	return b.Bytes(), err
}

// stepCommands is what a step is for a shell, where it is that: every name is
// quoted. Some platforms have a script of their own tool instead (nft, redis-cli).
func stepCommands(registry *all.Registry, d *inventory.Device, before vendors.Setup, step *plans.Step) ([]byte, error) {
	if len(step.MTU) > 0 {
		var b strings.Builder
		for _, m := range step.MTU {
			fmt.Fprintf(&b, "ip link set dev %s mtu %d\n", untrusted.ShellWord(m.Port), m.To)
		}
		return []byte(b.String()), nil
	}
	p, err := registry.Platform(d.Platform)
	if err != nil {
		return nil, err
	}
	if p.Commands == nil {
		return nil, fmt.Errorf("platform %s is not driven by commands", d.Platform)
	}
	if w := &step.Want; w.TPID == 0 && len(w.Ports) == 0 && p.Reached(d) {
		return []byte("# everything of csig is removed, as the device's own listing shows it\n"), nil
	}
	return p.Commands(vendors.Config{Device: *d}, before, step.Want)
}
