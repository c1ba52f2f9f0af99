// Package all is the registry of platforms: what is known of those that a fleet
// file's "platform" may name, and which driver opens their devices, if any.
package all

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/comware"
	"github.com/csig-agent/csig/vendors/ebpf"
	"github.com/csig-agent/csig/vendors/eos"
	"github.com/csig-agent/csig/vendors/linux"
	"github.com/csig-agent/csig/vendors/openflow"
	"github.com/csig-agent/csig/vendors/ovs"
	"github.com/csig-agent/csig/vendors/sai"
	"github.com/csig-agent/csig/vendors/sonic"
	"github.com/csig-agent/csig/vendors/unsupported"
	"github.com/csig-agent/csig/vlanrules"
)

// Opener opens the driver of one platform. It changes nothing on the device.
type Opener func(vendors.Config) (vendors.Driver, error)

// Platform is what is known about a platform without a device at hand.
type Platform struct {
	Title string // as its maker writes it

	// Open is nil where csig has no driver; then all but Title and Offline is
	// left out.
	Open  Opener
	Rules vlanrules.Caps // the table that carries compare-and-replace

	// OnDevice is whether its driver works on the device alone, and not over SSH.
	OnDevice bool

	// Experimental is why its driver is: it never ran on hardware. "": it did.
	Experimental string

	// Offline returns the platform's facts.
	Offline func() vendors.Facts

	// Diff is Driver.Diff, without a driver.
	Diff func(have, want vendors.Setup) ([]vendors.Change, error)

	// Commands returns what Apply(want) sends to a device for which Observe returns
	// have: for a person to read or to run. cfg holds the device's part of the fleet
	// file.
	Commands func(cfg vendors.Config, have, want vendors.Setup) ([]byte, error)

	// Refuse is why the device's part of the fleet file, in cfg, rules out a setup; nil
	// where nothing does, or where there is nothing to say.
	Refuse func(cfg vendors.Config, want vendors.Setup) error

	// Capabilities are those of Linux that csig agent keeps as long as it drives such
	// a device, or reads its counters.
	Capabilities []int

	// ByHand is whether csig does not reach a device: a person carries out what Commands writes,
	// removals included. It has no agent. nil: csig reaches all.
	ByHand func(*inventory.Device) bool

	// Fence is whether a device refuses what a controller that owned it before still sends;
	// nil: it does not. Without a device it is what holds for the platform.
	Fence func(*inventory.Device) vlanrules.Verdict

	// EndLogins ends logins of former owners, by the names that Owner.Logins has of them; nil: the
	// platform has no means. An error leaves them perhaps open.
	EndLogins func(ctx context.Context, cfg vendors.Config, logins []string) error

	// FenceSource is how that is known; none: no text was found that tells of one.
	FenceSource vendors.Source

	// Locks is set where the driver keeps a second writer away by a lock of the device
	// itself. Elsewhere the agent locks the network namespace.
	Locks bool
}

// FenceOf is whether a device refuses what a controller that owned it before still sends, and
// how that is known. Full: one that takes it over may write at once; else it waits first.
func (p *Platform) FenceOf(d *inventory.Device) (vlanrules.Verdict, vendors.Source) {
	if p.Fence != nil {
		return p.Fence(d), p.FenceSource
	}
	if p.EndLogins != nil {
		return vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "one that takes over ends the former owner's login; where the switch does not let it, it waits until the other's writes have arrived"}, p.FenceSource
	}
	return vlanrules.Verdict{Level: vlanrules.Refused, Reason: "nothing that csig uses of it tells a former owner from the present one: one that takes over waits until the other's writes have arrived"},
		vendors.Source{Mark: vendors.Assumed, From: "no text was found that tells of a means"}
}

// Shared reports whether a controller may drive such a device from another machine.
func (p *Platform) Shared() bool { return p.Open != nil && !p.OnDevice }

// Reached reports whether csig reaches a device of the platform.
func (p *Platform) Reached(d *inventory.Device) bool { return p.ByHand == nil || !p.ByHand(d) }

// Numbers of Linux's capabilities (linux/capability.h).
const (
	capDACOverride = 1 // unix sockets of daemons that run as other users
	capNetAdmin    = 12
	capNetRaw      = 13
	capSysPtrace   = 19
	capSysAdmin    = 21
)

// otherNames are what makers, products and other tools call the platforms, in
// small letters without hyphens. They are hints only: a fleet file has one
// spelling.
var otherNames = map[string][]string{
	"arista":       {"eos"},
	"aristaeos":    {"eos"},
	"asr9000":      {"iosxr"},
	"broadcom":     {"broadcom-fp", "broadcom-vt", "ofdpa"},
	"cisco":        {"nxos", "iosxr", "iosxe"},
	"ciscoiosxe":   {"iosxe"},
	"ciscoiosxr":   {"iosxr"},
	"cisconxos":    {"nxos"},
	"cumulus":      {"linux"},
	"cumuluslinux": {"linux"},
	"debian":       {"linux"},
	"dent":         {"linux"},
	"fortinet":     {"fortiswitch"},
	"frr":          {"linux"},
	"h3c":          {"comware", "comware-openflow"},
	"hpcomware":    {"comware", "comware-openflow"},
	"huawei":       {"vrp", "cloudengine"},
	"huaweivrp":    {"vrp", "cloudengine"},
	"ios":          {"iosxe"},
	"juniper":      {"junos-ex", "junos-qfx", "junos-mx"},
	"juniperjunos": {"junos-ex", "junos-qfx", "junos-mx"},
	"junos":        {"junos-ex", "junos-qfx", "junos-mx"},
	"mellanox":     {"onyx", "sonic", "linux", "sai"},
	"microchip":    {"tc-es0"},
	"mlnxos":       {"onyx"},
	"nexus":        {"nxos"},
	"nokia":        {"srlinux"},
	"nokiasrlinux": {"srlinux"},
	"ocelot":       {"tc-es0"},
	"openvswitch":  {"ovs"},
	"pica8":        {"picos"},
	"sonicvs":      {"sonic"},
	"sparx5":       {"tc-es0"},
	"switchdev":    {"linux"},
	"vyos":         {"linux"},
	"wedge":        {"fboss"},
}

// Registry maps names to platforms. The zero value is empty and ready.
type Registry struct {
	platforms map[string]Platform
}

// Register adds a platform. A name that is already taken is a mistake in the
// program, and panics, as does a platform without facts.
func (r *Registry) Register(name string, p Platform) {
	if _, taken := r.platforms[name]; taken || name == "" || p.Title == "" || p.Offline == nil {
		panic(fmt.Sprintf("platform %q registered twice, or without a name, a title or facts", name))
	}
	if r.platforms == nil {
		r.platforms = map[string]Platform{}
	}
	r.platforms[name] = p
}

// Platforms lists the registered names, sorted.
func (r *Registry) Platforms() []string {
	names := make([]string, 0, len(r.platforms))
	for n := range r.platforms {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Drivers lists the names of the platforms that csig has a driver for, sorted.
func (r *Registry) Drivers() []string {
	return slices.DeleteFunc(r.Platforms(), func(name string) bool { return r.platforms[name].Open == nil })
}

// Platform finds a platform. The error of an unknown one, a
// *vendors.NoDriverError in a *vendors.PermanentError, suggests a known name.
func (r *Registry) Platform(name string) (Platform, error) {
	p, ok := r.platforms[name]
	if !ok {
		hint := inventory.Suggest(name, r.Platforms())
		if known := otherNames[strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(name))]; len(known) > 0 {
			hint = "did you mean " + strings.Join(known, " or ") + "?"
		} else if !strings.HasPrefix(hint, "did you mean") {
			hint = "csig platforms lists those it knows"
		}
		return p, &vendors.PermanentError{Err: &vendors.NoDriverError{Platform: name, Err: fmt.Errorf("csig knows no platform %q: %s", name, hint)}}
	}
	return p, nil
}

// Open opens the driver of a platform. It changes nothing on the device. The
// error for a platform without a driver is a *vendors.NoDriverError in a
// *vendors.PermanentError.
func (r *Registry) Open(platform string, cfg vendors.Config) (vendors.Driver, error) {
	p, err := r.Platform(platform)
	switch {
	case err != nil:
		return nil, err
	case p.Open == nil:
		return nil, &vendors.PermanentError{Err: &vendors.NoDriverError{Platform: platform, Err: errors.New(p.NoDriver(platform))}}
	}
	return p.Open(cfg)
}

// NoDriver returns why csig drives no device of a platform, "" where it does.
func (p *Platform) NoDriver(name string) string {
	if p.Open != nil {
		return ""
	}
	return fmt.Sprintf("csig has no driver for %s (csig platforms %s)", p.Title, name)
}

func init() {
	inventory.DefinePlatform(ovs.Platform)
	inventory.DefinePlatform(sonic.Platform)
	inventory.DefinePlatform(comware.Platform)
	inventory.DefinePlatform(ebpf.Platform)
	inventory.DefinePlatform(eos.Platform)
	inventory.DefinePlatform(sai.Platform)
	inventory.DefinePlatform(sai.FBOSS)
	for _, p := range setups {
		inventory.DefinePlatform(p.keys)
	}
	for _, p := range openflow.Platforms() {
		inventory.DefinePlatform(p)
	}
}

// Default returns a registry of every platform this program knows.
func Default() *Registry {
	r := &Registry{}
	r.Register("linux", Platform{
		Title: "Linux", Open: openLinux, Rules: linux.Rules(), OnDevice: true,
		// Rules and the programs of ports that strip, which only CAP_SYS_ADMIN finds
		// again; test frames; the self-test's namespace.
		Capabilities: []int{capNetAdmin, capNetRaw, capSysAdmin},
		Offline:      linux.Offline, Diff: linux.Diff, Commands: func(_ vendors.Config, have, want vendors.Setup) ([]byte, error) {
			return linux.Script(have, want) // the same on every device
		},
	})
	r.Register(ebpf.Platform.Name, Platform{
		Title: "Linux, in eBPF", Open: openEBPF, Rules: ebpf.Offline().Rules, OnDevice: true,
		Capabilities: []int{capNetAdmin, capNetRaw, capSysAdmin}, // maps and programs are found again with CAP_SYS_ADMIN alone
		Offline:      ebpf.Offline, Diff: ebpf.Diff,
	})
	registerSONiC(r)
	registerOVS(r)
	registerOpenFlow(r)
	registerComware(r)
	registerEOS(r)
	registerGNMI(r)
	registerSetups(r)
	registerVRP(r)
	registerSAI(r)
	for _, p := range unsupported.All() {
		if _, driven := r.platforms[p.Name]; driven {
			continue
		}
		r.Register(p.Name, Platform{Title: p.Title, Offline: func() vendors.Facts { return p.Facts }})
	}
	return r
}

// Open opens a driver of the default registry.
func Open(platform string, cfg vendors.Config) (vendors.Driver, error) {
	return Default().Open(platform, cfg)
}
