package ofp

import (
	"context"
	"net"
)

// Dialed is a connection of one user's own with a switch that is dialed: connect makes it
// at its first call, and again where it has broken; done closes it.
func Dialed(dial func(ctx context.Context) (net.Conn, error), version Version) (connect func(ctx context.Context) (*Conn, error), done func() error) {
	var of *Conn
	connect = func(ctx context.Context) (*Conn, error) {
		if of != nil && of.Err() == nil {
			return of, nil
		}
		c, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		of, err = NewConn(ctx, c, version)
		return of, err
	}
	return connect, func() error {
		if of == nil {
			return nil
		}
		return of.Close()
	}
}
