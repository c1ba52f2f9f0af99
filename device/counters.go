package device

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"strings"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/gnmi"
	"github.com/csig-agent/csig/counters/openflow"
	"github.com/csig-agent/csig/counters/snmp"
	soniccounters "github.com/csig-agent/csig/counters/sonic"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/protocol/secret"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
	openflowdriver "github.com/csig-agent/csig/vendors/openflow"
	ovsdriver "github.com/csig-agent/csig/vendors/ovs"
	"github.com/csig-agent/csig/vendors/sonic"
)

// SourceName is the counter source of a device.
func SourceName(dev *inventory.Device) string {
	if dev.Counters.Source == inventory.PlatformSource {
		if _, ok := inventory.OwnKeys[*openflowdriver.Keys](dev); ok {
			return "openflow" // whatever its maker
		}
		if _, ok := inventory.OwnKeys[*inventory.GNMI](dev); ok {
			return "gnmi"
		}
		return dev.Platform
	}
	return string(dev.Counters.Source)
}

// PollPeriod is how often the device's schedule reads it.
func PollPeriod(dev *inventory.Device) (time.Duration, error) {
	if _, err := inventory.ParseSchedule(dev.Schedule); err != nil {
		return 0, fmt.Errorf("device %s: %w", dev.Name, err)
	}
	return dev.Period(), nil
}

// DeadCounters reads the counters once of a device that is asked for them apart from its driver, by SNMP or gNMI,
// and whose agent asks from this machine; findings are what is wrong with them.
func (o *Opener) DeadCounters(ctx context.Context, d *inventory.Device, timeout time.Duration) (out []findings.Finding) {
	if s := SourceName(d); s != string(inventory.SNMPSource) && s != string(inventory.GNMISource) || !o.nearby(d) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	dead := func(err error, ports ...string) {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer in %v", timeout)
		}
		out = append(out, findings.Finding{Code: findings.CountersFail, Level: findings.Warning, Device: d.Name, Ports: ports,
			Reason: fmt.Sprintf("its counters cannot be read, without which it advertises no live signal: %v", err)})
	}
	var samples []counters.Sample
	read := func() (err error) {
		defer untrusted.Recover(&err)
		src, err := OpenSource(ctx, &o.Fleet.Profile, d, 0)
		if err != nil {
			return err
		}
		defer src.Close()
		samples, err = src.Read(ctx, nil)
		return err
	}
	if err := read(); err != nil {
		dead(err)
		return out
	}
	for i := range samples {
		if s := &samples[i]; s.Err != nil {
			dead(s.Err, s.Port)
		}
	}
	return findings.Merge(out)
}

// OpenSource opens the counter source of a device of the fleet, for one reading in
// every; 0 is the period of its schedule.
func OpenSource(ctx context.Context, prof *quantize.Profile, dev *inventory.Device, every time.Duration) (counters.Source, error) {
	if every == 0 {
		var err error
		if every, err = PollPeriod(dev); err != nil {
			return nil, err
		}
	}
	switch name := SourceName(dev); name {
	case "linux", "linux-ebpf":
		return openLinux(prof, dev)
	case "ovs":
		return openOVS(dev)
	case "openflow":
		return openOpenFlow(dev)
	case "sonic", "sai":
		return openSONiC(dev)
	case "snmp":
		cfg, err := snmpConfig(ctx, dev, every)
		if err != nil {
			return nil, err
		}
		return snmp.New(cfg)
	case "gnmi":
		cfg, err := gnmiConfig(ctx, dev)
		if err != nil {
			return nil, err
		}
		return gnmi.New(cfg)
	default:
		if dev.Counters.Source == inventory.PlatformSource {
			p, err := all.Default().Platform(dev.Platform)
			if err == nil && p.Open == nil {
				err = errors.New(p.NoDriver(dev.Platform))
			}
			if err != nil {
				return nil, fmt.Errorf("%w; its counters may be read all the same, with a counters.source of snmp, gnmi or sonic", err)
			}
		}
		return nil, fmt.Errorf("no counter source %q: give the device a counters.source of linux, ovs, openflow, snmp, gnmi or sonic", name)
	}
}

// openOVS reads a bridge of Open vSwitch, on this machine or through SSH.
func openOVS(dev *inventory.Device) (counters.Source, error) {
	o, ok := inventory.OwnKeys[*ovsdriver.Keys](dev)
	if !ok {
		return nil, errors.New("the ovs source needs to know the bridge: add management: {ovs: {bridge: NAME}}")
	}
	cfg := openflow.Config{Switch: "bridge " + o.Bridge, Ports: dev.PortNames(), Live: true}
	for i := range dev.Ports {
		cfg.Configured = append(cfg.Configured, dev.Ports[i].Speed != 0)
	}
	if dev.Counters.Overhead != nil {
		cfg.Overhead = *dev.Counters.Overhead
	}
	dial := func(ctx context.Context, path string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	done := func() error { return nil }
	if c := (vendors.Config{Device: *dev}); c.Remote() {
		dial, done = all.UnixSockets(c)
	}
	connect, hangUp := ofp.Dialed(func(ctx context.Context) (net.Conn, error) {
		c, err := dial(ctx, path.Join(o.RunDir, o.Bridge+".mgmt"))
		if err != nil {
			err = fmt.Errorf("is ovs-vswitchd running, and may this user open its socket? %w", err)
		}
		return c, err
	}, ofp.Version14)
	cfg.Connect, cfg.Done = connect, func() error { return errors.Join(hangUp(), done()) }
	return openflow.New(cfg)
}

// openOpenFlow reads a switch of OpenFlow 1.3, on the connection that its driver has.
func openOpenFlow(dev *inventory.Device) (counters.Source, error) {
	cfg := openflow.Config{Switch: "switch", Ports: dev.PortNames()}
	if dev.Counters.Overhead != nil {
		cfg.Overhead = *dev.Counters.Overhead
	}
	var err error
	if cfg.Connect, cfg.Done, err = all.OpenFlowSession(dev, nil); err != nil {
		return nil, err
	}
	return openflow.New(cfg)
}

// openSONiC opens COUNTERS_DB of a device.
func openSONiC(dev *inventory.Device) (counters.Source, error) {
	db, err := sonic.Redis(vendors.Config{Device: *dev})
	if err != nil {
		return nil, err
	}
	cfg := soniccounters.Config{Redis: db, Overhead: dev.Counters.Overhead, Ports: dev.PortNames()}
	src, err := soniccounters.New(cfg)
	if err != nil {
		return nil, errors.Join(err, db.Close()) // not a nil *Source in a Source that is not nil
	}
	return src, nil
}

// snmpConfig resolves the references to secrets; they go no further than here.
func snmpConfig(ctx context.Context, dev *inventory.Device, every time.Duration) (snmp.Config, error) {
	s := dev.Counters.SNMP
	cfg := snmp.Config{
		Device: dev.Name, Address: dev.Address, Port: s.Port, Ports: dev.PortNames(), Version: snmp.Version(s.Version),
		User: s.User, Auth: strings.ToUpper(s.Auth.Protocol), Priv: strings.ToUpper(s.Priv.Protocol), Context: s.Context,
		Timeout: s.Timeout, Retries: s.Retries, Recheck: s.Recheck, Discards: snmp.Discards(s.Discards),
	}
	cfg.Within = every
	if s.Timeout == inventory.DefaultSNMPTimeout {
		cfg.Timeout = 0 // as long as the schedule allows
	}
	if s.Retries == 0 {
		cfg.Retries = -1 // the file's 0 is none
	}
	if dev.Counters.Overhead != nil {
		cfg.Overhead = *dev.Counters.Overhead
	}
	for _, ref := range []struct {
		what string
		from inventory.Secret
		to   *secret.Text
	}{{"community", s.Community, &cfg.Community}, {"auth key", s.Auth.Key, &cfg.AuthPassphrase}, {"priv key", s.Priv.Key, &cfg.PrivPassphrase}} {
		if ref.from.IsZero() {
			continue
		}
		v, err := ref.from.Resolve(ctx)
		if err != nil {
			return cfg, fmt.Errorf("snmp %s: %w", ref.what, err)
		}
		*ref.to = secret.Text(v)
	}
	return cfg, nil
}

// gnmiConfig is how a device's counters are read over gNMI: as counters says, or as the
// device is managed.
func gnmiConfig(ctx context.Context, dev *inventory.Device) (gnmi.Config, error) {
	g := dev.Counters.GNMI
	if g == nil {
		g, _ = inventory.OwnKeys[*inventory.GNMI](dev)
	}
	conn, err := all.GNMIConfig(ctx, dev, g)
	return gnmi.Config{Config: conn, Ports: dev.PortNames(), Interval: dev.Interval, Mode: gnmi.Mode(g.Mode)}, err
}

// SourceDetails returns how a source reads, and its limitations, a sentence each.
func SourceDetails(src counters.Source) (details, limitations []string) {
	if s, ok := src.(counters.Detailed); ok {
		details, limitations = s.Details()
	} else {
		details, limitations = linuxDetails(src)
	}
	return append([]string{}, details...), append([]string{}, limitations...)
}
