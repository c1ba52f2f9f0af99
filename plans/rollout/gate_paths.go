package rollout

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// Path is a way through the fleet that the gate sends probes over, between two
// of its hosts.
type Path struct {
	From, To string
}

// String is FROM:TO.
func (p Path) String() string { return p.From + ":" + p.To }

// PathProber sends full-size frames from host to host, or shorter ones where
// less fits on the way: no more than mtu bytes after the L2 header, tag
// included; 0: as long as the hosts' network cards take. One goes without a tag,
// and one with the tag of each signal as a sender host begins with. The error is
// one of the hosts themselves; what gets lost is in the answer.
type PathProber func(ctx context.Context, p Path, mtu int) (PathAnswer, error)

// PathAnswer is what arrived.
type PathAnswer struct {
	Size  int    // bytes of the frames as they were sent, without FCS
	Plain string // what is wrong with the frame without a tag; "" when it arrived as it was sent
	Tags  []PathTag
}

// PathTag is the frame of one signal.
type PathTag struct {
	Signal  quantize.Signal
	Arrived bool
	Tag     *quantize.Tag // nil: it arrived without
}

// pathsBefore refuses paths that carry nothing before anything was changed.
func (h *Health) pathsBefore(ctx context.Context) error {
	if h.pathsTried {
		return nil
	}
	_, mtu := smallAfter(h.Plan, "")
	var errs []error
	for _, p := range h.Paths {
		a, err := h.ProbePath(ctx, p, mtu)
		if err == nil && a.Plain != "" {
			err = fmt.Errorf("a frame of %d bytes without a tag %s, before this wave: look whether both hosts are up and the path forwards frames of that size", a.Size, a.Plain)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("probe %s: %w", p, err))
		}
	}
	h.pathsTried = len(errs) == 0
	return errors.Join(errs...)
}

// pathsAfter wants frames without a tag to arrive unaltered, always, and tags
// to be gone where the port to the receiver strips by now, and to arrive once
// it is open.
func (h *Health) pathsAfter(ctx context.Context, wave string, j *Judgement) error {
	_, mtu := smallAfter(h.Plan, wave)
	var errs []error
	for _, p := range h.Paths {
		a, err := h.ProbePath(ctx, p, mtu)
		var text string
		if err == nil {
			text, err = h.judgePath(p, wave, &a)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("probe %s: %w", p, err))
			continue
		}
		j.Paths = append(j.Paths, p.String()+": "+text)
	}
	return errors.Join(errs...)
}

// tagExpectation is what has to become of tags on their way to a receiver.
type tagExpectation uint8

const (
	tagMay    tagExpectation = iota // nothing is expected yet
	tagGone                         // the port to it strips
	tagArrive                       // the path is open
)

// expectation says what has to become of tags to a host after a wave.
func (h *Health) expectation(host, wave string) tagExpectation {
	out := tagMay
	for i := range h.Fleet.Devices {
		d := &h.Fleet.Devices[i]
		for k := range d.Ports {
			if d.Ports[k].Peer.Device == host {
				out = max(out, h.portExpectation(d.Name, d.Ports[k].Name, wave))
			}
		}
	}
	return out
}

func (h *Health) portExpectation(device, port, wave string) tagExpectation {
	p := h.Plan.Device(device)
	if p == nil {
		return tagMay
	}
	setup, opened, last := &p.Observed, false, true
	for name, w := range h.Plan.EachWave() {
		for n := range w.Steps {
			if step := &w.Steps[n]; step.Device == device && len(step.MTU) == 0 {
				setup, opened = &step.Want, strings.HasPrefix(name, plans.StageOpen+"/")
			}
		}
		if name == wave {
			break
		}
	}
	for range h.Plan.StepsAfter(wave) {
		last = false
	}
	for _, q := range setup.Ports {
		switch {
		case q.Port != port:
		case q.Action == vlanrules.Strip:
			return tagGone
		case h.Plan.Goal == plans.RollOut && (opened || last):
			return tagArrive
		}
	}
	return tagMay
}

// judgePath holds what arrived against what is expected.
func (h *Health) judgePath(p Path, wave string, a *PathAnswer) (string, error) {
	if a.Plain != "" {
		return "", fmt.Errorf("a frame of %d bytes without a tag %s: ordinary traffic is affected; csig rollback undoes it", a.Size, a.Plain)
	}
	expected := h.expectation(p.To, wave)
	var tags []string
	for i := range a.Tags {
		t := &a.Tags[i]
		switch {
		case !t.Arrived:
			return "", fmt.Errorf("a frame of %d bytes with the tag of %s does not arrive, one without does: frames with a tag are lost on the path, because of its TPID or because it is %d bytes too long somewhere", a.Size, t.Signal, 4)
		case t.Tag == nil && expected == tagArrive:
			return "", fmt.Errorf("the tag of %s does not arrive, while every port that faces %s is to leave it in by now: a device on the path drops it; csig assess says what each does", t.Signal, p.To)
		case t.Tag != nil && expected == tagGone:
			return "", fmt.Errorf("a tag of %s arrives, while the port that faces %s strips by its setup: the receiver takes a path for capable that is not; look at that port with csig plan", t.Signal, p.To)
		case t.Tag != nil:
			text, err := h.plausible(p, t)
			if err != nil {
				return "", err
			}
			tags = append(tags, text)
		}
	}
	if len(tags) == 0 {
		return "frames unaltered, no tag arrives", nil
	}
	return "frames unaltered, " + strings.Join(tags, ", "), nil
}

// plausible tells what a tag says, or why no path makes such a tag: S is as the
// sender gave it or was replaced by a port of the path, which then left its
// locator (draft-00 §4.1.3.3).
func (h *Health) plausible(p Path, t *PathTag) (string, error) {
	prof := &h.Fleet.Profile
	l, tag := prof.Layout, t.Tag
	switch {
	case tag.T != t.Signal:
		return "", fmt.Errorf("the tag of %s arrives as one of %s: T is not to change; look at what remarks PCP on the path", t.Signal, tag.T)
	case tag.LM == l.LMNone() && tag.S == uint32(prof.Initial(t.Signal)):
		return fmt.Sprintf("%s as it was sent", t.Signal), nil
	case tag.LM == l.LMNone():
		return "", fmt.Errorf("the tag of %s arrives with S=%d, which was %d, and without a locator: something else than csig wrote it", t.Signal, tag.S, prof.Initial(t.Signal))
	case tag.LM == l.LMStale():
		return fmt.Sprintf("%s S=%d from a port without an agent", t.Signal, tag.S), nil
	}
	ports, err := h.Fleet.Candidates(t.Signal, tag.LM, p.From, p.To)
	if err != nil {
		return "", err
	}
	if len(ports) == 0 {
		return "", fmt.Errorf("the tag of %s arrives with S=%d and locator %d, which no port on a path from %s to %s has: frames take a way that the fleet file does not know, or something else writes them", t.Signal, tag.S, tag.LM, p.From, p.To)
	}
	names := make([]string, len(ports))
	for i := range ports {
		names[i] = ports[i].String()
	}
	return fmt.Sprintf("%s S=%d from %s", t.Signal, tag.S, strings.Join(names, " or ")), nil
}

// ProbedHost is the host of a path, which csig has to get at. The error says
// what to write in the fleet file.
func ProbedHost(f *inventory.Fleet, name string) (*inventory.Host, error) {
	h, ok := f.Host(name)
	switch {
	case !ok:
		return nil, fmt.Errorf("%s has no host %s", f.Path, name)
	case h.Interface == "" || !h.Local && h.NetNS == "":
		return nil, fmt.Errorf("csig cannot get at host %s: give it an interface in %s, with local: true where it is this machine, or management: {netns: PATH}", name, f.Path)
	}
	return h, nil
}
