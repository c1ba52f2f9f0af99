package netbox

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/csig-agent/csig/inventory/discovery"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// Draft is the fleet of an export. roles are those of switches; none: of all devices. Devices of
// other roles are hosts. command is what makes it.
func (x *Export) Draft(command string, roles []string) (*discovery.Draft, error) {
	if len(x.devices) == 0 {
		return nil, errors.New("no device: name the export of NetBox's devices, too")
	}
	if len(x.interfaces) == 0 {
		return nil, errors.New("no interface: name the export of NetBox's interfaces, too")
	}
	d := &discovery.Draft{Command: command, Notes: x.notes}
	isSwitch := func(role string) bool {
		return len(roles) == 0 || slices.ContainsFunc(roles, func(r string) bool { return strings.EqualFold(r, role) })
	}
	byName := make(map[string]*discovery.Device)
	seen := make(map[string]bool)
	inactive := 0
	for i := range x.devices {
		v := &x.devices[i]
		if v.name != "" && seen[v.name] {
			return nil, fmt.Errorf("two devices are called %s: names are unique in a site of NetBox, and in a fleet file; export one site at a time", untrusted.Text(v.name, maxText))
		}
		seen[v.name] = true
		switch {
		case v.name == "" || !isSwitch(v.role):
		case v.status != "" && !strings.EqualFold(v.status, "active"):
			inactive++
		default:
			address, _, _ := strings.Cut(v.address, "/")
			dev := &discovery.Device{
				Name: v.name, Platform: discovery.Platform(v.platform, v.maker, v.model), Address: address, Tags: v.tags,
				What: strings.Join(strings.Fields(v.platform+" "+v.maker+" "+v.model), " "),
			}
			byName[v.name], d.Devices = dev, append(d.Devices, dev)
		}
	}
	if len(d.Devices) == 0 {
		return nil, fmt.Errorf("none of %d devices is an active one of the role %s; their roles are %s", len(x.devices), strings.Join(roles, ", "), strings.Join(x.Roles(), ", "))
	}
	if inactive > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("devices left out because their status is not Active: %d", inactive))
	}
	x.connect(d, byName)
	return d, nil
}

// maxKbps is the fastest speed of an interface that is believed: 100 Tbit/s.
const maxKbps = 100_000_000_000

// connect adds the ports and cables of the devices.
func (x *Export) connect(d *discovery.Draft, byName map[string]*discovery.Device) {
	type key = discovery.End
	cabled := make(map[key]bool)
	join := func(a, b []discovery.End, what string) {
		for i := range a {
			cabled[a[i]] = true
		}
		for i := range b {
			cabled[b[i]] = true
		}
		switch {
		case len(a) == 0 || len(b) == 0: // to what is no interface
		case len(a) > 1 || len(b) > 1:
			d.Notes = append(d.Notes, untrusted.Text(fmt.Sprintf("%s leads to several ports: FILL IN its cables under links", what), 3*maxText))
		case byName[a[0].Device] != nil:
			d.Cables = append(d.Cables, discovery.Cable{A: a[0], B: b[0]})
		case byName[b[0].Device] != nil:
			d.Cables = append(d.Cables, discovery.Cable{A: b[0], B: a[0]})
		}
	}
	for i := range x.interfaces {
		if p := &x.interfaces[i]; len(p.peers) > 0 {
			own := discovery.End{Device: p.device, Port: p.name}
			join([]discovery.End{own}, p.peers, own.String())
		}
	}
	known := make(map[key]bool, len(cabled))
	for e := range cabled {
		known[e] = true
	}
	for _, c := range x.cables {
		// A path through a patch panel is known by its ends already.
		if c.status != "" && !strings.EqualFold(c.status, "connected") || len(c.a) == 1 && known[c.a[0]] || len(c.b) == 1 && known[c.b[0]] {
			continue
		}
		if len(c.a) > 0 {
			join(c.a, c.b, "the cable of "+c.a[0].String())
		}
	}
	some := make(map[string]bool) // devices with a cable
	for e := range cabled {
		some[e.Device] = true
	}
	for i := range x.interfaces {
		p := &x.interfaces[i]
		dev := byName[p.device]
		if dev == nil || p.name == "" {
			continue
		}
		speed, physical := speedOf(p.kind)
		if p.kbps > 0 && p.kbps <= maxKbps {
			speed = p.kbps * 1000
		}
		switch {
		case !physical && !cabled[key{Device: p.device, Port: p.name}]: // VLAN interfaces, aggregates, wireless
		case p.disabled, p.mgmt:
			dev.LeftOut = append(dev.LeftOut, p.name)
		case some[p.device] && !cabled[key{Device: p.device, Port: p.name}]:
			dev.LeftOut = append(dev.LeftOut, p.name)
		default:
			note := ""
			if speed == 0 {
				note = "FILL IN speed, where the device does not know it"
			}
			dev.Ports = append(dev.Ports, discovery.Port{Name: p.name, Speed: speed, MTU: p.mtu, Note: note})
		}
	}
}

// The speed in NetBox's types of interfaces: 10gbase-x-sfpp, 1.6tbase-dr8, and in the words for
// them, which CSV files have: SFP+ (10GE), 100BASE-TX (10/100ME).
var (
	typeSlug = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\d+(?:\.\d+)?)([gt]?)base-`) })
	typeName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\((?:[\d.]+/)*(\d+(?:\.\d+)?)([MGT])E\b[^)]*\)$`) })
)

// speedOf is the speed of a type in bit/s, and whether it is one of Ethernet ports.
func speedOf(kind string) (bps uint64, physical bool) {
	var unit float64
	m := typeSlug().FindStringSubmatch(strings.ToLower(kind))
	if m != nil {
		unit = map[string]float64{"": 1e6, "g": 1e9, "t": 1e12}[m[2]]
	} else if m = typeName().FindStringSubmatch(kind); m != nil {
		unit = map[string]float64{"M": 1e6, "G": 1e9, "T": 1e12}[m[2]]
	} else {
		return 0, false
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil || n > 1e5 {
		return 0, false
	}
	return uint64(n * unit), true
}
