//go:build !linux

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/hosts/tcp"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans/rollout"
	"github.com/csig-agent/csig/vendors"
)

// What needs Linux, on other systems.

func machinePorts() ([]machinePort, error) {
	return nil, device.NeedsLinux("assess without a fleet file")
}

func machineFacts(context.Context) (vendors.Facts, vendors.Setup, error) {
	return vendors.Facts{}, vendors.Setup{}, device.NeedsLinux("assess without a fleet file")
}

func portFacts([]machinePort, counters.Source) {}

func runDemo(*cobra.Command, demoOptions) error { return device.NeedsLinux("demo") }

func pathProber(*inventory.Fleet) rollout.PathProber {
	return func(context.Context, rollout.Path, int) (rollout.PathAnswer, error) {
		return rollout.PathAnswer{}, device.NeedsLinux("apply --probe")
	}
}

func probeSend(*cobra.Command, *probeOptions) error { return device.NeedsLinux("probe") }

func probeListen(*cobra.Command, *probeOptions) error { return device.NeedsLinux("probe") }

func meshRun(*cobra.Command, *meshOptions) error { return device.NeedsLinux("mesh run") }

func hostRun(*cobra.Command, *hostOptions) error { return device.NeedsLinux("host run") }

func hostCheck(*hostOptions) (*tcp.Check, error) { return nil, device.NeedsLinux("host check") }

func meshRatesHere() string { return "" }
