package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/inventory/discovery"
)

// lldpOptions say whether devices are asked for their neighbours, and how.
type lldpOptions struct {
	on       bool
	parallel int
	timeout  time.Duration
}

func (o *lldpOptions) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.on, "lldp", false, "compare the file's cables with the devices' LLDP neighbours")
	addAtOnce(cmd.Flags(), &o.parallel, 16, "with --lldp, devices to ask at once", &o.timeout, 30*time.Second, "with --lldp, for each device")
}

func (o *lldpOptions) check(cmd *cobra.Command) error {
	for _, name := range []string{"parallel", "timeout"} {
		if !o.on && cmd.Flags().Changed(name) {
			return usageError(cmd, "--%s goes with --lldp", name)
		}
	}
	return nil
}

// lldpResult is what came of it.
type lldpResult struct {
	Asked    int      `json:"asked"`     // devices
	NotAsked []string `json:"not_asked"` // whose counters are read in another way
	*discovery.Links
}

func (r *lldpResult) text() string {
	out := fmt.Sprintf("%s asked, %s; %d of their %s seen", count(r.Asked, "device"), count(r.Neighbors, "neighbour"), r.Seen, count(r.Cables, "cable"))
	if n := len(r.NotAsked); n > 0 {
		shown := strings.Join(r.NotAsked[:min(n, 5)], ", ")
		if n > 5 {
			shown += ", …"
		}
		out += fmt.Sprintf("; not asked, since their counters are read neither by SNMP nor by gNMI: %s", shown)
	}
	return out
}

// compare asks the devices, and adds the warnings. The mistakes are returned.
func (r *checkResult) compare(ctx context.Context, f *inventory.Fleet, o *lldpOptions) (mistakes inventory.Errors, err error) {
	answers, err := device.Each(ctx, f, o.parallel, nil, func(d *inventory.Device) discovery.Answer { return neighborsOf(ctx, f, d, o.timeout) })
	if err != nil {
		return nil, err
	}
	r.LLDP = &lldpResult{NotAsked: []string{}}
	for i := range f.Devices {
		if name := f.Devices[i].Name; errors.Is(answers[name].Err, errNotAsked) {
			r.LLDP.NotAsked = append(r.LLDP.NotAsked, name)
			delete(answers, name)
		}
	}
	r.LLDP.Asked, r.LLDP.Links = len(answers), discovery.Compare(f, answers)
	for _, one := range r.LLDP.Findings {
		if one.Kind.Mistake() {
			mistakes = append(mistakes, one.At)
		} else {
			r.Warnings = append(r.Warnings, one.At)
		}
	}
	return mistakes, nil
}

var errNotAsked = errors.New("its source knows no neighbours")

// neighborsOf asks one device.
func neighborsOf(ctx context.Context, f *inventory.Fleet, d *inventory.Device, timeout time.Duration) (a discovery.Answer) {
	if name := device.SourceName(d); name != "snmp" && name != "gnmi" || len(d.Ports) == 0 {
		return discovery.Answer{Err: errNotAsked}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	src, err := device.OpenSource(ctx, &f.Profile, d, timeout)
	if err != nil {
		return discovery.Answer{Err: ofDevice(d, err)}
	}
	defer src.Close()
	ask, ok := src.(counters.Neighbored)
	if !ok {
		return discovery.Answer{Err: errNotAsked}
	}
	a.Self, a.Neighbors, a.Err = ask.Neighbors(ctx)
	return a
}
