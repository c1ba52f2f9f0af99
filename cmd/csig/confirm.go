package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/plans/rollout"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// addYes adds the flag of commands that ask on a terminal before they change anything.
func addYes(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVarP(yes, "yes", "y", false, "do not ask; without a terminal csig never does")
}

// maxAnswer is how many bytes of an answer are read.
const maxAnswer = 100

// confirm shows what is going to be changed and asks whether to go on, where a person is at
// the terminal. Without one nothing is asked: scripts decide before they call. The error is
// of a person who does not want it, or of ctx; nothing was changed.
func confirm(ctx context.Context, cmd *cobra.Command, what string) error {
	in, ok := cmd.InOrStdin().(*os.File)
	out, shown := cmd.ErrOrStderr().(*os.File)
	if !ok || !shown || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return nil
	}
	if _, err := fmt.Fprintf(out, "%s\nContinue? [y/N] ", what); err != nil {
		return err
	}
	answer := make(chan string, 1)
	go func() { // a read of a terminal cannot be interrupted: at Ctrl-C it is left alone
		line, _ := bufio.NewReader(io.LimitReader(in, maxAnswer)).ReadString('\n')
		answer <- line
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(out)
		return &exitError{code: 3, err: fmt.Errorf("%s: nothing was changed", why(ctx))}
	case line := <-answer:
		if !strings.HasSuffix(line, "\n") { // its end, by Ctrl-D
			fmt.Fprintln(out)
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
	}
	return &exitError{code: 3, err: errors.New("not confirmed: nothing was changed")}
}

// question is what confirm shows before a journal is carried out or undone.
func question(j *rollout.Journal, command string, columns int) string {
	if command == "rollback" {
		names := j.ToUndo()
		for i := range names {
			names[i] = untrusted.Text(names[i], maxShown)
		}
		slices.SortFunc(names, inventory.CompareNames)
		return strings.TrimSuffix(wrap(fmt.Sprintf("csig rollback gives %s back what they had before the plan: %s", count(len(names), "device"), briefly(names)), columns, 2), "\n")
	}
	p := printable(j.Plan())
	var stages []string
	for _, s := range p.Stages {
		stages = append(stages, untrusted.Text(s.Name, maxShown))
	}
	steps := 0
	for range p.Steps() {
		steps++
	}
	goal := "rolls out"
	if p.Goal == plans.TakeOff {
		goal = "takes off"
	}
	text := fmt.Sprintf("Order: %s, in %s", strings.Join(stages, ", "), count(steps, "step"))
	if done := j.Count(rollout.EventDone); done > 0 {
		text += fmt.Sprintf("; %d of them done before", done)
	}
	return wrap(fmt.Sprintf("csig apply %s what was planned at %s%s:", goal, p.Created.Local().Format(time.DateTime), targeted(p)), columns, 2) +
		changesText(p, nil, columns) + "\n" + wrap(planTotal(p), columns, 2) + strings.TrimSuffix(wrap(text, columns, 2), "\n")
}

// maxShown is how much of a text of a plan is shown, in bytes.
const maxShown = 1000

// printable is what changesText shows of a plan, for a terminal: a plan may come from anywhere.
func printable(p *plans.Plan) *plans.Plan {
	out := *p
	out.Devices = slices.Clone(p.Devices)
	for i := range out.Devices {
		d := &out.Devices[i]
		for _, s := range []*string{&d.Device, &d.Platform, &d.Via, &d.Level, &d.Reason} {
			*s = untrusted.Text(*s, maxShown)
		}
		d.Changes = slices.Clone(d.Changes)
		for k := range d.Changes {
			c := &d.Changes[k]
			for _, s := range []*string{&c.Kind, &c.Ports, &c.What, &c.Detail, &c.Disruptive} {
				*s = untrusted.Text(*s, maxShown)
			}
		}
	}
	return &out
}
