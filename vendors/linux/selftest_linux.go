package linux

import (
	"context"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

func (d *Driver) SelfTest(ctx context.Context) (vlanrules.Verdict, error) {
	return vlanrules.Verdict{}, nil
}
func (d *Driver) Probe(ctx context.Context) (vendors.Facts, error) { return vendors.Facts{}, nil }
