package ebpf

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/linux/netdev"
	"github.com/csig-agent/csig/vlanrules"
)

// Update gives each listed port its edges, its locators and a deadline.
func (d *Driver) Update(ctx context.Context, updates []vendors.PortUpdate, lease time.Duration) (vendors.UpdateResult, error) {
	var res vendors.UpdateResult
	until := monotonic() + uint64(max(lease, 0))
	if err := ctx.Err(); err != nil {
		return res, err
	}
	if lease <= 0 || lease > maxLease {
		return res, &vendors.PermanentError{Err: fmt.Errorf("a lease of %v: want up to %v", lease, maxLease)}
	}
	if d.setup == nil {
		if err := vendors.TakeOver(ctx, d, func() bool { return d.setup != nil }); err != nil {
			return res, err
		}
	}
	if d.setup.Measure == nil {
		return res, &vendors.PermanentError{Err: errors.New("no more than the hash of the profile is known, by which its ports are to measure: call Apply with the profile first")}
	}
	repaired, errs, err := d.repair(ctx)
	if err != nil {
		return res, err
	}
	res.NoteRepairs(repaired)
	errs = append(errs, d.newIntervals(updates)...)
	for i := range updates {
		u := &updates[i]
		p := d.byName[u.Port]
		switch {
		case p == nil:
			errs = append(errs, vendors.NotInSetup(u.Port))
		case p.setup.Action != vlanrules.Update || p.index == 0:
		case p.held == nil && p.entry.Interval != uint64(d.setup.Measure.Interval): // newIntervals returned why
		default:
			changed, err := d.give(p, u, until)
			if changed {
				res.Ports++
				res.Ops++
			}
			if err != nil {
				errs = append(errs, err)
			}
		}
	}
	// A map has what the kernel took when the system call returns.
	res.Leased, res.ReadBack = true, vendors.ReadBackAfter
	return res, errors.Join(errs...)
}

// repair restores what another process has changed, and has a device that came or was made again
// do what its port is to: that is no repair. What is wrong with one port is an error of that port.
func (d *Driver) repair(ctx context.Context) (changes []vendors.Change, errs []error, err error) {
	devices, err := d.devices(ctx)
	if err != nil {
		return nil, nil, err
	}
	var slots map[uint32]bool // nil: not read in this cycle
	var entries map[uint32]planePort
	err = d.Do(func() error {
		for _, p := range d.ports {
			var e planePort
			index := devices[p.setup.Port]
			if index == 0 {
				errs = append(errs, missing(p.setup.Port))
				p.index, p.intents = 0, nil
				continue
			}
			why, before, err := d.plane.check(index, d.setup, &p.setup, &e)
			if err != nil {
				errs = append(errs, portError(p, err))
				p.index, p.intents = 0, nil // it is tried again in the next cycle
				continue
			}
			same := index == p.index
			if p.before = before; why == "" && same && e != p.entry {
				why = "its entry in csig_ports is another one"
			}
			if why == "" && same {
				continue
			}
			if slots == nil {
				if slots, entries, err = d.plane.slots(); err != nil {
					return err
				}
				if err := d.plane.forget(entries, slots, d.links.Name); err != nil {
					return err
				}
			}
			if e, ok := entries[uint32(index)]; ok && why != "" {
				e.Deadline, e.Interval = 0, 0
				if same {
					e.Slot = p.entry.Slot // another process may have changed it
				}
				entries[uint32(index)] = e
			}
			p.index, p.intents = index, nil
			if err := d.place(p, entries, slots, true); err != nil {
				errs = append(errs, portError(p, err))
				p.index = 0
				continue
			}
			if why != "" && same {
				changes = append(changes, vendors.Change{Kind: vendors.Create, Port: p.setup.Port, What: p.setup.Action.String(), Detail: why})
			}
		}
		return nil
	})
	return changes, errs, err
}

// give writes a port's signals and deadline, and reports whether anything but the deadline
// has changed.
func (d *Driver) give(p *port, u *vendors.PortUpdate, until uint64) (changed bool, err error) {
	e := p.entry
	drain := netdev.Drain{}
	if slices.ContainsFunc(u.Intents, ofQueue) {
		if drain, err = d.Drain(p.index); err != nil {
			return false, &vendors.PortError{Port: p.setup.Port, Err: err}
		}
	}
	egress := d.links.Egress[p.setup.Port]
	if p.intents == nil || p.drain != drain || p.egress != egress || p.rate != u.Rate || !slices.EqualFunc(p.intents, u.Intents, sameLocator) {
		changed = true
		if e, err = d.signals(p, u, &drain, &egress); err != nil {
			e = p.entry
			e.Interval, e.Deadline = uint64(d.setup.Measure.Interval), 0
			return changed, errors.Join(&vendors.PermanentError{Port: p.setup.Port, Err: err}, d.write(p, &e))
		}
	}
	e.Interval, e.Deadline = uint64(d.setup.Measure.Interval), until
	if live := slices.ContainsFunc(u.Intents, func(in vlanrules.Intent) bool { return in.LM != d.setup.Layout.LMStale() }); !live || u.Rate == 0 {
		e.Deadline = 0
	}
	if err := d.write(p, &e); err != nil {
		return changed, err
	}
	p.intents, p.rate, p.drain, p.egress = append(p.intents[:0], u.Intents...), u.Rate, drain, egress
	return changed, nil
}

// ofQueue reports whether an intent is of a signal that the port's queue has.
func ofQueue(in vlanrules.Intent) bool {
	return in.Action == vlanrules.Update && (in.Signal == quantize.MaxPD || in.Signal == quantize.MaxNQD)
}

// sameLocator reports whether two intents have the port write the same: S is the port's own.
func sameLocator(a, b vlanrules.Intent) bool {
	return a.Signal == b.Signal && a.Action == b.Action && a.LM == b.LM
}

func (d *Driver) put(p *port, e *planePort) error {
	if err := d.plane.put(uint32(p.index), e); err != nil {
		return &vendors.PortError{Port: p.setup.Port, Err: err}
	}
	p.entry = *e
	return nil
}

// signals is the entry with the edges and locators of the intents.
func (d *Driver) signals(p *port, u *vendors.PortUpdate, drain *netdev.Drain, egress *netdev.Egress) (planePort, error) {
	e, shift := p.entry, 0
	e.Capacity = capacity(u.Rate, d.setup.Measure.Interval)
	e.Shortest, e.Pace = shortest(egress), pace(u.Rate)
	e.Hold = hold(queueHolds(egress), e.Pace)
	if d.setup.Layout == quantize.UEC {
		shift = 1
	}
	for i := range e.Signals {
		e.Signals[i] = planeSignal{Carried: e.Signals[i].Carried, Max: e.Signals[i].Max}
	}
	for i := range u.Intents {
		in := &u.Intents[i]
		if in.Action != vlanrules.Update || u.Rate == 0 {
			continue
		}
		sp, ok := d.setup.Measure.Signals[in.Signal]
		if !ok {
			return e, fmt.Errorf("%s is not a signal of the profile", in.Signal)
		}
		rate := u.Rate
		switch {
		case !ofQueue(*in):
		case drain.Refused != "":
			return e, fmt.Errorf("%s is refused: %s", in.Signal, drain.Refused)
		case in.Signal == quantize.MaxPD:
			rate = drain.Rate
		case drain.Limit == 0 && drain.Frames == 0:
			return e, fmt.Errorf("%s is refused: how much its queue holds is not known: a root tbf says it, or an htb whose leaf has no queueing discipline of its own", in.Signal)
		default:
			rate = max(drain.Limit, drain.Frames) // one of them is 0
		}
		g, err := signalOf(in.Signal, &sp, rate, d.setup.Measure.Interval)
		if err != nil {
			return e, err
		}
		wide := in.LM
		if d.setup.WideTPID != 0 && in.LM != d.setup.Layout.LMStale() {
			if wide, err = sp.WideLM(d.setup.Layout, in.LM); err != nil {
				return e, fmt.Errorf("%s in wide tags: %w", in.Signal, err)
			}
		}
		if in.Signal == quantize.MaxNQD && drain.Frames != 0 {
			g.Queue = queueFrames
		}
		g.Lm, g.WideLm = in.LM<<shift, wide<<shift
		e.Signals[in.Signal] = g
	}
	return e, nil
}

// Measurements reads what the data plane has counted, and what it makes of it.
func (d *Driver) Measurements(_ context.Context, dst []vendors.Measurement) ([]vendors.Measurement, error) {
	now := monotonic()
	for _, p := range d.ports {
		if p.index == 0 {
			continue
		}
		var s planeState
		if err := d.plane.CsigState.Lookup(p.entry.Slot, &s); err != nil {
			return dst, fmt.Errorf("port %s: read csig_state: %w", p.setup.Port, err)
		}
		m := vendors.Measurement{Port: p.setup.Port, Bytes: s.Total + s.Bytes - min(s.Lost, s.Bytes), Live: s.Closed != 0 && p.entry.Deadline > now}
		m.Coarse = coarse(d.links.Egress[p.setup.Port].GSO, p.rate, time.Duration(p.entry.Interval))
		if p.before != 0 {
			m.Before = fmt.Sprintf("BPF program %d runs before csig's at its tcx egress: frames that it lets pass without the next program, or sends elsewhere, keep their tags", p.before)
		}
		last := s.lastAt(now, &p.entry)
		for i := range m.S {
			if g := &p.entry.Signals[i]; g.Carried != 0 && g.Queue == 0 {
				m.S[i] = g.bucket(last)
			}
		}
		dst = append(dst, m)
	}
	return dst, nil
}

// lastAt is how many bytes the last interval had: it may be that no frame has closed one that was idle.
func (s *planeState) lastAt(now uint64, e *planePort) uint64 {
	if e.Interval == 0 || now <= s.Start+2*e.Interval {
		return s.Last
	}
	end := s.Start + (now-s.Start)/e.Interval*e.Interval
	return min(after(s.Free, e.Pace, end-e.Interval)-after(s.Free, e.Pace, end), e.Capacity)
}

// capacity is how many bytes a link of a rate in bit/s sends in an interval.
func capacity(rate uint64, interval time.Duration) uint64 {
	high, low := bits.Mul64(rate, uint64(interval))
	if high >= uint64(nsBits) {
		return 0 // more than any counter has
	}
	n, _ := bits.Div64(high, low, uint64(nsBits))
	return n
}

// coarse says why intervals are shorter than one frame may take, which is counted whole where
// its first segment leaves; "" where they are not.
func coarse(gso, rate uint64, interval time.Duration) string {
	if rate == 0 || interval == 0 {
		return ""
	}
	longest := time.Duration(float64(gso) * 8e9 / float64(rate))
	if longest <= interval {
		return ""
	}
	return fmt.Sprintf("one frame that is segmented later (gso_max_size %d) takes up to %v of the link, more than the interval of %v: it counts for as many intervals from where its first segment leaves", gso, longest.Round(time.Microsecond), interval)
}
