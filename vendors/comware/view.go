package comware

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vlanrules"
)

// view is what csig knows of a switch's configuration.
type view struct {
	classes   map[string][]string // the lines of each, sorted; the first is its operator
	behaviors map[string][]string
	policies  map[string][]pair // the associations of each, in match order
	odd       map[string]string // lines of policies that are no association
	ports     []port
	customer  uint16 // TPID of inner tags
	probe     bool   // there is csig's NQA operation
	scheduled bool   // it runs
	rtm       bool   // there is csig's EAA policy
	track     int    // csig's track entry; 0: none
	tracks    []int  // all
	elsewhere string // a line that applies a policy to what leaves ports, not at a port; "" for none
}

func newView() *view {
	return &view{classes: map[string][]string{}, behaviors: map[string][]string{}, policies: map[string][]pair{}, odd: map[string]string{}, customer: defaultTPID}
}

// pair is a class and its behavior in a policy.
type pair struct{ class, behavior string }

// port is an interface.
type port struct {
	name     string
	outbound string // the policy applied there, "" for none
	foreign  string // a line beside that, or in its place, by which another policy is applied there; "" for none
	service  uint16 // TPID of outer tags
	frames   string // the line about its longest frame, "" for the default
}

// defaultTPID is Comware's, of either tag (HPE 5950 Layer 2 - LAN Switching Command
// Reference 5200-2215a, qinq ethernet-type).
const defaultTPID = 0x8100

const (
	maxPorts   = 4096
	maxObjects = 1 << 16
)

// parse reads `display current-configuration`: sections that begin at the margin, with
// their lines indented, and between them lines of the system view, indented or not.
func parse(lines []string) (*view, error) {
	v := newView()
	var section func(depth int, line string)
	for _, line := range lines {
		text := strings.TrimSpace(line)
		switch depth := len(line) - len(strings.TrimLeft(line, " ")); {
		case text == "" || text[0] == '#':
			section = nil
		case depth > 0 && section != nil:
			section(depth, text)
		default:
			if section = v.begin(text); depth > 0 {
				section = nil
			}
		}
		if len(v.ports) > maxPorts || len(v.classes)+len(v.behaviors)+len(v.policies) > maxObjects {
			return nil, fmt.Errorf("the configuration has more than %d interfaces or %d QoS objects", maxPorts, maxObjects)
		}
	}
	for _, list := range v.classes {
		slices.Sort(list[1:])
	}
	return v, nil
}

// begin begins a section with its first line.
func (v *view) begin(line string) func(int, string) {
	words := strings.Fields(line)
	is := func(want ...string) bool {
		return len(words) > len(want) && slices.Equal(words[:len(want)], want)
	}
	switch {
	case is("qinq", "ethernet-type", "customer-tag"):
		v.customer = tpid(words[3])
	case is("traffic", "classifier"):
		operator := "and"
		if len(words) > 4 && words[3] == "operator" {
			operator = words[4]
		}
		name := words[2]
		v.classes[name] = []string{operator}
		return func(_ int, line string) { v.classes[name] = append(v.classes[name], line) }
	case is("traffic", "behavior"):
		name := words[2]
		v.behaviors[name] = nil
		return func(_ int, line string) { v.behaviors[name] = append(v.behaviors[name], line) }
	case is("qos", "policy"):
		name := words[2]
		v.policies[name] = nil
		return func(_ int, line string) {
			if w := strings.Fields(line); len(w) == 4 && w[0] == "classifier" && w[2] == "behavior" {
				v.policies[name] = append(v.policies[name], pair{w[1], w[3]})
			} else {
				v.odd[name] = line
			}
		}
	case line == "nqa entry "+nqaEntry:
		v.probe = true
		return func(int, string) {}
	case strings.HasPrefix(line, "nqa schedule "+nqaEntry+" "):
		v.scheduled = true
	case line == "rtm cli-policy "+deadPolicy:
		v.rtm = true
		return func(int, string) {}
	case is("track"):
		if n, err := strconv.Atoi(words[1]); err == nil {
			if v.tracks = append(v.tracks, n); strings.Contains(line, " nqa entry "+nqaEntry+" ") {
				v.track = n
			}
		}
	case is("interface"):
		v.ports = append(v.ports, port{name: words[1], service: defaultTPID})
		return v.iface(len(v.ports) - 1)
	case appliesOutbound(words): // in system view, to all ports or to VLANs
		v.elsewhere = line
	}
	return func(_ int, text string) { // for example a user profile
		if appliesOutbound(strings.Fields(text)) {
			v.elsewhere = line + ", " + text
		}
	}
}

// iface reads the lines of an interface, and of the views within it.
func (v *view) iface(at int) func(int, string) {
	within := ""
	return func(depth int, line string) {
		p, w := &v.ports[at], strings.Fields(line)
		switch {
		case depth > 1 && appliesOutbound(w): // for example an Ethernet service instance
			p.foreign = within + ", " + line
		case depth > 1:
		case appliesOutbound(w):
			if p.outbound = w[3]; len(w) != 5 {
				p.foreign = line
			}
		case len(w) == 4 && strings.HasPrefix(line, "qinq ethernet-type service-tag "):
			p.service = tpid(w[3])
		case qos.FrameLine(line):
			p.frames = line
		default:
			within = line
		}
	}
}

// appliesOutbound reports whether a line applies a policy to frames that leave ports. Behind
// the direction some series have another word, such as dynamic or share-mode.
func appliesOutbound(w []string) bool {
	return len(w) > 4 && w[0] == "qos" && (w[1] == "apply" && w[2] == "policy" || w[1] == "vlan-policy") && slices.Contains(w[3:], "outbound")
}

// tpid reads hexadecimal digits; 0 for what is none.
func tpid(text string) uint16 {
	n, err := strconv.ParseUint(text, 16, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}

// port is an interface by name, nil where there is none.
func (v *view) port(name string) *port {
	for i := range v.ports {
		if v.ports[i].name == name {
			return &v.ports[i]
		}
	}
	return nil
}

// rightClass reports whether a class matches what its name says.
func (v *view) rightClass(r *rule) bool {
	lines := r.matches()
	slices.Sort(lines)
	return slices.Equal(v.classes[r.class()], append([]string{"and"}, lines...))
}

// rightBehavior reports whether a behavior marks what its name says, and nothing else.
func (v *view) rightBehavior(x *value) bool {
	return slices.Equal(v.behaviors[x.behavior()], []string{x.mark()})
}

// entry is an association of csig's as a row of the table; ok is false where it is none, or
// not as csig left it.
func (v *view) entry(p pair, at position) (e vlanrules.Entry, ok bool) {
	r, isClass := parseClass(p.class)
	x, isBehavior := parseBehavior(p.behavior)
	if !isClass || !isBehavior || r.at != at || x.at != at || !v.rightClass(&r) || !v.rightBehavior(&x) {
		return e, false
	}
	e.Type, e.VID = vlanrules.RewriteVID, x.vid
	e.Match.PCP = vlanrules.Field{Kind: vlanrules.Ternary, Value: r.pcp, Mask: 7}
	e.Match.VID = vlanrules.Field{Kind: vlanrules.Range, First: r.first, Last: r.last}
	return e, true
}

// table is a port's policy as rows, the first with the highest priority, and what is
// associated there beside them.
func (v *view) table(dst vlanrules.Table, port string, at position) (t vlanrules.Table, strays []string) {
	pairs := v.policies[policyName(port)]
	t = dst[:0]
	for i, p := range pairs {
		e, ok := v.entry(p, at)
		if !ok {
			strays = append(strays, p.class)
			continue
		}
		e.Priority = uint16(len(pairs) - i)
		t = append(t, e)
	}
	return t, strays
}

// associated are the classes of a port's policy.
func (v *view) associated(port string) (classes []string) {
	for _, p := range v.policies[policyName(port)] {
		classes = append(classes, p.class)
	}
	return classes
}

// used reports whether any policy has a class.
func (v *view) used(class string) bool {
	for _, list := range v.policies {
		if slices.ContainsFunc(list, func(p pair) bool { return p.class == class }) {
			return true
		}
	}
	return false
}

// marks reports whether any policy has a behavior.
func (v *view) marks(behavior string) bool {
	for _, list := range v.policies {
		if slices.ContainsFunc(list, func(p pair) bool { return p.behavior == behavior }) {
			return true
		}
	}
	return false
}

// orphans are policies of csig's whose interface is not there, as after a card was taken out.
func (v *view) orphans() (policies []string) {
	for name, list := range v.policies {
		port, ok := strings.CutPrefix(name, prefix)
		foreign := v.odd[name] != "" || slices.ContainsFunc(list, func(p pair) bool {
			_, class := parseClass(p.class)
			_, behavior := parseBehavior(p.behavior)
			return !class || !behavior
		})
		if ok && !foreign && v.port(port) == nil && port != deadPort {
			policies = append(policies, name)
		}
	}
	slices.Sort(policies)
	return policies
}

// ours are the ports that have, or had, a policy of csig's.
func (v *view) ours() (ports []string) {
	for name := range v.policies {
		if port, ok := strings.CutPrefix(name, prefix); ok && v.port(port) != nil {
			ports = append(ports, port)
		}
	}
	order := map[string]int{}
	for i, p := range v.ports {
		order[p.name] = i
	}
	slices.SortFunc(ports, func(a, b string) int { return order[a] - order[b] })
	return ports
}

// records are the names of the behaviors that record a setup.
func (v *view) records() (names []string) {
	for name := range v.behaviors {
		if _, _, ok := parseRecord(name); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// idle are csig's classes and behaviors that no policy has.
func (v *view) idle() (classes, behaviors []string) {
	for _, name := range slices.Sorted(maps.Keys(v.classes)) {
		if v.used(name) {
			continue
		}
		if _, ok := parseClass(name); ok {
			classes = append(classes, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.behaviors)) {
		if v.marks(name) {
			continue
		}
		if _, ok := parseBehavior(name); ok {
			behaviors = append(behaviors, name)
		}
	}
	return classes, behaviors
}
