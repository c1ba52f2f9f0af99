package main

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/linux"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// openCounters opens the counter source of the local device.
func openCounters(prof *quantize.Profile, dev *inventory.Device) (counters.Source, error) {
	cfg := linux.Config{}
	for _, p := range dev.Ports {
		cfg.Ports = append(cfg.Ports, linux.Port{
			Name: p.Name, Speed: p.Speed,
			// The kernel moves such tags out of the frame, where its counters
			// miss them.
			Tagged: prof.TPID == 0x8100 || prof.TPID == 0x88a8,
		})
	}
	return linux.New(cfg)
}

// lockDevice makes this the only agent that programs this machine's ports. The
// lock is an abstract socket: it belongs to the network namespace, as the
// ports do, and it goes with the process however that ends.
func lockDevice() (func(), error) {
	ln, err := net.Listen("unix", "@csig-agent")
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("another csig agent programs the ports of this network namespace: stop it first, or use --dry-run")
	}
	if err != nil {
		return nil, fmt.Errorf("locking the device: %w", err)
	}
	return func() { ln.Close() }, nil
}
