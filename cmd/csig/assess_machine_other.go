//go:build !linux

package main

import (
	"context"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
)

func machinePorts() ([]machinePort, error) { return nil, unsupported("assess without a fleet file") }

func machineFacts(context.Context) (vendors.Facts, vendors.Setup, error) {
	return vendors.Facts{}, vendors.Setup{}, unsupported("assess without a fleet file")
}

func portFacts([]machinePort, counters.Source) {}

func openMachine(*inventory.Fleet) (counters.Source, error) {
	return nil, unsupported("assess without a fleet file")
}
