package inventory

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/vlanrules"
)

// compose makes the fleet of what the files say. It goes on after mistakes, to
// find all of them.
func (c *compiler) compose() *Fleet {
	if c.profile == nil {
		if len(c.sources) == 0 || len(c.waiting) == 0 {
			return nil // nothing could be read
		}
		first := c.waiting[0]
		if c.profileFile == nil && !c.lost { // else it is wrong, or may be in a file that is
			first.errorf(first.node, "it says what all devices of the domain share", `fleet: "profile" is missing`)
		}
		c.profile = first.readProfile(nil)
		c.readWaiting()
	}
	f := &Fleet{Profile: c.profile.profile, index: &index{origins: c.origins, looks: c.looks}}
	c.readDomain(f)
	if c.full() {
		return f
	}
	if !c.devicesOf(f) {
		return f
	}
	f.Mesh = c.mesh
	c.hostsOf(f)
	if c.full() {
		return f
	}
	before := len(c.errs)
	c.topology(f)
	c.badCables = len(c.errs) > before
	c.stripRetired(f)
	for name := range maps.Keys(c.groups) {
		if g := c.groups[name]; !g.used {
			c.warnf(g.at, "", "group %s: no device is in it", name)
		}
	}
	c.unusedFacts()
	c.locators(f)
	return f
}

// readDomain reads what the domain has once and depends on the profile.
func (c *compiler) readDomain(f *Fleet) {
	p := c.profile
	if c.vlansFile != nil {
		f.VLANTPIDs = c.vlansFile.vlanTPIDs(c.vlans)
	} else {
		f.VLANTPIDs = slices.Clone(defaultVLANTPIDs[:])
	}
	p.checkVLANs(f.VLANTPIDs)
	policy := layered[Policy]{keys: keysOf[Policy]().filled.Interface().(Policy)}
	if c.policyFile != nil {
		policy = c.policyFile.policy(c.policy)
	}
	f.Policy = policy.keys
	f.Policy.OnStale, f.Policy.Estimator = cmp.Or(f.Policy.OnStale, Conservative), f.Policy.Estimator.orRaw()
	f.Policy.Retired = p.retired
	c.origins.policy = policyOrigins{cmp.Or(p.interval, builtIn), cmp.Or(policy.originOf("schedule"), builtIn), cmp.Or(policy.originOf("estimator"), builtIn)}
}

// devicesOf composes the devices. It returns false where it gave up before the
// last one.
func (c *compiler) devicesOf(f *Fleet) bool {
	total := 0
	for i := range c.devices {
		total += len(c.devices[i].names())
	}
	if total > maxDevices {
		c.errorf(c.devices[0].mapping, "split the domain", "the fleet has %d devices, at most %d can be read", total, maxDevices)
		return false
	}
	f.index.devices = make(map[string]int, total)
	if total > 0 {
		f.Devices = make([]Device, 0, total)
		c.origins.devices = make([]deviceOrigins, 0, total)
	}
	local, ports := "", 0
	taken := make(map[string]originID)
	for i := range c.devices {
		decl := &c.devices[i]
		chain := c.chain(decl)
		values := overlayAll(chain)
		plan := c.planPorts(chain)
		anyPort := c.composePort(chain, nil)
		names, addresses, spaces := decl.names(), expandRead(decl.keys.Address), expandRead(values.keys.Management.keys.NetNS)
		if ports += len(plan) * len(names); ports > maxPorts {
			c.errorf(decl.mapping, "split the domain", "the fleet has more than %d ports", maxPorts)
			return false
		}
		if len(addresses) == 1 && len(names) > 1 {
			c.errorf(decl.originOf("address"), "use a range, e.g. 192.0.2.[1-4], or an entry for each device", "%s: address: one address for %d devices", decl.what, len(names))
		}
		for k, name := range names {
			if c.full() {
				return false
			}
			d := Device{Name: name, Local: decl.keys.Local}
			about := deviceOrigins{from: &values}
			what := "device " + name
			if name == "" {
				what = decl.what
			} else if first, twice := f.index.devices[name]; twice {
				at := decl.originOf("name")
				c.errorf(at, "the first is "+c.where(c.origins.devices[first].from.originOf("name"), at), "device %s is there twice", name)
				c.leaveOpen(first)
				c.doubt(first)
				c.doubt(len(f.Devices))
				c.lostNames = true // one of the two is meant to be another
			} else {
				f.index.devices[name] = len(f.Devices)
			}
			switch {
			case d.Local && local != "":
				c.errorf(decl.mapping, "only the device that this agent runs on is local", "%s: %s is local already", what, local)
			case d.Local:
				local = name
			}
			if k < len(addresses) {
				d.Address = addresses[k]
			}
			c.deviceValues(f, decl, &values, &d, what)
			if len(spaces) > 0 {
				d.Management.NetNS = spaces[min(k, len(spaces)-1)]
			}
			if at := values.keys.Management.originOf("netns"); len(spaces) > 1 && at != decl.keys.Management.originOf("netns") {
				c.errorf(at, "write it under the devices", "%s: management: netns: the devices of a group have no namespaces of a range in common", what)
			}
			c.portValues(plan, anyPort, &d, &about, what)
			if d.Platform == "" || d.Management.NetNS != "" && d.Management.SSH != nil || values.isLost("name", "groups", "platform", "local", "address", "management") {
				c.doubt(len(f.Devices))
			}
			if name != "" && !decl.isLost("groups") {
				c.addressConflicts(&d, &about, what, taken)
			}
			f.Devices = append(f.Devices, d)
			c.origins.devices = append(c.origins.devices, about)
			if slices.ContainsFunc(chain, portsOpen) {
				c.leaveOpen(len(f.Devices) - 1)
			}
		}
	}
	if f.Policy.Schedule == "" {
		f.Policy.Schedule = "@every " + max(f.Profile.Interval, MinPeriod).String()
	}
	return true
}

// doubt notes that the name, the platform or the way in of a device is not known
// for sure.
func (c *compiler) doubt(i int) { c.doubted[i] = true }

// leaveOpen notes that not all ports of a device are known.
func (c *compiler) leaveOpen(i int) { c.open[i] = true }

// suggestSome is suggest for names of the file, of which there may be many.
func suggestSome[V any](word string, known map[string]V) string {
	if len(known) > 2000 {
		return ""
	}
	names := slices.Sorted(maps.Keys(known))
	hint := Suggest(word, names)
	if best := nearestWord(word, names); best != "" && otherNumber(word, best) {
		hint = "want " + oneOf(names)
	}
	if strings.HasPrefix(hint, "want ") && len(known) > 8 {
		return ""
	}
	return hint
}

// deviceValues fills in what the layers of a device say of it.
func (c *compiler) deviceValues(f *Fleet, decl *deviceDecl, values *layered[deviceKeys], d *Device, what string) {
	keys, m := &values.keys, &values.keys.Management
	d.Platform, d.Level, d.Counters, d.Management = keys.Platform, keys.Level, keys.Counters, m.keys
	d.Facts, d.Experimental = c.factsOf(keys.Facts, values.originOf("facts"), what), keys.Experimental
	if d.Facts != nil && d.Facts.Platform != "" && keys.Platform != "" && d.Facts.Platform != keys.Platform {
		c.warnf(values.originOf("facts"), "qualify that platform, or name the facts that are of it", "%s: facts %s are not used: they are of platform %s, and it is %s", what, d.Facts.Name, d.Facts.Platform, keys.Platform)
	}
	if keys.Updates != updatesNever {
		d.Updates = keys.Updates
	}
	if keys.Lease != leaseRequired {
		d.Lease = keys.Lease
	}
	if values.originOf("platform") == notGiven && !c.lost && !values.isLost("platform") {
		c.errorf(decl.mapping, "e.g. platform: linux, here, in a group or in defaults", `%s: "platform" is missing`, what)
	}
	if !c.lost && !values.isLost("name", "groups", "platform", "local", "address", "management") {
		c.needPlatformKeys(d, values.originOf("platform"), what)
	}
	ssh, daemon := d.Management.SSH != nil, d.Management.Daemon
	if d.Management.NetNS != "" && (ssh || daemon != nil && (daemon.Port != 0 || daemon.At != "")) {
		c.errorf(m.originOf("netns"), "leave one of them out", "%s: management: netns: a namespace of this machine is not reached over the network", what)
	}
	for _, tag := range keys.Tags {
		d.Tags = append(d.Tags, tag.name)
	}
	slices.Sort(d.Tags)
	d.Tags = slices.Compact(d.Tags)

	if d.Address == "" && !decl.isLost("address") && decl.originOf("address") == notGiven {
		missing := func(why string) {
			c.errorf(decl.mapping, "e.g. address: 192.0.2.7", `%s: "address" is missing: %s`, what, why)
		}
		switch {
		case d.Counters.Source == SNMPSource || d.Counters.Source == GNMISource:
			c.errorf(decl.mapping, "e.g. address: 192.0.2.7; or 127.0.0.1 where csig runs on the device", `%s: "address" is missing: the %s source asks there`, what, d.Counters.Source)
		case ssh:
			missing("management: ssh goes there")
		case daemon != nil && daemon.Port != 0 && daemon.At == "":
			missing("management: daemon is there")
		default:
			if _, connects := OwnKeys[NetworkKeys](d); connects && d.Reaches() == "" {
				missing("csig connects there, or knows by it who connects without TLS")
			}
		}
	}
	if daemon != nil && daemon.At != "" && !ssh && d.Reaches() == "" && !c.lost {
		c.errorf(m.originOf("daemon"), "add management: ssh", "%s: management: daemon: at: an agent elsewhere reaches the device over ssh, and there is none", what)
	} else if daemon != nil && daemon.Socket != "" && daemon.At == "" && !ssh && d.Management.NetNS == "" && decl.originOf("address") != notGiven {
		c.errorf(m.originOf("daemon"), "add management: ssh, or port and tls in place of socket", "%s: management: daemon: its socket is reached through ssh, and there is none", what)
	}

	d.Interval, d.Schedule, d.Estimator = cmp.Or(keys.Interval, f.Profile.Interval), cmp.Or(keys.Schedule, f.Policy.Schedule), f.Policy.Estimator
	if values.originOf("estimator") != notGiven {
		d.Estimator = keys.Estimator
	}
	c.schedule(d, values, what)
}

// nativePeriod is how often csig looks after a device that measures by itself, unless the
// file says otherwise.
const nativePeriod = time.Second

// schedule is when to sample a device, which has to be once in each of its intervals.
func (c *compiler) schedule(d *Device, values *layered[deviceKeys], what string) {
	native := d.native()
	switch {
	case d.Schedule != "":
	case native:
		d.Schedule = "@every " + max(d.Interval, nativePeriod).String()
	default:
		d.Schedule = "@every " + d.Interval.String()
	}
	if native {
		return
	}
	at := values.originOf("interval")
	if d.Interval < MinPeriod && d.Interval > 0 {
		c.errorf(cmp.Or(at, c.origins.policy.interval), "give it an interval of its own, or csig's data plane, platform: linux-ebpf", "%s: an interval of %s is too short: csig samples at most once every %s", what, d.Interval, MinPeriod)
		return
	}
	why := tooSparse(d)
	if given := values.originOf("schedule"); given != notGiven {
		at = given
	}
	switch {
	case why == "":
	case at != notGiven:
		c.errorf(at, sparseHint, "%s: %s", what, why)
	case !c.sparse: // of all devices that have neither
		c.sparse = true
		c.errorf(c.origins.policy.schedule, sparseHint, "policy: %s", why)
	}
}

// givenLM is what the layers of a port say of its locators.
type givenLM struct {
	lmSpec
	lost      bool // not all could be read: no more is asked for
	lostSpeed bool
	said      attributeSet // no value for a field of this name: reported, or it only follows from another mistake
}

// composedPort is what the layers say of a port.
type composedPort struct {
	port  Port
	about portOrigins
	lm    givenLM
}

// composePort puts together what the layers say of a port: in each the port's own
// entry, where there is one, goes before what holds for all ports.
func (c *compiler) composePort(chain []*layered[deviceKeys], entries []*layered[portKeys]) *composedPort {
	var v layered[portKeys]
	for layer, l := range slices.Backward(chain) {
		v = overlay(&l.keys.Port, &v)
		if entries != nil && entries[layer] != nil {
			v = overlay(entries[layer], &v)
		}
	}
	lost := v.isLost("lm") || slices.ContainsFunc(chain, func(l *layered[deviceKeys]) bool { return l.isLost("port") })
	out := &composedPort{
		port:  Port{Speed: cmp.Or(v.keys.Speed.Override, v.keys.Speed.given), SpeedOverride: v.keys.Speed.Override != 0, MTU: v.keys.MTU, Action: vlanrules.Update},
		about: portOrigins{v.originOf("name"), v.originOf("speed"), v.originOf("mtu"), v.originOf("action"), v.originOf("lm"), v.originOf("strip_retired"), notGiven, 0, 0},
		lm:    givenLM{lmSpec: v.keys.LM.spec, lost: lost, lostSpeed: v.isLost("speed")},
	}
	switch v.keys.Action {
	case vlanrules.Strip.String():
		out.port.Action = vlanrules.Strip
	case vlanrules.Passthrough.String():
		out.port.Action = vlanrules.Passthrough
	case "":
		if v.isLost("action") { // so that nothing is asked for that another action does without
			out.port.Action = vlanrules.Passthrough
		}
	}
	if out.about.action == notGiven {
		out.about.action = builtIn
	}
	if v.keys.StripRetired != nil {
		out.port.StripRetired = *v.keys.StripRetired
	}
	return out
}

// plannedPort is one port of a device.
type plannedPort struct {
	name    string
	entries []*layered[portKeys] // of each layer, nil where it says nothing of this port in particular
	nth     int                  // of the names of the device's own entry
	*composedPort
}

// planPorts lists the ports that the layers of a device name: those of groups
// in order, then its own.
func (c *compiler) planPorts(chain []*layered[deviceKeys]) []plannedPort {
	var out []plannedPort
	at := make(map[string]int)
	add := func(layer int) {
		list := chain[layer].keys.Ports.list
		for i := range list {
			for nth, name := range expandRead(list[i].keys.Name) {
				k, there := at[name]
				if !there {
					k = len(out)
					at[name] = k
					out = append(out, plannedPort{name: name, entries: make([]*layered[portKeys], len(chain))})
				}
				if out[k].entries[layer] == nil { // else it is there twice, which has been said
					out[k].entries[layer] = &list[i]
					out[k].nth = nth
				}
			}
		}
	}
	for i := 1; i < len(chain); i++ {
		add(i)
	}
	add(0)
	for k := range out {
		if k > 0 && slices.Equal(out[k].entries, out[k-1].entries) {
			out[k].composedPort = out[k-1].composedPort
		} else {
			out[k].composedPort = c.composePort(chain, out[k].entries)
		}
	}
	return out
}

// portValues gives one device its ports.
func (c *compiler) portValues(plan []plannedPort, anyPort *composedPort, d *Device, about *deviceOrigins, what string) {
	var specs []givenLM
	if len(plan) > 0 {
		d.Ports = make([]Port, len(plan))
		specs = make([]givenLM, len(plan))
		about.ports = make([]portOrigins, len(plan))
	}
	wrongName := notGiven
	for i := range plan {
		p := &plan[i]
		d.Ports[i], about.ports[i], specs[i] = p.port, p.about, p.lm
		d.Ports[i].Name = p.name
		if problem := portNameProblem(p.name, d.Platform); problem != "" && wrongName != p.about.name {
			wrongName = p.about.name
			c.errorf(wrongName, "", "%s: port %q: %s", what, p.name, problem)
		}
		for layer, e := range p.entries {
			switch {
			case e == nil:
			case layer > 0 && e.keys.Peer != "":
				c.errorf(e.originOf("peer"), "write it under the device, or write cables under links", "port %s: peer: the devices of a group have no peer in common", p.name)
			case layer == 0:
				about.ports[i].peer = e.originOf("peer")
				if e.isLost("peer") {
					about.ports[i].peer = builtIn // it has one, and which is not known
				}
				if peers := expandRead(e.keys.Peer); p.nth < len(peers) {
					d.Ports[i].Peer, _ = parsePeer(peers[p.nth])
				}
			}
		}
	}
	c.anyPort = append(c.anyPort, anyPort)
	c.specs = append(c.specs, specs)
}

// stripRetired says where tags of retired TPIDs end: where the file says so or,
// where it says nothing, where no device of the fleet is known to be.
func (c *compiler) stripRetired(f *Fleet) {
	for i := range f.Devices {
		for j := range f.Devices[i].Ports {
			p := &f.Devices[i].Ports[j]
			if given := c.origins.devices[i].ports[j].strip != notGiven; !given || len(f.Policy.Retired) == 0 || p.Action == vlanrules.Strip {
				p.StripRetired = f.stripsRetired(p)
			}
		}
	}
}

// stripsRetired is what a port does with tags of retired TPIDs where the file
// says nothing.
func (f *Fleet) stripsRetired(p *Port) bool {
	if len(f.Policy.Retired) == 0 || p.Action == vlanrules.Strip {
		return false
	}
	_, device := f.Device(p.Peer.Device)
	return !device || p.Peer.Port == ""
}

// hostsOf lists the hosts.
func (c *compiler) hostsOf(f *Fleet) {
	f.index.hosts = make(map[string]int, len(c.hosts))
	addresses := make(map[netip.Addr]int)
	f.Hosts = slices.Grow(f.Hosts, len(c.hosts))
	at := make([]originID, 0, len(c.hosts)) // of f.Hosts
	for _, h := range c.hosts {
		if first, twice := f.index.hosts[h.Name]; twice {
			c.errorf(h.at, "the first is "+c.where(at[first], h.at), "host %s is there twice", h.Name)
			c.lostNames = true
			continue
		}
		if _, device := f.index.devices[h.Name]; device {
			c.errorf(h.at, "", "host %s: a device has this name", h.Name)
		}
		if h.Address != "" {
			ip := netip.MustParseAddr(h.Address).Unmap()
			if first, twice := addresses[ip]; twice {
				c.errorf(h.at, "the other is "+c.where(at[first], h.at), "host %s: address: %s is that of host %s, too", h.Name, h.Address, f.Hosts[first].Name)
			}
			addresses[ip] = len(f.Hosts)
		}
		if h.TCP != nil && f.Profile.TPID != 0x88a8 {
			c.errorf(h.at, "give the profile tpid: 0x88a8, or leave the host's tcp: csig mesh works with every TPID", "host %s: tcp: the profile's TPID is 0x%04x, and the kernel sends TCP with tags of 0x88a8 alone", h.Name, f.Profile.TPID)
		}
		f.index.hosts[h.Name] = len(f.Hosts)
		f.Hosts, at = append(f.Hosts, h.Host), append(at, h.at)
	}
}
