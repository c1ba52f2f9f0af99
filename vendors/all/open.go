package all

import (
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/linux"
)

func openLinux(cfg vendors.Config) (vendors.Driver, error) {
	d, err := linux.Open(linux.Config{NetNS: cfg.NetNS})
	if err != nil {
		return nil, err // not a nil *linux.Driver in a Driver that is not nil
	}
	return d, nil
}
