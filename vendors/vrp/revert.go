package vrp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/vendors"
)

var _ vendors.AutoReverter = (*Driver)(nil)

// A trial run is 60 to 65,535 s long (CloudEngine 8800 and 6800 V300R023C00 Command
// Reference, commit). applyWithin is how long one of Apply's is.
const (
	minTrial    = time.Minute
	maxTrial    = 65535 * time.Second
	applyWithin = 2 * time.Minute
)

// trial is an auto-revert that was started: commits are those of a trial run until it is
// confirmed.
type trial struct {
	id    string
	until time.Time
	begun bool // the switch has a commit of it
}

// commit is the line that has others take effect.
func (d *Driver) commit() (string, error) {
	t := d.trial
	if t == nil {
		return "commit", nil
	}
	left := time.Until(t.until)
	if left <= 0 {
		return "", fmt.Errorf("nothing was changed: %w", vendors.ErrReverted)
	}
	return fmt.Sprintf("commit trial %d persist %s", int(max(left, minTrial).Seconds()), t.id), nil
}

// committed is after the switch took a commit.
func (d *Driver) committed() {
	if d.trial != nil {
		d.trial.begun = true
	}
}

// StartRevert has the switch take back by itself what is committed from now on, unless it is
// confirmed in time: a minute at least, from the last commit on. Switches without commits have
// no such thing.
func (d *Driver) StartRevert(ctx context.Context, after time.Duration) (token string, err error) {
	switch {
	case !d.profile.commits:
		return "", fmt.Errorf("%s takes each line at once, and takes none back: %w", d.profile.runs, errors.ErrUnsupported)
	case after <= 0 || after > maxTrial:
		return "", fmt.Errorf("auto-revert after %v: want at most %v", after, maxTrial)
	}
	if d.trial != nil {
		if err := d.Confirm(ctx, d.trial.id); err != nil && !errors.Is(err, vendors.ErrReverted) {
			return "", err
		}
	}
	if err := d.PendingRevert(ctx); err != nil {
		return "", err
	}
	d.trial = &trial{id: "csig-" + vendors.NewToken(), until: time.Now().Add(after)}
	return d.trial.id, nil
}

// Confirm keeps what was committed, also over another session than that of the commits.
func (d *Driver) Confirm(ctx context.Context, token string) error {
	if t := d.trial; t != nil && t.id == token {
		if d.trial = nil; !t.begun {
			if time.Now().Before(t.until) {
				return nil // nothing was changed
			}
			return vendors.ErrReverted
		}
	}
	id, _, err := d.trialStatus(ctx)
	switch {
	case err != nil:
		return err
	case id != token:
		d.View = nil
		return vendors.ErrReverted
	}
	err = d.Session.Configure(ctx, []string{"commit persist " + token})
	if errors.As(err, new(*cli.RefusedError)) {
		if id, _, seen := d.trialStatus(ctx); seen == nil && id != token {
			d.View = nil
			return fmt.Errorf("%w: %w", vendors.ErrReverted, err)
		}
	}
	return err
}

// PendingRevert returns a *vendors.PendingRevertError while a trial run is under way, of
// whichever user.
func (d *Driver) PendingRevert(ctx context.Context) error {
	if !d.profile.commits {
		return nil
	}
	id, left, err := d.trialStatus(ctx)
	if err == nil && id != "" {
		return &vendors.PendingRevertError{Left: left}
	}
	return err
}

// trialStatus is which trial run is under way, "" for none, and what is left of its time.
func (d *Driver) trialStatus(ctx context.Context) (id string, left time.Duration, err error) {
	if err := d.Connect(ctx); err != nil {
		return "", 0, err
	}
	lines, err := d.Session.Run(ctx, "display configuration trial status")
	if err != nil {
		return "", 0, err
	}
	active := false
	for _, line := range lines {
		key, text, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch text = strings.TrimSpace(text); key {
		case "Trial status":
			active = text != "INACTIVE"
		case "Persist id":
			id = text
		case "Trial time left (sec)":
			n, _ := strconv.ParseUint(text, 10, 16) // 0 where it is none
			left = time.Duration(n) * time.Second
		}
	}
	if active && id == "" {
		id = "of a login"
	}
	if !active {
		id = ""
	}
	return id, left, nil
}

// onTrial makes a change that the switch takes back unless a new login reads the setup back
// in time: one that cuts csig off is not kept.
func (d *Driver) onTrial(ctx context.Context, change func() error) error {
	if d.trial != nil {
		return change()
	}
	token, err := d.StartRevert(ctx, applyWithin)
	if err != nil {
		return err
	}
	failed := change()
	if !d.trial.begun || d.Lost() {
		d.trial = nil
		return failed
	}
	d.trial = nil
	d.HangUp()
	if _, err := d.Look(ctx); err != nil {
		return errors.Join(failed, fmt.Errorf("over a new login after the change, which the switch takes back within %v: %w", applyWithin, err))
	}
	return errors.Join(failed, d.Confirm(ctx, token))
}
