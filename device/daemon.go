package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/plans/rollout"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Daemon is a device that is driven through its csig agent.
type Daemon struct {
	*api.Client
	fleet *inventory.Fleet
	dev   *inventory.Device
	login *ssh.Client // that the client's connections go through; nil for none
	diff  func(have, want vendors.Setup) ([]vendors.Change, error)

	refuse func(cfg vendors.Config, want vendors.Setup) error // all.Platform.Refuse

	hash func() string // of the fleet's profile; nil: it is worked out each time

	runs    configuration   // what the daemon runs, by the last Observe
	derived map[string]bool // configurations made from that one, not from the fleet
}

var (
	_ rollout.Target       = (*Daemon)(nil)
	_ plans.Configurer     = (*Daemon)(nil)
	_ vendors.HealthReader = (*Daemon)(nil)
	_ vendors.MTUSetter    = (*Daemon)(nil)
	_ vendors.LinkProber   = (*Daemon)(nil)
	_ vendors.SignalReader = (*Daemon)(nil)
	_ vendors.AutoReverter = (*Daemon)(nil)

	_ vendors.DeadManProver = (*Daemon)(nil)
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
func overSSH(d *inventory.Device) bool {
	return d.Management.SSH != nil && d.Management.Daemon != nil && d.Management.Daemon.At == ""
}

// daemonAddress is where a daemon listens by TCP.
func daemonAddress(d *inventory.Device) string {
	at := daemonOf(d)
	return net.JoinHostPort(cmp.Or(at.At, d.Address), strconv.Itoa(int(at.Port)))
}

// describe is what a daemon without a configuration has to know of its device: its
// platform, and all that leads to it where that is more.
func describe(f *inventory.Fleet, d *inventory.Device) (api.Described, error) {
	if !d.Remote() && len(d.Management.Own) == 0 {
		return api.Described{Platform: d.Platform}, nil
	}
	bare := *d
	bare.Ports = d.Ports[:min(1, len(d.Ports))] // a fleet file has one at least
	text, err := inventory.Marshal(f.DeviceView(&bare))
	return api.Described{File: string(text)}, err
}

// openDaemon connects to the daemon of a device. An emergency stop bypasses one
// that does not answer, where the device can be driven directly.
func (o *Opener) openDaemon(ctx context.Context, d *inventory.Device) (rollout.Target, error) {
	t, err := o.dialDaemon(ctx, d)
	if o.Bypassed == nil || !d.Local && d.Management.NetNS == "" && !reaches(d) {
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

// start is how the agent of a device is started that belongs on this machine; "" for any other.
func (o *Opener) start(d *inventory.Device) string {
	switch {
	case !o.nearby(d):
		return ""
	case d.Management.NetNS != "":
		return "start csig agent --wait in its network namespace"
	case d.Remote():
		return "start csig-controller -i " + untrusted.ShellWord(o.Fleet.Path) + " on this machine"
	}
	return "start csig agent --wait on this machine, or name the socket of the one that runs (management: daemon)"
}

// dialDaemon is a daemon at a unix socket of this machine, at one that SSH
// forwards, or behind TCP with certificates of both ends.
func (o *Opener) dialDaemon(ctx context.Context, d *inventory.Device) (*Daemon, error) {
	p, err := o.Registry.Platform(d.Platform)
	if err != nil {
		return nil, err
	}
	t := &Daemon{fleet: o.Fleet, dev: d, diff: p.Diff, refuse: p.Refuse, hash: o.profile}
	about, err := describe(o.Fleet, d)
	if err != nil {
		return nil, err
	}
	switch at := daemonOf(d); {
	case at.Socket == "":
		name := cmp.Or(at.TLS.ServerName, at.At, d.Address)
		files := api.TLSFiles{Cert: at.TLS.Cert, Key: at.TLS.Key, CA: at.TLS.CA}
		cfg, err := files.Client(name)
		if err != nil {
			return nil, err
		}
		t.Client = api.NewTLSClient(daemonAddress(d), cfg, files)
	case !overSSH(d):
		t.Client = api.NewClient(at.Socket)
	default:
		account := *d.Management.SSH
		account.Sudo = nil // the agent knows its peers by their accounts
		if t.login, err = ssh.Dial(ctx, ssh.Config{Address: d.Address, Login: account}); err != nil {
			return nil, err
		}
		t.Client = api.NewDialClient(d.Name+":"+at.Socket, func(ctx context.Context) (net.Conn, error) {
			return t.login.DialUnix(ctx, at.Socket)
		})
	}
	t.Client.Device, t.Client.Start = about, o.start(d)
	t.Client.As(o.Operator)
	return t, nil
}

// daemonVia says how a daemon is reached.
func daemonVia(d *inventory.Device) string {
	at := daemonOf(d)
	switch {
	case at.Socket == "":
		return "daemon " + daemonAddress(d)
	case !overSSH(d):
		return "daemon " + at.Socket
	}
	return "daemon " + at.Socket + " over ssh " + sshAddress(d)
}

// Observe asks for the device's setup and for the daemon's configuration.
func (t *Daemon) Observe(ctx context.Context) (vendors.Setup, error) {
	s, err := t.Client.Observe(ctx)
	if err == nil && s.Config != t.runs.hash {
		t.runs, t.derived = configuration{}, nil
		if s.Config != "" {
			t.runs, err = t.fetch(ctx, s.Config)
		}
	}
	if err == nil && s.Profile == "" && s.Config != "" && !s.Nothing() { // its platform has no record of it
		if own, bad := t.runs.read(); bad == nil { // else it is refused where it is used
			s.Profile = own.Profile.Hash()
			for _, p := range own.Devices[0].Ports { // nor of ports where there is nothing to configure
				seen := slices.ContainsFunc(s.Ports, func(q vendors.PortSetup) bool { return q.Port == p.Name })
				if p.Action == vlanrules.Passthrough && !seen {
					s.Ports = append(s.Ports, vendors.PortSetup{Port: p.Name, Action: p.Action})
				}
			}
		}
	}
	return s, err
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

// NoSignal is what the daemon's status has of ports that update.
func (t *Daemon) NoSignal(ctx context.Context) (map[string]string, error) {
	s, err := t.Status(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for i := range s.Ports {
		p := &s.Ports[i]
		if p.Action == vlanrules.Update.String() && p.State != api.StateLive && p.State != api.StateDown {
			out[p.Port] = untrusted.Text(p.State+": "+p.Reason, 500)
		}
	}
	return out, nil
}

// DeadManProof is what the daemon's agent knows of the dead-man on its device.
func (t *Daemon) DeadManProof(ctx context.Context) (time.Duration, error) {
	s, err := t.Status(ctx)
	if err != nil || s.DeadMan == nil {
		return 0, err
	}
	switch after := time.Duration(s.DeadMan.AfterNS); {
	case s.DeadMan.State == api.DeadManFailed:
		return 0, errors.New(untrusted.Text(s.DeadMan.Reason, 500))
	case s.DeadMan.State != api.DeadManArmed:
		if why := s.Cycle.LastError; why != "" { // of the agent, which goes on trying
			return after, fmt.Errorf("%w: %s", vendors.ErrNotProved, untrusted.Text(why, 500))
		}
		return after, vendors.ErrNotProved
	default:
		return after, nil
	}
}

// Close ends the connections.
func (t *Daemon) Close() error {
	t.Client.Close()
	if t.login != nil {
		return t.login.Close()
	}
	return nil
}
