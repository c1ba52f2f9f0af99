package openflow

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
)

// job is what changes of a port, or of what all share, in steps: each after the
// one before it has taken effect, and the changes of one step in any order.
type job struct {
	name    string // the port's; "": of what all share
	port    *port  // nil: it is not in the setup
	steps   [][]ofp.Mod
	refused []error // by the switch: the steps after that were not sent
}

func (j *job) err() error {
	if len(j.refused) == 0 {
		return nil
	}
	return refusals(j.refused)
}

// refusals are errors of which many may be alike; each text is there once.
type refusals []error

func (r refusals) Error() string {
	var texts []string
	times := map[string]int{}
	for _, err := range r {
		text := err.Error()
		if times[text]++; times[text] == 1 {
			texts = append(texts, text)
		}
	}
	for i, text := range texts {
		if n := times[text]; n > 1 {
			texts[i] = fmt.Sprintf("%s (%d changes)", text, n)
		}
	}
	return strings.Join(texts, "; ")
}

func (r refusals) Unwrap() []error { return r }

func (j *job) add(mods ...ofp.Mod) {
	if len(mods) > 0 {
		j.steps = append(j.steps, mods)
	}
}

// remove is the change that deletes a flow of csig's, and none with another cookie.
func remove(f *ofp.Flow, name string) ofp.Mod {
	return ofp.Mod{Kind: ofp.Delete, Flow: f, Name: name, CookieMask: cookieMask}
}

// run carries jobs out side by side: the first steps of all in one batch with one
// barrier, then the second ones, as ports are independent of each other. A refusal
// ends its job alone. An error is of the connection: what came of the jobs is
// unknown. It returns how many changes were sent.
func (d *device) run(ctx context.Context, jobs ...*job) (sent int, err error) {
	defer func() {
		for _, j := range jobs {
			if err != nil && j.port != nil {
				j.port.unknown = true
			}
		}
	}()
	var batch []ofp.Mod
	for step := 0; ; step++ {
		batch = batch[:0]
		last := true
		for _, j := range jobs {
			if step >= len(j.steps) || len(j.refused) > 0 {
				continue
			}
			last = false
			for _, m := range j.steps[step] {
				m.Name = j.name
				batch = append(batch, m)
			}
		}
		if last {
			return sent, nil
		}
		if len(batch) == 0 {
			continue
		}
		sent += len(batch)
		refused, err := d.exchange(ctx, batch)
		if err != nil {
			return sent, err
		}
		for _, r := range refused {
			d.refused(jobs, r)
		}
		if err := d.awaitEffect(ctx); err != nil {
			return sent, err
		}
	}
}

// refused notes a refusal with the job that it belongs to. One of a change that no
// job has is of an earlier run.
func (d *device) refused(jobs []*job, r *ofp.Error) {
	for _, j := range jobs {
		if j.name == r.Name {
			j.refused = append(j.refused, r)
			return
		}
	}
	d.late(r)
}

// exchange sends changes with a barrier behind them, and returns what of them was
// refused. Refusals of earlier changes that arrive meanwhile are noted.
func (d *device) exchange(ctx context.Context, mods []ofp.Mod) ([]*ofp.Error, error) {
	for try := 0; ; try++ {
		_, err := d.of.Apply(ctx, mods)
		var refused *ofp.Error
		switch {
		case err == nil:
			return nil, nil
		case !errors.As(err, &refused):
			d.known.Doubt()
			return nil, err
		}
		first := *refused
		first.Also = nil // each is by itself
		all := append([]*ofp.Error{&first}, refused.Also...)
		if !refused.Late {
			return all, nil
		}
		for _, r := range all { // and nothing was sent
			d.late(r)
		}
		if try == maxLate {
			return nil, err
		}
	}
}

// maxLate bounds how often changes are held back by refusals of earlier ones.
const maxLate = 8

// awaitEffect waits until what the switch has acknowledged has taken effect.
func (d *device) awaitEffect(ctx context.Context) error {
	if d.cfg.AckDelay == 0 {
		return nil
	}
	err := vendors.Wait(ctx, d.cfg.AckDelay)
	if err != nil {
		d.known.Doubt()
	}
	return err
}
