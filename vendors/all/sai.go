package all

import (
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sai"
)

// registerSAI adds switches with SAI's own CSIG, whose objects a person puts there.
func registerSAI(r *Registry) {
	r.Register(sai.Platform.Name, Platform{
		Title: "SAI 1.18 or newer with its own CSIG", Experimental: "it never ran on a switch, and no switch was reached", ByHand: true,
		Open: func(cfg vendors.Config) (vendors.Driver, error) {
			d, err := sai.Open(&cfg.Device)
			if err != nil {
				return nil, err // not a nil *sai.Driver in a Driver that is not nil
			}
			return d, nil
		},
		Rules: sai.Offline().Rules, Offline: sai.Offline, Diff: sai.Diff,
		Commands: func(cfg vendors.Config, have, want vendors.Setup) ([]byte, error) {
			return sai.Commands(&cfg.Device, have, want)
		},
		Refuse: func(cfg vendors.Config, want vendors.Setup) error { return sai.Refuse(&cfg.Device, want) },
	})
}
