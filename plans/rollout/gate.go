package rollout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Health is the gate after each wave: every device still has what its step
// gave it, its ports that update have a live signal, they do not lose frames that they did not lose before,
// full-size frames with their tag cross its links, and a command of the
// operator's agrees.
type Health struct {
	Plan *plans.Plan
	Open Open

	// Fleet has the links and the tags; nil: no link is tried.
	Fleet *inventory.Fleet

	// Paths are probed from host to host by ProbePath.
	Paths     []Path
	ProbePath PathProber

	// Soak is how long ports are watched: before a wave, to learn what they
	// lose anyway, and after it, before it is judged.
	Soak time.Duration

	// Losses is how many frames a port may discard or fail beyond twice what
	// it lost in the same time before the wave.
	Losses uint64

	// AllowStale lets the gate open though ports have no live signal.
	AllowStale bool

	// Command is run after each wave, with CSIG_WAVE and CSIG_DEVICES (names
	// with spaces between) in its environment; an exit code other than 0 stops
	// the plan. Empty: none.
	Command []string

	Parallel     int           // devices to look at at once; 0: 1
	Limit        time.Duration // for a look at one device; 0: a minute
	CommandLimit time.Duration // for Command; 0: none

	first, before map[string]map[string]vendors.PortHealth // device, port: Soak before the wave, and as it begins
	watched       time.Duration                            // between the two
	began         time.Time
	links         linkGate
	pathsTried    bool // all of them carried frames before the first wave
}

// Before reads the error counters of the wave's devices, twice.
func (h *Health) Before(ctx context.Context, devices []string) error {
	err := errors.Join(h.pathsBefore(ctx), h.linksBefore(ctx, devices))
	if err != nil {
		return err
	}
	start := time.Now()
	if h.first, err = h.readAll(ctx, devices); err != nil {
		return err
	}
	if err := vendors.Wait(ctx, h.Soak); err != nil {
		return err
	}
	h.began = time.Now()
	h.watched = h.began.Sub(start)
	h.before, err = h.readAll(ctx, devices)
	return err
}

func (h *Health) readAll(ctx context.Context, devices []string) (map[string]map[string]vendors.PortHealth, error) {
	out := map[string]map[string]vendors.PortHealth{}
	var mu sync.Mutex
	err := SideBySide(ctx, h.Parallel, devices, true, func(name string) error {
		return with(ctx, h.Open, h.Limit, name, func(ctx context.Context, t Target) error {
			got, err := health(ctx, t)
			mu.Lock()
			defer mu.Unlock()
			out[name] = got
			return err
		})
	})
	return out, err
}

// health is the error and drop counters of a device's ports; empty where it has none.
func health(ctx context.Context, t Target) (map[string]vendors.PortHealth, error) {
	list, err := vendors.Health(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("reading the error counters: %w", err)
	}
	out := make(map[string]vendors.PortHealth, len(list))
	for _, p := range list {
		out[p.Port] = p
	}
	return out, nil
}

// After judges a wave. Its errors name the device and the port.
func (h *Health) After(ctx context.Context, wave string, devices []string) (Judgement, error) {
	var j Judgement
	if err := vendors.Wait(ctx, h.Soak); err != nil {
		return j, err
	}
	var mu sync.Mutex
	judged := SideBySide(ctx, h.Parallel, devices, false, func(name string) error {
		silent, err := h.judge(ctx, wave, name)
		mu.Lock()
		defer mu.Unlock()
		j.Silent += len(silent)
		return err
	})
	if err := errors.Join(judged, h.linksAfter(ctx, wave, devices, &j), h.pathsAfter(ctx, wave, &j)); err != nil {
		return j, err
	}
	return j, h.command(ctx, wave, devices)
}

func (h *Health) judge(ctx context.Context, wave, device string) (silent []string, err error) {
	step, err := h.wanted(wave, device)
	if err != nil {
		return nil, err
	}
	want := step.Want
	if len(step.MTU) == 0 { // first: an agent whose lease lapsed restores its rules meanwhile
		if silent, err = h.signals(ctx, device, &want); err != nil {
			return nil, err
		}
	}
	var now map[string]vendors.PortHealth
	err = with(ctx, h.Open, h.Limit, device, func(ctx context.Context, t Target) (err error) {
		if len(step.MTU) > 0 { // all that the step does, and it has read it back
			want = h.Plan.Device(device).Observed
		} else if err := readBack(ctx, t, want); err != nil {
			return err
		}
		now, err = health(ctx, t)
		return err
	})
	if err != nil {
		return nil, err
	}
	took := time.Since(h.began)
	var errs []error
	for _, name := range portsOf(&h.Plan.Device(device).Observed, &want) {
		p := now[name]
		first, old := h.first[device][name], h.before[device][name]
		for _, c := range []struct {
			what             string
			first, old, next uint64
		}{
			{"with errors", first.Errors, old.Errors, p.Errors},
			{"discarded", first.Discards, old.Discards, p.Discards},
		} {
			usual := uint64(0)
			if c.old > c.first && h.watched > 0 {
				usual = uint64(2 * float64(c.old-c.first) * float64(took) / float64(h.watched))
			}
			if c.next > c.old && c.next-c.old > h.Losses+usual {
				errs = append(errs, fmt.Errorf("device %s, port %s: %d frames %s in %v since the wave began, %d in %v before", device, name, c.next-c.old, c.what, took.Round(time.Millisecond), c.old-min(c.first, c.old), h.watched.Round(time.Millisecond)))
			}
		}
	}
	return silent, errors.Join(errs...)
}

// How long ports have until they are live: some Δt, of which a source that keeps its counters for a while takes more.
const (
	liveWindows = 8
	liveWithin  = 30 * time.Second
	liveAgain   = 500 * time.Millisecond // between two looks
)

// signals waits until the ports of a device that update are live. With AllowStale it looks once, and
// returns those that are not.
func (h *Health) signals(ctx context.Context, device string, want *vendors.Setup) (silent []string, err error) {
	within := liveWithin
	if h.Fleet != nil {
		if d, ok := h.Fleet.Device(device); ok {
			within = max(within, liveWindows*d.Interval)
		}
	}
	for began := time.Now(); ; {
		silent = nil
		var why map[string]string
		err := with(ctx, h.Open, h.Limit, device, func(ctx context.Context, t Target) (err error) {
			if r, ok := vendors.As[vendors.SignalReader](t); ok {
				why, err = r.NoSignal(ctx)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, p := range want.Ports {
			if why[p.Port] != "" && p.Action == vlanrules.Update {
				silent = append(silent, p.Port)
			}
		}
		switch took := time.Since(began); {
		case len(silent) == 0 || h.AllowStale:
			return silent, nil
		case took >= within:
			return nil, fmt.Errorf("device %s, port %s: no live signal after %v (%s); hosts would read the fallback there: repair its counters and continue with --resume, or let the gate open all the same with --allow-stale",
				device, vendors.Names(silent), took.Round(time.Second), why[silent[0]])
		}
		if err := vendors.Wait(ctx, liveAgain); err != nil {
			return nil, err
		}
	}
}

// portsOf are the ports of two setups, in their order, once each.
func portsOf(setups ...*vendors.Setup) []string {
	seen := map[string]bool{}
	var out []string
	for _, s := range setups {
		for _, p := range s.Ports {
			if !seen[p.Port] {
				seen[p.Port] = true
				out = append(out, p.Port)
			}
		}
	}
	return out
}

// wanted is the step of a device in a wave of the plan.
func (h *Health) wanted(wave, device string) (*plans.Step, error) {
	for name, w := range h.Plan.EachWave() {
		for n := range w.Steps {
			if name == wave && w.Steps[n].Device == device {
				return &w.Steps[n], nil
			}
		}
	}
	return nil, fmt.Errorf("device %s is not of wave %s", device, wave)
}

// maxOutput is how much of a command's output an error repeats.
const maxOutput = 2000

func (h *Health) command(ctx context.Context, wave string, devices []string) error {
	if len(h.Command) == 0 {
		return nil
	}
	run := ctx
	if h.CommandLimit > 0 {
		var cancel context.CancelFunc
		run, cancel = context.WithTimeout(ctx, h.CommandLimit)
		defer cancel()
	}
	cmd := exec.CommandContext(run, h.Command[0], h.Command[1:]...)
	cmd.Env = append(os.Environ(), "CSIG_WAVE="+wave, "CSIG_DEVICES="+strings.Join(devices, " "))
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if run.Err() != nil {
		err = fmt.Errorf("it did not end within %v", h.CommandLimit)
	}
	out = bytes.TrimSpace(out)
	if len(out) > maxOutput {
		out = out[len(out)-maxOutput:]
	}
	if len(out) == 0 {
		return fmt.Errorf("%s: %w", h.Command[0], err)
	}
	return fmt.Errorf("%s: %w: %s", h.Command[0], err, out)
}
