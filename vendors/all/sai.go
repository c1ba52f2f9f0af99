package all

import (
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sai"
	"github.com/csig-agent/csig/vendors/sonic"
)

// registerSAI adds switches whose chip does CSIG. Those that csig does not reach get it from a person.
func registerSAI(r *Registry) {
	live := Platform{
		Title: "SAI 1.18 or newer with its own CSIG", Experimental: "it ran with a fake of orchagent's SAI server, and never on a switch",
		Capabilities: []int{capDACOverride, capSysPtrace}, // its process in /proc, and what its container has
		Offline:      sai.Offline, Diff: sai.Diff, ByHand: sai.ByHand,
	}
	byHand(r, sai.Platform.Name, live, openSAI, sai.Commands, sai.Refuse)
	fboss := Platform{
		Title: "FBOSS on Cisco Silicon One with its own CSIG", Experimental: "it never ran on a switch, and no switch was reached", OnDevice: true,
		Offline: sai.OfflineFBOSS, Diff: sai.DiffFBOSS, ByHand: func(*inventory.Device) bool { return true },
	}
	byHand(r, sai.FBOSS.Name, fboss, func(cfg vendors.Config) (vendors.Driver, error) { return opened(sai.OpenFBOSS(&cfg.Device)) }, sai.CommandsFBOSS, sai.RefuseFBOSS)
}

// openSAI opens the driver of a switch that csig reaches, or what was played on one that it does not.
func openSAI(cfg vendors.Config) (vendors.Driver, error) {
	if sai.ByHand(&cfg.Device) {
		return opened(sai.Open(&cfg.Device))
	}
	db, err := sonic.Redis(cfg)
	if err != nil {
		return nil, err
	}
	dev := cfg.Device
	live := sai.LiveConfig{Device: &dev, Redis: db, Host: sai.Local{}}
	if !dev.Local { // sonic.Redis has wanted SSH
		live.Host = sai.Remote{Shell: ssh.NewTunnel(ssh.Config{Address: dev.Address, Login: *dev.Management.SSH, Dial: cfg.Dial})}
	}
	return sai.OpenLive(live), nil
}

func opened(d *sai.Driver, err error) (vendors.Driver, error) {
	if err != nil {
		return nil, err // not a nil *sai.Driver in a Driver that is not nil
	}
	return d, nil
}

func byHand(r *Registry, name string, p Platform, open Opener,
	commands func(d *inventory.Device, have, want vendors.Setup) ([]byte, error), refuse func(*inventory.Device, vendors.Setup) error,
) {
	p.Open, p.Rules = open, p.Offline().Rules
	p.Commands = func(cfg vendors.Config, have, want vendors.Setup) ([]byte, error) {
		return commands(&cfg.Device, have, want)
	}
	p.Refuse = func(cfg vendors.Config, want vendors.Setup) error {
		if !p.Reached(&cfg.Device) {
			return refuse(&cfg.Device, want)
		}
		return nil
	}
	r.Register(name, p)
}
