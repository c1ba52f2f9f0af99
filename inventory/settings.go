package inventory

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// given is a value with its place; the zero value is not given.
type given[T any] struct {
	value T
	at    originID
}

// settings are what a layer (a device, a group, the defaults) says.
type settings struct {
	layer uint16

	device     layered[deviceKeys] // of one value each
	management layered[Management]
	netnsEach  []string // the namespaces of a range, one for each of several devices
	tags       []given[string]

	port    portSettings
	ports   []portDecl
	byName  map[string]int // index into ports, for groups
	open    bool           // some of its ports could not be read
	unsure  bool           // it has a platform that could not be read
	lostWay bool           // of what it says about the way in, not all could be read
}

// portSettings are what a layer says about a port, or about all of them.
type portSettings struct {
	speed  given[uint64]
	mtu    given[int]
	action given[vlanrules.Action]
	lm     given[lmSpec]
}

// lmSpec is what is known of a port's locators: for each signal the bits that
// are given, and their value.
type lmSpec [numSignals]struct {
	mask, value uint16
	wrong       bool // what the file says could not be read
}

// wrongLM is what is known of a port whose lm could not be read: enough to ask
// for no more of it.
func wrongLM() (out lmSpec) {
	for i := range out {
		out[i].wrong = true
	}
	return out
}

const numSignals = len(quantize.Signals)

// lostLayer is one that should be there and could not be read: what it may say
// is not missed.
func lostLayer() *settings {
	s := &settings{open: true, unsure: true, lostWay: true}
	s.port.lm = given[lmSpec]{wrongLM(), builtIn}
	return s
}

// over puts what a nearer layer says over what a farther one does; all is the
// mask of a whole locator.
func (s lmSpec) over(far lmSpec, all uint16) lmSpec {
	for i := range s {
		s[i].wrong = s[i].wrong || far[i].wrong && s[i].mask != all
		s[i].value |= far[i].value &^ s[i].mask
		s[i].mask |= far[i].mask
	}
	return s
}

// portDecl is one entry of a list of ports.
type portDecl struct {
	names []string
	peers []Peer // as names, or nil
	name  originID
	peer  originID

	stripRetired given[bool]
	portSettings
}

type group struct {
	settings
	name string
	at   originID
	used bool
}

type deviceDecl struct {
	settings
	names     []string
	addresses []string // as names, or nil
	local     bool
	groups    []given[string]
	lost      bool // groups could not all be read
	what      string
	at        originID // the mapping
	name      originID
	address   originID
	localAt   originID
}

type hostDecl struct {
	Host
	at originID
}

// declReader reads the settings of one layer.
type declReader struct {
	*profileReader
	c     *compiler
	file  uint16
	layer uint16
}

// of says that a value was given at a node.
func of[T any](d *declReader, n ast.Node, v T) given[T] { return given[T]{v, d.at(n)} }

func (d *declReader) at(n ast.Node) originID { return d.c.origins.add(d.file, d.layer, place(n)) }

// in is the reader for another layer.
func (d *declReader) in(layer uint16) *declReader {
	out := *d
	out.layer = layer
	return &out
}

// sections reads the devices, hosts and links of a file, and what they share.
func (c *compiler) sections(p *part) {
	own := *c.profile
	own.reader = p.reader
	d := &declReader{profileReader: &own, c: c, file: p.number}
	if n := p.get("defaults"); n != nil && c.defaultsFile == p {
		in := d.in(c.origins.layer("defaults"))
		if o, ok := keysOf[defaultKeys]().open(in.reader, n, "defaults"); ok {
			s := in.settings(o, "defaults")
			c.defaults = &s
		} else {
			c.defaults = lostLayer()
		}
	}
	if n := p.get("groups"); n != nil {
		list, _ := d.entries(n, "groups")
		for _, e := range list {
			d.group(e)
		}
	}
	if n := p.get("devices"); n != nil {
		list, _ := d.list(n, "devices")
		in := d.in(c.origins.layer("device"))
		for i, item := range list {
			in.device(item, i)
		}
	}
	if n := p.get("hosts"); n != nil {
		c.hostsGiven = true
		list, _ := d.list(n, "hosts")
		in := d.in(c.origins.layer("hosts"))
		for i, item := range list {
			in.host(item, i)
		}
	}
	if n := p.get("links"); n != nil {
		d.in(c.origins.layer("links")).links(n)
	}
}

func (d *declReader) group(e entry) {
	what := "group " + e.name
	at := d.at(e.key)
	if !isName(e.name) {
		d.errorf(e.key, "letters, digits, '.', '_' and '-', at most 63, the first a letter or digit", "groups: %q is not a name", e.name)
		return
	}
	if first := d.c.groups[e.name]; first != nil {
		o := d.c.origins.of(first.at)
		d.errorf(e.key, fmt.Sprintf("the first is in %s on line %d", o.File, o.Line), "group %s is there twice", e.name)
		return
	}
	g := &group{name: e.name, at: at}
	d.c.groups[e.name] = g // also when it is wrong, so that using it is no further mistake
	if g.settings = *lostLayer(); e.value == nil {
		return
	}
	in := d.in(d.c.origins.layer(what))
	if o, ok := keysOf[groupKeys]().open(in.reader, e.value, what); ok {
		g.settings = in.settings(o, what)
		g.byName = make(map[string]int)
		for i, p := range g.ports {
			for _, name := range p.names {
				g.byName[name] = i
			}
		}
	}
}

// names reads a name that may have ranges.
func (d *declReader) names(n ast.Node, what string) []string {
	s, ok := d.text(n, what)
	if !ok {
		return nil
	}
	list := d.expand(n, s, what)
	for _, name := range list {
		if !isName(name) {
			d.errorf(n, "letters, digits, '.', '_' and '-', at most 63, the first a letter or digit", "%s: %q is not a name", what, name)
			return nil
		}
	}
	return list
}

func (d *declReader) expand(n ast.Node, text, what string) []string {
	if d.c.named > maxNames {
		return nil // said already
	}
	list, err := expand(text)
	if err != nil {
		d.errorf(n, "", "%s: %v", what, err)
		return nil
	}
	if d.c.named += len(list); d.c.named > maxNames && len(list) > 1 {
		d.errorf(n, "split the domain", "%s: the ranges of the fleet stand for more than %d names", what, maxNames)
		return nil
	}
	return list
}

// maxList is how many groups or tags one device has at most.
const maxList = 256

// called is what messages call a thing by, "" where its name is none.
func (d *declReader) calledPattern(n ast.Node) string {
	name := d.called(n)
	list, err := expand(name)
	if err != nil || !isName(list[0]) {
		return ""
	}
	return name
}

func (d *declReader) device(n ast.Node, index int) {
	out := deviceDecl{what: fmt.Sprintf("device %d", index+1)}
	if name := d.calledPattern(n); name != "" {
		out.what = "device " + name
	}
	o, ok := keysOf[deviceKeys]().open(d.reader, n, out.what)
	if !ok {
		d.c.lostNames = true
		return
	}
	out.at = d.at(n)
	before := len(d.errs)
	nameNode := o.get("name")
	if nameNode != nil {
		out.names = d.names(nameNode, out.what+": name")
		out.name = d.at(nameNode)
	}
	if g := o.get("groups"); g != nil {
		for _, item := range d.oneOrMany(g, out.what+": groups") {
			if name, ok := d.name(item, out.what+": groups"); ok {
				out.groups = append(out.groups, of(d, item, name))
			} else {
				out.lost = true
			}
		}
	} else {
		out.lost = o.tried("groups")
	}
	if l := o.get("local"); l != nil {
		out.local, out.localAt = d.bool(l, out.what+": local"), d.at(l)
	}
	if a := o.get("address"); a != nil {
		out.addresses, out.address = d.addresses(a, out.what+": address", out.names), d.at(a)
	} else if o.tried("address") {
		out.address = out.at
	}
	lostWay := len(d.errs) > before || d.full() || o.tried("local") && o.get("local") == nil || o.tried("address") && o.get("address") == nil
	out.settings = d.settings(o, out.what)
	if n, list := len(out.names), out.netnsEach; len(list) > 0 && n > 0 && len(list) != n {
		d.errorf(o.get("management"), "give each its own", "%s: management: netns: %d namespaces for %d devices", out.what, len(list), n)
		out.netnsEach, out.lostWay = nil, true
	}
	out.lostWay = out.lostWay || lostWay
	if ports, there := o.values["ports"]; there && ports.value != nil && len(out.ports) == 0 && !d.full() {
		if seq, ok := ports.value.(*ast.SequenceNode); ok && len(seq.Values) == 0 {
			d.errorf(ports.value, "", "%s: there are no ports", out.what)
			out.open = true
		}
	}
	if len(out.names) == 0 {
		out.names = []string{""} // so that its other mistakes are found
		d.c.lostNames = true
	}
	d.c.devices = append(d.c.devices, out)
}

// addresses reads one address for each device.
func (d *declReader) addresses(n ast.Node, what string, names []string) []string {
	s, ok := d.text(n, what)
	if !ok {
		return nil
	}
	if !strings.ContainsAny(s, "[]") || checkAddress(s) == nil {
		one, _ := d.address(n, what)
		return []string{one}
	}
	list := d.expand(n, s, what)
	for _, one := range list {
		if err := checkAddress(one); err != nil {
			d.errorf(n, "e.g. 192.0.2.[1-4]", "%s: %q %v", what, one, err)
			return nil
		}
	}
	if len(list) > 0 && len(names) > 0 && len(list) != len(names) {
		d.errorf(n, "give each its own", "%s: %d addresses for %d devices", what, len(list), len(names))
		return nil
	}
	return list
}

// oneOrMany reads a list, or one entry without the brackets.
func (d *declReader) oneOrMany(n ast.Node, what string) []ast.Node {
	if n.Type() != ast.SequenceType {
		return []ast.Node{n}
	}
	list, _ := d.list(n, what)
	if len(list) > maxList {
		d.errorf(n, "", "%s: more than %d entries", what, maxList)
		list = list[:maxList]
	}
	return list
}

// settings reads what devices, groups and the defaults have in common.
func (d *declReader) settings(o Mapping, what string) settings {
	s := settings{layer: d.layer}
	s.device.read(d, o, "platform", "level", "interval", "schedule", "estimator", "counters")
	s.unsure = s.device.at["platform"] == notGiven && o.tried("platform")
	before := len(d.errs)
	if n := o.get("management"); n != nil {
		d.management(n, what+": management", &s)
		s.lostWay = len(d.errs) > before || d.full()
	} else {
		s.lostWay = o.tried("management")
	}
	if n := o.get("tags"); n != nil {
		for _, item := range d.oneOrMany(n, what+": tags") {
			if tag, ok := d.name(item, what+": tags"); ok {
				s.tags = append(s.tags, of(d, item, tag))
			}
		}
	}
	if n := o.get("port"); n != nil {
		if in, ok := keysOf[portDefaults]().open(d.reader, n, what+": port"); ok {
			s.port = d.portSettings(in)
		}
	} else if o.tried("port") {
		s.port.lm = given[lmSpec]{wrongLM(), builtIn}
	}
	if n := o.get("ports"); n != nil {
		s.ports, s.open = d.ports(n, what)
	} else {
		s.open = o.tried("ports")
	}
	return s
}

func (d *declReader) portSettings(m Mapping) portSettings {
	var s portSettings
	keys := keysOf[portKeys]()
	if keys.readKey(m, "speed", &s.speed.value) {
		s.speed.at = d.at(m.get("speed"))
	}
	if keys.readKey(m, "mtu", &s.mtu.value) {
		s.mtu.at = d.at(m.get("mtu"))
	}
	if n := m.get("action"); n != nil {
		// A wrong one counts as given: what is missing for another is not asked for.
		var word string
		keys.readKey(m, "action", &word)
		s.action = of(d, n, vlanrules.Passthrough)
		for _, a := range []vlanrules.Action{vlanrules.Update, vlanrules.Strip} {
			if a.String() == word {
				s.action.value = a
			}
		}
	}
	if n := m.get("lm"); n != nil {
		v, ok := d.lm(n, m.what+": lm")
		if !ok {
			v = wrongLM()
		}
		s.lm = of(d, n, v)
	} else if m.tried("lm") {
		s.lm = given[lmSpec]{wrongLM(), builtIn}
	}
	return s
}

// ports reads a list of ports and checks that they can be told apart.
// Those that could not all be read leave the list open.
func (d *declReader) ports(n ast.Node, device string) (out []portDecl, open bool) {
	list, ok := d.list(n, device+": ports")
	open = !ok
	out = make([]portDecl, 0, len(list))
	lines := make(map[string]int)
	for i, item := range list {
		what := fmt.Sprintf("%s, port %d", device, i+1)
		if name := d.called(item); name != "" && portNameProblem(name, "") == "" {
			what = device + ", port " + name
		}
		o, ok := keysOf[portKeys]().open(d.reader, item, what)
		if !ok {
			open = true
			continue
		}
		var p portDecl
		if name := o.get("name"); name != nil {
			p.names, p.name = d.portNames(name, what+": name"), d.at(name)
			for _, one := range p.names {
				if line, twice := lines[one]; twice {
					d.errorf(name, fmt.Sprintf("the first is on line %d", line), "%s: port %s is there twice", device, one)
					open = true
					break
				}
				lines[one] = place(name).line
			}
		}
		open = open || len(p.names) == 0
		p.portSettings = d.portSettings(o)
		if strip := o.get("strip_retired"); strip != nil {
			p.stripRetired = of(d, strip, d.bool(strip, what+": strip_retired"))
		}
		if peer := o.get("peer"); peer != nil {
			p.peers, p.peer = d.peers(peer, what+": peer", len(p.names)), d.at(peer)
		}
		out = append(out, p)
	}
	return out, open
}

// portNames reads the device's own name of a port, or of several.
func (d *declReader) portNames(n ast.Node, what string) []string {
	s, ok := d.text(n, what)
	if !ok {
		return nil
	}
	list := d.expand(n, s, what)
	for _, name := range list {
		if problem := portNameProblem(name, ""); problem != "" {
			d.errorf(n, "", "%s: %q: %s", what, name, problem)
			return nil
		}
	}
	return list
}

// peers reads the far ends of some ports: "device:port", or a host's name.
func (d *declReader) peers(n ast.Node, what string, ports int) []Peer {
	s, ok := d.text(n, what)
	if !ok {
		return nil
	}
	list := d.expand(n, s, what)
	if len(list) == 0 {
		return nil
	}
	if ports > 0 && len(list) != ports {
		d.errorf(n, "each port has a peer of its own: give both as many", "%s: the peers are %d, the ports %d", what, len(list), ports)
		return nil
	}
	out := make([]Peer, len(list))
	for i, text := range list {
		if out[i], ok = parsePeer(text); !ok {
			d.errorf(n, `write "s2:swp1" in quotes, or h1 for a host`, "%s: %q is not the far end of a link", what, text)
			return nil
		}
	}
	return out
}

func parsePeer(text string) (Peer, bool) {
	device, port, split := strings.Cut(text, ":")
	if !isName(device) || split && portNameProblem(port, "") != "" {
		return Peer{}, false
	}
	return Peer{device, port}, true
}

func (d *declReader) host(n ast.Node, index int) {
	what := fmt.Sprintf("host %d", index+1)
	if name := d.calledPattern(n); name != "" {
		what = "host " + name
	}
	nameNode, one, spaces := n, Host{}, []string(nil)
	if _, ok := n.(ast.MapNode); ok {
		var keys hostKeys
		m, ok := d.readKeys(n, what, &keys)
		if !ok || m.get("name") == nil {
			d.c.lostNames = true
		}
		if !ok {
			return
		}
		spaces = d.namespaces(m.get("management"), what+": management: netns", keys.Management.NetNS)
		one = Host{MTU: keys.MTU, CSIG: keys.CSIG, Interface: keys.Interface, Local: keys.Local}
		if nameNode = m.get("name"); nameNode == nil {
			return
		}
	}
	at := d.at(nameNode)
	names := d.names(nameNode, what+": name")
	d.c.lostNames = d.c.lostNames || len(names) == 0
	if len(spaces) == 1 {
		one.NetNS, spaces = spaces[0], nil
	}
	if len(spaces) > 0 && len(names) > 0 && len(spaces) != len(names) {
		d.errorf(nameNode, "give each its own", "%s: management: netns: %d namespaces for %d hosts", what, len(spaces), len(names))
		spaces = nil
	}
	for i, name := range names {
		if one.Name = name; i < len(spaces) {
			one.NetNS = spaces[i]
		}
		d.c.hosts = append(d.c.hosts, hostDecl{one, at})
	}
}
