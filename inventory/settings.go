package inventory

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/csig-agent/csig/quantize"
)

// lmSpec is what is known of a port's locators: for each signal the bits that
// are given, and their value.
type lmSpec [numSignals]struct{ mask, value uint16 }

const numSignals = len(quantize.Signals)

// portLM is a port's locator in the file: what was read, or the text to write.
type portLM struct {
	spec lmSpec
	text string
}

func (l *portLM) readFrom(r *reader, n ast.Node, what string) (ok bool) {
	l.spec, ok = r.lm(n, what)
	return ok
}

func (*portLM) form() *schema { return lmForm() }

func (l *portLM) writeTo(w *writer) { w.out = append(w.out, l.text...) }

// over takes the bits that are not given from a farther layer.
func (l *portLM) over(far any) {
	for i, f := range far.(*portLM).spec {
		l.spec[i].value |= f.value &^ l.spec[i].mask
		l.spec[i].mask |= f.mask
	}
}

type group struct {
	layered[deviceKeys]
	at   originID
	used bool
}

type deviceDecl struct {
	layered[deviceKeys]
	what    string   // how messages call it
	mapping originID // all of it
}

type hostDecl struct {
	Host
	at originID
}

// at is the origin of what stands at a node, in the layer that is being read.
func (r *reader) at(n ast.Node) originID { return r.c.origins.add(r.file, r.layer, place(n)) }

// sections reads the devices, hosts and links of a file, and what they share.
func (c *compiler) sections(p *part) {
	r := p.reader
	if n := p.get("defaults"); n != nil && c.defaultsFile == p {
		r.layer = c.origins.layer("defaults")
		c.defaults = r.readLayer(n, "defaults", notInDefaults)
	}
	if n := p.get("groups"); n != nil {
		list, _ := r.entries(n, "groups")
		for _, e := range list {
			r.group(e)
		}
	}
	r.each(p, "devices", "device", r.device)
	c.hostsGiven = c.hostsGiven || p.get("hosts") != nil
	r.each(p, "hosts", "hosts", r.host)
	if n := p.get("links"); n != nil {
		r.layer = c.origins.layer("links")
		r.links(n)
	}
}

// each reads the entries of a list.
func (r *reader) each(p *part, key, layer string, read func(n ast.Node, index int)) {
	n := p.get(key)
	if n == nil {
		return
	}
	list, _ := r.list(n, key)
	r.layer = r.c.origins.layer(layer)
	for i, item := range list {
		read(item, i)
	}
}

// readLayer reads a group or the defaults.
func (r *reader) readLayer(n ast.Node, what, without string) *layered[deviceKeys] {
	var out layered[deviceKeys]
	keys, given := out.parts()
	if _, ok := keySetOf(keys.Type(), without).read(r, n, what, keys, given); !ok {
		return lostLayer()
	}
	return &out
}

func (r *reader) group(e entry) {
	what := "group " + e.name
	if !isName(e.name) {
		r.errorf(e.key, nameHint, "groups: %q is not a name", e.name)
		return
	}
	if first := r.c.groups[e.name]; first != nil {
		o := r.c.origins.of(first.at)
		r.errorf(e.key, fmt.Sprintf("the first is in %s on line %d", o.File, o.Line), "group %s is there twice", e.name)
		return
	}
	r.layer = r.c.origins.layer(what)
	g := &group{at: r.at(e.key)}
	r.c.groups[e.name] = g // also when it is wrong, so that using it is no further mistake
	if g.layered = *lostLayer(); e.value != nil {
		g.layered = *r.readLayer(e.value, what, notInGroups)
	}
}

// expand returns the names that a text with ranges stands for. They count: a fleet
// has no end of them otherwise.
func (r *reader) expand(n ast.Node, text, what string) ([]string, bool) {
	if r.c.named > maxNames {
		return nil, false // said already
	}
	list, err := expand(text)
	if err != nil {
		r.errorf(n, "", "%s: %v", what, err)
		return nil, false
	}
	if r.c.named += len(list); r.c.named > maxNames && len(list) > 1 {
		r.errorf(n, "split the domain", "%s: the ranges of the fleet stand for more than %d names", what, maxNames)
		return nil, false
	}
	return list, true
}

// expandRead is expand for a text that was read, "" for none.
func expandRead(text string) []string {
	if text == "" {
		return nil
	}
	list, _ := expand(text)
	return list
}

// isPattern reports whether a text is a name, or stands for some.
func isPattern(text string) bool {
	list, err := expand(text)
	return err == nil && isName(list[0])
}

func (r *reader) device(n ast.Node, index int) {
	out := deviceDecl{what: fmt.Sprintf("device %d", index+1)}
	if name := called(n, isPattern); name != "" {
		out.what = "device " + name
	}
	keys, given := out.parts()
	m, ok := keysOf[deviceKeys]().read(r, n, out.what, keys, given)
	if !ok {
		r.c.lostNames = true
		return
	}
	out.mapping = r.at(n)
	names := len(expandRead(out.keys.Name))
	each := func(key, path, text, what string, at ast.Node) {
		if list := len(expandRead(text)); list > 1 && names > 0 && list != names {
			r.errorf(at, "give each its own", "%s: %s: %d %s for %d devices", out.what, path, list, what, names)
			out.lose(key)
		}
	}
	each("address", "address", out.keys.Address, "addresses", m.get("address"))
	each("management", "management: netns", out.keys.Management.keys.NetNS, "namespaces", m.get("management"))
	if seq, ok := m.get("ports").(*ast.SequenceNode); ok && len(seq.Values) == 0 {
		r.errorf(seq, "", "%s: there are no ports", out.what)
		out.keys.Ports.open = true
	}
	r.c.lostNames = r.c.lostNames || names == 0
	r.c.devices = append(r.c.devices, out)
}

// readFrom reads a list of ports and checks that they can be told apart.
// Those that could not all be read leave the list open.
func (l *portList) readFrom(r *reader, n ast.Node, what string) bool {
	device := strings.TrimSuffix(what, ": ports")
	list, ok := r.list(n, what)
	l.open = !ok
	lines := make(map[string]int)
	for i, item := range list {
		what := fmt.Sprintf("%s, port %d", device, i+1)
		if name := called(item, func(name string) bool { return portNameProblem(name, "") == "" }); name != "" {
			what = device + ", port " + name
		}
		var p layered[portKeys]
		keys, given := p.parts()
		m, ok := keysOf[portKeys]().read(r, item, what, keys, given)
		if !ok || p.keys.Name == "" {
			l.open = true
		}
		if !ok {
			continue
		}
		for _, one := range expandRead(p.keys.Name) {
			if line, twice := lines[one]; twice {
				r.errorf(m.get("name"), fmt.Sprintf("the first is on line %d", line), "%s: port %s is there twice", device, one)
				l.open = true
				break
			}
			lines[one] = place(m.get("name")).line
		}
		l.list = append(l.list, p)
	}
	return true
}

// portsOpen says that not all ports of a layer are known.
func portsOpen(l *layered[deviceKeys]) bool {
	return l.keys.Ports.open || l.isLost("ports") && l.originOf("ports") == notGiven
}

func parsePeer(text string) (Peer, bool) {
	device, port, split := strings.Cut(text, ":")
	if !isName(device) || split && portNameProblem(port, "") != "" {
		return Peer{}, false
	}
	return Peer{device, port}, true
}

func (r *reader) host(n ast.Node, index int) {
	what := fmt.Sprintf("host %d", index+1)
	if name := called(n, isPattern); name != "" {
		what = "host " + name
	}
	if _, pairs := n.(ast.MapNode); !pairs {
		what += ": name"
	}
	var keys hostKeys
	m, ok := r.readKeys(n, what, &keys)
	nameNode := m.get("name")
	if !ok || nameNode == nil {
		r.c.lostNames = true
		return
	}
	at := r.at(nameNode)
	names, spaces := expandRead(keys.Name), expandRead(keys.Management.NetNS)
	r.c.lostNames = r.c.lostNames || len(names) == 0
	if len(spaces) > 1 && len(names) > 0 && len(spaces) != len(names) {
		r.errorf(nameNode, "give each its own", "%s: management: netns: %d namespaces for %d hosts", what, len(spaces), len(names))
		spaces = nil
	}
	addresses := expandRead(keys.Address)
	if len(addresses) > 0 && len(names) > 0 && len(addresses) != len(names) {
		r.errorf(m.get("address"), "use a range, e.g. 192.0.2.[1-4], or an entry for each host", "%s: address: %d addresses for %d hosts", what, len(addresses), len(names))
		addresses = nil
	}
	for i, name := range names {
		one := keys.Host
		one.Name, one.Address = name, ""
		if len(addresses) > 0 {
			one.Address = addresses[i]
		}
		if len(spaces) > 0 {
			one.NetNS = spaces[min(i, len(spaces)-1)]
		}
		r.c.hosts = append(r.c.hosts, hostDecl{one, at})
	}
}

// names are those of the devices, "" for one without, so that its other mistakes are
// found.
func (d *deviceDecl) names() []string {
	if names := expandRead(d.keys.Name); len(names) > 0 {
		return names
	}
	return []string{""}
}

// chain lists the layers of a device, the nearest first.
func (c *compiler) chain(decl *deviceDecl) []*layered[deviceKeys] {
	out := []*layered[deviceKeys]{&decl.layered}
	for i, g := range decl.keys.Groups {
		if slices.ContainsFunc(decl.keys.Groups[:i], func(other placedName) bool { return other.name == g.name }) {
			c.errorf(g.at, "", "%s: groups: %s is there twice", decl.what, g.name)
			continue
		}
		group := c.groups[g.name]
		if group == nil {
			out = append(out, lostLayer())
			if c.lost {
				continue
			}
			c.errorf(g.at, suggestSome(g.name, c.groups), "%s: groups: there is no group %q", decl.what, g.name)
			continue
		}
		group.used = true
		out = append(out, &group.layered)
	}
	if decl.isLost("groups") {
		out = append(out, lostLayer())
	}
	if c.defaults != nil {
		out = append(out, c.defaults)
	}
	return out
}
