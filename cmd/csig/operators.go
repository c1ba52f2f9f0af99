package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/plans/rollout"
)

// operator is who runs this command.
func operator(what string) api.Operator {
	who := fmt.Sprintf("uid %d", os.Geteuid())
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "a machine without a name"
	}
	return api.Operator{Who: cmp.Or(os.Getenv("SUDO_USER"), who) + "@" + host, What: what, Since: time.Now().UTC()}
}

// journalOperator is who goes on with a journal: on one machine it is one operator, also after a
// kill.
func journalOperator(command string, j *rollout.Journal) *api.Operator {
	op := operator("csig " + command + " of plan " + j.Plan().Fleet)
	op.Session = j.ID() + " " + op.Who
	return &op
}

// together does what is to be done with a journal while no other operator changes the devices
// that are held, and keeps the journal where the others find it: at its own devices.
func together(ctx context.Context, run *rollout.Run, devices, held []string, show *progress, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	release, err := run.Hold(ctx, held, func(err error) bool { return errors.Is(err, api.ErrLocked) }, cancel)
	if err != nil {
		return err
	}
	defer release()
	shared, end, err := run.Share(ctx, devices)
	if err != nil {
		return err
	}
	defer end()
	if shared {
		show.print("Journal for all operators: " + run.Journal.ID())
	}
	return do(ctx)
}
