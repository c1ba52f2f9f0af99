package qos

import (
	"context"
	"errors"
	"fmt"

	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/vendors"
)

var _ vendors.MTUSetter = (*Driver)(nil)

// MTUs are those of ports, without the L2 header, by what the switch reports of each port's longest frame. Ports of which it
// reports none are left out.
func (d *Driver) MTUs(ctx context.Context) (map[string]int, error) {
	if _, err := d.Look(ctx); err != nil {
		return nil, err
	}
	longest, err := d.longest(ctx)
	for port, n := range longest {
		if longest[port] = n - d.Overhead; n <= d.Overhead {
			delete(longest, port)
		}
	}
	return longest, err
}

// longest reads the longest frame of each port; none where the switch does not take the command.
func (d *Driver) longest(ctx context.Context) (map[string]int, error) {
	v := d.View // ports are those of the last look
	lines, err := d.Session.Run(ctx, "display interface")
	if errors.As(err, new(*cli.RefusedError)) && !d.Lost() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return ReadFrames(lines, func(name string) bool { return v.Port(name) != nil }), nil
}

// SetMTU has a port take frames of an MTU, and notes what it took. The MTU that it had before csig brings back the
// configuration that was there. One that another user has set since stays.
func (d *Driver) SetMTU(ctx context.Context, port string, mtu int) error {
	v, err := d.Look(ctx)
	if err != nil {
		return err
	}
	p := v.Port(port)
	switch {
	case p == nil:
		return &vendors.PermanentError{Port: port, Err: errors.New("the switch has no such interface")}
	case p.Member != "":
		return &vendors.PermanentError{Port: port, Err: errors.New(p.Member)}
	}
	longest, err := d.longest(ctx)
	if err != nil {
		return err
	}
	s, want := d.Script(), mtu+d.Overhead
	s.For(port)
	if err := s.Frames(d.Jumbo, framesAt(p, longest), want); err != nil {
		return &vendors.PermanentError{Port: port, Err: err}
	}
	if len(s.Lines) == 0 {
		return nil
	}
	if err := d.Write(ctx, s); err != nil {
		return errors.Join(err, d.untried(ctx, port, longest))
	}
	if longest, err = d.longest(ctx); err != nil {
		return err
	}
	if longest[port] != want {
		return &vendors.PortError{Port: port, Err: fmt.Errorf("its longest frame was set to %d bytes, and the switch reports %d", want, longest[port])}
	}
	return nil
}

// untried removes what SetMTU has noted of a length that the switch refused.
func (d *Driver) untried(ctx context.Context, port string, longest map[string]int) error {
	if d.Lost() {
		return nil
	}
	v, err := d.Look(ctx)
	if err != nil || v.Port(port) == nil {
		return err
	}
	return d.write(ctx, port, func(s *Script) { s.Untried(framesAt(v.Port(port), longest)) })
}

func framesAt(p *Port, longest map[string]int) Frames {
	return Frames{Port: p.Name, Line: p.Frames, Now: longest[p.Name]}
}

// framesBack gives ports the longest frames that they had before csig.
func (d *Driver) framesBack(ctx context.Context) error {
	if err := d.see(ctx); err != nil {
		return err
	}
	var noted []string
	for _, p := range d.View.Ports {
		if HasFrames(d.View.Behaviors, p.Name) {
			noted = append(noted, p.Name)
		}
	}
	var errs []error
	if len(noted) > 0 {
		longest, err := d.longest(ctx)
		if err != nil {
			return err
		}
		for _, name := range noted {
			if err := d.see(ctx); err != nil { // the last one was refused
				return errors.Join(append(errs, err)...)
			}
			p := d.View.Port(name)
			if p == nil { // its card was taken out meanwhile
				continue
			}
			if err := d.write(ctx, name, func(s *Script) { s.FramesBack(d.Jumbo, framesAt(p, longest)) }); err != nil {
				if errs = append(errs, err); d.Lost() {
					return errors.Join(errs...)
				}
			}
		}
	}
	if d.View == nil || len(errs) > 0 {
		return errors.Join(errs...)
	}
	return d.write(ctx, "", func(s *Script) { s.ForgetFrames() })
}
