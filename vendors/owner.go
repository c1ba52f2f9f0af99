package vendors

import (
	"context"
	"fmt"
	"net"
)

// Owner is what drivers know of a device that several controllers may drive, one at a time.
type Owner struct {
	// MayWrite is nil while something may be sent to the device. It is asked before every
	// write: a process may have been stopped for any time since it last looked.
	MayWrite func() error

	// Token is higher for each owner of the device than for the one before. Where the device
	// knows an order of writers it refuses those with a lower one (fencing).
	Token uint64

	// Logins are kept for the next owner, which ends them where the device tells by whom a
	// command is given and not which owner's it is.
	Logins Logins
}

// Logins are those at a device that may still send something, as the device names them: of
// former owners and of the present one.
type Logins interface {
	Open() []string

	// Keep replaces them. It returns when the next owner will find them.
	Keep(ctx context.Context, logins []string) error
}

// KeptLogins are its Logins; nil: no other drives the device.
func (o *Owner) KeptLogins() Logins {
	if o == nil {
		return nil
	}
	return o.Logins
}

// Guard returns a Config.Dial whose connections send nothing that the owner may not.
func (o *Owner) Guard() func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if err := BoundUnsent(c); err != nil {
			c.Close()
			return nil, fmt.Errorf("bound how long unsent data is kept: %w", err)
		}
		return &guarded{c, o}, nil
	}
}

type guarded struct {
	net.Conn
	owner *Owner
}

func (g *guarded) Write(b []byte) (int, error) {
	if err := g.owner.MayWrite(); err != nil {
		return 0, err
	}
	return g.Conn.Write(b)
}
