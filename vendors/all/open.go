package all

import (
	"errors"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ebpf"
	"github.com/csig-agent/csig/vendors/linux"
)

// openLinux opens the ports of this machine, or of one of its network namespaces.
func openLinux(cfg vendors.Config) (vendors.Driver, error) {
	if cfg.Remote() {
		return nil, errOnLinux
	}
	d, err := linux.Open(linux.Config{NetNS: cfg.NetNS})
	if err != nil {
		return nil, err // not a nil *linux.Driver in a Driver that is not nil
	}
	return sole(cfg, d, ebpfPlane, bridgesOf), nil
}

var errOnLinux = &vendors.PermanentError{Err: errors.New("a Linux switch is set up by csig agent on it: install csig there, start csig agent --wait, and say where it listens (management: daemon)")}

// openEBPF opens the same ports, whose kernel carries out CSIG by itself.
func openEBPF(cfg vendors.Config) (vendors.Driver, error) {
	if cfg.Remote() {
		return nil, errOnLinux
	}
	d, err := ebpf.Open(ebpf.Config{NetNS: cfg.NetNS})
	if err != nil {
		return nil, err
	}
	return sole(cfg, d, linuxTable, bridgesOf), nil
}
