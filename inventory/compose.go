package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csig-agent/csig/quantize"
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
		c.take(first.reader)
		c.profile = first.readProfile(nil)
		for _, w := range c.waiting {
			c.sections(w)
			c.take(w.reader)
		}
	}
	f := &Fleet{Profile: c.profile.profile, index: &index{origins: c.origins}}
	c.readDomain(f)
	if c.full() {
		return f
	}
	if !c.devicesOf(f) {
		return f
	}
	c.hostsOf(f)
	if c.full() {
		return f
	}
	c.topology(f)
	c.stripRetired(f)
	for name := range maps.Keys(c.groups) {
		if g := c.groups[name]; !g.used {
			c.warnf(g.at, "", "group %s: no device is in it", name)
		}
	}
	c.locators(f)
	return f
}

// readDomain reads what the domain has once and depends on the profile.
func (c *compiler) readDomain(f *Fleet) {
	p := c.profile
	in := func(part *part) *profileReader {
		own := *p
		if part != nil {
			own.reader = part.reader
		}
		return &own
	}
	vlans := in(c.vlansFile)
	f.VLANTPIDs = vlans.vlanTPIDs(c.vlans)
	c.take(vlans.reader)
	p.checkVLANs(f.VLANTPIDs)
	p.checkRetired(f.VLANTPIDs)
	c.take(p.reader)
	policy := in(c.policyFile)
	f.Policy = policy.policy(c.policy)
	f.Policy.Retired = p.retired
	c.take(policy.reader)

	about := &c.origins.policy
	about.interval, about.schedule, about.estimator = builtIn, builtIn, builtIn
	if c.profileFile != nil {
		if o := c.profileFile.get("profile"); o != nil {
			about.interval = c.keyOrigin(c.profileFile, o, "interval", "profile")
		}
	}
	if c.policy != nil {
		if f.Policy.Schedule != "" {
			about.schedule = c.keyOrigin(c.policyFile, c.policy, "schedule", "policy")
		}
		about.estimator = c.keyOrigin(c.policyFile, c.policy, "estimator", "policy")
	}
}

// devicesOf composes the devices. It returns false where it gave up before the
// last one.
func (c *compiler) devicesOf(f *Fleet) bool {
	total := 0
	for i := range c.devices {
		total += len(c.devices[i].names)
	}
	if total > maxDevices {
		c.errorf(c.devices[0].at, "split the domain", "the fleet has %d devices, at most %d can be read", total, maxDevices)
		return false
	}
	f.index.devices = make(map[string]int, total)
	if total > 0 {
		f.Devices = make([]Device, 0, total)
		c.origins.devices = make([]deviceOrigins, 0, total)
	}
	local, ports := "", 0
	taken := make(map[string]originID)
	plans := make(map[string][]plannedPort)
	below := make(map[string]*settings)     // what the layers below a device's own come to
	schedules := make(map[[2]string]string) // why a schedule and interval do not go together
	for i := range c.devices {
		decl := &c.devices[i]
		chain := c.chain(decl)
		// Devices that say nothing about their ports are as their groups are.
		key := groupsOf(decl)
		if below[key] == nil {
			below[key] = &settings{device: overlay(chain[1:], ofDevice), management: overlay(chain[1:], ofManagement)}
		}
		plan, known := plans[key]
		if !known || len(decl.ports) > 0 {
			plan = c.planPorts(decl, chain)
		}
		if len(decl.ports) == 0 {
			plans[key] = plan
		}
		if ports += len(plan) * len(decl.names); ports > maxPorts {
			c.errorf(decl.at, "split the domain", "the fleet has more than %d ports", maxPorts)
			return false
		}
		for k, name := range decl.names {
			if c.full() {
				return false
			}
			d := Device{Name: name, Local: decl.local}
			about := deviceOrigins{name: decl.name, local: decl.localAt, address: decl.address}
			what := "device " + name
			if name == "" {
				what = decl.what
			} else if first, twice := f.index.devices[name]; twice {
				o := c.origins.of(c.origins.devices[first].name)
				hint := fmt.Sprintf("the first is on line %d", o.Line)
				if o.File != c.origins.of(decl.name).File {
					hint = fmt.Sprintf("the first is in %s on line %d", o.File, o.Line)
				}
				c.errorf(decl.name, hint, "device %s is there twice", name)
				c.leaveOpen(first)
				c.doubt(first)
				c.doubt(len(f.Devices))
				c.lostNames = true // one of the two is meant to be another
			} else {
				f.index.devices[name] = len(f.Devices)
			}
			switch {
			case d.Local && local != "":
				c.errorf(decl.at, "only the device that this agent runs on is local", "%s: %s is local already", what, local)
			case d.Local:
				local = name
			}
			switch {
			case k < len(decl.addresses):
				d.Address = decl.addresses[k]
				if len(decl.addresses) == 1 && len(decl.names) > 1 && d.Address != "" && k == 0 {
					c.errorf(decl.address, "use a range, e.g. 192.0.2.[1-4], or an entry for each device", "%s: address: one address for %d devices", decl.what, len(decl.names))
				}
			}
			c.deviceValues(f, decl, chain, below[key], &d, &about, what, schedules)
			if k < len(decl.netnsEach) {
				d.Management.NetNS = decl.netnsEach[k]
			}
			c.portValues(f, decl, chain, plan, &d, &about, what)
			if decl.lost || d.Platform == "" || d.Management.NetNS != "" && d.Management.SSH != nil || slices.ContainsFunc(chain, func(s *settings) bool { return s.unsure || s.lostWay }) {
				c.doubt(len(f.Devices))
			}
			if name != "" && !decl.lost {
				c.addressConflicts(&d, &about, what, taken)
			}
			f.Devices = append(f.Devices, d)
			c.origins.devices = append(c.origins.devices, about)
			if slices.ContainsFunc(chain, func(s *settings) bool { return s.open }) {
				c.leaveOpen(len(f.Devices) - 1)
			}
		}
	}
	if f.Policy.Schedule == "" {
		f.Policy.Schedule = "@every " + f.Profile.Interval.String()
	}
	return true
}

// doubt notes that the name, the platform or the way in of a device is not known
// for sure.
func (c *compiler) doubt(i int) {
	if c.doubted == nil {
		c.doubted = make(map[int]bool)
	}
	c.doubted[i] = true
}

// leaveOpen notes that not all ports of a device are known.
func (c *compiler) leaveOpen(i int) {
	if c.open == nil {
		c.open = make(map[int]bool)
	}
	c.open[i] = true
}

// groupsOf joins the names of a device's groups.
func groupsOf(decl *deviceDecl) string {
	var b strings.Builder
	for _, g := range decl.groups {
		b.WriteString(g.value)
		b.WriteByte('\n')
	}
	if decl.lost {
		b.WriteByte('?') // its chain has a layer more
	}
	return b.String()
}

// chain lists the layers of a device, the nearest first.
func (c *compiler) chain(decl *deviceDecl) []*settings {
	out := []*settings{&decl.settings}
	for i, g := range decl.groups {
		if slices.ContainsFunc(decl.groups[:i], func(other given[string]) bool { return other.value == g.value }) {
			c.errorf(g.at, "", "%s: groups: %s is there twice", decl.what, g.value)
			continue
		}
		group := c.groups[g.value]
		if group == nil {
			out = append(out, lostLayer())
			if c.lost {
				continue
			}
			c.errorf(g.at, suggestSome(g.value, c.groups), "%s: groups: there is no group %q", decl.what, g.value)
			continue
		}
		group.used = true
		out = append(out, &group.settings)
	}
	if decl.lost {
		out = append(out, lostLayer())
	}
	if c.defaults != nil {
		out = append(out, c.defaults)
	}
	return out
}

// suggestSome is suggest for names of the file, of which there may be many.
func suggestSome[V any](word string, known map[string]V) string {
	if len(known) > 2000 {
		return ""
	}
	names := slices.Sorted(maps.Keys(known))
	hint := suggest(word, names)
	if best := nearestWord(word, names); best != "" && otherNumber(word, best) {
		hint = "want " + oneOf(names)
	}
	if strings.HasPrefix(hint, "want ") && len(known) > 8 {
		return ""
	}
	return hint
}

func (c *compiler) deviceValues(f *Fleet, decl *deviceDecl, chain []*settings, below *settings, d *Device, about *deviceOrigins, what string, schedules map[[2]string]string) {
	pair := []*settings{&decl.settings, below}
	values, reach := overlay(pair, ofDevice), overlay(pair, ofManagement)
	about.keys, about.management = values.at, reach.at
	d.Platform, d.Level, d.Counters = values.keys.Platform, values.keys.Level, values.keys.Counters
	if values.at["platform"] == notGiven && !c.lost && !slices.ContainsFunc(chain, func(s *settings) bool { return s.unsure }) {
		c.errorf(decl.at, "e.g. platform: linux, here, in a group or in defaults", `%s: "platform" is missing`, what)
	}
	d.Management = reach.keys
	m, netns := &d.Management, reach.at["netns"]
	for _, s := range chain[1:] {
		if s.netnsEach != nil && s.management.at["netns"] == netns {
			c.errorf(netns, "write it under the devices", "%s: management: netns: the devices of a group have no namespaces of a range in common", what)
		}
	}
	if !c.lost && !slices.ContainsFunc(chain, func(s *settings) bool { return s.unsure || s.lostWay }) {
		c.needPlatformKeys(d, values.at["platform"], what)
	}
	if m.NetNS != "" && (m.SSH != nil || m.Daemon != nil && m.Daemon.Port != 0) {
		c.errorf(netns, "leave one of them out", "%s: management: netns: a namespace of this machine is not reached over the network", what)
	}
	for _, s := range chain {
		for _, tag := range s.tags {
			if about.tags == nil {
				about.tags = make(map[string]originID)
			}
			if _, there := about.tags[tag.value]; !there {
				about.tags[tag.value] = tag.at
				d.Tags = append(d.Tags, tag.value)
			}
		}
	}
	slices.Sort(d.Tags)

	if d.Address == "" && decl.address == notGiven {
		switch {
		case d.Counters.Source == SNMPSource || d.Counters.Source == GNMISource:
			c.errorf(decl.at, "e.g. address: 192.0.2.7; or 127.0.0.1 where csig runs on the device", `%s: "address" is missing: the %s source asks there`, what, d.Counters.Source)
		case m.SSH != nil:
			c.errorf(decl.at, "e.g. address: 192.0.2.7", `%s: "address" is missing: management: ssh goes there`, what)
		case m.Daemon != nil && m.Daemon.Port != 0:
			c.errorf(decl.at, "e.g. address: 192.0.2.7", `%s: "address" is missing: management: daemon is there`, what)
		}
	}
	if m.Daemon != nil && m.Daemon.Socket != "" && m.SSH == nil && m.NetNS == "" && decl.address != notGiven {
		c.errorf(about.management["daemon"], "add management: ssh, or port and tls in place of socket", "%s: management: daemon: its socket is reached through ssh, and there is none", what)
	}

	d.Interval, d.Schedule, d.Estimator = cmp.Or(values.keys.Interval, f.Profile.Interval), cmp.Or(values.keys.Schedule, f.Policy.Schedule), f.Policy.Estimator
	if values.at["estimator"] != notGiven {
		d.Estimator = values.keys.Estimator
	}
	at := values.at["schedule"]
	if at == notGiven {
		at = values.at["interval"]
	}
	if d.Schedule == "" {
		d.Schedule = "@every " + d.Interval.String()
	}
	if at != notGiven {
		key := [2]string{d.Schedule, d.Interval.String()}
		why, known := schedules[key]
		if !known {
			why = tooSparse(d.Schedule, d.Interval)
			schedules[key] = why
		}
		if why != "" {
			c.errorf(at, sparseHint, "%s: %s", what, why)
		}
	}
}

// plannedPort is one port of a device, with what its layers say about it in
// particular: an index into their ports, or -1.
type plannedPort struct {
	name    string
	entries []int // as the chain
	nth     int   // of the names of the device's own entry
	at      originID
}

// planPorts lists the ports that the layers of a device name: those of groups
// in order, then its own.
func (c *compiler) planPorts(decl *deviceDecl, chain []*settings) []plannedPort {
	var out []plannedPort
	var at map[string]int
	add := func(layer int, s *settings) {
		for i := range s.ports {
			for nth, name := range s.ports[i].names {
				k, there := at[name]
				if !there {
					k = len(out)
					at[name] = k
					entries := make([]int, len(chain))
					for j := range entries {
						entries[j] = -1
					}
					out = append(out, plannedPort{name: name, entries: entries})
				}
				if out[k].entries[layer] >= 0 {
					continue // it is there twice, which has been said
				}
				out[k].entries[layer] = i
				out[k].at = s.ports[i].name
				if layer == 0 {
					out[k].nth = nth
				}
			}
		}
	}
	at = make(map[string]int)
	for i := 1; i < len(chain); i++ {
		add(i, chain[i])
	}
	add(0, chain[0])
	return out
}

// portValues composes the ports of one device.
func (c *compiler) portValues(f *Fleet, decl *deviceDecl, chain []*settings, plan []plannedPort, d *Device, about *deviceOrigins, what string) {
	c.specs = append(c.specs, nil)
	c.chains = append(c.chains, chain)
	if len(plan) == 0 {
		return
	}
	d.Ports = make([]Port, len(plan))
	specs := make([]lmSpec, len(plan))
	about.ports = make([]portOrigins, len(plan))
	wrongName := notGiven
	for i := range plan {
		p := &plan[i]
		d.Ports[i].Name, about.ports[i].name = p.name, p.at
		if problem := portNameProblem(p.name, d.Platform); problem != "" && wrongName != p.at {
			wrongName = p.at
			c.errorf(p.at, "", "%s: port %q: %s", what, p.name, problem)
		}
		c.portOf(chain, p.entries, &d.Ports[i], &about.ports[i])
		specs[i] = c.lmFrom(chain, p.entries)
		for layer, e := range p.entries {
			if e >= 0 && chain[layer].ports[e].stripRetired.at != notGiven {
				if c.retired == nil {
					c.retired = make(map[[2]int]bool)
				}
				c.retired[[2]int{len(f.Devices), i}] = chain[layer].ports[e].stripRetired.value
				break
			}
		}
		if own := p.entries[0]; own >= 0 {
			about.ports[i].peer = decl.ports[own].peer
			if decl.ports[own].peers != nil {
				d.Ports[i].Peer = decl.ports[own].peers[p.nth]
			}
		}
		for layer, e := range p.entries {
			if layer > 0 && e >= 0 && chain[layer].ports[e].peers != nil {
				c.errorf(chain[layer].ports[e].peer, "write it under the device, or write cables under links", "port %s: peer: the devices of a group have no peer in common", p.name)
			}
		}
	}
	c.specs[len(c.specs)-1] = specs
}

// stripRetired says where tags of retired TPIDs end: where the file says so or,
// where it says nothing, where no device of the fleet is known to be.
func (c *compiler) stripRetired(f *Fleet) {
	if len(f.Policy.Retired) == 0 {
		return
	}
	for i := range f.Devices {
		for j := range f.Devices[i].Ports {
			p := &f.Devices[i].Ports[j]
			p.StripRetired = f.stripsRetired(p)
			if v, given := c.retired[[2]int{i, j}]; given && p.Action != vlanrules.Strip {
				p.StripRetired = v
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

// portOf fills in what the layers say about a port: in each the port's own
// entry goes before what holds for all ports.
func (c *compiler) portOf(chain []*settings, entries []int, p *Port, about *portOrigins) {
	p.Action, about.action = vlanrules.Update, builtIn
	action := false
	for layer, s := range chain {
		for k := range 2 {
			from := &s.port
			if k == 0 {
				if entries == nil || entries[layer] < 0 {
					continue
				}
				from = &s.ports[entries[layer]].portSettings
			}
			if from.speed.at != notGiven && about.speed == notGiven {
				p.Speed, about.speed = from.speed.value, from.speed.at
			}
			if from.mtu.at != notGiven && about.mtu == notGiven {
				p.MTU, about.mtu = from.mtu.value, from.mtu.at
			}
			if from.action.at != notGiven && !action {
				p.Action, about.action, action = from.action.value, from.action.at, true
			}
			if from.lm.at != notGiven && about.lm == notGiven {
				about.lm = from.lm.at
			}
		}
	}
}

// lmFrom composes what the layers say about a port's locators, field by field.
func (c *compiler) lmFrom(chain []*settings, entries []int) lmSpec {
	all := c.profile.profile.Layout.LMAllOnes()
	var out lmSpec
	for layer, s := range chain {
		if entries != nil && entries[layer] >= 0 {
			if lm := s.ports[entries[layer]].lm; lm.at != notGiven {
				out = out.over(lm.value, all)
			}
		}
		if s.port.lm.at != notGiven {
			out = out.over(s.port.lm.value, all)
		}
	}
	return out
}

// hostsOf lists the hosts.
func (c *compiler) hostsOf(f *Fleet) {
	f.index.hosts = make(map[string]int, len(c.hosts))
	f.Hosts = slices.Grow(f.Hosts, len(c.hosts))
	at := make([]originID, 0, len(c.hosts)) // of f.Hosts
	for _, h := range c.hosts {
		if first, twice := f.index.hosts[h.Name]; twice {
			c.errorf(h.at, fmt.Sprintf("the first is on line %d", c.origins.of(at[first]).Line), "host %s is there twice", h.Name)
			c.lostNames = true
			continue
		}
		if _, device := f.index.devices[h.Name]; device {
			c.errorf(h.at, "", "host %s: a device has this name", h.Name)
		}
		f.index.hosts[h.Name] = len(f.Hosts)
		f.Hosts, at = append(f.Hosts, h.Host), append(at, h.at)
	}
}

// signalsOf are the profile's signals in wire order.
func signalsOf(p *quantize.Profile) []quantize.Signal {
	return slices.DeleteFunc(slices.Clone(quantize.Signals[:]), func(s quantize.Signal) bool {
		_, carried := p.Signals[s]
		return !carried
	})
}
