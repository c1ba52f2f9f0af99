package plans

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Judgement is what a gate that opened has looked at besides the read-back.
type Judgement struct {
	Links     int            // links that full-size frames with their tag cross, both ways
	NotProbed []UnprobedLink // links that nobody could try; each is told once in a run
	Paths     []string       // what was found on the paths that were asked for
}

// UnprobedLink is a link that no test frame was sent over.
type UnprobedLink struct {
	Link   string // "s1:swp1 - s2:swp1"
	Reason string
}

// How long a test frame may take, and how often it is sent before it is lost.
const (
	linkWait  = 100 * time.Millisecond
	linkTries = 10
)

// cable is a link between two devices of the fleet.
type cable struct {
	a, b inventory.PortRef
}

// String names the same link alike from both ends.
func (c cable) String() string {
	a, b := c.a.String(), c.b.String()
	if vendors.CompareNames(c.a.Device, c.b.Device) > 0 {
		a, b = b, a
	}
	return a + " - " + b
}

// linkGate is what a Health knows of links.
type linkGate struct {
	nonce  uint64
	cannot map[string]string // device: why it takes part in no probe
	told   map[UnprobedLink]bool
	alive  map[string]bool  // links that carried frames in an earlier wave
	dead   map[cable]string // those that carried nothing before this one: why
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
			end, _ := h.Fleet.Peer(&d.Ports[i])
			if end.Port == nil {
				continue
			}
			c := cable{inventory.PortRef{Device: name, Port: d.Ports[i].Name}, inventory.PortRef{Device: end.Device.Name, Port: end.Port.Name}}
			if !seen[cable{c.b, c.a}] && !seen[c] {
				seen[c] = true
				out = append(out, c)
			}
		}
	}
	return out
}

// probesLinks tells whether links are tried at all: where no tag is to cross
// them any more, there is nothing to find out.
func (h *Health) probesLinks() bool { return h.Fleet != nil && h.Plan.Goal == RollOut }

// linksBefore finds the links that carry nothing, whatever the wave does.
func (h *Health) linksBefore(ctx context.Context, devices []string) error {
	if !h.probesLinks() {
		return nil
	}
	if h.links.cannot == nil {
		var b [8]byte
		rand.Read(b[:]) //nolint:errcheck // never fails
		h.links = linkGate{nonce: binary.NativeEndian.Uint64(b[:]), cannot: map[string]string{}, told: map[UnprobedLink]bool{}, alive: map[string]bool{}}
	}
	h.links.dead = map[cable]string{}
	return h.eachLink(ctx, devices, func(c cable) bool { return h.links.alive[c.String()] }, func(c cable, ends [2]*linkEnd) error {
		for i, from := range ends {
			_, err := h.cross(ctx, from, ends[1-i], vendors.LinkFrame{})
			if errors.Is(err, errLost) {
				err = fmt.Errorf("no frame of any kind gets from %s to %s, and none did before the wave", from.at, ends[1-i].at)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, func(c cable, why string) { h.links.dead[c] = why })
}

// linksAfter sends full-size frames with their tags over the wave's links. Its
// error names both ends of each that they do not cross.
func (h *Health) linksAfter(ctx context.Context, wave string, devices []string, j *Judgement) error {
	if !h.probesLinks() {
		return nil
	}
	skip := func(c cable, why string) {
		u := UnprobedLink{c.String(), why}
		if !h.links.told[u] {
			h.links.told[u] = true
			j.NotProbed = append(j.NotProbed, u)
		}
	}
	small, _ := h.Plan.smallAfter(wave)
	var errs []error
	later := func(c cable) bool { return small[c.a.Device] || small[c.b.Device] } // its MTU is raised in a later wave: that one tries it
	err := h.eachLink(ctx, devices, later, func(c cable, ends [2]*linkEnd) error {
		if why, dead := h.links.dead[c]; dead {
			return errors.New(why)
		}
		full, err := h.fullSize(ctx, ends)
		if err != nil {
			return err
		}
		passed := true
		for i, from := range ends {
			if err := h.tagsCross(ctx, from, ends[1-i], full); err != nil {
				if ctx.Err() != nil {
					return err
				}
				errs, passed = append(errs, err), false
			}
		}
		if passed {
			j.Links++
			h.links.alive[c.String()] = true
		}
		return nil
	}, skip)
	return errors.Join(append(errs, err)...)
}

// smallAfter are the devices whose MTU is not raised yet after a wave; after
// none, for "". least is the smallest of these MTUs, in bytes; 0: there is none.
func (p *Plan) smallAfter(wave string) (devices map[string]bool, least int) {
	devices = map[string]bool{}
	passed := wave == ""
	for i := range p.Stages {
		s := &p.Stages[i]
		for k := range s.Waves {
			w := &s.Waves[k]
			for n := range w.Steps {
				if !passed || len(w.Steps[n].MTU) == 0 {
					continue
				}
				devices[w.Steps[n].Device] = true
				for _, m := range w.Steps[n].MTU {
					if least == 0 || m.From < least {
						least = m.From
					}
				}
			}
			passed = passed || s.Name+"/"+w.Name == wave
		}
	}
	return devices, least
}

// linkEnd is one end of a link that is tried.
type linkEnd struct {
	at     inventory.PortRef
	target Target
	prober vendors.LinkProber
}

// eachLink calls try for the links whose two ends can be tried, unless they are
// to be left out, and skip for the others and for those of which try has an
// error. Its own error is that ctx has ended.
func (h *Health) eachLink(ctx context.Context, devices []string, leave func(cable) bool, try func(c cable, ends [2]*linkEnd) error, skip func(c cable, why string)) error {
	opened := map[string]*linkEnd{} // of the device whose turn it is, and of its peer
	closeAll := func(but string) {
		for name, e := range opened {
			if name != but {
				e.target.Close()
				delete(opened, name)
			}
		}
	}
	defer closeAll("")
	for _, c := range h.cables(devices) {
		if leave(c) {
			continue
		}
		closeAll(c.a.Device)
		var ends [2]*linkEnd
		why := ""
		for i, at := range []inventory.PortRef{c.a, c.b} {
			if ends[i], why = h.end(ctx, at, opened); why != "" {
				break
			}
		}
		if why == "" {
			if err := try(c, ends); err != nil {
				why = err.Error()
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if why != "" {
			skip(c, why)
		}
	}
	return nil
}

// end opens one end of a link, or says why it cannot be tried.
func (h *Health) end(ctx context.Context, at inventory.PortRef, opened map[string]*linkEnd) (*linkEnd, string) {
	if why := h.links.cannot[at.Device]; why != "" {
		return nil, why
	}
	e := opened[at.Device]
	if e == nil {
		why := ""
		plan := h.Plan.device(at.Device)
		switch {
		case plan == nil:
			why = at.Device + " is not in the plan"
		case plan.Level == string(inventory.LevelDiscard):
			why = at.Device + " must not see a tag"
		}
		if why == "" {
			open, cancel := within(ctx, h.Limit)
			t, err := h.Open(open, at.Device)
			cancel()
			switch p, ok := t.(vendors.LinkProber); {
			case err != nil:
				return nil, fmt.Sprintf("%s: %v", at.Device, err)
			case ok:
				e = &linkEnd{target: t, prober: p}
				opened[at.Device] = e
			default:
				t.Close()
				why = at.Device + " cannot send test frames: it is driven through " + plan.Via
			}
		}
		if why != "" {
			h.links.cannot[at.Device] = why
			return nil, why
		}
	}
	return &linkEnd{at, e.target, e.prober}, ""
}

// fullSize is the length of the longest frame that crosses the link, without
// its tag: what hosts send or, where the fleet file does not say what that is,
// what the smaller MTU of the two ports takes.
func (h *Health) fullSize(ctx context.Context, ends [2]*linkEnd) (func(tag int) int, error) {
	const header = 14
	if n := longestFrame(h.Fleet); n > 0 {
		return func(int) int { return header + n }, nil // a tag is part of it
	}
	least := 0
	for _, e := range ends {
		m, ok := e.target.(vendors.MTUSetter)
		if !ok {
			return nil, fmt.Errorf("%s: csig cannot read its MTU, and no host of the fleet file has one", e.at)
		}
		read, cancel := within(ctx, h.Limit)
		all, err := m.MTUs(read)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.at, err)
		}
		n, ok := all[e.at.Port]
		if !ok {
			return nil, fmt.Errorf("%s: csig cannot read its MTU, and no host of the fleet file has one", e.at)
		}
		if least == 0 || n < least {
			least = n
		}
	}
	return func(tag int) int { return header + least + tag }, nil
}

// probeTags are what a sender host puts on frames of the domain: one tag of
// each format, with the initial S and no locator (draft-00 §4.1.3).
func probeTags(p *quantize.Profile, sig quantize.Signal) ([]quantize.Tag, error) {
	var out []quantize.Tag
	if p.TPID != 0 {
		out = append(out, quantize.Tag{TPID: p.TPID, T: sig, S: uint32(p.Initial(sig)), LM: p.Layout.LMNone()})
	}
	if p.WideTPID != 0 {
		out = append(out, quantize.Tag{TPID: p.WideTPID, Wide: true, T: sig, S: sig.WideInitial(), LM: uint16(1<<p.Layout.WideLMBits() - 2)})
	}
	if len(out) == 0 {
		return nil, errors.New("the profile has no TPID")
	}
	return out, nil
}

// tagsCross sends frames of every tag format one way, and wants them to arrive
// as the sending port's setup says.
func (h *Health) tagsCross(ctx context.Context, from, to *linkEnd, full func(tag int) int) error {
	read, cancel := within(ctx, h.Limit)
	setup, err := from.target.Observe(read)
	cancel()
	if err != nil {
		return fmt.Errorf("device %s: %w", from.at.Device, err)
	}
	strips := false
	for _, p := range setup.Ports {
		strips = strips || p.Port == from.at.Port && p.Action == vlanrules.Strip
	}
	prof := &h.Fleet.Profile
	var sig quantize.Signal
	for _, s := range quantize.Signals {
		if _, ok := prof.Signals[s]; ok {
			sig = s
			break
		}
	}
	tags, err := probeTags(prof, sig)
	if err != nil {
		return err
	}
	for _, tag := range tags {
		b, err := tag.Encode(prof.Layout)
		if err != nil {
			return err
		}
		sent := vendors.LinkFrame{Tag: b, Size: full(len(b))}
		got, err := h.cross(ctx, from, to, sent)
		switch {
		case errors.Is(err, errLost):
			return h.explain(ctx, from, to, sent)
		case err != nil:
			return fmt.Errorf("link %s to %s: %w", from.at, to.at, err)
		}
		if err := asSent(tag, &sent, &got, strips && (tag.TPID == setup.TPID || tag.TPID == setup.WideTPID), prof.Layout); err != nil {
			return fmt.Errorf("link %s to %s: %w", from.at, to.at, err)
		}
	}
	return nil
}

// asSent compares a frame that arrived with what the sending port makes of it:
// S and LM are its to change, T and R are not (draft-00 §4.1.3).
func asSent(tag quantize.Tag, sent, got *vendors.LinkFrame, strips bool, l quantize.Layout) error {
	switch {
	case strips && len(got.Tag) > 0:
		return fmt.Errorf("the port strips, and a frame of %d bytes arrives with its tag %x: look whether its program runs (csig plan)", sent.Size, got.Tag)
	case strips:
		if want := sent.Size - len(sent.Tag); got.Size != want {
			return fmt.Errorf("a frame of %d bytes arrives without its tag and with %d bytes, want %d", sent.Size, got.Size, want)
		}
		return nil
	case len(got.Tag) == 0:
		return fmt.Errorf("a frame of %d bytes arrives without its tag %x, and the port does not strip by its setup: look at VLAN settings of both ends", sent.Size, sent.Tag)
	case got.Size != sent.Size:
		return fmt.Errorf("a frame of %d bytes arrives with %d", sent.Size, got.Size)
	case len(got.Tag) != len(sent.Tag) || !bytes.Equal(got.Tag[:2], sent.Tag[:2]):
		return fmt.Errorf("the tag %x of a frame arrives as %x", sent.Tag, got.Tag)
	}
	back, err := quantize.DecodeTag(got.Tag, l, tag.Wide)
	if err != nil {
		return err
	}
	if back.T != tag.T || back.R != tag.R {
		return fmt.Errorf("the tag %x of a frame arrives as %x: T and R are not to change; look at what remarks PCP and DEI at either end", sent.Tag, got.Tag)
	}
	return nil
}

// explain finds out why full-size frames with their tag do not cross a link.
func (h *Health) explain(ctx context.Context, from, to *linkEnd, full vendors.LinkFrame) error {
	for _, try := range []struct {
		f    vendors.LinkFrame
		text string
	}{
		{vendors.LinkFrame{Tag: full.Tag}, "a short one with a tag does: raise the MTU of both ends so that frames of this size fit, or lower that of the hosts' routes and say so in the fleet file (hosts: mtu)"},
		{vendors.LinkFrame{}, "nor does a short one, while one without a tag does: something at either end drops this TPID; look at its VLAN and filter settings"},
	} {
		_, err := h.cross(ctx, from, to, try.f)
		switch {
		case err == nil:
			return fmt.Errorf("link %s to %s: a frame of %d bytes with its tag %x does not get through, %s", from.at, to.at, full.Size, full.Tag, try.text)
		case !errors.Is(err, errLost):
			return fmt.Errorf("link %s to %s: %w", from.at, to.at, err)
		}
	}
	return fmt.Errorf("link %s to %s: a frame of %d bytes with its tag does not get through, nor does any other, while one did before the wave: look whether the link is up at both ends", from.at, to.at, full.Size)
}

// errLost says that a test frame did not arrive.
var errLost = errors.New("it does not arrive")

// cross sends a test frame over a link until it arrives, and returns it as it
// does.
func (h *Health) cross(ctx context.Context, from, to *linkEnd, f vendors.LinkFrame) (vendors.LinkFrame, error) {
	h.links.nonce++
	f.Nonce = h.links.nonce
	l, err := to.prober.ListenLink(ctx, to.at.Port)
	if err != nil {
		return f, err
	}
	defer l.Close()
	for range linkTries {
		if err := from.prober.SendLink(ctx, from.at.Port, f); err != nil {
			return f, err
		}
		got, err := hear(ctx, l, f.Nonce)
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return got, err
		}
	}
	return f, errLost
}

// hear waits a moment for one test frame.
func hear(ctx context.Context, l vendors.LinkListener, nonce uint64) (vendors.LinkFrame, error) {
	ctx, cancel := context.WithTimeout(ctx, linkWait)
	defer cancel()
	for {
		f, err := l.Next(ctx)
		if err != nil || f.Nonce == nonce {
			return f, err
		}
	}
}
