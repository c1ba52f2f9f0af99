package linux

import (
	"fmt"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// A port's chain belongs to the name of its device, its program to the device. A
// device that gets another name would forward tags as if the port had capacity
// (from Linux 6.16 on the kernel takes the chain off it), so the chain goes with
// the device, and writes the fallback: counters, and plans, know the port by its
// name alone.

// place finds the devices of the ports: each by its name or, where no device has
// it, the one that the port had before, or that its chain is on. The links have
// to be scanned.
func (d *Driver) place(have *observed) {
	for _, p := range d.ports {
		was, before := p.index, d.links.Name[p.index]
		p.index, p.called = d.links.Index[p.name], ""
		if p.index == 0 {
			if before == "" || d.byName[before] != nil {
				before = have.deviceOf(d.setup, p.name, d.links.Index)
			}
			p.index, p.called = d.links.Index[before], before
		}
		p.moved = p.moved || p.index != was // until a sync has ended
	}
}

// deviceOf is what a port's device is called, "" where it has none.
func (d *Driver) deviceOf(name string) string {
	p := d.byName[name]
	switch {
	case p.called != "":
		return p.called
	case p.index != 0:
		return name
	}
	return ""
}

// renamed is the error of a port whose device has got another name.
func renamed(p *port) error {
	does := "is forwarded with its tags as they are"
	switch {
	case p.action == vlanrules.Update:
		does = "gets the fallback"
	case p.action == vlanrules.Strip && p.strip != nil:
		return &vendors.PortError{Port: p.name, Err: fmt.Errorf("its network device is called %s now, and %w", p.called, p.strip)}
	case p.action == vlanrules.Strip:
		does = "loses its tags, as before"
	}
	return &vendors.PortError{Port: p.name, Err: fmt.Errorf("its network device is called %s now: what leaves it %s; call it %s again, or change the fleet file", p.called, does, p.name)}
}
