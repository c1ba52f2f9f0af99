package qos

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csig-agent/csig/vlanrules"
)

// View is what csig knows of a switch's configuration.
type View struct {
	Dialect   *Dialect
	Classes   map[string][]string  // the lines of each, sorted, without Dialect.All
	Behaviors map[string][]string  // the lines of each
	Policies  map[string][]Binding // in the order of the configuration
	Odd       map[string]string    // a line of a policy that binds nothing
	Ports     []*Port
	Kept      string // the policy of a dead-man, which is of no port; "" for none
	InnerTPID uint16 // of the switch
	Elsewhere string // a line that applies a policy to what leaves ports, not at a port; "" for none
	Blocked   string // why no port can have a policy of csig's; "": they can
	Own       any    // what the platform knows beside that

	// Hardware is why ports' policies are not in hardware, by the switch's last report; nil for one that is.
	Hardware map[string]error
}

// Binding is a classifier and its behavior in a policy.
type Binding struct {
	Class, Behavior string
	Number          int // 0 where the dialect has none
}

// Port is an interface.
type Port struct {
	Name    string
	Applied []string // policies applied to what it sends
	TPID    uint16   // of outer tags
	Frames  string   // the line about its longest frame, "" for the default
	Member  string   // why its longest frame is not its own; "": it is
	Blocked string   // why it cannot have a policy of csig's as the switch is configured; "": it can
}

const (
	maxPorts   = 4096
	maxObjects = 1 << 16
)

// NewView is one of a switch without QoS objects.
func NewView(d *Dialect) *View {
	return &View{Dialect: d, Classes: map[string][]string{}, Behaviors: map[string][]string{}, Policies: map[string][]Binding{}, Odd: map[string]string{}, InnerTPID: DefaultTPID, Hardware: map[string]error{}}
}

// Take reads a line of a section, which is indented by so many blanks.
type Take func(depth int, line string)

// Parse reads a configuration: sections that begin at the margin, with their lines indented,
// and between them lines of the system view, indented or not. Those that are no QoS objects
// are section's, which returns nil where it has no use for one.
func Parse(d *Dialect, lines []string, section func(v *View, words []string) Take) (*View, error) {
	v := NewView(d)
	var take Take
	open := false // in a section
	for _, line := range lines {
		text := strings.TrimSpace(line)
		switch depth := len(line) - len(strings.TrimLeft(line, " ")); {
		case text == "" || text[0] == '#':
			take, open = nil, false
		case depth > 0 && open:
			if take != nil {
				take(depth, text)
			}
		case depth > 0:
			section(v, strings.Fields(text))
		default:
			open = true
			words := strings.Fields(text)
			if take = v.object(words); take == nil {
				take = section(v, words)
			}
		}
		if len(v.Ports) > maxPorts || len(v.Classes)+len(v.Behaviors)+len(v.Policies) > maxObjects {
			return nil, fmt.Errorf("the configuration has more than %d interfaces or %d QoS objects", maxPorts, maxObjects)
		}
	}
	for _, list := range v.Classes {
		slices.Sort(list)
	}
	for _, p := range v.Ports {
		p.Blocked = cmp.Or(p.Blocked, v.Blocked)
	}
	return v, nil
}

// object begins the section of a QoS object; nil for any other.
func (v *View) object(words []string) Take {
	if len(words) < 3 {
		return nil
	}
	name := words[2]
	switch words[0] + " " + words[1] {
	case "traffic classifier":
		v.Classes[name] = []string{}
		if !strings.HasPrefix(strings.Join(words[3:], " "), v.Dialect.All) {
			v.Classes[name] = []string{"any of:"}
		}
		return func(_ int, line string) { v.Classes[name] = append(v.Classes[name], line) }
	case "traffic behavior":
		v.Behaviors[name] = nil
		return func(_ int, line string) {
			if !slices.Contains(v.Dialect.Idle, line) {
				v.Behaviors[name] = append(v.Behaviors[name], line)
			}
		}
	case v.Dialect.Policy:
		v.Policies[name] = nil
		return func(_ int, line string) {
			if b, ok := v.Dialect.parseBinding(line); ok {
				v.Policies[name] = append(v.Policies[name], b)
			} else {
				v.Odd[name] = line
			}
		}
	}
	return nil
}

// Port is an interface by name, nil where there is none.
func (v *View) Port(name string) *Port {
	for _, p := range v.Ports {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Foreign is a policy applied at a port that is not csig's own, "" for none.
func (p *Port) Foreign() string {
	if i := slices.IndexFunc(p.Applied, func(name string) bool { return name != PolicyName(p.Name) }); i >= 0 {
		return p.Applied[i]
	}
	return ""
}

// Ours reports whether csig's policy is applied at the port.
func (p *Port) Ours() bool { return slices.Contains(p.Applied, PolicyName(p.Name)) }

// rightClass reports whether a classifier matches what its name says.
func (v *View) rightClass(r *Rule) bool {
	lines, there := v.Classes[r.Class()]
	return there && slices.Equal(lines, v.Dialect.classLines(r))
}

// rightBehavior reports whether a behavior marks what its name says, and nothing else.
func (v *View) rightBehavior(x *Value) bool {
	return slices.Equal(v.Behaviors[x.Behavior()], []string{v.Dialect.markLine(x)})
}

// entry is a binding of csig's as a row of the table; ok is false where it is none, or not
// as csig left it.
func (v *View) entry(b Binding, at Position) (e vlanrules.Entry, ok bool) {
	r, isClass := ParseClass(b.Class)
	x, isBehavior := ParseBehavior(b.Behavior)
	if !isClass || !isBehavior || r.At != at || x.At != at || !v.rightClass(&r) || !v.rightBehavior(&x) {
		return e, false
	}
	e.Type, e.VID = vlanrules.RewriteVID, x.VID
	e.Match.PCP = vlanrules.Field{Kind: vlanrules.Ternary, Value: r.PCP, Mask: 7}
	e.Match.VID = vlanrules.Field{Kind: vlanrules.Range, First: r.First, Last: r.Last}
	return e, true
}

// Table is a port's policy as rows, the first with the highest priority. Strays are bindings
// of csig's names that are not as csig left them; foreign ones (ForeignIn) are neither.
func (v *View) Table(dst vlanrules.Table, port string, at Position) (t vlanrules.Table, strays []string) {
	list := v.Policies[PolicyName(port)]
	t = dst[:0]
	for i, b := range list {
		e, ok := v.entry(b, at)
		if !ok {
			if b.own() {
				strays = append(strays, b.Class)
			}
			continue
		}
		e.Priority = uint16(len(list) - i)
		t = append(t, e)
	}
	return t, strays
}

// ForeignIn is what in a port's policy csig did not make, and does not remove; "" for nothing.
func (v *View) ForeignIn(port string) string {
	name := PolicyName(port)
	if line := v.Odd[name]; line != "" {
		return line
	}
	for _, b := range v.Policies[name] {
		if !b.own() {
			return v.Dialect.bindLine(&b)
		}
	}
	return ""
}

// own reports whether both names of a binding are csig's.
func (b *Binding) own() bool {
	_, class := ParseClass(b.Class)
	_, behavior := ParseBehavior(b.Behavior)
	return class && behavior
}

// uses reports whether any policy has a binding of which is reports true.
func (v *View) uses(is func(Binding) bool) bool {
	for _, list := range v.Policies {
		if slices.ContainsFunc(list, is) {
			return true
		}
	}
	return false
}

// Ours are the ports that have, or had, a policy of csig's, in the order of the switch.
func (v *View) Ours() (ports []string) {
	for _, p := range v.Ports {
		if _, there := v.Policies[PolicyName(p.Name)]; there {
			ports = append(ports, p.Name)
		}
	}
	return ports
}

// Orphans are policies of csig's whose interface is not there, as after a card was taken out.
func (v *View) Orphans() (policies []string) {
	for _, name := range slices.Sorted(maps.Keys(v.Policies)) {
		port, ok := strings.CutPrefix(name, Prefix)
		if ok && name != v.Kept && v.Port(port) == nil && v.ForeignIn(port) == "" {
			policies = append(policies, name)
		}
	}
	return policies
}

// Records are the names of the behaviors that record a setup.
func (v *View) Records() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(v.Behaviors)) {
		if _, _, ok := ParseRecord(name); ok {
			names = append(names, name)
		}
	}
	return names
}

// Idle are csig's classifiers and behaviors that no policy has.
func (v *View) Idle() (classes, behaviors []string) {
	for _, name := range slices.Sorted(maps.Keys(v.Classes)) {
		if _, ok := ParseClass(name); ok && !v.uses(func(b Binding) bool { return b.Class == name }) {
			classes = append(classes, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.Behaviors)) {
		if _, ok := ParseBehavior(name); ok && !v.uses(func(b Binding) bool { return b.Behavior == name }) {
			behaviors = append(behaviors, name)
		}
	}
	return classes, behaviors
}
