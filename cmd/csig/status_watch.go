package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/vlanrules"
)

// silence is how long an agent may send nothing before it counts as not answering.
// A healthy one answers at once, and sends a watcher a status each second.
const silence = 2 * time.Second

// watchOrAsk shows one status, or all until the command ends; the last one again each
// second while the agent that is watched does not answer, with since when.
func watchOrAsk(cmd *cobra.Command, c *api.Client, watch bool, show func(s *api.Status, silent time.Duration) error) error {
	if watch {
		err := watchStatus(cmd.Context(), c.Watch, show)
		if cmd.Context().Err() != nil {
			return nil // Ctrl-C is how a watch ends
		}
		return err
	}
	s, err := ask(cmd.Context(), c)
	if err != nil {
		return err
	}
	return show(s, 0)
}

func ask(ctx context.Context, c *api.Client) (*api.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	return c.Status(ctx)
}

// watchStatus calls show with what a watch brings, and with the last of it while it
// brings nothing for too long. An agent that never answers is an error.
func watchStatus(ctx context.Context, watch func(context.Context, func(*api.Status) error) error, show func(s *api.Status, silent time.Duration) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	statuses, ended := make(chan *api.Status), make(chan error, 1)
	go func() {
		ended <- watch(ctx, func(s *api.Status) error {
			select {
			case statuses <- s:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	var last *api.Status
	var at time.Time
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	for {
		select {
		case last = <-statuses:
			at = time.Now()
			if err := show(last, 0); err != nil {
				return err
			}
			quiet.Reset(silence)
		case err := <-ended:
			return err
		case <-quiet.C:
			if last == nil {
				return fmt.Errorf("%w: the agent hangs or is stopped, and its data plane falls back by itself when its lease ends; look at its process (ps, state T: kill -CONT resumes it) and its log, or kill and restart it", api.ErrNoAnswer)
			}
			if err := show(last, time.Since(at)); err != nil {
				return err
			}
			quiet.Reset(time.Second)
		}
	}
}

// silenceText reports that the agent does not answer, and the state of the lease in its
// last answer.
func silenceText(s *api.Status, silent time.Duration) string {
	text := fmt.Sprintf("NO ANSWER for %v: the agent hangs or is stopped. ", silent.Round(100*time.Millisecond))
	left := s.Cycle.LeaseEnds.Sub(s.Time) - silent
	switch {
	case s.Shadow:
		return text + "It is a shadow: nothing is programmed."
	case s.DataPlane == api.DataPlaneNative:
		return text + "The chip goes on measuring by itself; what is changed there is not restored."
	case leaseVerdict(s).Level == vlanrules.Refused.String() && s.Cycle.LeaseEnds.IsZero():
		return text + "It had written nothing yet."
	case leaseVerdict(s).Level == vlanrules.Refused.String():
		return text + "This device cannot expire rules: unless the agent continues, what was written last stays advertised; csig off ends that."
	case s.Cycle.LeaseEnds.IsZero():
		return text + "It had given no lease: a setup that is there has fallen back, or does so by itself: " + s.OnStale + "."
	case left > 0:
		return text + fmt.Sprintf("Its lease ends in %v unless it continues; then %s.", left.Round(100*time.Millisecond), s.OnStale)
	}
	return text + fmt.Sprintf("Its lease has ended, %v ago unless it was renewed meanwhile; unless another process changed it, the data plane has fallen back: %s.", -left.Round(100*time.Millisecond), s.OnStale)
}
