package setuponly

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/csig-agent/csig/vendors"
)

// MTUs are those that hold, in bytes as the switch counts them; ports without one are left out.
func (d *Driver) MTUs(ctx context.Context) (map[string]int, error) {
	c, err := d.look(ctx)
	if err != nil {
		return nil, err
	}
	out := make(map[string]int, len(c.Ports))
	for i := range c.Ports {
		if mtu := c.Ports[i].mtu(); mtu != 0 {
			out[c.Ports[i].Name] = mtu
		}
	}
	return out, nil
}

func (p *Port) mtu() int {
	if p.Now != 0 {
		return p.Now
	}
	return p.MTU
}

// SetMTU sets the MTU of a port, and records what it had; the MTU that held before csig
// brings back the configuration that was there. An MTU that another user has set since stays.
func (d *Driver) SetMTU(ctx context.Context, port string, mtu int) error {
	c, err := d.look(ctx)
	if err != nil {
		return err
	}
	r, err := c.record()
	if err != nil {
		return &vendors.PermanentError{Port: port, Err: fmt.Errorf("the record of the setup cannot be read: %w", err)}
	}
	p := c.port(port)
	if p == nil {
		return &vendors.PermanentError{Port: port, Err: errors.New("the switch has no such port")}
	}
	var e Edit
	b := r.Before[port]
	switch {
	case b.MTU != nil && b.MTUNow == mtu:
		if !r.oursMTU(p) && p.mtu() != mtu {
			return &vendors.PermanentError{Port: port, Err: &vendors.ForeignError{What: fmt.Sprintf("another user has set its MTU to %d since csig did: that stays", p.mtu())}}
		}
		r.mtuBack(&e, p)
	case p.mtu() == mtu:
		return nil
	default:
		if b.MTU == nil {
			was := p.MTU
			b.MTU, b.MTUNow = &was, p.mtu()
		}
		b.OursMTU = mtu
		r.Before[port] = b
		e.port(port).MTU = &mtu
	}
	bad, err := d.write(ctx, c, &e, r)
	return errors.Join(append(bad, err)...)
}

// l2Header is what some platforms count in an MTU, and csig does not: two addresses and a type.
const l2Header = 14

// WithHeader is an MTU as such a platform has it.
func WithHeader(mtu int) int { return mtu + l2Header }

// WithoutHeader is an MTU of such a platform without the L2 header; 0 for what is none.
func WithoutHeader(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil || n <= l2Header {
		return 0
	}
	return n - l2Header
}
