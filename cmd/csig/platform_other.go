//go:build !linux

package main

import (
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

func openCounters(*quantize.Profile, *inventory.Device) (counters.Source, error) {
	return nil, unsupported("agent")
}

func lockDevice() (func(), error) { return nil, unsupported("agent") }
