//go:build !linux

package main

import (
	"fmt"
	"runtime"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

func openLinux(*quantize.Profile, *inventory.Device) (counters.Source, error) {
	return nil, unsupported("counters of platform linux")
}

func linuxDetails(counters.Source) (details, limitations []string) { return []string{}, []string{} }

func lockDevice(*logrus.Entry) (func(), error) { return nil, unsupported("agent") }

func agentIn(string) (*foundAgent, error) { return nil, nil } // none runs here

// unsupported is the error that a command needs a Linux kernel.
func unsupported(what string) error {
	return fmt.Errorf("csig %s needs the kernel switches of Linux, and this is %s: run it on a Linux machine, or in a Linux virtual machine on this one", what, runtime.GOOS)
}
