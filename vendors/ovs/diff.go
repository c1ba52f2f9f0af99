package ovs

import "github.com/csig-agent/csig/vendors"

// Diff lists what Apply(want) would change on a device of this platform, given
// what was observed there. It reads nothing, and needs no device. A setup that
// the platform cannot have is a *vendors.PermanentError.
func Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	if err := validate(&want); err != nil {
		return nil, err
	}
	return vendors.DiffFlows(&have, &want), nil
}
