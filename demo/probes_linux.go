package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/csig-agent/csig/probe"
)

// listen opens the probes' two ends: first the receiver, which must not miss
// the first one.
func (r *runner) listen() (l *probe.Listener, err error) {
	rx, tx := r.path.receiver, r.path.sender
	err = tx.Node().Do(func() (err error) {
		r.sender, err = probe.NewSender(probe.SenderConfig{
			Interface: tx.Name, Dst: rx.MAC, Profile: &r.fleet.Profile, Signals: signals[:], Size: probeSize,
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("probe sender: %w", err)
	}
	err = rx.Node().Do(func() (err error) {
		l, err = probe.NewListener(probe.ListenerConfig{Interface: rx.Name, Profile: &r.fleet.Profile, RunID: r.sender.RunID()})
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("probe listener: %w", err), r.sender.Close())
	}
	return l, nil
}

// receive hands on what arrives, and captures it, until ctx ends.
func (r *runner) receive(ctx context.Context, l *probe.Listener, out chan<- received) error {
	var capture *probe.Capture
	if r.o.PCAP != nil {
		var err error
		if capture, err = probe.NewCapture(r.o.PCAP); err != nil {
			return fmt.Errorf("capture: %w", err)
		}
	}
	for {
		f, err := l.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("receiving probes: %w", err)
		}
		if capture != nil {
			if err := capture.Write(f.At, f.Bytes); err != nil {
				return fmt.Errorf("capture: %w", err)
			}
		}
		sig := slices.Index(signals[:], f.Payload.Signal)
		if sig < 0 {
			continue // not one of ours
		}
		select {
		case out <- received{sent: f.Payload.Sent, at: f.At, sig: sig, seq: f.Payload.Seq, tagged: f.Tagged, tag: f.Tag}:
		case <-ctx.Done():
			return nil
		}
	}
}
