package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans/rollout"
	"github.com/csig-agent/csig/probe"
	"github.com/csig-agent/csig/quantize"
)

// How long a probe over a path may take, and how often it is sent before it is
// lost.
const (
	pathWait  = 100 * time.Millisecond
	pathTries = 10
)

// pathProber sends probes between hosts that are this machine, or network
// namespaces of it.
func pathProber(fleet *inventory.Fleet) rollout.PathProber {
	return func(ctx context.Context, p rollout.Path, mtu int) (rollout.PathAnswer, error) {
		var a rollout.PathAnswer
		from, err := rollout.ProbedHost(fleet, p.From)
		if err != nil {
			return a, err
		}
		to, err := rollout.ProbedHost(fleet, p.To)
		if err != nil {
			return a, err
		}
		return probePath(ctx, &fleet.Profile, from, to, mtu)
	}
}

func probePath(ctx context.Context, prof *quantize.Profile, from, to *inventory.Host, mtu int) (a rollout.PathAnswer, err error) {
	var listener *probe.Listener
	var far *net.Interface
	err = atHost(to, func(nic *net.Interface) (err error) {
		far = nic
		listener, err = probe.NewListener(probe.ListenerConfig{Interface: nic.Name, Profile: prof})
		return err
	})
	if err != nil {
		return a, err
	}
	defer listener.Close()
	var plain, tagged *probe.Sender
	err = atHost(from, func(nic *net.Interface) (err error) {
		const header = 14
		fits := min(nic.MTU, far.MTU)
		if mtu > 0 {
			fits = min(fits, mtu)
		}
		cfg := probe.SenderConfig{Interface: nic.Name, Dst: far.HardwareAddr, Profile: prof, Size: header + fits}
		a.Size = cfg.Size
		if tagged, err = probe.NewSender(cfg); err == nil {
			cfg.Format = probe.Untagged
			plain, err = probe.NewSender(cfg)
		}
		return err
	})
	if tagged != nil {
		defer tagged.Close()
	}
	if err != nil {
		return a, err
	}
	defer plain.Close()

	got, sent, err := tryPath(ctx, plain, listener, quantize.MinABW)
	switch {
	case err != nil:
		return a, err
	case got == nil:
		a.Plain = "does not arrive"
	case got.Tagged:
		a.Plain = "arrives with one"
	default:
		want, err := (&probe.Frame{Dst: far.HardwareAddr, Src: got.Src, Payload: sent}).AppendTo(nil, prof.Layout, a.Size)
		if err != nil {
			return a, err
		}
		if !bytes.Equal(got.Bytes, want) {
			a.Plain = fmt.Sprintf("arrives altered, with %d bytes", len(got.Bytes))
		}
	}
	for _, sig := range quantize.Signals {
		if _, ok := prof.Signals[sig]; !ok {
			continue
		}
		got, _, err := tryPath(ctx, tagged, listener, sig)
		if err != nil {
			return a, err
		}
		t := rollout.PathTag{Signal: sig, Arrived: got != nil}
		if got != nil && got.Tagged {
			t.Tag = &got.Tag
		}
		a.Tags = append(a.Tags, t)
	}
	return a, nil
}

// tryPath sends a probe until one arrives; nil: none does.
func tryPath(ctx context.Context, s *probe.Sender, l *probe.Listener, sig quantize.Signal) (*probe.Received, probe.Payload, error) {
	for range pathTries {
		sent, err := s.Send(sig)
		if err != nil {
			return nil, sent, err
		}
		got, err := arrival(ctx, s, l, sent)
		if err != nil || got != nil {
			return got, sent, err
		}
	}
	return nil, probe.Payload{}, nil
}

// arrival waits a moment for a probe.
func arrival(ctx context.Context, s *probe.Sender, l *probe.Listener, sent probe.Payload) (*probe.Received, error) {
	waiting, cancel := context.WithTimeout(ctx, pathWait)
	defer cancel()
	for {
		got, err := l.Next(waiting)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case waiting.Err() != nil:
			return nil, nil
		case err != nil:
			return nil, err
		case got.Payload.Run == s.RunID() && got.Payload.Signal == sent.Signal && got.Payload.Seq == sent.Seq:
			return &got, nil
		}
	}
}

// atHost runs f where a host's network card is. What f opens stays there.
func atHost(h *inventory.Host, f func(*net.Interface) error) error {
	result := make(chan error)
	go func() {
		result <- func() error {
			if h.NetNS != "" {
				runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
				ns, err := os.Open(h.NetNS)
				if err != nil {
					return fmt.Errorf("its network namespace: %w", err)
				}
				defer ns.Close()
				if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
					return fmt.Errorf("enter network namespace %s: %w", h.NetNS, err)
				}
			}
			nic, err := net.InterfaceByName(h.Interface)
			if err != nil {
				return fmt.Errorf("interface %s: %w", h.Interface, err)
			}
			if len(nic.HardwareAddr) != 6 {
				return fmt.Errorf("interface %s has no Ethernet address", h.Interface)
			}
			return f(nic)
		}()
	}()
	if err := <-result; err != nil {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	return nil
}
