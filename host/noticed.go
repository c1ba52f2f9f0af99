package host

import (
	"context"
	"errors"

	"github.com/csig-agent/csig/agent"
	"github.com/csig-agent/csig/agent/api"
)

// noticed is a daemon whose changes of configuration are noticed.
type noticed struct {
	*agent.Daemon
	changed func(context.Context) error
}

// Configure is the daemon's. It may have changed what is kept also where it fails.
func (n *noticed) Configure(ctx context.Context, text []byte, token string) error {
	return errors.Join(n.Daemon.Configure(ctx, text, token), n.changed(ctx))
}

// RemoveSetup is the daemon's.
func (n *noticed) RemoveSetup(ctx context.Context, device api.Described, token string) error {
	return errors.Join(n.Daemon.RemoveSetup(ctx, device, token), n.changed(ctx))
}
