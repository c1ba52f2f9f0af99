package linux

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
)

// Members returns the members of each bond and team of the namespace, by name and in
// the kernel's order. Ports of a bridge are no such members: it sends each frame by
// the one that leads to its address. It lists the interfaces, and changes nothing
// that a Read knows.
func (s *Source) Members(ctx context.Context) (map[string][]string, error) {
	var links []link
	err := s.dumps.dump(ctx, s.getLinks, func(m message, _ instant) {
		if m.typ != unix.RTM_NEWLINK {
			return
		}
		if l, ok := parseLink(m.body); ok && l.family == unix.AF_UNSPEC {
			links = append(links, l)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("linux counters: members of link aggregates: %w", err)
	}
	return members(links), nil
}

// members finds out who is a member of what.
func members(links []link) map[string][]string {
	groups := map[int32]string{}
	for _, l := range links {
		if d := (device{kind: l.kind}); d.aggregate() {
			groups[l.index] = l.name
		}
	}
	out := map[string][]string{}
	for _, l := range links {
		if group, ok := groups[l.master]; ok {
			out[group] = append(out[group], l.name)
		}
	}
	return out
}
