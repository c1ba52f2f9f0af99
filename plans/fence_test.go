package plans

import (
	"testing"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Paths change with what ports between devices do, and not with what ports to hosts do.
func TestSameTransit(t *testing.T) {
	setup := func(ports ...vendors.PortSetup) *vendors.Setup { return &vendors.Setup{TPID: 0x9900, Ports: ports} }
	update := vendors.PortSetup{Port: "up", Action: vlanrules.Update}
	strip := vendors.PortSetup{Port: "up", Action: vlanrules.Strip}
	pass := vendors.PortSetup{Port: "up", Action: vlanrules.Passthrough}
	broken := vendors.PortSetup{Port: "up", Action: vlanrules.Passthrough, Damaged: "its chain is gone"}
	retired := vendors.PortSetup{Port: "up", Action: vlanrules.Update, StripOthers: true}
	host := vendors.PortSetup{Port: "host", Action: vlanrules.Strip}
	other := setup(update)
	other.Profile = "another"
	damaged := setup(update)
	damaged.Damaged = "its table is gone"
	for name, tc := range map[string]struct {
		a, b *vendors.Setup
		want bool
	}{
		"alike":                   {setup(update), setup(update), true},
		"nothing":                 {&vendors.Setup{}, &vendors.Setup{}, true},
		"another action":          {setup(update), setup(strip), false},
		"a port less":             {setup(update), setup(), false},
		"a port that passes less": {setup(pass), setup(), true},
		"damage":                  {setup(broken), setup(pass), false},
		"a host's port":           {setup(update, host), setup(update), true},
		"retired TPIDs":           {setup(update), setup(retired), true},
		"another order":           {setup(update, host), setup(host, update), true},
		"another profile":         {setup(update), other, false},
		"a damaged setup":         {setup(update), damaged, false},
	} {
		for _, ab := range [][2]*vendors.Setup{{tc.a, tc.b}, {tc.b, tc.a}} {
			if got := sameTransit(ab[0], ab[1], map[string]bool{"host": true}); got != tc.want {
				t.Errorf("%s: %v, want %v", name, got, tc.want)
			}
		}
	}
}
