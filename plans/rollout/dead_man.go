package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/vendors"
)

// Waiting for a proof.
const (
	proofPoll    = time.Second
	proofBesides = 2 * time.Minute  // that its agent may take beside the dead-man's own time: the first readings, slow commands
	proofMost    = 30 * time.Minute // whatever a device states
)

// proofLimit is how long a proof may take in which a dead-man fires after so long.
func proofLimit(after time.Duration) time.Duration { return min(after+proofBesides, proofMost) }

// askProof notes a device that has a dead-man.
func (r *Run) askProof(ctx context.Context, t Target, device string) {
	d, ok := vendors.As[vendors.DeadManProver](t)
	if !ok {
		return
	}
	if after, err := d.DeadManProof(ctx); after > 0 || err != nil { // whatever it is: it is asked again
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.unproved == nil {
			r.unproved = map[string]time.Duration{}
		}
		r.unproved[device] = proofLimit(after)
	}
}

// unprovedOf are the devices of a wave to wait for: those that were noted, and those whose
// steps an earlier run did.
func (r *Run) unprovedOf(devices []string, todo []*plans.Step) (out []string) {
	for _, name := range devices {
		if r.unproved[name] > 0 || !slices.ContainsFunc(todo, func(s *plans.Step) bool { return s.Device == name }) {
			out = append(out, name)
		}
	}
	return out
}

// prove waits until the dead-mans of a wave's devices have fired, as each agent lets its own
// before it updates anything: a wave whose devices cannot be trusted with a signal is not done.
func (r *Run) prove(ctx context.Context, devices []string, p Progress) error {
	return SideBySide(ctx, r.Parallel, devices, false, func(device string) error {
		return with(ctx, r.Open, proofMost+proofPoll, device, func(ctx context.Context, t Target) error {
			d, ok := vendors.As[vendors.DeadManProver](t)
			if !ok {
				return nil
			}
			if err := r.proved(ctx, d, device, p); err != nil {
				return fmt.Errorf("its dead-man: %w", err)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.unproved, device)
			return nil
		})
	})
}

func (r *Run) proved(ctx context.Context, d vendors.DeadManProver, device string, p Progress) error {
	p.Device, p.Event = device, EventProve
	r.mu.Lock()
	p.Within = r.unproved[device]
	r.mu.Unlock()
	if p.Within > 0 { // the first answer may take long
		r.report(p)
	}
	began, said := time.Now(), ""
	poll := time.NewTicker(proofPoll)
	defer poll.Stop()
	for {
		after, err := d.DeadManProof(ctx)
		switch limit := proofLimit(after); {
		case errors.Is(err, vendors.ErrNotProved) && time.Since(began) < limit:
			if text := err.Error(); text != said { // what its agent waits for
				said, p.Err, p.Within = text, err, limit
				r.report(p)
			}
		case errors.Is(err, vendors.ErrNotProved):
			return fmt.Errorf("within %v %w (csig status shows what its agent waits for), so nothing is updated", limit, err)
		case err == nil && after > 0:
			p.Event, p.Within, p.Err = EventProved, after, nil
			r.report(p)
			return nil
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-poll.C:
		}
	}
}
