package openflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// FlatConfig says what Config does, of a switch whose one table csig shares: Table is
// that table.
type FlatConfig struct {
	Config
	Priority   uint16 // csig's flows have this one and the three above; 0 is DefaultPriority
	Entries    int    // capacity of the table in flows, the operator's among them; 0: not known
	OFDPA      bool   // the table is Policy ACL of OF-DPA
	Forwarding []Forwarding
}

// DefaultPriority is the lowest priority of csig's flows where FlatConfig names none.
const DefaultPriority = 30000

// Flat drives a switch with one table for everything. Its methods are not safe for
// concurrent use.
type Flat struct {
	device
	cfg FlatConfig

	f *flat // nil until Apply or the first Update
}

var _ vendors.Driver = (*Flat)(nil)

// complete is cfg with its defaults.
func (cfg FlatConfig) complete() FlatConfig {
	if cfg.Priority == 0 {
		cfg.Priority = DefaultPriority
	}
	if cfg.OFDPA {
		cfg.Table = TableACL
	}
	return cfg
}

// OpenFlat returns a driver. It connects at the first use.
func OpenFlat(cfg FlatConfig) (*Flat, error) {
	cfg = cfg.complete()
	if len(cfg.Forwarding) == 0 {
		return nil, &vendors.PermanentError{Err: errors.New(undeclaredForwarding)}
	}
	return &Flat{cfg: cfg, device: device{cfg: cfg.Config}}, nil
}

// TableACL is OF-DPA's Policy ACL (ofdpa-2.02 TTP, table_map).
const TableACL = 60

const undeclaredForwarding = "the switch has one table that masks VIDs, and no match there sees the port by which a frame leaves: declare the forwarding flows, management: {openflow: {forwarding: [{in_port: IN, port: OUT}, …]}}"

// flatSeen is what the switch has.
type flatSeen struct {
	portNames
	own     []ofp.Flow
	foreign []ofp.Flow // in the table
	groups  map[uint32]ofp.Group

	setup  vendors.Setup // that was recorded, with its ports
	found  bool
	damage string
}

func (d *Flat) read(ctx context.Context) (*flatSeen, error) {
	s := &flatSeen{groups: map[uint32]ofp.Group{}}
	var err error
	if s.portNames, err = d.readPorts(ctx); err != nil {
		return nil, err
	}
	flows, err := d.of.Flows(ctx, ofp.Filter{Table: d.cfg.Table})
	if err != nil {
		return nil, d.broken(err)
	}
	for i := range flows {
		f := &flows[i]
		if f.Match = canonical(f.Match); isOwn(f) {
			s.own = append(s.own, *f)
		} else {
			s.foreign = append(s.foreign, *f)
		}
	}
	if d.cfg.OFDPA {
		groups, err := d.of.Groups(ctx)
		if err != nil {
			return nil, d.broken(err)
		}
		for _, g := range groups {
			s.groups[g.ID] = g
		}
	}
	s.readSetup()
	return s, nil
}

// readSetup reads the record.
func (s *flatSeen) readSetup() {
	var list []*ofp.Flow
	actions := map[uint32]vlanrules.Action{}
	for i := range s.own {
		f := s.own[i]
		n, nowhere := isNowhere(&f.Match)
		switch {
		case !nowhere:
		case n == portRecord && uint32(f.Cookie) <= uint32(vlanrules.Strip):
			actions[f.Match.InPort] = vlanrules.Action(f.Cookie)
		case n != portRecord:
			f.Priority = priorityRecord + uint16(n) // as readRecord has it
			list = append(list, &f)
		}
	}
	var err error
	if s.setup, s.found, err = readRecord(list); err != nil {
		s.damage = "the record of the setup cannot be read: " + err.Error()
		return
	}
	if !s.found {
		if len(s.own) > 0 {
			s.damage = "there are flows of csig's without the record of a setup"
		}
		return
	}
	for _, number := range slices.Sorted(maps.Keys(actions)) {
		if name := s.names[number]; name != "" {
			s.setup.Ports = append(s.setup.Ports, vendors.PortSetup{Port: name, Action: actions[number]})
		}
	}
}

// layout is what makes a setup's flows, and their forwarding flows with what the
// switch calls its ports.
func (d *Flat) layout(s *vendors.Setup, seen *flatSeen) (*flat, error) {
	forwards, err := resolve(d.cfg.Forwarding, &seen.portNames)
	if err != nil {
		return nil, &vendors.PermanentError{Err: err}
	}
	return newFlat(d.cfg.Table, d.cfg.Priority, d.cfg.OFDPA, s, forwards), nil
}

// Observe reads back the setup.
func (d *Flat) Observe(ctx context.Context) (vendors.Setup, error) {
	if err := d.connect(ctx); err != nil {
		return vendors.Setup{}, err
	}
	seen, err := d.read(ctx)
	if errors.Is(err, untrusted.ErrTooLong) {
		return d.observeOwn(ctx, err)
	}
	if err != nil {
		return vendors.Setup{}, err
	}
	if !seen.found {
		return vendors.Setup{Damaged: seen.damage}, nil
	}
	out := seen.setup
	f, err := d.layout(&out, seen)
	if err != nil {
		out.Damaged = err.Error()
		return out, nil
	}
	stale, err := f.stale()
	if err != nil {
		out.Damaged = err.Error()
		return out, nil
	}
	ports, loose := f.sort(seen.own, seen.groupList())
	for i := range out.Ports {
		p := &out.Ports[i]
		number := seen.number[p.Port]
		have := ports[number]
		if p.Action == vlanrules.Update {
			delete(ports, number)
		}
		if have == nil {
			have = &flatPort{groups: map[uint32]ofp.Group{}}
		}
		if err := f.shadow(number, seen.foreign); err != nil {
			p.Damaged = err.Error()
			continue
		}
		if p.Action != vlanrules.Update {
			continue
		}
		if steps, _ := f.setStale(number, have, stale); len(steps) > 0 {
			p.Damaged = "its fallback is not as csig writes it"
		}
	}
	for _, number := range slices.Sorted(maps.Keys(ports)) {
		out.Damaged = fmt.Sprintf("there are flows or groups of csig's for port %s, which does not update", cmp.Or(seen.names[number], fmt.Sprint(number)))
	}
	if n := len(loose) - len(f.record(seen.number)); n > 0 {
		out.Damaged = fmt.Sprintf("%s of forwarding flows that are not declared any more", count(n, "flow of csig's is", "flows of csig's are"))
	} else if n < 0 {
		out.Damaged = "a flow of the record is gone"
	}
	return out, nil
}

func (s *flatSeen) groupList() (out []ofp.Group) {
	for _, id := range slices.Sorted(maps.Keys(s.groups)) {
		out = append(out, s.groups[id])
	}
	return out
}
