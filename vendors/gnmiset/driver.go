package gnmiset

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/openconfig/gnmi/proto/gnmi_ext"

	"github.com/csig-agent/csig/counters/gnmi"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/setuponly"
)

// Driver drives one switch. Its methods are not safe for concurrent use.
type Driver struct {
	*setuponly.Driver
	s *session
}

var (
	_ vendors.Driver       = (*Driver)(nil)
	_ vendors.MTUSetter    = (*Driver)(nil)
	_ vendors.AutoReverter = (*Driver)(nil)
)

// Open returns a driver that connects when it is first used.
func Open(p setuponly.Platform, m *Model, cfg Config) *Driver {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &session{cfg: cfg, model: m}
	return &Driver{setuponly.Open(p, s, cfg.Now), s}
}

// Unsupported is why a target that does not know the extension has no auto-revert.
const Unsupported = "the target does not know gNMI's commit-confirmed extension (it passed over the confirmation of a commit that there was not, which is FAILED_PRECONDITION by gnmi-commit-confirmed.md §3.2.2)"

// Probe finds out what the switch is, and whether it takes changes back that are not
// confirmed.
func (d *Driver) Probe(ctx context.Context) (vendors.Facts, error) {
	f, err := d.Driver.Probe(ctx)
	if err != nil {
		return f, err
	}
	switch d.s.knows, err = d.s.ask(ctx); {
	case errors.Is(err, gnmi.ErrCredentials):
		d.s.knows, err = unasked, nil
		f.Notes = append(f.Notes, "this gNMI user may read the configuration, and not change it")
	case err != nil:
	case d.s.knows == unknown:
		f.Traits.Revert = vendors.Fact[string]{Source: vendors.Source{Mark: vendors.Read, From: "asked of the device: " + Unsupported}}
		f.Notes = append(f.Notes, Unsupported+": a change that cuts csig off is not taken back")
	default:
		f.Notes = append(f.Notes, fmt.Sprintf("each change is confirmed over a new connection within %v, and else taken back by the target", d.s.confirmWithin()))
	}
	return f, err
}

// revert is an auto-revert that was started: what is written until it is confirmed is one
// commit.
type revert struct {
	id    string
	until time.Time
	base  []string       // parts of the record when it was started
	edit  setuponly.Edit // since then
	begun bool           // the target has a commit of it
	lost  bool           // it had one, which was cancelled for a change that it refused
}

// StartRevert has the next change be a commit that the target takes back by itself. Nothing is
// sent until then but the question whether the target can.
func (d *Driver) StartRevert(ctx context.Context, after time.Duration) (string, error) {
	s := d.s
	if err := s.connect(ctx); err != nil {
		return "", err
	}
	if r := s.revert; r != nil {
		if err := d.Confirm(ctx, r.id); err != nil && !errors.Is(err, vendors.ErrReverted) {
			return "", err
		}
	}
	if _, err := s.Read(ctx); err != nil {
		return "", err
	}
	knows, err := s.ask(ctx)
	switch {
	case err != nil:
		return "", err
	case knows == unknown:
		return "", fmt.Errorf("%s: %w", Unsupported, errors.ErrUnsupported)
	case knows == waits:
		return "", &vendors.PendingRevertError{}
	}
	s.revert = &revert{id: "csig-" + vendors.NewToken(), until: s.cfg.Now().Add(after), base: s.parts}
	return s.revert.id, nil
}

// writeReverting is Write under an auto-revert.
func (s *session) writeReverting(ctx context.Context, e *setuponly.Edit) error {
	r := s.revert
	left := r.until.Sub(s.cfg.Now())
	if left <= 0 {
		return fmt.Errorf("nothing was changed: %w", vendors.ErrReverted)
	}
	all := r.edit.Then(e)
	req, err := s.request(&all, r.base)
	if err != nil {
		return err
	}
	if r.begun {
		err := s.commit(ctx, s.target, &gnmi_ext.Commit{Id: r.id, Action: &gnmi_ext.Commit_Cancel{Cancel: &gnmi_ext.CommitCancel{}}})
		if refusedSet(err) {
			return fmt.Errorf("nothing was changed: %w: %w", vendors.ErrReverted, err)
		}
		if err != nil {
			return err
		}
		r.begun, r.lost = false, true
	}
	req.Extension = append(req.Extension, start(r.id, left))
	if err := s.target.Set(ctx, req); err != nil {
		r.begun = !refusedSet(err)
		return permanent(err)
	}
	r.begun, r.lost, r.edit = true, false, all
	return nil
}

// Confirm keeps the configuration as it is now.
func (d *Driver) Confirm(ctx context.Context, token string) error {
	s := d.s
	if err := s.connect(ctx); err != nil {
		return err
	}
	if r := s.revert; r != nil && r.id == token && !r.begun {
		s.revert = nil
		if !r.lost && s.cfg.Now().Before(r.until) {
			return nil // nothing was changed
		}
		return vendors.ErrReverted
	}
	err := s.commit(ctx, s.target, &gnmi_ext.Commit{Id: token, Action: &gnmi_ext.Commit_Confirm{Confirm: &gnmi_ext.CommitConfirm{}}})
	switch {
	case refusedSet(err):
		err = fmt.Errorf("%w: %w", vendors.ErrReverted, err)
	case err != nil:
		return err
	}
	if s.revert != nil && s.revert.id == token {
		s.revert = nil
	}
	return err
}

// PendingRevert returns a *vendors.PendingRevertError while a commit waits, of any client.
// Where the user may not ask, it returns nil.
func (d *Driver) PendingRevert(ctx context.Context) error {
	s := d.s
	if err := s.connect(ctx); err != nil {
		return err
	}
	knows, err := s.ask(ctx)
	switch {
	case errors.Is(err, gnmi.ErrCredentials):
		return nil
	case err != nil:
		return err
	case knows == waits && s.revert != nil && s.revert.begun:
		return &vendors.PendingRevertError{Left: s.revert.until.Sub(s.cfg.Now())}
	case knows == waits:
		return &vendors.PendingRevertError{}
	}
	return nil
}
