package vrp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/qos"
)

var _ vendors.MTUSetter = (*Driver)(nil)

// jumbo is what VRP does by jumboframe enable (jumboText).
var jumbo qos.Jumbo

// overhead is what a switch counts in its longest frame beside csig's MTU: the L2 header and the
// FCS. A CSIG tag here is the outer one.
const overhead = 14 + 4

// MTUs are those of ports, without the L2 header, by what the switch reports of each port's
// longest frame. Ports of which it reports none are left out.
func (d *Driver) MTUs(ctx context.Context) (map[string]int, error) {
	if err := d.look(ctx); err != nil {
		return nil, err
	}
	longest, err := d.longest(ctx)
	for port, n := range longest {
		if longest[port] = n - overhead; n <= overhead {
			delete(longest, port)
		}
	}
	return longest, err
}

// longest reads the longest frame of each port; none where the switch does not take the
// command.
func (d *Driver) longest(ctx context.Context) (map[string]int, error) {
	v := d.view // ports are those of the last look
	lines, err := d.session.Run(ctx, "display interface")
	if errors.As(err, new(*cli.RefusedError)) && !d.lost() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return qos.ReadFrames(lines, func(name string) bool { return v.Port(name) != nil }), nil
}

// SetMTU has a port take frames of an MTU, and notes what it took. The MTU that it had before
// csig brings back the configuration that was there. One that another user has set since stays.
func (d *Driver) SetMTU(ctx context.Context, port string, mtu int) error {
	if err := d.look(ctx); err != nil {
		return err
	}
	p := d.view.Port(port)
	if p == nil {
		return &vendors.PermanentError{Port: port, Err: errors.New("the switch has no such interface")}
	}
	if strings.HasPrefix(p.Blocked, memberOf) {
		return &vendors.PermanentError{Port: port, Err: errors.New(p.Blocked + ", which has the longest frame of its members, too")}
	}
	longest, err := d.longest(ctx)
	if err != nil {
		return err
	}
	s, want := d.script(), mtu+overhead
	if err := s.Frames(jumbo, framesAt(p, longest), want); err != nil {
		return &vendors.PermanentError{Port: port, Err: err}
	}
	if len(s.Lines) == 0 {
		return nil
	}
	if err := d.write(ctx, s); err != nil {
		return errors.Join(d.atPort(port, err), d.untried(ctx, port, longest))
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
	if d.lost() {
		return nil
	}
	if err := d.look(ctx); err != nil || d.view.Port(port) == nil {
		return err
	}
	s := d.script()
	s.Untried(framesAt(d.view.Port(port), longest))
	return d.write(ctx, s)
}

// atPort makes what the switch refused a port's error.
func (d *Driver) atPort(port string, err error) error {
	if d.lost() {
		return err
	}
	return &vendors.PortError{Port: port, Err: err}
}

func framesAt(p *qos.Port, longest map[string]int) qos.Frames {
	return qos.Frames{Port: p.Name, Line: p.Frames, Now: longest[p.Name]}
}

// framesBack gives ports the longest frames that they had before csig.
func (d *Driver) framesBack(ctx context.Context) error {
	if d.view == nil {
		if err := d.look(ctx); err != nil {
			return err
		}
	}
	var noted []string
	for _, p := range d.view.Ports {
		if qos.HasFrames(d.view.Behaviors, p.Name) {
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
			if d.view == nil { // the last one was refused
				if err := d.look(ctx); err != nil {
					return errors.Join(append(errs, err)...)
				}
			}
			s, p := d.script(), d.view.Port(name)
			if p == nil { // its card was taken out meanwhile
				continue
			}
			s.FramesBack(jumbo, framesAt(p, longest))
			if err := d.write(ctx, s); err != nil {
				if errs = append(errs, d.atPort(name, err)); d.lost() {
					return errors.Join(errs...)
				}
			}
		}
	}
	if d.view == nil {
		return errors.Join(errs...)
	}
	s := d.script()
	s.ForgetFrames()
	return errors.Join(append(errs, d.write(ctx, s))...)
}
