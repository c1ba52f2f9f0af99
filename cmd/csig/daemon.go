package main

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ssh"
	"github.com/csig-agent/csig/vlanrules"
)

// daemon is a device that is driven through csig agent on it.
type daemon struct {
	fleet  *inventory.Fleet
	dev    *inventory.Device
	client *api.Client
	login  *ssh.Client // that the client's connections go through; nil for none
	diff   func(have, want vendors.Setup) ([]vendors.Change, error)
}

var (
	_ plans.Target         = (*daemon)(nil)
	_ plans.Configurer     = (*daemon)(nil)
	_ vendors.HealthReader = (*daemon)(nil)
	_ vendors.MTUSetter    = (*daemon)(nil)
)

// openDaemon connects to the daemon of a device. An emergency stop goes past one
// that does not answer, where the device can be driven directly.
func (r *reach) openDaemon(ctx context.Context, d *inventory.Device) (plans.Target, error) {
	t, err := r.dialDaemon(ctx, d)
	if r.past == nil || !d.Local && d.Management.NetNS == "" && d.Management.SSH == nil {
		if err != nil {
			return nil, err // not a nil *daemon in a Target that is not nil
		}
		return t, nil
	}
	if err != nil {
		return r.openPast(ctx, d, nil, err)
	}
	if err = t.answers(ctx); err == nil {
		return t, nil
	}
	defer t.Close()
	return r.openPast(ctx, d, t.login, err)
}

// dialDaemon is a daemon at a unix socket of this machine, at one that SSH
// forwards, or behind TCP with certificates of both ends.
func (r *reach) dialDaemon(ctx context.Context, d *inventory.Device) (*daemon, error) {
	diff, err := r.platformDiff(d.Platform)
	if err != nil {
		return nil, err
	}
	t := &daemon{fleet: r.fleet, dev: d, diff: diff}
	m := &d.Management
	switch {
	case m.Daemon.Socket == "":
		name := m.Daemon.TLS.ServerName
		if name == "" {
			name = d.Address
		}
		cfg, err := api.TLSFiles{Cert: m.Daemon.TLS.Cert, Key: m.Daemon.TLS.Key, CA: m.Daemon.TLS.CA}.Client(name)
		if err != nil {
			return nil, err
		}
		cfg.InsecureSkipVerify = m.Daemon.TLS.InsecureSkipVerify //nolint:gosec // the operator's word
		t.client = api.NewTLSClient(net.JoinHostPort(d.Address, strconv.Itoa(int(m.Daemon.Port))), cfg)
	case m.SSH == nil:
		t.client = api.NewClient(m.Daemon.Socket)
	default:
		if t.login, err = ssh.Dial(ctx, ssh.Config{Address: d.Address, Login: *m.SSH}); err != nil {
			return nil, err
		}
		t.client = api.NewDialClient(d.Name+":"+m.Daemon.Socket, func(ctx context.Context) (net.Conn, error) {
			return t.login.DialUnix(ctx, m.Daemon.Socket)
		})
	}
	return t, nil
}

// daemonVia says how a daemon is reached.
func daemonVia(d *inventory.Device) string {
	m := &d.Management
	switch {
	case m.Daemon.Socket == "":
		return "daemon " + net.JoinHostPort(d.Address, strconv.Itoa(int(m.Daemon.Port)))
	case m.SSH == nil:
		return "daemon " + m.Daemon.Socket
	}
	return "daemon " + m.Daemon.Socket + " over ssh " + sshAddress(d)
}

// platformDiff is what compares two set-ups of a platform without a device.
func (r *reach) platformDiff(name string) (func(have, want vendors.Setup) ([]vendors.Change, error), error) {
	p, err := r.registry.Platform(name)
	if err != nil {
		return nil, err
	}
	return p.Diff, nil
}

// Probe asks the daemon what its device can do.
func (t *daemon) Probe(ctx context.Context) (vendors.Facts, error) {
	return t.client.Facts(ctx, t.dev.Platform)
}

// Observe asks for the device's setup and for the daemon's configuration.
func (t *daemon) Observe(ctx context.Context) (vendors.Setup, error) {
	return t.client.Setup(ctx, t.dev.Platform)
}

// Health asks how the device's ports fare.
func (t *daemon) Health(ctx context.Context) ([]vendors.PortHealth, error) {
	return t.client.Health(ctx, t.dev.Platform)
}

// MTUs asks for the MTU of the device's ports.
func (t *daemon) MTUs(ctx context.Context) (map[string]int, error) {
	return t.client.MTUs(ctx, t.dev.Platform)
}

// SetMTU has the daemon set the MTU of one port.
func (t *daemon) SetMTU(ctx context.Context, port string, mtu int) error {
	return t.client.SetMTU(ctx, t.dev.Platform, port, mtu)
}

// Diff is that of the platform, with the configuration. A daemon records its
// profile also where what was there before had none.
func (t *daemon) Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	if want.Profile == "" {
		want.Profile = have.Profile
	}
	out, err := t.diff(have, want)
	if err != nil || want.Config == "" || have.Config == want.Config {
		return out, err
	}
	c := vendors.Change{Kind: vendors.Alter, What: "configuration", Detail: configChange(have.Config, want.Config)}
	if have.Config == "" {
		c.Kind = vendors.Create
	}
	return append([]vendors.Change{c}, out...), nil
}

// Configured renders the configuration that goes with a setup: that of its own
// configuration or, where it names none, of the fleet, for its ports.
func (t *daemon) Configured(want vendors.Setup) (vendors.Setup, error) {
	f, dev := t.fleet, t.dev
	if want.Config != "" {
		var err error
		if f, err = inventory.Parse("configuration", []byte(want.Config)); err != nil {
			return want, err
		}
		if dev, err = f.LocalDevice(); err != nil {
			return want, err
		}
	}
	own := f.Own(dev)
	ports := make([]inventory.Port, 0, len(want.Ports))
	for _, s := range want.Ports {
		p, ok := own.Devices[0].Port(s.Port)
		if !ok {
			theirs, known := t.dev.Port(s.Port)
			if !known {
				return want, fmt.Errorf("port %s of its set-up is not in %s: add it there, or csig off --device %s first", s.Port, t.fleet.Path, t.dev.Name)
			}
			other := *theirs
			other.MTU, other.Peer = 0, inventory.Peer{}
			p = &other
		}
		port := *p
		port.StripRetired = s.StripOthers
		if port.Action = s.Action; port.Action != vlanrules.Update && !ok {
			port.LM = nil // in another profile it may mean another place
		}
		ports = append(ports, port)
	}
	own.Devices[0].Ports = ports
	// While a domain migrates, its next TPID is stripped, too; in the
	// configuration that is one more that was.
	own.Policy.Retired = nil
	own.VLANTPIDs = slices.Clone(own.VLANTPIDs)
	for _, t := range want.Others {
		own.Policy.Retired = append(own.Policy.Retired, inventory.RetiredTPID(t))
		own.VLANTPIDs = slices.DeleteFunc(own.VLANTPIDs, func(v uint16) bool { return v == t.TPID })
	}
	made := vendors.SetupOf(&own.Profile, own.Policy, &own.Devices[0])
	if made.TPID != want.TPID || made.WideTPID != want.WideTPID || made.Layout != want.Layout || made.OnStale != want.OnStale || !slices.Equal(made.Signals, want.Signals) ||
		want.Profile != "" && made.Profile != want.Profile || !slices.Equal(made.Others, want.Others) {
		return want, fmt.Errorf("its set-up (TPID 0x%04x, %s, on_stale %s, profile %s) is not one of its daemon's configuration: csig off --device %s first", want.TPID, want.Layout, want.OnStale, vendors.ShortProfile(want.Profile), t.dev.Name)
	}
	text, err := inventory.Marshal(own)
	if err != nil {
		return want, err
	}
	want.Config, want.Profile = string(text), made.Profile
	return want, nil
}

// Apply gives the daemon the setup's configuration.
func (t *daemon) Apply(ctx context.Context, want vendors.Setup) error {
	if want.Config == "" { // as it was before the daemon had one: the fleet's will do
		var err error
		if want, err = t.Configured(want); err != nil {
			return &vendors.PermanentError{Err: err}
		}
	}
	return t.client.Configure(ctx, []byte(want.Config))
}

// Remove has the daemon remove everything of ours, its configuration included.
func (t *daemon) Remove(ctx context.Context) error { return t.client.Forget(ctx, t.dev.Platform) }

// Close ends the connections.
func (t *daemon) Close() error {
	t.client.Close()
	if t.login != nil {
		return t.login.Close()
	}
	return nil
}

// configChange says in one line what a configuration changes.
func configChange(have, want string) string {
	g, err := inventory.Parse("configuration", []byte(want))
	if err != nil || len(g.Devices) != 1 {
		return "another one"
	}
	d := &g.Devices[0]
	if have == "" {
		return fmt.Sprintf("profile %s %.12s, Δt %v, %s", g.Profile.Name, g.Profile.Hash(), d.Interval, count(len(d.Ports), "port"))
	}
	f, err := inventory.Parse("configuration", []byte(have))
	if err != nil || len(f.Devices) != 1 {
		return "another one"
	}
	c := &f.Devices[0]
	var out []string
	add := func(changed bool, format string, args ...any) {
		if changed {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	add(f.Profile.Hash() != g.Profile.Hash(), "profile %s %.12s -> %s %.12s", f.Profile.Name, f.Profile.Hash(), g.Profile.Name, g.Profile.Hash())
	add(!slices.Equal(f.Policy.Retired, g.Policy.Retired), "retired_tpids")
	add(f.Policy.OnStale != g.Policy.OnStale, "on_stale %s -> %s", f.Policy.OnStale, g.Policy.OnStale)
	add(f.Policy.Damping != g.Policy.Damping, "damping")
	add(!slices.Equal(f.VLANTPIDs, g.VLANTPIDs), "vlan_tpids")
	add(c.Name != d.Name, "name %s -> %s", c.Name, d.Name)
	add(c.Address != d.Address, "address %s -> %s", orDash(c.Address), orDash(d.Address))
	add(c.Interval != d.Interval, "Δt %v -> %v", c.Interval, d.Interval)
	add(c.Schedule != d.Schedule, "schedule %s -> %s", c.Schedule, d.Schedule)
	add(c.Estimator != d.Estimator, "estimator")
	add(!reflect.DeepEqual(c.Counters, d.Counters), "counters")
	var fresh, gone, actions, retired, locators, speeds []string
	for i := range d.Ports {
		p := &d.Ports[i]
		q, ok := c.Port(p.Name)
		if !ok {
			fresh = append(fresh, p.Name)
			continue
		}
		if p.Action != q.Action {
			actions = append(actions, p.Name)
		}
		if p.StripRetired != q.StripRetired {
			retired = append(retired, p.Name)
		}
		if p.Speed != q.Speed {
			speeds = append(speeds, p.Name)
		}
		for _, sig := range quantize.Signals {
			if p.LM[sig] != q.LM[sig] {
				locators = append(locators, p.Name)
				break
			}
		}
	}
	for i := range c.Ports {
		if _, ok := d.Port(c.Ports[i].Name); !ok {
			gone = append(gone, c.Ports[i].Name)
		}
	}
	for _, l := range []struct {
		what  string
		ports []string
	}{{"new ports", fresh}, {"without", gone}, {"actions of", actions}, {"strip_retired of", retired}, {"locators of", locators}, {"speeds of", speeds}} {
		add(len(l.ports) > 0, "%s %s", l.what, vendors.Names(l.ports))
	}
	if len(out) == 0 {
		return "another form of the same"
	}
	return strings.Join(out, ", ")
}
