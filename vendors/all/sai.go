package all

import (
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sai"
)

// registerSAI adds switches whose chip does CSIG, and gets it from a person.
func registerSAI(r *Registry) {
	const never = "it never ran on a switch, and no switch was reached"
	byHand(r, sai.Platform.Name, Platform{Title: "SAI 1.18 or newer with its own CSIG", Experimental: never, Offline: sai.Offline, Diff: sai.Diff}, sai.Open, sai.Commands, sai.Refuse)
	byHand(r, sai.FBOSS.Name, Platform{Title: "FBOSS on Cisco Silicon One with its own CSIG", Experimental: never, Offline: sai.OfflineFBOSS, Diff: sai.DiffFBOSS}, sai.OpenFBOSS, sai.CommandsFBOSS, sai.RefuseFBOSS)
}

func byHand(r *Registry, name string, p Platform, open func(*inventory.Device) (*sai.Driver, error),
	commands func(d *inventory.Device, have, want vendors.Setup) ([]byte, error), refuse func(*inventory.Device, vendors.Setup) error,
) {
	p.ByHand, p.Rules = true, p.Offline().Rules
	p.Open = func(cfg vendors.Config) (vendors.Driver, error) {
		d, err := open(&cfg.Device)
		if err != nil {
			return nil, err // not a nil *sai.Driver in a Driver that is not nil
		}
		return d, nil
	}
	p.Commands = func(cfg vendors.Config, have, want vendors.Setup) ([]byte, error) {
		return commands(&cfg.Device, have, want)
	}
	p.Refuse = func(cfg vendors.Config, want vendors.Setup) error { return refuse(&cfg.Device, want) }
	r.Register(name, p)
}
