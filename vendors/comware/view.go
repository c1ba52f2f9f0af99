package comware

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

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
}

// pair is a class and its behavior in a policy.
type pair struct{ class, behavior string }

// port is an interface.
type port struct {
	name     string
	outbound string // the policy applied there, "" for none
	service  uint16 // TPID of outer tags
}

// defaultTPID is Comware's, of either tag (HPE 5950 Layer 2 - LAN Switching Command
// Reference 5200-2215a, qinq ethernet-type).
const defaultTPID = 0x8100

const (
	maxPorts   = 4096
	maxObjects = 1 << 16
)

// parse reads `display current-configuration`: sections that begin at the margin, with
// their lines indented.
func parse(lines []string) (*view, error) {
	v := &view{classes: map[string][]string{}, behaviors: map[string][]string{}, policies: map[string][]pair{}, odd: map[string]string{}, customer: defaultTPID}
	var section func(line string)
	for _, line := range lines {
		text := strings.TrimSpace(line)
		switch {
		case text == "" || text[0] == '#':
			section = nil
		case line[0] == ' ' && section != nil:
			section(text)
		case line[0] != ' ':
			section = v.begin(strings.Fields(text))
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

// begin begins a section; nil where csig has no use for it.
func (v *view) begin(words []string) func(string) {
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
		return func(line string) { v.classes[name] = append(v.classes[name], line) }
	case is("traffic", "behavior"):
		name := words[2]
		v.behaviors[name] = nil
		return func(line string) { v.behaviors[name] = append(v.behaviors[name], line) }
	case is("qos", "policy"):
		name := words[2]
		v.policies[name] = nil
		return func(line string) {
			if w := strings.Fields(line); len(w) == 4 && w[0] == "classifier" && w[2] == "behavior" {
				v.policies[name] = append(v.policies[name], pair{w[1], w[3]})
			} else {
				v.odd[name] = line
			}
		}
	case is("interface"):
		v.ports = append(v.ports, port{name: words[1], service: defaultTPID})
		p := len(v.ports) - 1
		return func(line string) {
			switch w := strings.Fields(line); {
			case len(w) == 5 && strings.HasPrefix(line, "qos apply policy ") && w[4] == "outbound":
				v.ports[p].outbound = w[3]
			case len(w) == 4 && strings.HasPrefix(line, "qinq ethernet-type service-tag "):
				v.ports[p].service = tpid(w[3])
			}
		}
	}
	return nil
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

// rightClass tells whether a class matches what its name says.
func (v *view) rightClass(r *rule) bool {
	lines := r.matches()
	slices.Sort(lines)
	return slices.Equal(v.classes[r.class()], append([]string{"and"}, lines...))
}

// rightBehavior tells whether a behavior marks what its name says, and nothing else.
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

// used tells whether any policy has a class.
func (v *view) used(class string) bool {
	for _, list := range v.policies {
		if slices.ContainsFunc(list, func(p pair) bool { return p.class == class }) {
			return true
		}
	}
	return false
}

// marks tells whether any policy has a behavior.
func (v *view) marks(behavior string) bool {
	for _, list := range v.policies {
		if slices.ContainsFunc(list, func(p pair) bool { return p.behavior == behavior }) {
			return true
		}
	}
	return false
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
		if _, ok := parseClass(name); ok && !v.used(name) {
			classes = append(classes, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.behaviors)) {
		if _, ok := parseBehavior(name); ok && !v.marks(name) {
			behaviors = append(behaviors, name)
		}
	}
	return classes, behaviors
}
