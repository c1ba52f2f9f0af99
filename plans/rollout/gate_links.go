package rollout

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/vendors"
)

// Judgement is what a gate that opened has looked at besides the read-back.
type Judgement struct {
	Silent    int            // ports that update and have no live signal, with AllowStale
	Links     int            // links that full-size frames with their tag cross, both ways
	NotProbed []UnprobedLink // links, or directions of links, that could not be tried; each is reported once in a run
	Paths     []string       // what was found on the paths that were asked for
}

// UnprobedLink is a link that no test frame was sent over.
type UnprobedLink struct {
	Link   string `json:"link"` // "s1:swp1 - s2:swp1"; "s1:swp1 to s2:swp1" where it is one direction only
	Reason string `json:"reason"`
}

// How long a test frame may take at least, and at most where daemons send and
// receive it, and how often it is sent before it is lost.
const (
	linkWait    = 100 * time.Millisecond
	linkWaitMax = 2 * time.Second
	linkTries   = 10
)

// cable is a link between two devices of the fleet.
type cable struct {
	a, b inventory.PortRef
}

// String names the same link alike from both ends.
func (c cable) String() string {
	a, b := c.a.String(), c.b.String()
	if inventory.CompareNames(c.a.Device, c.b.Device) > 0 {
		a, b = b, a
	}
	return a + " - " + b
}

// ways are the two directions of a link.
func (c cable) ways() [2]way { return [2]way{{c.a, c.b}, {c.b, c.a}} }

// way is one direction of a link.
type way struct {
	from, to inventory.PortRef
}

func (w way) String() string { return w.from.String() + " to " + w.to.String() }

// linkGate is what a Health knows of links. Links are tried side by side: mu
// guards the rest while they are.
type linkGate struct {
	mu       sync.Mutex
	nonce    uint64
	cannot   map[string]string // device: why it takes part in no probe
	reported map[UnprobedLink]bool
	alive    map[way]bool   // carried frames in an earlier wave
	dead     map[way]string // cannot be tried after this wave: why, by what was found before it
}

// cables are the links of a wave's devices to others of the fleet, each once.
func (h *Health) cables(devices []string) []cable {
	seen := map[cable]bool{}
	var out []cable
	for _, name := range devices {
		d, ok := h.Fleet.Device(name)
		if !ok {
			continue
		}
		for i := range d.Ports {
			peer := d.Ports[i].Peer
			other, ok := h.Fleet.Device(peer.Device)
			if !ok {
				continue
			}
			if _, ok := other.Port(peer.Port); !ok {
				continue
			}
			c := cable{inventory.PortRef{Device: name, Port: d.Ports[i].Name}, inventory.PortRef(peer)}
			if !seen[cable{c.b, c.a}] && !seen[c] {
				seen[c] = true
				out = append(out, c)
			}
		}
	}
	return out
}

// probesLinks reports whether links are tried at all: where no tag is to cross
// them any more, there is nothing to find out.
func (h *Health) probesLinks() bool { return h.Fleet != nil && h.Plan.Goal == plans.RollOut }

// linksBefore finds the links that carry nothing, whatever the wave does.
func (h *Health) linksBefore(ctx context.Context, devices []string) error {
	if !h.probesLinks() {
		return nil
	}
	l := &h.links
	if l.cannot == nil {
		var b [8]byte
		rand.Read(b[:]) //nolint:errcheck // never fails
		l.nonce = binary.NativeEndian.Uint64(b[:])
		l.cannot, l.reported, l.alive = map[string]string{}, map[UnprobedLink]bool{}, map[way]bool{}
	}
	l.dead = map[way]string{}
	var todo []cable
	for _, c := range h.cables(devices) {
		if w := c.ways(); !l.alive[w[0]] || !l.alive[w[1]] {
			todo = append(todo, c)
		}
	}
	tried, err := h.eachLink(ctx, todo, func(ctx context.Context, from, to *linkEnd) wayResult {
		_, err := h.cross(ctx, from, to, vendors.LinkFrame{})
		switch {
		case err == nil:
			return wayResult{crossed: true}
		case errors.Is(err, errLost):
			err = fmt.Errorf("no frame of any kind gets from %s to %s, and none did before the wave", from.at, to.at)
		case errors.Is(err, vendors.ErrNotYet): // the wave may be what it waits for
			return wayResult{}
		}
		return wayResult{why: err.Error()}
	})
	for _, r := range tried {
		for k, w := range r.cable.ways() {
			switch {
			case r.ways[k].crossed:
				l.alive[w] = true
			case r.ways[k].why != "":
				l.dead[w] = r.ways[k].why
			}
		}
	}
	return err
}

// linksAfter sends full-size frames with their tags over the wave's links. Its
// error names both ends of each that they do not cross.
func (h *Health) linksAfter(ctx context.Context, wave string, devices []string, j *Judgement) error {
	if !h.probesLinks() {
		return nil
	}
	small, _ := smallAfter(h.Plan, wave)
	coming := map[string]bool{} // devices of later waves
	for s := range h.Plan.StepsAfter(wave) {
		coming[s.Device] = true
	}
	var todo []cable
	for _, c := range h.cables(devices) {
		if !small[c.a.Device] && !small[c.b.Device] { // else its MTU is raised in a later wave: that one tries it
			todo = append(todo, c)
		}
	}
	tried, err := h.eachLink(ctx, todo, func(ctx context.Context, from, to *linkEnd) wayResult {
		return h.fullSizeCrosses(ctx, from, to, coming)
	})
	var errs []error
	for _, r := range tried {
		for k, w := range r.cable.ways() {
			if e := r.ways[k].err; e != nil {
				errs = append(errs, e)
			} else if r.ways[k].crossed {
				h.links.alive[w] = true
			}
		}
		if r.ways[0].crossed && r.ways[1].crossed {
			j.Links++
		}
		for _, u := range r.unprobed() {
			if !h.links.reported[u] {
				h.links.reported[u] = true
				j.NotProbed = append(j.NotProbed, u)
			}
		}
	}
	return errors.Join(append(errs, err)...)
}

// smallAfter are the devices whose MTU is not raised yet after a wave; after
// none, for "". least is the smallest of these MTUs, in bytes; 0: there is none.
func smallAfter(p *plans.Plan, wave string) (devices map[string]bool, least int) {
	devices = map[string]bool{}
	for s := range p.StepsAfter(wave) {
		for _, m := range s.MTU {
			devices[s.Device] = true
			if least == 0 || m.From < least {
				least = m.From
			}
		}
	}
	return devices, least
}

// linkEnd is one end of a link that is tried.
type linkEnd struct {
	at     inventory.PortRef
	target Target
	probes vendors.LinkProber
}

// wayResult is the result for one direction of a link: it crossed, or err, or why
// that is unknown.
type wayResult struct {
	crossed bool
	err     error
	why     string
}

// linkResult is what came of a link, by its ways.
type linkResult struct {
	cable cable
	ways  [2]wayResult
}

// unprobed is the part of a link that could not be tried: one sentence for the
// whole link where that is both directions.
func (r *linkResult) unprobed() []UnprobedLink {
	a, b, ways := r.ways[0].why, r.ways[1].why, r.cable.ways()
	switch {
	case a == "" && b == "":
		return nil
	case b == "":
		return []UnprobedLink{{ways[0].String(), a}}
	case a == "":
		return []UnprobedLink{{ways[1].String(), b}}
	}
	both := []string{a, b}
	slices.Sort(both) // the same from both ends
	return []UnprobedLink{{r.cable.String(), strings.Join(slices.Compact(both), "; ")}}
}

// eachLink calls try for each direction of the links that can be tried, some
// links side by side, the directions of one after each other. The results are
// in the order of the links. Its error is that ctx has ended.
func (h *Health) eachLink(ctx context.Context, cables []cable, try func(ctx context.Context, from, to *linkEnd) wayResult) ([]*linkResult, error) {
	targets := &linkTargets{open: h.Open, limit: h.Limit, most: 2 * max(1, h.Parallel)}
	defer targets.close()
	out := make([]*linkResult, len(cables))
	for i, c := range cables {
		out[i] = &linkResult{cable: c}
	}
	err := SideBySide(ctx, h.Parallel, out, true, func(r *linkResult) error {
		h.tryLink(ctx, targets, r, try)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// tryLink opens both ends of a link and tries its directions.
func (h *Health) tryLink(ctx context.Context, targets *linkTargets, r *linkResult, try func(ctx context.Context, from, to *linkEnd) wayResult) {
	var ends [2]*linkEnd
	broken := false
	for i, at := range []inventory.PortRef{r.cable.a, r.cable.b} {
		e, why := h.end(ctx, targets, at)
		if why != "" {
			r.ways[0] = wayResult{why: why}
			r.ways[1] = r.ways[0]
			targets.give(ends[0], false)
			return
		}
		ends[i] = e
	}
	for i, from := range ends {
		r.ways[i] = try(ctx, from, ends[1-i])
		broken = broken || !r.ways[i].crossed
	}
	for _, e := range ends {
		targets.give(e, broken)
	}
}

// end opens one end of a link, or says why it cannot be tried.
func (h *Health) end(ctx context.Context, targets *linkTargets, at inventory.PortRef) (e *linkEnd, why string) {
	h.links.mu.Lock()
	why = h.links.cannot[at.Device]
	h.links.mu.Unlock()
	if why != "" {
		return nil, why
	}
	plan := h.Plan.Device(at.Device)
	switch {
	case plan == nil:
		why = at.Device + " is not in the plan"
	case plan.Level == string(inventory.LevelDiscard):
		why = at.Device + " must not see a tag"
	default:
		t, err := targets.take(ctx, at.Device)
		if err != nil {
			return nil, fmt.Sprintf("%s: %v", at.Device, err)
		}
		if probes, ok := vendors.As[vendors.LinkProber](t); ok {
			return &linkEnd{at, t, probes}, ""
		}
		_ = t.Close() // nothing was done with it
		why = at.Device + " cannot send test frames: it is driven through " + plan.Via
	}
	h.links.mu.Lock()
	h.links.cannot[at.Device] = why
	h.links.mu.Unlock()
	return nil, why
}

// linkTargets are the devices of links that are being tried. One link at a time
// uses a target; free ones wait for the next link of their device.
type linkTargets struct {
	open  Open
	limit time.Duration // for opening one
	most  int           // that wait

	mu   sync.Mutex
	idle []*linkEnd // the one that waits longest first
}

// take is a target of a device for the caller alone.
func (l *linkTargets) take(ctx context.Context, device string) (Target, error) {
	l.mu.Lock()
	for i, e := range l.idle {
		if e.at.Device == device {
			l.idle = slices.Delete(l.idle, i, i+1)
			l.mu.Unlock()
			return e.target, nil
		}
	}
	l.mu.Unlock()
	ctx, cancel := within(ctx, l.limit)
	defer cancel()
	return l.open(ctx, device)
}

// give takes an end back; one that may be broken is not used again.
func (l *linkTargets) give(e *linkEnd, broken bool) {
	if e == nil {
		return
	}
	if !broken {
		l.mu.Lock()
		l.idle = append(l.idle, e)
		e = nil
		if len(l.idle) > l.most {
			e, l.idle = l.idle[0], l.idle[1:]
		}
		l.mu.Unlock()
	}
	if e != nil {
		_ = e.target.Close() // it was only looked at
	}
}

func (l *linkTargets) close() {
	for _, e := range l.idle {
		_ = e.target.Close() // it was only looked at
	}
}
