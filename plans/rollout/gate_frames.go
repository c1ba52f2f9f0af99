package rollout

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// fullSizeCrosses sends full-size frames with their tags one way over a link
// that is not known to be dead.
func (h *Health) fullSizeCrosses(ctx context.Context, from, to *linkEnd, coming map[string]bool) wayResult {
	w := way{from.at, to.at}
	if why := h.links.dead[w]; why != "" {
		return wayResult{why: why}
	}
	full, err := h.fullSize(ctx, [2]*linkEnd{from, to})
	if err != nil {
		return wayResult{why: err.Error()}
	}
	if !h.links.alive[w] { // it could not be tried before the wave
		_, err = h.cross(ctx, from, to, vendors.LinkFrame{})
		if errors.Is(err, errLost) {
			return wayResult{why: fmt.Sprintf("no frame of any kind gets from %s to %s, and it could not be tested before the wave", from.at, to.at)}
		}
	}
	if err == nil {
		err = h.tagsCross(ctx, from, to, full)
	}
	switch {
	case err == nil:
		return wayResult{crossed: true}
	case errors.Is(err, vendors.ErrNotYet) && (coming[from.at.Device] || coming[to.at.Device]):
		return wayResult{} // a later wave tries it
	case errors.Is(err, vendors.ErrNotYet), errors.Is(err, errors.ErrUnsupported):
		return wayResult{why: err.Error()}
	}
	return wayResult{err: err}
}

// fullSize is the length of the longest frame that crosses the link, without
// its tag: what hosts send or, where the fleet file does not say what that is,
// what the smaller MTU of the two ports takes.
func (h *Health) fullSize(ctx context.Context, ends [2]*linkEnd) (func(tag int) int, error) {
	const header = 14
	if n := plans.LongestFrame(h.Fleet); n > 0 {
		return func(int) int { return header + n }, nil // a tag is part of it
	}
	least := 0
	for _, e := range ends {
		read, cancel := within(ctx, h.Limit)
		all, err := vendors.MTUs(read, e.target)
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
	h.links.mu.Lock()
	h.links.nonce++
	f.Nonce = h.links.nonce
	h.links.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Only the opening is limited: the listener ends with its context.
	limit := cmp.Or(h.Limit, time.Minute)
	opening := time.AfterFunc(limit, func() { cancel(fmt.Errorf("%s: not done within %v", to.at.Device, limit)) })
	began := time.Now()
	l, err := to.probes.ListenLink(ctx, to.at.Port)
	if err != nil || !opening.Stop() {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return f, err
	}
	defer l.Close()
	// What takes long to open is far away, and its answers take as long.
	wait := min(max(linkWait, 2*time.Since(began)), linkWaitMax)
	for range linkTries {
		if err := h.send(ctx, from, f); err != nil {
			return f, err
		}
		got, err := awaitFrame(ctx, l, f.Nonce, wait)
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return got, err
		}
	}
	return f, errLost
}

func (h *Health) send(ctx context.Context, from *linkEnd, f vendors.LinkFrame) error {
	ctx, cancel := within(ctx, h.Limit)
	defer cancel()
	return from.probes.SendLink(ctx, from.at.Port, f)
}

// awaitFrame waits a moment for one test frame.
func awaitFrame(ctx context.Context, l vendors.LinkListener, nonce uint64, wait time.Duration) (vendors.LinkFrame, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		f, err := l.Next(ctx)
		if err != nil || f.Nonce == nonce {
			return f, err
		}
	}
}
