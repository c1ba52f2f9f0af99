//go:build !linux

package device

import (
	"fmt"
	"runtime"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

func openLinux(*quantize.Profile, *inventory.Device) (counters.Source, error) {
	return nil, NeedsLinux("counters of platform linux")
}

func linuxDetails(counters.Source) (details, limitations []string) { return nil, nil }

func lockDevice(string, string, *logrus.Entry) (func(), error) { return nil, NeedsLinux("agent") }

func findLocalAgentIn(string) (*localAgent, error) { return nil, nil } // none runs here

func listenerPID(string) int { return 0 }

// NeedsLinux is the error of a command that needs a Linux kernel.
func NeedsLinux(what string) error {
	return fmt.Errorf("csig %s needs the kernel switches of Linux, and this is %s: run it on a Linux machine, or in a Linux virtual machine on this one", what, runtime.GOOS)
}

func inNamespace[T any](string, func() (T, error)) (none T, err error) {
	return none, NeedsLinux("qualify")
}
