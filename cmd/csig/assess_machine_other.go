//go:build !linux

package main

import (
	"context"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/vendors"
)

func machinePorts() ([]machinePort, error) {
	return nil, device.NeedsLinux("assess without a fleet file")
}

func machineFacts(context.Context) (vendors.Facts, vendors.Setup, error) {
	return vendors.Facts{}, vendors.Setup{}, device.NeedsLinux("assess without a fleet file")
}

func portFacts([]machinePort, counters.Source) {}
