package device

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// configuration is one that a daemon runs, or ran.
type configuration struct {
	hash string
	text []byte
	own  *inventory.Fleet // its content; nil until read is called
}

// fetch asks the daemon for a configuration that it runs, or ran before.
func (t *Daemon) fetch(ctx context.Context, hash string) (configuration, error) {
	text, err := t.Config(ctx, hash)
	return configuration{hash: hash, text: text}, err
}

// read is the content of a configuration. Content that does not have the hash is
// refused.
func (c *configuration) read() (*inventory.Fleet, error) {
	if c.own != nil {
		return c.own, nil
	}
	f, err := inventory.Parse("configuration", c.text)
	if err != nil {
		return nil, err
	}
	dev, err := f.LocalDevice()
	if err != nil {
		return nil, err
	}
	own := f.DeviceView(dev)
	if hash := own.Hash(); hash != c.hash {
		return nil, fmt.Errorf("the daemon gives the configuration %.12s for %.12s: use the csig that goes with it", hash, c.hash)
	}
	c.own = own
	return own, nil
}

// Configured names the configuration that goes with a setup: one made from what
// the daemon runs, where the setup names that or one made from it, else from the
// fleet, for the setup's ports. Neither a plan nor a journal has its text: it is
// rendered again when it is applied.
func (t *Daemon) Configured(want vendors.Setup) (vendors.Setup, error) {
	running := t.fromRunning(want.Config)
	own, err := t.render(want, running)
	if err != nil {
		return want, err
	}
	if t.refuse != nil && !running {
		if err := t.refuse(vendors.Config{Device: *t.dev}, want); err != nil {
			return want, err
		}
	}
	want.Config = own.Hash()
	if want.Profile == "" {
		want.Profile = own.Profile.Hash()
	}
	if running {
		if t.derived == nil {
			t.derived = map[string]bool{}
		}
		t.derived[want.Config] = true
	}
	return want, nil
}

// fromRunning reports whether a configuration is the one that runs, or one made
// from it.
func (t *Daemon) fromRunning(hash string) bool {
	return hash != "" && (hash == t.runs.hash || t.derived[hash])
}

// render makes the configuration for a setup, from what runs or from the fleet.
func (t *Daemon) render(want vendors.Setup, running bool) (*inventory.Fleet, error) {
	f, dev := t.fleet, t.dev
	if running {
		var err error
		if f, err = t.runs.read(); err != nil {
			return nil, err
		}
		dev = &f.Devices[0]
	}
	bare := *dev // its ports follow
	bare.Ports = nil
	own := f.DeviceView(&bare)
	ports, mixed := make([]inventory.Port, 0, len(want.Ports)), false
	for i, s := range want.Ports {
		var p *inventory.Port
		ok := i < len(dev.Ports) && dev.Ports[i].Name == s.Port // the usual
		if ok {
			p = &dev.Ports[i]
		} else {
			p, ok = dev.Port(s.Port)
		}
		if !ok {
			theirs, known := t.dev.Port(s.Port)
			if !known {
				return nil, fmt.Errorf("port %s of its setup is not in %s: add it there, or csig off --device %s first", s.Port, t.fleet.Path, untrusted.ShellWord(t.dev.Name))
			}
			p, mixed = theirs, true
		}
		port := *p
		port.MTU, port.Peer = 0, inventory.Peer{} // as in Own
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
	if mixed { // of two profiles' worlds: is it still a configuration?
		if _, err := inventory.Marshal(own); err != nil {
			return nil, err
		}
	}
	made := vendors.SetupWith(&own.Profile, t.profile(f), own.Policy, &own.Devices[0])
	if made.TPID != want.TPID || made.WideTPID != want.WideTPID || made.Layout != want.Layout || made.OnStale != want.OnStale || !slices.Equal(made.Signals, want.Signals) ||
		want.Profile != "" && made.Profile != want.Profile || !slices.Equal(made.Others, want.Others) {
		return nil, fmt.Errorf("its setup (TPID 0x%04x, %s, on_stale %s, profile %s) is not one of its daemon's configuration: csig off --device %s first", want.TPID, want.Layout, want.OnStale, vendors.ShortProfile(want.Profile), untrusted.ShellWord(t.dev.Name))
	}
	return own, nil
}

// profile is the hash of a fleet's profile, which all devices of t's fleet share.
func (t *Daemon) profile(f *inventory.Fleet) string {
	if f == t.fleet && t.hash != nil {
		return t.hash()
	}
	return f.Profile.Hash()
}

// Apply gives the daemon the setup's configuration: rendered from the fleet file
// or the running configuration where they have it, else from the daemon's history.
func (t *Daemon) Apply(ctx context.Context, want vendors.Setup) error {
	text, err := t.text(ctx, want)
	if err != nil {
		return err
	}
	return t.Configure(ctx, text)
}

func (t *Daemon) text(ctx context.Context, want vendors.Setup) ([]byte, error) {
	own, err := t.render(want, false)
	switch {
	case err == nil && (want.Config == "" || own.Hash() == want.Config): // "": as it was before the daemon had one, and the fleet's will do
		return inventory.Marshal(own)
	case want.Config == "":
		return nil, &vendors.PermanentError{Err: err}
	}
	if _, err := t.Observe(ctx); err != nil {
		return nil, err
	}
	if t.runs.hash != "" {
		if own, err := t.render(want, true); err == nil && own.Hash() == want.Config {
			return inventory.Marshal(own)
		}
	}
	kept, err := t.fetch(ctx, want.Config)
	if err == nil {
		_, err = kept.read()
	}
	if err != nil {
		return nil, fmt.Errorf("the configuration %.12s that it is to have is not what %s makes of it now, nor does its daemon have it: name with -i the fleet file of that time: %w", want.Config, t.fleet.Path, err)
	}
	return kept.text, nil
}

// Commands is what the daemon is sent for a setup, as people may see it: commands that
// fetch secrets are without their arguments.
func (t *Daemon) Commands(want vendors.Setup) ([]byte, error) {
	if want.Config == "" {
		return []byte("# the daemon removes everything of csig, its configuration included\n"), nil
	}
	own, err := t.render(want, t.fromRunning(want.Config))
	if err != nil {
		return nil, err
	}
	text, err := inventory.Show(own.WithoutArguments())
	return append([]byte("# the daemon's configuration\n"), text...), err
}

// configChange returns in one line what a configuration changes.
func (t *Daemon) configChange(have, want vendors.Setup) string {
	if have.Config == "" && !t.fromRunning(want.Config) {
		ports := "1 port"
		if n := len(want.Ports); n != 1 {
			ports = fmt.Sprintf("%d ports", n)
		}
		return fmt.Sprintf("profile %s %.12s, Δt %v, %s", t.fleet.Profile.Name, want.Profile, t.dev.Interval, ports)
	}
	g, err := t.render(want, t.fromRunning(want.Config))
	if err != nil {
		return "another one"
	}
	f, err := t.render(have, t.fromRunning(have.Config))
	if have.Config == t.runs.hash {
		f, err = t.runs.read()
	}
	if err != nil {
		return "another one"
	}
	d := &g.Devices[0]
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
	add(c.Address != d.Address, "address %s -> %s", cmp.Or(c.Address, "-"), cmp.Or(d.Address, "-"))
	add(!reflect.DeepEqual(c.Facts, d.Facts), "facts")
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
		if !p.SameSpeed(q) {
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
