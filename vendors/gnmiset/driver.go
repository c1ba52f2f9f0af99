package gnmiset

import (
	"context"
	"fmt"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/setuponly"
)

// Driver drives one switch. Its methods are not safe for concurrent use.
type Driver struct {
	*setuponly.Driver
	s *session
}

var (
	_ vendors.Driver    = (*Driver)(nil)
	_ vendors.MTUSetter = (*Driver)(nil)
)

// Open returns a driver that connects when it is first used.
func Open(p setuponly.Platform, m *Model, cfg Config) *Driver {
	s := &session{cfg: cfg, model: m}
	return &Driver{setuponly.Open(p, s), s}
}

// Probe finds out what the switch is, and whether it takes changes back that are not
// confirmed. One that does not report its model is probed all the same.
func (d *Driver) Probe(ctx context.Context) (vendors.Facts, error) {
	f, err := d.Driver.Probe(ctx)
	if err == nil {
		err = d.s.ask(ctx)
	}
	if err != nil {
		return f, err
	}
	if f.Identity, err = d.s.model.Identity(d.s.getter(ctx)); err != nil {
		f.Notes = append(f.Notes, "its model and version are not known: "+err.Error())
	}
	if d.s.model.Keeps != nil {
		if err := d.s.model.Keeps(d.s.getter(ctx)); err != nil {
			f.Notes = append(f.Notes, err.Error())
		}
	}
	switch d.s.commits {
	case known, pending:
		f.Notes = append(f.Notes, fmt.Sprintf("each change is confirmed over a new connection within %v, and else taken back by the target", d.s.confirmWithin()))
	case denied:
		f.Notes = append(f.Notes, "this gNMI user may read the configuration, and not change it")
	default:
		f.Traits.Revert = vendors.Fact[string]{Source: vendors.Source{Mark: vendors.Read, From: "asked of the device: " + d.s.without}}
		f.Notes = append(f.Notes, d.s.without+": a change that cuts csig off is not taken back")
	}
	return f, nil
}
