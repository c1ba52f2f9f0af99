package all

import (
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic"
)

// registerSONiC adds the driver over SONiC's Redis.
func registerSONiC(r *Registry) {
	r.Register("sonic", Platform{
		Title: "SONiC", Open: openSONiC, Rules: sonic.Rules(),
		Offline: sonic.Offline, Diff: sonic.Diff, Commands: sonic.Script,
	})
}

// openSONiC opens the databases of this switch, or of one behind SSH, which is
// connected to at the first use.
func openSONiC(cfg vendors.Config) (vendors.Driver, error) {
	db, err := sonic.Redis(cfg)
	if err != nil {
		return nil, err // not a nil *sonic.Driver in a Driver that is not nil
	}
	return sonic.Open(sonic.Config{Redis: db}), nil
}
