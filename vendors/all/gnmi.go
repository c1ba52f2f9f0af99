package all

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/protocol/secret"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/gnmiset"
	"github.com/csig-agent/csig/vendors/openconfig"
	"github.com/csig-agent/csig/vendors/setuponly"
	"github.com/csig-agent/csig/vendors/srlinux"
)

// registerGNMI adds the platforms that are set up by gNMI Set.
func registerGNMI(r *Registry) {
	for name, one := range map[string]struct {
		title, ran string
		platform   setuponly.Platform
		model      *gnmiset.Model
	}{
		"openconfig": {"OpenConfig over gNMI", "it ran with a gNMI target that validates by OpenConfig's schema, and never on a switch", openconfig.Platform(), openconfig.Model()},
		"srlinux":    {"Nokia SR Linux", "it ran with a gNMI target that has the part of SR Linux's models that it writes, and never on a switch", srlinux.Platform(), srlinux.Model()},
	} {
		r.Register(name, Platform{
			Title: one.title, Experimental: one.ran,
			Open: func(cfg vendors.Config) (vendors.Driver, error) {
				c, err := gnmiSetOf(&cfg)
				if err != nil {
					return nil, err
				}
				return gnmiset.Open(one.platform, one.model, c), nil
			},
			Offline: one.platform.Offline, Diff: one.platform.Diff, Commands: func(_ vendors.Config, have, want vendors.Setup) ([]byte, error) {
				return gnmiset.Commands(one.platform, one.model, have, want)
			},
		})
	}
}

// What fleet files say of devices that are set up by gNMI Set.
func init() {
	for _, name := range []string{"openconfig", "srlinux"} {
		inventory.DefinePlatform(inventory.Platform{
			Name: name, Key: "gnmi", Doc: "The device's gNMI target, which csig sets it up and reads its counters by.", Keys: (*inventory.GNMI)(nil),
		})
	}
}

// gnmiSetOf connects with a device's gNMI target.
func gnmiSetOf(c *vendors.Config) (gnmiset.Config, error) {
	dev, dial := &c.Device, c.Dial
	g, ok := inventory.OwnKeys[*inventory.GNMI](dev)
	switch {
	case !ok:
		return gnmiset.Config{}, &vendors.PermanentError{Err: errors.New("the device has no gNMI target: add management: {gnmi: {…}} to the fleet file (" + docs.OpenConfig + ", " + docs.SRLinux + ")")}
	case dev.Address == "":
		return gnmiset.Config{}, &vendors.PermanentError{Err: errors.New("the device has no address: add one to the fleet file")}
	}
	one := *dev
	return gnmiset.Config{Connect: func(ctx context.Context) (*gnmi.Target, error) {
		cfg, err := GNMIConfig(ctx, &one, g)
		if err != nil {
			return nil, err
		}
		cfg.Dial = dial
		return gnmi.Connect(cfg)
	}}, nil
}

// GNMIConfig is how a device's gNMI target is reached. It resolves the reference to the
// password, which goes no further.
func GNMIConfig(ctx context.Context, dev *inventory.Device, g *inventory.GNMI) (gnmi.Config, error) {
	cfg := gnmi.Config{
		Device: dev.Name, Address: net.JoinHostPort(dev.Address, strconv.Itoa(int(g.Port))),
		Plaintext: g.Plaintext, Username: g.Username, Target: g.Target, Timeout: g.Timeout,
		TLS: gnmi.TLS{CAFile: g.TLS.CA, CertFile: g.TLS.Cert, KeyFile: g.TLS.Key, ServerName: g.TLS.ServerName, SkipVerify: g.TLS.InsecureSkipVerify},
	}
	if g.Password.IsZero() {
		return cfg, nil
	}
	v, err := g.Password.Resolve(ctx)
	if err != nil {
		return cfg, fmt.Errorf("gnmi password: %w", err)
	}
	cfg.Password = secret.Text(v)
	return cfg, nil
}
