package plans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Off is the emergency stop: ports that face hosts strip the tag, then every
// other rule of ours goes, everywhere, and at last the strip, so that no host
// sees a tag of a path that is half taken off. It needs no plan and no journal,
// does all devices side by side, goes on past errors, and may be called again
// and again.
type Off struct {
	Fleet    *inventory.Fleet
	Only     []string // devices to take off; nil: all
	Open     Open
	Parallel int            // devices at once; 0: 1
	Limit    time.Duration  // for one step of one device; 0: a minute
	Report   func(Progress) // nil: nobody watches; called by one goroutine at a time
}

// The stages of an Off after StageFence: everything but the fence goes, then
// the fence and all that is left.
const (
	StageClear  = "clear"
	StageRemove = "remove"
)

// offStages are the stages of taking off that a plan has, as an Off calls them.
// Nothing is left that no path depends on.
var offStages = map[string]string{StageFence: StageFence, StageReady: StageClear, StageOpen: StageRemove}

// Run does it. The error names every device that may still have something of
// ours, and why.
func (o *Off) Run(ctx context.Context) error {
	r := &Run{Open: o.Open, Parallel: o.Parallel, Limit: o.Limit}
	devices := o.Only
	if devices == nil {
		for i := range o.Fleet.Devices {
			devices = append(devices, o.Fleet.Devices[i].Name)
		}
	}
	asked := make(map[string]bool, len(devices))
	for _, name := range devices {
		asked[name] = true
	}
	seen := o.look(ctx, r, devices)
	devices = slices.DeleteFunc(slices.Clone(devices), func(name string) bool {
		var none *vendors.NoDriverError // so there never was anything of ours
		return errors.As(seen[name].Err, &none)
	})
	// With some devices only, the fence is theirs alone: the others keep
	// updating, and their own hosts keep what they are told.
	b, err := build(o.Fleet, func(d *inventory.Device) Seen {
		if !asked[d.Name] {
			return Seen{Err: errors.New("not asked for")}
		}
		return seen[d.Name]
	}, Options{Goal: TakeOff, Waves: []string{}})
	var stages []Stage
	if err == nil { // else there is no fence; the rules go all the same
		stages = b.plan.Stages
	}
	var gone sync.Map // devices that have nothing of ours left
	for i := range stages {
		s := &stages[i]
		steps := map[string]*Step{}
		var names []string
		for k := range s.Waves {
			for n := range s.Waves[k].Steps {
				step := &s.Waves[k].Steps[n]
				able := b.nodes[b.index[step.Device]].seen.Facts.Strip.Level != vlanrules.Refused
				if (none(&step.Want) || able) && slices.Contains(devices, step.Device) {
					steps[step.Device] = step
					names = append(names, step.Device)
				}
			}
		}
		// Errors are reported; what counts is whether the device is off at last.
		_ = r.every(ctx, names, func(name string) error {
			err := o.step(ctx, r, offStages[s.Name], name, func(ctx context.Context, t Target) error { return bring(ctx, t, steps[name].Want) })
			if err == nil && none(&steps[name].Want) {
				gone.Store(name, true)
			}
			return err
		})
	}
	// What is left is what did not answer, failed, or has nothing that could be
	// seen.
	devices = slices.DeleteFunc(slices.Clone(devices), func(name string) bool {
		_, ok := gone.Load(name)
		return ok
	})
	return r.every(ctx, devices, func(name string) error {
		return o.step(ctx, r, StageRemove, name, func(ctx context.Context, t Target) error { return t.Remove(ctx) })
	})
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
	slices.SortFunc(names, vendors.CompareNames)
	return "hosts " + vendors.Names(names)
}

// Left lists what is not as it should be once an Off is done: what hosts still
// send, and paths that others take for whole.
func (o *Off) Left() []string {
	var out []string
	who := Senders(o.Fleet)
	if who == "" {
		return nil
	}
	if o.Only == nil {
		return append(out, who+" may still send tags, which pass untouched now: their receivers take every path for an idle one until they stop")
	}
	off := make(map[string]bool, len(o.Only))
	for _, name := range o.Only {
		off[name] = true
	}
	backward := backward(o.Fleet)
	var broken []string
	for _, name := range o.Only {
		d, ok := o.Fleet.Device(name)
		if ok && slices.ContainsFunc(d.Ports, func(p inventory.Port) bool {
			far := cmp.Or(p.Peer, backward[inventory.PortRef{Device: name, Port: p.Name}]).Device
			_, device := o.Fleet.Device(far)
			return device && !off[far]
		}) {
			broken = append(broken, name)
		}
	}
	if len(broken) > 0 {
		slices.SortFunc(broken, vendors.CompareNames)
		out = append(out, fmt.Sprintf("paths through %s are no longer whole: tags pass untouched there, and receivers at other devices go on taking these paths for capable; csig off without --device takes all of them off, and a plan (csig plan -i %s) puts it back", vendors.Names(slices.Compact(broken)), o.Fleet.Path))
	}
	return out
}

// look finds out what devices have; a device that does not answer is tried
// again when its rules are to go.
func (o *Off) look(ctx context.Context, r *Run, devices []string) map[string]Seen {
	seen := make(map[string]Seen, len(devices))
	_ = r.every(ctx, devices, func(name string) error {
		var s Seen
		s.Err = o.step(ctx, r, "", name, func(ctx context.Context, t Target) error {
			var err error
			s.Differ = t
			if s.Facts, err = t.Probe(ctx); err != nil {
				return err
			}
			s.Setup, err = t.Observe(ctx)
			return err
		})
		r.mu.Lock()
		defer r.mu.Unlock()
		seen[name] = s
		return nil // said when it is removed
	})
	return seen
}

// step does something with one device, within the limit. What changes a device
// is finished when ctx ends.
func (o *Off) step(ctx context.Context, r *Run, stage, device string, do func(ctx context.Context, t Target) error) error {
	if stage != "" {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(o.Limit, time.Minute))
	defer cancel()
	if o.Report != nil && stage != "" {
		r.mu.Lock()
		o.Report(Progress{Event: EventHand, Stage: stage, Device: device})
		r.mu.Unlock()
	}
	t, err := o.Open(ctx, device)
	if err == nil {
		err = errors.Join(do(ctx, t), t.Close())
	}
	if err != nil {
		err = fmt.Errorf("device %s: %w", device, err)
	}
	if o.Report != nil && stage != "" {
		event := EventDone
		if err != nil {
			event = EventFailed
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		o.Report(Progress{Event: event, Stage: stage, Device: device, Err: err})
	}
	return err
}
