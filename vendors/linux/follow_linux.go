package linux

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

var _ vendors.Follower = (*Driver)(nil)

// Follow makes Update go by the setup that it finds, which is not this driver's
// to change. It reads nothing yet.
func (d *Driver) Follow(domain vendors.Setup) error {
	domain.Ports, domain.Damaged = nil, ""
	if err := validate(&domain); err != nil {
		return err
	}
	d.domain = &domain
	d.synced, d.setup = false, nil
	return nil
}

// Followed is the setup that the last Update found, nil where it found none.
func (d *Driver) Followed() *vendors.Setup {
	if d.domain == nil {
		return nil
	}
	return d.setup
}

// errFollows is the refusal of Apply and Remove.
func errFollows() error {
	return &vendors.PermanentError{Err: errors.New("this driver follows a set-up that is somebody else's: csig plan and csig apply change it")}
}

// follow takes up the setup as it is now, and what its maps hold.
func (d *Driver) follow(ctx context.Context) error {
	d.synced = false
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.sock.renew(d.cfg.NetNS); err != nil {
		return err
	}
	// Events first: what happens after the scan is heard by the next cycle.
	if _, err := d.links.changed(); err != nil {
		return err
	}
	if err := d.links.scan(); err != nil {
		return err
	}
	have, err := d.sock.observe()
	if err != nil {
		return err
	}
	s, err := d.setupOf(have)
	switch {
	case err != nil:
		d.setup = nil
		return err
	case s.TPID == 0 && s.Damaged == "":
		d.setup = nil
		return vendors.ErrNoSetup
	case s.TPID == 0:
		d.setup = nil
		return &vendors.PermanentError{Err: errors.New(s.Damaged + ": csig apply mends it")}
	}
	if d.setup == nil || !reflect.DeepEqual(*d.setup, s) {
		d.setup = &s
	}
	if err := d.sameDomain(); err != nil {
		return err
	}
	want, err := rulesetOf(d.setup, byName(d.links.index), d.depths)
	if err != nil {
		return &vendors.PermanentError{Err: err}
	}
	if lease := have.sets[setLease]; !want.set(setLease).same(lease) {
		return &vendors.PermanentError{Err: fmt.Errorf("set %s is not as csig apply leaves it: csig apply mends it", setLease)}
	}
	return d.takeUp(want, have)
}

// sameDomain refuses a setup that this agent's values are not for.
func (d *Driver) sameDomain() error {
	found, ours := *d.setup, *d.domain
	found.OnStale, ours.OnStale = "", "" // the set-up's own affair
	if setupComment(&found) == setupComment(&ours) {
		return vendors.CheckProfile(found.Profile, ours.Profile)
	}
	return &vendors.PermanentError{Err: fmt.Errorf("the set-up on this device is for another domain than this agent's file: %s, not %s; give the agent the file of the same profile", setupComment(&found), setupComment(&ours))}
}

// takeUp makes the ports those of the setup, keeping what was compiled for
// those that stay.
func (d *Driver) takeUp(want *ruleset, have *observed) error {
	if d.compiler == nil || d.layout != d.setup.Layout {
		d.compiler, d.layout, d.byName = vlanrules.NewCompiler(Rules(), d.setup.Layout), d.setup.Layout, nil
	}
	stale, err := staleEntries(d.setup)
	if err != nil {
		return &vendors.PermanentError{Err: err}
	}
	d.stale, d.leaseKeys, d.generation = stale, leaseKeys(d.setup), have.generation
	old := d.byName
	d.ports, d.byName = d.ports[:0], make(map[string]*port, len(d.setup.Ports))
	for i := range d.setup.Ports {
		s := &d.setup.Ports[i]
		p := old[s.Port]
		if p == nil {
			p = &port{name: s.Port, key: portKey(s.Port), label: "elements of port " + s.Port}
		}
		p.action, p.index, p.strip, p.spec = s.Action, d.links.index[s.Port], nil, stripSpecOf(d.setup, s)
		p.compiled = false // against the setup's signals and its fallback
		if s.Damaged != "" {
			p.strip = &vendors.PortError{Port: s.Port, Err: fmt.Errorf("it is not as csig apply left it (%s): csig plan shows it, csig apply mends it", s.Damaged)}
		}
		set := have.sets[p.key]
		p.closed = p.action != vlanrules.Update || !want.set(p.key).same(set)
		p.flush = set.irregular
		p.have = p.have[:0]
		if !set.irregular {
			p.have = append(p.have, set.intervals...)
		}
		d.ports = append(d.ports, p)
		d.byName[p.name] = p
	}
	d.synced = true
	return nil
}

// updateFollowing is Update of a driver that follows.
func (d *Driver) updateFollowing(ctx context.Context, updates []vendors.PortUpdate, lease time.Duration) (vendors.UpdateResult, error) {
	var res vendors.UpdateResult
	changed, err := d.links.changed()
	if err != nil {
		return res, err
	}
	changed = d.stripMoved() || changed
	for try := 1; ; try++ {
		if changed || !d.synced {
			if err := d.follow(ctx); err != nil {
				return res, err
			}
			changed = false
		}
		err := d.program(updates, lease, &res)
		if !errors.Is(err, unix.ERESTART) || try == conflictTries {
			return res, err
		}
		d.synced = false // somebody changed nftables, perhaps our table
	}
}

// unmentioned gives the ports that are to update, and that the agent says
// nothing about, the fallback: an empty map would let every tag pass as if the
// port had room for it. Only an error that ends the update is err.
func (d *Driver) unmentioned(res *vendors.UpdateResult) (left []error, err error) {
	for _, p := range d.ports {
		if p.action != vlanrules.Update || p.round == d.round {
			continue
		}
		p.want, p.compiled = p.want[:0], false
		if d.setup.OnStale == inventory.Conservative {
			p.want = append(p.want, d.stale...)
		}
		left = append(left, &vendors.PermanentError{Port: p.name, Err: errors.New("it is set up to update, and this agent's file has no locator for it: it advertises the fallback")})
		if err := d.stage(p, res); err != nil {
			return left, err
		}
	}
	return left, nil
}
