package sonic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/counters"
)

// lag is an aggregate that is read as a port: SAI counts members, and none of it.
type lag struct {
	name    string
	members []string
	epoch   uint64 // how often these have changed
}

func isAggregate(name string) bool { return strings.HasPrefix(name, "PortChannel") }

// recheckMembers is how often a reading asks again who the members of aggregates
// are.
const recheckMembers = 10 * time.Second

// inSum is what every sum of an aggregate says.
const inSum = "the sum of its members, in which a full one does not show: name the members as ports in its place, each with an lm of its own"

// findMembers takes in who the members are, where it is time to, and reads their
// counters from then on.
func (s *Source) findMembers(ctx context.Context) error {
	now := time.Now()
	if len(s.lags) == 0 || !s.asked.IsZero() && now.Sub(s.asked) < recheckMembers {
		return nil
	}
	found, err := s.Members(ctx)
	if err != nil {
		return err
	}
	s.asked = now
	at := map[string]port{}
	for _, p := range s.ports {
		at[p.name] = p
	}
	s.ports = s.ports[:0]
	seen := map[string]bool{}
	add := func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		old := at[name]
		s.ports = append(s.ports, port{name, old.oid, old.epoch})
	}
	for _, name := range s.cfg.Ports {
		if !isAggregate(name) {
			add(name)
		}
	}
	for i := range s.lags {
		l := &s.lags[i]
		if m := found[l.name]; !slices.Equal(l.members, m) {
			l.members, l.epoch = m, l.epoch+1
		}
		for _, m := range l.members {
			add(m)
		}
	}
	return nil
}

// sums puts what was read in the order of the configuration, with the sum of its
// members for each aggregate.
func (s *Source) sums(dst, read []counters.Sample, at time.Time) []counters.Sample {
	of := make(map[string]*counters.Sample, len(read))
	for i := range read {
		of[read[i].Port] = &read[i]
	}
	next := 0
	for _, name := range s.cfg.Ports {
		if !isAggregate(name) {
			dst = append(dst, *of[name])
			continue
		}
		dst = append(dst, s.lags[next].sum(of, at))
		next++
	}
	return dst
}

var errNoMembers = errors.New("it has no members (LAG_MEMBER_TABLE of APPL_DB)")

func (l *lag) sum(of map[string]*counters.Sample, at time.Time) counters.Sample {
	out := counters.Sample{Port: l.name, At: at, Bits: 64, Epoch: l.epoch, Degraded: inSum}
	if len(l.members) == 0 {
		return counters.Sample{Port: l.name, At: at, Err: errNoMembers}
	}
	known := true // the speed of each member that is up
	for _, name := range l.members {
		m := of[name]
		if m.Err != nil {
			return counters.Sample{Port: l.name, At: at, Err: fmt.Errorf("of its members, port %s: %w", name, m.Err)}
		}
		out.Octets += m.Octets // the counts wrap together
		out.Packets += m.Packets
		out.Epoch += m.Epoch
		out.Overhead, out.Cache, out.Within = m.Overhead, m.Cache, m.Within
		if m.Up {
			out.Up = true
			out.Speed += m.Speed
			known = known && m.Speed != 0
		}
		if m.Degraded != "" {
			out.Degraded = inSum + "; " + m.Degraded
		}
	}
	if !known {
		out.Speed = 0
	}
	return out
}

// Members returns the members of each aggregate that has any, of LAG_MEMBER_TABLE.
func (s *Source) Members(ctx context.Context) (map[string][]string, error) {
	const prefix = "LAG_MEMBER_TABLE:"
	found := map[string][]string{}
	keys, err := s.cfg.Redis.Scan(ctx, applDB, prefix)
	if err != nil {
		return nil, fmt.Errorf("sonic counters: %w", err)
	}
	for _, k := range keys {
		if lag, member, ok := strings.Cut(strings.TrimPrefix(k, prefix), ":"); ok {
			found[lag] = append(found[lag], member)
		}
	}
	return found, nil
}
