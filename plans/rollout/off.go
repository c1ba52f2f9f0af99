package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Off is the emergency stop: ports that face hosts strip the tag, then every
// other rule of ours goes, everywhere, last on devices that cannot be made to
// strip, and at last the strip, so that no host behind it sees a tag of a path
// that is half taken off. It needs no plan and no journal,
// does all devices side by side, goes on past errors, and may be called again
// and again.
type Off struct {
	Fleet    *inventory.Fleet
	Only     []string // devices to take off; nil: all
	Open     Open
	Parallel int            // devices at once; 0: 1
	Limit    time.Duration  // for one step of one device; 0: a minute
	Report   func(Progress) // may be nil; called by one goroutine at a time

	mu          sync.Mutex // guards Report, and what devices are found to have
	unsupported []string   // devices that no driver supports
	notRestored []string   // what Run has not restored, with the device
	failed      []string   // devices that Run could not take off
}

// The stages of an Off after StageFence: everything but the fence goes, then
// the fence and all that is left.
const (
	StageClear  = "clear"
	StageRemove = "remove"
)

// Run does it. The error names every device that may still have something of
// ours, and why.
func (o *Off) Run(ctx context.Context) error {
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
	seen, lost := o.look(ctx, devices)
	o.unsupported, o.notRestored, o.failed = nil, nil, nil
	for _, name := range devices {
		for _, what := range seen[name].Facts.Off {
			o.notRestored = append(o.notRestored, "device "+name+": "+what)
		}
		if seen[name].lost {
			o.failed = append(o.failed, name)
		}
	}
	devices = slices.DeleteFunc(slices.Clone(devices), func(name string) bool {
		var none *vendors.NoDriverError // so there never was anything of ours
		if errors.As(seen[name].Err, &none) {
			o.unsupported = append(o.unsupported, name)
			return true
		}
		return seen[name].lost
	})
	// With some devices only, the fence is theirs alone: the others keep
	// updating, and their own hosts keep receiving it.
	removal, err := plans.Removal(o.Fleet, func(d *inventory.Device) plans.Observation {
		if !asked[d.Name] {
			return plans.Observation{Err: errors.New("not asked for")}
		}
		return seen[d.Name].Observation
	})
	if err != nil {
		return err
	}
	var gone sync.Map // devices that have nothing of ours left
	// Errors are reported; what counts is whether the device is off at last.
	bringAll := func(stage string, wants map[string]vendors.Setup) {
		names := slices.DeleteFunc(slices.Clone(devices), func(name string) bool { _, ok := wants[name]; return !ok })
		_ = SideBySide(ctx, o.Parallel, names, false, func(name string) error {
			want := wants[name]
			err := o.step(ctx, stage, name, func(ctx context.Context, t Target) error { return applyAndVerify(ctx, t, want) })
			if err == nil && want.Nothing() {
				gone.Store(name, true)
			}
			return err
		})
	}
	// What cannot be fenced keeps its rules for as long as the others update, for
	// it may strip, and no longer, for it may update.
	unfenced := map[string]vendors.Setup{}
	for _, name := range devices {
		if s := seen[name]; s.Err != nil || s.Facts.Strip.Level == vlanrules.Refused && !s.Setup.Nothing() {
			unfenced[name] = vendors.Setup{}
		}
	}
	for _, stage := range []struct{ shown, planned string }{
		{plans.StageFence, plans.StageFence}, {StageClear, plans.StageReady}, {StageClear, ""}, {StageRemove, plans.StageOpen}, {StageRemove, plans.StageChange},
	} {
		if stage.planned == "" {
			bringAll(stage.shown, unfenced)
			continue
		}
		wants := map[string]vendors.Setup{}
		for name, w := range removal.EachWave() {
			if !strings.HasPrefix(name, stage.planned+"/") {
				continue
			}
			for _, s := range w.Steps {
				_, left := unfenced[s.Device]
				if tried := seen[s.Device].fence; !left && (tried == nil || stage.planned != plans.StageFence || !plans.SameSetup(tried, &s.Want)) {
					wants[s.Device] = s.Want
				}
			}
		}
		bringAll(stage.shown, wants)
	}
	// What is left failed, or has nothing that could be seen.
	devices = slices.DeleteFunc(devices, func(name string) bool {
		_, ok := gone.Load(name)
		return ok
	})
	return errors.Join(lost, SideBySide(ctx, o.Parallel, devices, false, func(name string) error {
		err := o.step(ctx, StageRemove, name, func(ctx context.Context, t Target) error { return t.Remove(ctx) })
		if err != nil {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.failed = append(o.failed, name)
		}
		return err
	}), o.checkElsewhere(ctx, seen))
}

// checkElsewhere looks once more, when all devices are off, for what csig made on their
// machines and no device of the fleet has: at an earlier bridge, or at ports of before. The
// error names it.
func (o *Off) checkElsewhere(ctx context.Context, seen map[string]deviceState) error {
	if o.Only != nil {
		return nil // it may be that of the other devices
	}
	var mu sync.Mutex
	var left []error
	var names []string
	for name, s := range seen {
		if len(s.Facts.Left) > 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, inventory.CompareNames)
	err := SideBySide(ctx, o.Parallel, names, false, func(name string) error {
		return o.step(ctx, "", name, func(ctx context.Context, t Target) error {
			facts, err := t.Probe(ctx)
			mu.Lock()
			defer mu.Unlock()
			for _, what := range facts.Left {
				left = append(left, fmt.Errorf("device %s: %s", name, what))
			}
			return err
		})
	})
	return errors.Join(append(left, err)...)
}

// Failed lists the devices that Run could not take off. Report was told of each, with the reason.
func (o *Off) Failed() []string {
	return slices.SortedFunc(slices.Values(o.failed), inventory.CompareNames)
}

// Left lists what is not as it should be once an Off is done, or what was not
// to be done: what devices do not get back as it was, devices that csig does not
// drive, what hosts still send, and paths that others take for whole.
func (o *Off) Left() []string {
	out := slices.Clone(o.notRestored)
	if len(o.unsupported) > 0 {
		slices.SortFunc(o.unsupported, inventory.CompareNames)
		out = append(out, vendors.Names(o.unsupported)+": csig has no driver for such a device, so nothing of csig's is there to take off")
	}
	who := plans.Senders(o.Fleet)
	if who == "" {
		return out
	}
	if o.Only == nil {
		return append(out, who+" may still send tags, which pass untouched now: their receivers take every path for an idle one until they stop")
	}
	off := make(map[string]bool, len(o.Only))
	for _, name := range o.Only {
		off[name] = true
	}
	backward := plans.OtherEnds(o.Fleet)
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
		slices.SortFunc(broken, inventory.CompareNames)
		out = append(out, fmt.Sprintf("paths through %s are no longer whole: tags pass untouched there, and receivers at other devices still treat these paths as CSIG paths; csig off without --device takes all of them off, and a plan (csig plan -i %s) restores it", vendors.Names(slices.Compact(broken)), untrusted.ShellWord(o.Fleet.Path)))
	}
	return out
}

// deviceState is what an Off has found out about a device.
type deviceState struct {
	plans.Observation
	lost  bool           // it was not reached: it is not dialled again
	late  bool           // it is, once: it ran out of time
	fence *vendors.Setup // what it was to have at once; nil: nothing
}

// look finds out what devices have, and has each that has something of ours
// fence as soon as it has answered: those that do not answer delay no other's
// fence. Those that run out of time are asked once more when the others are done:
// on a busy machine that may be the fault of this side. The error names the
// devices that were not reached.
func (o *Off) look(ctx context.Context, devices []string) (map[string]deviceState, error) {
	seen := make(map[string]deviceState, len(devices))
	fences := plans.NewFences(o.Fleet)
	for last, left := false, devices; ; last = true {
		var late []string
		_ = SideBySide(ctx, o.Parallel, left, false, func(name string) error {
			s := o.lookAt(ctx, fences, name, last)
			o.mu.Lock()
			defer o.mu.Unlock()
			if seen[name] = s; s.late {
				late = append(late, name)
			}
			return nil
		})
		if left = late; last || len(left) == 0 {
			break
		}
	}
	var lost []error
	for _, name := range devices {
		if s := seen[name]; s.lost {
			lost = append(lost, s.Err)
		}
	}
	return seen, errors.Join(lost...)
}

// lookAt finds out what a device has, and has it fence. That it ran out of time is
// told of its last look.
func (o *Off) lookAt(ctx context.Context, fences plans.Fences, name string, last bool) deviceState {
	var s deviceState
	s.lost = true
	limited, cancel := context.WithTimeout(ctx, o.limit())
	defer cancel()
	s.Err = o.step(limited, "", name, func(ctx context.Context, t Target) (err error) {
		defer func() {
			var dial *net.OpError
			s.lost = ctx.Err() != nil || errors.As(err, &dial)
		}()
		s.Differ = t
		if s.Facts, err = t.Probe(ctx); err != nil {
			return err
		}
		s.Setup, err = t.Observe(ctx)
		return err
	})
	var none *vendors.NoDriverError
	var timeout net.Error
	switch {
	case errors.As(s.Err, &none):
		s.lost = false
	case ctx.Err() != nil:
	case s.Err == nil:
		if d, ok := o.Fleet.Device(name); ok {
			s.fence = fences.Of(d, s.Observation)
		}
		if s.fence != nil { // an error is reported, and the device taken off all the same
			_ = o.step(ctx, plans.StageFence, name, func(ctx context.Context, t Target) error { return applyAndVerify(ctx, t, *s.fence) })
		}
	case s.lost:
		s.late = !last && (limited.Err() != nil || errors.As(s.Err, &timeout) && timeout.Timeout())
		if !s.late {
			o.report(Progress{Event: EventFailed, Stage: plans.StageFence, Device: name, Err: s.Err})
		}
	}
	return s
}

// report passes progress on.
func (o *Off) report(p Progress) {
	if o.Report != nil && p.Stage != "" {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.Report(p)
	}
}

// limit is for how long a step of a device may take.
func (o *Off) limit() time.Duration { return cmp.Or(o.Limit, time.Minute) }

// step does something with one device, within the limit. What changes a device
// is finished when ctx ends.
func (o *Off) step(ctx context.Context, stage, device string, do func(ctx context.Context, t Target) error) error {
	if stage != "" {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, o.limit())
	defer cancel()
	o.report(Progress{Event: EventHand, Stage: stage, Device: device})
	err := func() (err error) {
		defer untrusted.Recover(&err)
		t, err := o.Open(ctx, device)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, t.Close()) }() // also after a panic
		return do(ctx, t)
	}()
	if err != nil {
		err = fmt.Errorf("device %s: %w", device, err)
	}
	event := EventDone
	if err != nil {
		event = EventFailed
	}
	o.report(Progress{Event: event, Stage: stage, Device: device, Err: err})
	return err
}
