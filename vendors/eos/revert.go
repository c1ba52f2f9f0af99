package eos

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// StartRevert has the next change of the setup committed on trial: the switch takes it back
// unless it is confirmed in time (commit timer).
func (d *Driver) StartRevert(ctx context.Context, after time.Duration) (string, error) {
	if err := d.connect(ctx); err != nil {
		return "", err
	}
	pending, err := d.sessions(ctx, onTrial)
	if err != nil {
		return "", err
	}
	for _, name := range pending {
		if err := d.send(ctx, "configure session "+name+" commit"); err != nil {
			return "", err
		}
	}
	d.trial = &trial{vendors.NewToken(), after}
	return d.trial.token, nil
}

// Confirm keeps the change.
func (d *Driver) Confirm(ctx context.Context, token string) error {
	if err := d.connect(ctx); err != nil {
		return err
	}
	if d.trial != nil && d.trial.token == token { // nothing was changed
		d.trial = nil
		return nil
	}
	pending, err := d.sessions(ctx, onTrial)
	if err != nil {
		return err
	}
	for _, name := range pending {
		if name == sessionName(token) {
			return d.send(ctx, "configure session "+name+" commit")
		}
	}
	return fmt.Errorf("%w: the switch has no commit of this change on trial", vendors.ErrReverted)
}

// PendingRevert returns a *PendingRevertError while a commit is on trial. The time that is
// left is not read.
func (d *Driver) PendingRevert(ctx context.Context) error {
	if err := d.connect(ctx); err != nil {
		return err
	}
	pending, err := d.sessions(ctx, onTrial)
	if err == nil && len(pending) > 0 {
		err = &vendors.PendingRevertError{}
	}
	return err
}

// States of a configuration session.
const (
	waiting = "pending"
	onTrial = "pendingCommitTimer"
)

var ownSession = regexp.MustCompile(`^csig-[0-9a-f]{16}$`)

// sessions are csig's configuration sessions in a state.
func (d *Driver) sessions(ctx context.Context, state string) (names []string, err error) {
	lines, err := d.session.Run(ctx, "show configuration sessions")
	if err != nil {
		return nil, err
	}
	for _, line := range lines {
		w := strings.Fields(strings.TrimLeft(line, " *"))
		if len(w) >= 2 && ownSession.MatchString(w[0]) && w[1] == state {
			names = append(names, w[0])
		}
	}
	return names, nil
}

// abandon aborts what sessions that broke off have left: a switch keeps a few.
func (d *Driver) abandon(ctx context.Context) error {
	left, err := d.sessions(ctx, waiting)
	for _, name := range left {
		err = errors.Join(err, d.send(ctx, "configure session "+name+" abort"))
	}
	return err
}
