package plans

import (
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// Differ lists what turns one setup of a platform into another.
type Differ interface {
	Diff(have, want vendors.Setup) ([]vendors.Change, error)
}

// Diff lists what turns one setup into another, also into none. A panic is an error.
func Diff(d Differ, have, want vendors.Setup) (changes []vendors.Change, err error) {
	defer untrusted.Recover(&err)
	if !want.Nothing() {
		return d.Diff(have, want)
	}
	if have.Nothing() {
		return nil, nil
	}
	out := []vendors.Change{{Kind: vendors.Remove, What: "setup", Detail: "everything of ours that all ports share"}}
	disrupts := disruptions(d, have)
	for _, p := range have.Ports {
		out = append(out, vendors.Change{Kind: vendors.Remove, Port: p.Port, What: p.Action.String(), Detail: "CSIG tags leave as they are", Disruptive: disrupts[p.Port]})
	}
	return out, nil
}

// disruptions is why ordinary traffic notices that ports are taken out of a
// setup, as the driver says of them when the rest of it stays. One that knows no
// setup without ports says nothing.
func disruptions(d Differ, have vendors.Setup) map[string]string {
	rest := have
	rest.Ports, rest.Damaged = nil, ""
	changes, err := d.Diff(have, rest)
	if err != nil {
		return nil
	}
	out := map[string]string{}
	for _, c := range changes {
		if c.Kind == vendors.Remove && c.Port != "" && c.Disruptive != "" {
			out[c.Port] = c.Disruptive
		}
	}
	return out
}
