package plans

import (
	"fmt"
	"slices"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Removal is the plan that takes csig off a fleet in one wave a stage. It has its
// stages in spite of errors among its findings: of devices that cannot take part,
// it leaves the others.
func Removal(f *inventory.Fleet, seen func(*inventory.Device) Observation) (*Plan, error) {
	b, err := build(f, seen, Options{Goal: TakeOff, Waves: []string{}})
	if err != nil {
		return nil, err
	}
	return b.plan, nil
}

// Fences makes the fences of single devices of a fleet. It is safe for concurrent
// use.
type Fences struct{ b *builder }

// NewFences returns the fences of a fleet from which csig is taken off.
func NewFences(f *inventory.Fleet) Fences { return Fences{newBuilder(f, Options{Goal: TakeOff})} }

// Of is the fence of a device by itself, whatever the others have: its ports that
// face hosts strip. It is nil where the device has nothing of ours, is fenced
// already, or cannot be.
func (f Fences) Of(d *inventory.Device, s Observation) *vendors.Setup {
	b := f.b
	one := *b
	one.plan, one.nodes = &Plan{Goal: b.plan.Goal, ProfileHash: b.plan.ProfileHash}, make([]node, 1)
	n := &one.nodes[0]
	one.look(n, d, s)
	one.migration()
	if n.unmanaged || s.Facts.Strip.Level == vlanrules.Refused || sameTransit(&n.seen.Setup, &n.want, n.receiver) {
		return nil
	}
	fence := one.fenceOn(n)
	if SameSetup(&n.seen.Setup, &fence) {
		return nil
	}
	fence, err := configured(n, fence)
	one.misconfigured(n, err)
	if SameSetup(&n.seen.Setup, &fence) {
		return nil
	}
	return &fence
}

// maxSenders is how many hosts are named before they are only counted.
const maxSenders = 8

// Senders names the hosts of a fleet that read and write tags, or counts them;
// "" for none.
func Senders(f *inventory.Fleet) string {
	var names []string
	for i := range f.Hosts {
		if f.Hosts[i].CSIG {
			names = append(names, f.Hosts[i].Name)
		}
	}
	switch {
	case len(names) == 0:
		return ""
	case len(names) == 1:
		return "host " + names[0]
	case len(names) > maxSenders:
		return fmt.Sprintf("%d hosts", len(names))
	}
	slices.SortFunc(names, inventory.CompareNames)
	return "hosts " + vendors.Names(names)
}
