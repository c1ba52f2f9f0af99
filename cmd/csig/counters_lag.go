package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/inventory"
)

// lags are those ports of a device that are link aggregates, with their members.
type lags map[string][]string

// lagTimeout bounds asking for members: some devices are slow to walk a table that
// they do not have.
const lagTimeout = 10 * time.Second

// aggregates asks a source which ports of the device are link aggregates; why says what
// went wrong, "" for nothing.
func aggregates(ctx context.Context, src counters.Source, dev *inventory.Device) (found lags, why string) {
	s, ok := src.(counters.LAGs)
	if !ok {
		return nil, ""
	}
	ctx, cancel := context.WithTimeout(ctx, lagTimeout)
	defer cancel()
	all, err := s.Members(ctx)
	if err != nil {
		return nil, err.Error()
	}
	found = lags{}
	for _, p := range dev.Ports {
		if members := all[p.Name]; len(members) > 0 {
			found[p.Name] = members
		}
	}
	return found, ""
}

// expand returns the device with the members as further ports, whose capacity the
// source has to know.
func (l lags) expand(dev *inventory.Device) *inventory.Device {
	out := *dev
	out.Ports = slices.Clone(dev.Ports)
	for _, p := range dev.Ports {
		for _, m := range l[p.Name] {
			if _, there := out.Port(m); !there {
				out.Ports = append(out.Ports, inventory.Port{Name: m, Action: p.Action})
			}
		}
	}
	return &out
}

// note writes into a result what is an aggregate, whose members are whose, and why the
// source does not show.
func (l lags) note(res *readResult, why string) {
	if why != "" {
		res.Limitations = append(res.Limitations, "which ports are link aggregates: "+why)
	}
	at := map[string]int{}
	for i, p := range res.Ports {
		at[p.Port] = i
	}
	for i := range res.Ports {
		p := &res.Ports[i]
		members := l[p.Port]
		if len(members) == 0 {
			continue
		}
		p.Members = members
		for _, m := range members {
			if j, ok := at[m]; ok {
				res.Ports[j].MemberOf = p.Port
			}
		}
		res.Limitations = append(res.Limitations, fmt.Sprintf(
			"%s is a link aggregate of %s: whether one of these is full; name them as ports in its place, each with an lm of its own",
			p.Port, strings.Join(members, ", ")))
	}
}
