package device

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/rollout"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ssh"
)

// Daemon is a device that is driven through csig agent on it.
type Daemon struct {
	fleet  *inventory.Fleet
	dev    *inventory.Device
	client *api.Client
	login  *ssh.Client // that the client's connections go through; nil for none
	diff   func(have, want vendors.Setup) ([]vendors.Change, error)
	hash   func() string // of the fleet's profile; nil: it is worked out each time

	runs    configuration   // what the daemon runs, by the last Observe
	derived map[string]bool // configurations made from that one, not from the fleet

	mark string // of our Arm: Apply and Remove may be reverted
}

var (
	_ rollout.Target       = (*Daemon)(nil)
	_ plans.Configurer     = (*Daemon)(nil)
	_ vendors.HealthReader = (*Daemon)(nil)
	_ vendors.MTUSetter    = (*Daemon)(nil)
	_ vendors.LinkProber   = (*Daemon)(nil)
	_ vendors.Confirmer    = (*Daemon)(nil)
	_ vendors.ArmedReader  = (*Daemon)(nil)
)

// daemonOf is where a device's agent listens: as the fleet file says, or at the usual
// socket of this machine; nil where that is not known.
func daemonOf(d *inventory.Device) *inventory.Daemon {
	if d.Management.Daemon == nil && d.Local {
		return &inventory.Daemon{Socket: api.DefaultSocket()}
	}
	return d.Management.Daemon
}

// overSSH reports whether SSH forwards the socket of a device's daemon.
func overSSH(d *inventory.Device) bool { return d.Management.SSH != nil && d.Management.Daemon != nil }

// openDaemon connects to the daemon of a device. An emergency stop bypasses one
// that does not answer, where the device can be driven directly.
func (o *Opener) openDaemon(ctx context.Context, d *inventory.Device) (rollout.Target, error) {
	t, err := o.dialDaemon(ctx, d)
	if o.Bypassed == nil || !d.Local && d.Management.NetNS == "" && d.Management.SSH == nil {
		if err != nil {
			return nil, err // not a nil *Daemon in a Target that is not nil
		}
		return t, nil
	}
	if err != nil {
		return o.bypassDaemon(ctx, d, nil, err)
	}
	if err = t.answers(ctx); err == nil {
		return t, nil
	}
	defer t.Close()
	return o.bypassDaemon(ctx, d, t.login, err)
}

// dialDaemon is a daemon at a unix socket of this machine, at one that SSH
// forwards, or behind TCP with certificates of both ends.
func (o *Opener) dialDaemon(ctx context.Context, d *inventory.Device) (*Daemon, error) {
	p, err := o.Registry.Platform(d.Platform)
	if err != nil {
		return nil, err
	}
	t := &Daemon{fleet: o.Fleet, dev: d, diff: p.Diff, hash: o.profile}
	switch at := daemonOf(d); {
	case at.Socket == "":
		name := at.TLS.ServerName
		if name == "" {
			name = d.Address
		}
		files := api.TLSFiles{Cert: at.TLS.Cert, Key: at.TLS.Key, CA: at.TLS.CA}
		cfg, err := files.Client(name)
		if err != nil {
			return nil, err
		}
		t.client = api.NewTLSClient(net.JoinHostPort(d.Address, strconv.Itoa(int(at.Port))), cfg, files)
	case !overSSH(d):
		t.client = api.NewClient(at.Socket)
	default:
		account := *d.Management.SSH
		account.Sudo = nil // the agent knows its peers by their accounts
		if t.login, err = ssh.Dial(ctx, ssh.Config{Address: d.Address, Login: account}); err != nil {
			return nil, err
		}
		t.client = api.NewDialClient(d.Name+":"+at.Socket, func(ctx context.Context) (net.Conn, error) {
			return t.login.DialUnix(ctx, at.Socket)
		})
	}
	return t, nil
}

// daemonVia says how a daemon is reached.
func daemonVia(d *inventory.Device) string {
	at := daemonOf(d)
	switch {
	case at.Socket == "":
		return "daemon " + net.JoinHostPort(d.Address, strconv.Itoa(int(at.Port)))
	case !overSSH(d):
		return "daemon " + at.Socket
	}
	return "daemon " + at.Socket + " over ssh " + sshAddress(d)
}

// Probe asks the daemon what its device can do.
func (t *Daemon) Probe(ctx context.Context) (vendors.Facts, error) {
	return t.client.Facts(ctx, t.dev.Platform)
}

// Observe asks for the device's setup and for the daemon's configuration.
func (t *Daemon) Observe(ctx context.Context) (vendors.Setup, error) {
	s, err := t.client.Setup(ctx, t.dev.Platform)
	if err == nil && s.Config != t.runs.hash {
		t.runs, t.derived = configuration{}, nil
		if s.Config != "" {
			t.runs, err = t.fetch(ctx, s.Config)
		}
	}
	return s, err
}

// Health asks for the error and drop counters of the device's ports.
func (t *Daemon) Health(ctx context.Context) ([]vendors.PortHealth, error) {
	return t.client.Health(ctx, t.dev.Platform)
}

// MTUs asks for the MTU of the device's ports.
func (t *Daemon) MTUs(ctx context.Context) (map[string]int, error) {
	return t.client.MTUs(ctx, t.dev.Platform)
}

// SetMTU has the daemon set the MTU of one port.
func (t *Daemon) SetMTU(ctx context.Context, port string, mtu int) error {
	return t.client.SetMTU(ctx, t.dev.Platform, port, mtu)
}

// ListenLink has the daemon take in test frames at a port.
func (t *Daemon) ListenLink(ctx context.Context, port string) (vendors.LinkListener, error) {
	return t.client.ListenLink(ctx, port)
}

// SendLink has the daemon send a test frame out of a port.
func (t *Daemon) SendLink(ctx context.Context, port string, f vendors.LinkFrame) error {
	return t.client.SendLink(ctx, port, f)
}

// Diff is that of the platform, with the configuration. A daemon records its
// profile also where what was there before had none.
func (t *Daemon) Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	if want.Profile == "" {
		want.Profile = have.Profile
	}
	bare := have // of what the platform knows
	bare.Config = ""
	out, err := t.diff(bare, want)
	if err != nil || want.Config == "" || have.Config == want.Config {
		return out, err
	}
	c := vendors.Change{Kind: vendors.Alter, What: "configuration"}
	if have.Config == "" {
		c.Kind = vendors.Create
	}
	c.Detail = t.configChange(have, want)
	return append([]vendors.Change{c}, out...), nil
}

// Remove has the daemon remove everything of ours, its configuration included.
func (t *Daemon) Remove(ctx context.Context) error {
	return t.client.RemoveSetup(ctx, t.dev.Platform, t.mark)
}

// Arm starts the daemon's auto-revert to its present configuration.
func (t *Daemon) Arm(ctx context.Context, after time.Duration) (mark string, err error) {
	t.mark, err = t.client.Arm(ctx, t.dev.Platform, after)
	return t.mark, err
}

// Confirm has the daemon keep what it was given.
func (t *Daemon) Confirm(ctx context.Context, mark string) error {
	t.mark = ""
	return t.client.Confirm(ctx, mark)
}

// Armed asks whether the daemon has a pending auto-revert.
func (t *Daemon) Armed(ctx context.Context) error { return t.client.Armed(ctx, t.dev.Platform) }

// Close ends the connections.
func (t *Daemon) Close() error {
	t.client.Close()
	if t.login != nil {
		return t.login.Close()
	}
	return nil
}
