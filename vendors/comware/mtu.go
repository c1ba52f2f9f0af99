package comware

import (
	"context"
	"errors"
	"fmt"

	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/qos"
)

var _ vendors.MTUSetter = (*Driver)(nil)

// jumbo is what Comware does by jumboframe enable (jumboText).
var jumbo = qos.Jumbo{Denies: true}

// overhead is what a switch counts in its longest frame beside csig's MTU: the L2 header and
// the FCS, and the VLAN tag that stands in front of an inner CSIG tag.
func (d *Driver) overhead() int {
	const header, fcs, vlanTag = 14, 4, 4
	if d.at() == inner {
		return header + vlanTag + fcs
	}
	return header + fcs
}

// MTUs are those of ports, without the L2 header, by what the switch reports of each port's
// longest frame. Ports of which it reports none are left out.
func (d *Driver) MTUs(ctx context.Context) (map[string]int, error) {
	v, err := d.look(ctx)
	if err != nil {
		return nil, err
	}
	longest, err := d.longest(ctx, v)
	for port, n := range longest {
		if longest[port] = n - d.overhead(); longest[port] <= 0 {
			delete(longest, port)
		}
	}
	return longest, err
}

// longest reads the longest frame of each port; none where the switch does not take the
// command.
func (d *Driver) longest(ctx context.Context, v *view) (map[string]int, error) {
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
	v, err := d.look(ctx)
	if err != nil {
		return err
	}
	if v.Port(port) == nil {
		return permanent(port, errors.New("the switch has no such interface"))
	}
	longest, err := d.longest(ctx, v)
	if err != nil {
		return err
	}
	s, want := d.script(), mtu+d.overhead()
	if err := s.Frames(jumbo, framesAt(v.Port(port), longest), want); err != nil {
		return permanent(port, err)
	}
	if len(s.Lines) == 0 {
		return nil
	}
	d.view = nil // what it has then is read back
	if err := d.write(ctx, port, s.Lines); err != nil {
		return errors.Join(err, d.untried(ctx, port, longest))
	}
	if longest, err = d.longest(ctx, v); err != nil {
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
	v, err := d.look(ctx)
	if err != nil || v.Port(port) == nil {
		return err
	}
	return d.carryOut(ctx, d.shared(func(s *script) { s.Untried(framesAt(v.Port(port), longest)) }))
}

func framesAt(p *qos.Port, longest map[string]int) qos.Frames {
	return qos.Frames{Port: p.Name, Line: p.Frames, Now: longest[p.Name]}
}

// framesBack gives ports the longest frames that they had before csig.
func (d *Driver) framesBack(ctx context.Context) error {
	if d.view == nil {
		if _, err := d.look(ctx); err != nil {
			return err
		}
	}
	var noted []string
	for _, p := range d.view.Ports {
		if qos.HasFrames(d.view.Behaviors, p.Name) {
			noted = append(noted, p.Name)
		}
	}
	if len(noted) > 0 {
		longest, err := d.longest(ctx, d.view)
		if err == nil {
			err = d.each(ctx, noted, func(name string) (*change, error) {
				if d.view.Port(name) == nil { // its card was taken out meanwhile
					return nil, nil
				}
				c := d.shared(func(s *script) { s.FramesBack(jumbo, framesAt(s.view.Port(name), longest)) })
				c.port = name
				return c, nil
			})
		}
		if err != nil {
			return err
		}
	}
	return d.carryOut(ctx, d.shared(func(s *script) { s.ForgetFrames() }))
}
