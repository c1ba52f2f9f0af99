package inventory

import "fmt"

// topology connects the ports: by the cables under links, and by what ports say
// of their peers, which is checked from both sides.
func (c *compiler) topology(f *Fleet) {
	t := &cabling{compiler: c, f: f, ports: make([]map[string]int, len(f.Devices))}
	t.connect()
	if c.full() {
		return
	}
	for i := range f.Devices {
		d := &f.Devices[i]
		if len(d.Ports) == 0 && d.Name != "" && !c.lost && !c.lostLinks && !c.open[i] {
			c.errorf(t.origins.devices[i].from.originOf("name"), "list the device's egress ports, here or in a group, or its cables under links", `device %s: "ports" is missing`, d.Name)
		}
		if d.Name == "" || f.index.devices[d.Name] != i {
			continue // what others say of its ports is not to be had
		}
		for j := range d.Ports {
			if c.full() {
				return
			}
			t.check(i, j)
		}
	}
	t.hosts()
}

// cabling is the work on the links of a fleet.
type cabling struct {
	*compiler
	f     *Fleet
	ports []map[string]int // of each device by their names, made when it is needed
}

func (t *cabling) about(i, j int) *portOrigins { return &t.origins.devices[i].ports[j] }

// port finds a port of a device, -1 when there is none.
func (t *cabling) port(i int, name string) int {
	if t.ports[i] == nil {
		t.ports[i] = make(map[string]int, len(t.f.Devices[i].Ports))
		for j := range t.f.Devices[i].Ports {
			t.ports[i][t.f.Devices[i].Ports[j].Name] = j
		}
	}
	if j, ok := t.ports[i][name]; ok {
		return j
	}
	return -1
}

// add gives a device a port that only its cable tells of.
func (t *cabling) add(i int, name string, at originID) int {
	d, about := &t.f.Devices[i], &t.origins.devices[i]
	p, o := t.anyPort[i].port, t.anyPort[i].about
	p.Name, o.name = name, at
	d.Ports, about.ports = append(d.Ports, p), append(about.ports, o)
	t.specs[i] = append(t.specs[i], t.anyPort[i].lm)
	t.ports[i][name] = len(d.Ports) - 1
	return len(d.Ports) - 1
}

// end is one end of a cable: port j of device i, or a host with i < 0.
type end struct{ i, j int }

var noDevice = end{-1, -1}

// connect takes in the cables under links.
func (t *cabling) connect() {
	listed := make([]bool, len(t.f.Devices)) // the file says which ports there are
	for i := range t.f.Devices {
		listed[i] = len(t.f.Devices[i].Ports) > 0
	}
	total := 0
	for l := range t.cables() {
		if t.full() {
			return
		}
		a, aOK := t.end(l.a, listed, l.at, l.at)
		b, bOK := t.end(l.b, listed, l.at, l.right)
		if !aOK || !bOK {
			continue
		}
		if total += 2; total > maxPorts {
			t.errorf(l.at, "split the domain", "the fleet has more than %d ports", maxPorts)
			return
		}
		switch {
		case a.i < 0 && b.i < 0:
			t.errorf(l.at, "one end is a device's port", "links: %s and %s are both hosts", l.a, l.b)
			continue
		case a == b:
			t.errorf(l.at, "", "links: %s is connected to itself", l.a)
			continue
		case a.i == b.i:
			t.errorf(l.at, "a frame would come back at once", "links: %s and %s are ports of one device", l.a, l.b)
			continue
		case t.plugged(a, b, l.b) && t.plugged(b, a, l.a):
			t.errorf(l.at, "the other is "+t.where(t.cableOf(a, b), l.at), "links: the cable %s - %s is there twice", l.a, l.b)
			continue
		}
		t.plug(a, b, l.b, l.at)
		t.plug(b, a, l.a, l.at)
	}
}

// plugged reports whether a cable under links has connected one end to another.
func (t *cabling) plugged(near, far end, name Peer) bool {
	if near.i < 0 {
		return true // a host has as many as it likes
	}
	if far.i >= 0 {
		name = Peer{t.f.Devices[far.i].Name, t.f.Devices[far.i].Ports[far.j].Name}
	}
	p := &t.f.Devices[near.i].Ports[near.j]
	return p.Peer == name && t.origins.of(t.about(near.i, near.j).peer).Layer == "links"
}

// cableOf is the cable that one of two ends, a port, has been plugged into.
func (t *cabling) cableOf(a, b end) originID {
	if a.i < 0 {
		a = b
	}
	return t.about(a.i, a.j).peer
}

// plug notes at one end of a cable what the other is.
func (t *cabling) plug(near, far end, name Peer, at originID) {
	if near.i < 0 {
		return
	}
	p, about := &t.f.Devices[near.i].Ports[near.j], t.about(near.i, near.j)
	if far.i >= 0 { // the fleet's own strings: there are many names
		name = Peer{t.f.Devices[far.i].Name, t.f.Devices[far.i].Ports[far.j].Name}
	}
	switch {
	case p.Peer == (Peer{}):
		p.Peer, about.peer = name, at
	case t.origins.of(about.peer).Layer == "links":
		t.errorf(at, "the other is "+t.where(about.peer, at), "links: %s:%s is connected twice: to %s, too", t.f.Devices[near.i].Name, p.Name, p.Peer)
	case p.Peer == name:
		about.peer = at // both say the same
	default:
		t.errorf(about.peer, "under links it is "+name.String()+", "+t.where(at, about.peer), "device %s, port %s: peer: %s is not what links has", t.f.Devices[near.i].Name, p.Name, p.Peer)
		p.Peer, about.peer = name, at // so that it is no further mistake
	}
}

// end finds what one end of a cable names, in a text of its own. What may only not have been read is
// no mistake.
func (t *cabling) end(p Peer, listed []bool, at, text originID) (end, bool) {
	wrong := func(hint, format string, args ...any) (end, bool) {
		t.errorf(text, hint, format, args...)
		return noDevice, false
	}
	i, device := t.f.index.devices[p.Device]
	_, host := t.f.index.hosts[p.Device]
	switch {
	case device && p.Port == "":
		t.leaveOpen(i)
		return wrong("write "+p.Device+":PORT", "links: %s is a device: the port is missing", p.Device)
	case device:
		j := t.port(i, p.Port)
		if j < 0 && listed[i] && t.open[i] {
			return noDevice, false
		}
		if j < 0 && listed[i] {
			return wrong(t.suggestPort(i, p.Port), "links: device %s has no port %s", p.Device, p.Port)
		}
		if j < 0 {
			if problem := portNameProblem(p.Port, t.f.Devices[i].Platform); problem != "" {
				t.leaveOpen(i)
				return wrong("", "links: %s: port %q: %s", p.Device, p.Port, problem)
			}
			j = t.add(i, p.Port, at)
		}
		return end{i, j}, true
	case host:
		return noDevice, true
	case t.lost || t.lostNames:
		return noDevice, p.Port == ""
	case p.Port != "":
		return wrong(suggestSome(p.Device, t.f.index.devices), "links: there is no device or host %q", p.Device)
	case t.hostsGiven:
		return wrong(suggestSome(p.Device, t.f.index.hosts), "links: there is no host %q", p.Device)
	}
	return noDevice, true // a host that the file does not describe
}

func (t *cabling) suggestPort(i int, name string) string {
	known := make([]string, len(t.f.Devices[i].Ports))
	for j := range known {
		known[j] = t.f.Devices[i].Ports[j].Name
	}
	if len(known) > 200 {
		return ""
	}
	hint := Suggest(name, known)
	if len(known) > 8 && len(hint) > 60 {
		return fmt.Sprintf("its ports are %s to %s", known[0], known[len(known)-1])
	}
	return hint
}

// check looks at what one port says of its peer.
func (t *cabling) check(i, j int) {
	d := &t.f.Devices[i]
	p, at := &d.Ports[j], t.about(i, j).peer
	if p.Peer == (Peer{}) {
		return
	}
	what := func() string { return fmt.Sprintf("device %s, port %s: peer: ", d.Name, p.Name) }
	k, device := t.f.index.devices[p.Peer.Device]
	_, host := t.f.index.hosts[p.Peer.Device]
	switch {
	case device && p.Peer.Port == "":
		t.errorf(at, fmt.Sprintf(`write "%s:PORT"`, p.Peer.Device), "%s%s is a device: the port is missing", what(), p.Peer)
		return
	case device && k == i:
		t.errorf(at, "a frame would come back at once", "%s%s is the device itself", what(), p.Peer)
		return
	case host:
		t.checkHost(p, i, j)
		return
	case !device && (t.lost || t.lostNames):
		return
	case !device && p.Peer.Port == "" && t.hostsGiven:
		t.errorf(at, suggestSome(p.Peer.Device, t.f.index.hosts), "%sthere is no host %q", what(), p.Peer.Device)
		return
	case !device && p.Peer.Port != "" && (t.hostsGiven || len(t.f.Devices) > 1):
		t.errorf(at, suggestSome(p.Peer.Device, t.f.index.devices), "%sthere is no device or host %q", what(), p.Peer.Device)
		return
	case !device:
		return // the file does not say more
	}
	m := t.port(k, p.Peer.Port)
	if m < 0 {
		// Signals run one way: a fleet may do without the ports of the way back.
		t.warnf(at, t.suggestPort(k, p.Peer.Port), "%sdevice %s does not list a port %s", what(), p.Peer.Device, p.Peer.Port)
		return
	}
	q := &t.f.Devices[k].Ports[m]
	own := Peer{d.Name, p.Name}
	switch {
	case q.Peer == (Peer{}) && t.about(k, m).peer != notGiven:
		return // what it says could not be read
	case q.Peer == (Peer{}) && t.lostLinks:
		return // a cable may say it
	case q.Peer == (Peer{}):
		t.errorf(at, fmt.Sprintf(`add peer: "%s" to port %s of device %s, or write the cable once, under links`, own, q.Name, p.Peer.Device), "%s%s does not say the same of this port", what(), p.Peer)
		return
	case q.Peer != own:
		t.errorf(at, t.where(t.about(k, m).peer, at), "%s%s says its peer is %s", what(), p.Peer, q.Peer)
		return
	}
	if k < i {
		return // what follows is wrong for both ends: once is enough
	}
	if p.Speed != 0 && q.Speed != 0 && p.Speed != q.Speed {
		t.errorf(t.about(i, j).speed, fmt.Sprintf("the other end's is %s", t.where(t.about(k, m).speed, t.about(i, j).speed)),
			"device %s, port %s: speed: %s here and %s at %s, on one link", d.Name, p.Name, FormatSpeed(p.Speed), FormatSpeed(q.Speed), p.Peer)
	}
	if p.MTU != 0 && q.MTU != 0 && p.MTU != q.MTU {
		t.warnf(t.about(i, j).mtu, "the smaller one is what fits", "device %s, port %s: mtu: %d here and %d at %s, on one link", d.Name, p.Name, p.MTU, q.MTU, p.Peer)
	}
}

// checkHost looks at a host without CSIG in its stack. The frames of the others are
// longer by what the platform lets pass, and inventory check sees to them.
func (t *cabling) checkHost(p *Port, i, j int) {
	if h := t.f.Hosts[t.f.index.hosts[p.Peer.Device]]; !h.CSIG && h.MTU != 0 && p.MTU != 0 && h.MTU > p.MTU {
		t.warnf(t.about(i, j).mtu, "its full-size frames vanish here", "device %s, port %s: mtu: %d here and %d at host %s", t.f.Devices[i].Name, p.Name, p.MTU, h.MTU, h.Name)
	}
}

// hosts warns of hosts that nothing is connected to.
func (t *cabling) hosts() {
	if len(t.f.Hosts) == 0 {
		return
	}
	seen := make([]bool, len(t.f.Hosts))
	for i := range t.f.Devices {
		for j := range t.f.Devices[i].Ports {
			if h, ok := t.f.index.hosts[t.f.Devices[i].Ports[j].Peer.Device]; ok {
				seen[h] = true
			}
		}
	}
	said := make(map[originID]bool)
	for _, h := range t.compiler.hosts {
		if !seen[t.f.index.hosts[h.Name]] && !said[h.at] {
			said[h.at] = true
			t.warnf(h.at, "", "host %s: no port is connected to it", h.Name)
		}
	}
}
