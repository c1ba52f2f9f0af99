package all

import (
	"context"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vendors/comware"
)

// registerComware adds the driver over Comware's command line.
func registerComware(r *Registry) {
	r.Register("comware", Platform{
		Title: "HPE and H3C Comware, QoS policy", Experimental: "it ran with a fake of Comware's command line, and never on a switch",
		Open: openComware, Rules: comware.Rules(), Offline: comware.Offline, Diff: comware.Diff,
		Commands: func(cfg vendors.Config, have, want vendors.Setup) ([]byte, error) {
			return comware.Commands(comwareOf(&cfg.Device), have, want)
		},
		EndLogins:   endLogins(docs.Comware, comware.Dial),
		FenceSource: vendors.Source{Mark: vendors.Read, From: "H3C, Login management commands: display users, free line, free user-interface"},
	})
}

// openComware opens a switch behind SSH, which is connected to at the first use.
func openComware(cfg vendors.Config) (vendors.Driver, error) {
	login, err := commandLine(cfg, docs.Comware)
	if err != nil {
		return nil, err
	}
	c := comwareOf(&cfg.Device)
	c.Dial = func(ctx context.Context) (qos.Session, error) { return comware.Dial(ctx, login, cfg.Owner) }
	return comware.Open(c), nil
}

// comwareOf is what a device's fleet file says of its switch.
func comwareOf(dev *inventory.Device) comware.Config {
	c := comware.Config{Updates: dev.Updates == inventory.UpdatesCLI}
	if k, ok := inventory.OwnKeys[*comware.Keys](dev); ok {
		c.Outer = k.Tag == "outer"
	}
	return c
}
