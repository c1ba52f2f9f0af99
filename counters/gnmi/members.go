package gnmi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// Members returns the members of each link aggregation group of the device, by name
// and sorted: those that name the group in ethernet/state/aggregate-id, and those that
// it lists in aggregation/state/member. The map is empty where the target has
// neither.
//
// It asks the target, with Get or else a ONCE subscription, and may be called while the Source is
// subscribed, but not concurrently with Read.
func (s *Source) Members(ctx context.Context) (map[string][]string, error) {
	if s.closed {
		return nil, s.deviceError(fmt.Errorf("read LAG members: %w", os.ErrClosed))
	}
	encs, _, err := s.target.Capabilities(ctx)
	if err != nil {
		return nil, s.deviceError(fmt.Errorf("read LAG members: %w", err))
	}
	s.mu.Lock()
	origin := s.origin
	s.mu.Unlock()
	found := membership{}
	d := decoder{target: s.cfg.Target, sink: found}
	// One by one, as a target may have only one of them.
	var refusals []error
	for _, id := range [...]leafID{aggregateID, member} {
		err := s.target.Once(ctx, encs, interfacePath(origin, "*", leafPaths[id]), d.notification)
		switch {
		case err == nil:
		case gnmi.Refused(err):
			refusals = append(refusals, err)
		default:
			return nil, s.deviceError(fmt.Errorf("read LAG members: %w", err))
		}
	}
	if len(refusals) == 2 && !gnmi.Absent(refusals[0]) && !gnmi.Absent(refusals[1]) {
		return nil, s.deviceError(fmt.Errorf("read LAG members: %w: %w", ErrRefused, errors.Join(refusals...)))
	}
	members := make(map[string][]string, len(found))
	for lag, ports := range found {
		members[lag] = slices.Sorted(maps.Keys(ports))
	}
	return members, nil
}

const maxMembers = 1 << 16 // of aggregates

// membership is who is a member of what.
type membership map[string]map[string]bool

var _ sink = membership{}

func (m membership) update(name string, id leafID, v *gnmi.Value) {
	switch {
	case id == aggregateID && v.Kind == gnmi.Text && v.Text != "":
		m.add(v.Text, name)
	case id == member:
		for _, port := range v.List {
			m.add(name, port)
		}
		if v.Kind == gnmi.Text {
			m.add(name, v.Text) // a list of one, as some write it
		}
	}
}

// add takes names that can be printed; a device with more aggregates than switches have
// ports is not believed.
func (m membership) add(lag, port string) {
	for _, name := range [...]string{lag, port} {
		if untrusted.Text(name, gnmi.MaxName) != name {
			return
		}
	}
	if len(m) >= maxMembers || len(m[lag]) >= maxMembers {
		return
	}
	if m[lag] == nil {
		m[lag] = make(map[string]bool)
	}
	m[lag][port] = true
}

func (m membership) remove(string, *node) {}

func (m membership) damaged(string, error) {}
