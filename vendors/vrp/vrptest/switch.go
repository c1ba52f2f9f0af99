// Package vrptest is a switch of Huawei's for tests: an interpreter of the part of VRP's
// command line that csig uses, with its views, prompts and errors, which hands the rules that
// its configuration means to a data plane. One of the S series carries out each line; a
// CloudEngine has a candidate for each login, and commits. A command that it does not know is
// an error. Huawei's texts are cited in vendors/vrp/doc.go.
package vrptest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csig-agent/csig/vendors/cli/clitest"
)

// VIDs is a range of VLAN IDs.
type VIDs struct{ First, Last uint16 }

// Rule is one classifier of an applied policy, of the outer tag. The first that matches wins.
type Rule struct {
	Class string
	VIDs  []VIDs // none: any
	PCP   int    // -1: any
	Mark  int    // the new VLAN ID; -1: as it is
}

// Port is what a port's configuration means.
type Port struct {
	Name     string
	TPID     uint16 // of outer tags
	Outbound []Rule

	// In and Out are the longest frames, in bytes, that it takes and that it sends; 0: they are not
	// looked at.
	In, Out int
}

// Switch is one switch, with its running configuration.
type Switch struct {
	Name     string
	Backward bool // hardware has classifiers in the opposite of their order (S series, match-order auto)

	// Changed is called with what the configuration means when a command has changed it. It
	// returns how many rules of each port are in hardware; nil: all.
	Changed func(ports []Port) []int

	// InGap is called while an edited policy is ineffective, with the rules of its ports gone.
	InGap func()

	// Late is for how long after a change the switch reports the states of before.
	Late time.Duration

	cloud bool // a CloudEngine

	mu      sync.Mutex // guards what follows
	running *config
	failed  map[string]bool // ports whose policy is not in hardware
	before  map[string]bool // as it was before the last change
	changed time.Time       // the last change
	saves   int
	changes int
	trial   *trial
}

type trial struct {
	id    string // of a persistent one, "" for that of a login
	by    *shell
	until time.Time
	back  *config
}

type config struct {
	Classes   map[string]*class
	Behaviors map[string][]string
	Policies  map[string][]pair
	Ifaces    []*iface
	Atomic    bool
	Global    []string            // lines of system view
	VLANs     map[string][]string // lines of VLAN views
}

type class struct {
	All   bool
	Lines []string
}

type pair struct {
	Class, Behavior string
	Precedence      int
}

type iface struct {
	Name    string
	Lines   []string            // that have no other meaning here
	Applied map[string][]string // policies by direction
	TPID    uint16
	Longest int // frame, by jumboframe enable; 0: the default
}

func (c *config) clone() *config {
	out := *c
	out.Classes = map[string]*class{}
	for name, cl := range c.Classes {
		out.Classes[name] = &class{cl.All, slices.Clone(cl.Lines)}
	}
	out.Behaviors, out.Policies, out.VLANs = map[string][]string{}, map[string][]pair{}, map[string][]string{}
	for name, list := range c.Behaviors {
		out.Behaviors[name] = slices.Clone(list)
	}
	for name, list := range c.Policies {
		out.Policies[name] = slices.Clone(list)
	}
	for name, list := range c.VLANs {
		out.VLANs[name] = slices.Clone(list)
	}
	out.Global, out.Ifaces = slices.Clone(c.Global), nil
	for _, i := range c.Ifaces {
		n := &iface{Name: i.Name, Lines: slices.Clone(i.Lines), Applied: map[string][]string{}, TPID: i.TPID, Longest: i.Longest}
		for direction, list := range i.Applied {
			n.Applied[direction] = slices.Clone(list)
		}
		out.Ifaces = append(out.Ifaces, n)
	}
	return &out
}

// New returns a switch of the S series with these interfaces.
func New(name string, interfaces ...string) *Switch { return newSwitch(false, name, interfaces) }

// NewCloudEngine returns a CloudEngine with these interfaces.
func NewCloudEngine(name string, interfaces ...string) *Switch {
	return newSwitch(true, name, interfaces)
}

func newSwitch(cloud bool, name string, interfaces []string) *Switch {
	c := &config{Classes: map[string]*class{}, Behaviors: map[string][]string{}, Policies: map[string][]pair{}, VLANs: map[string][]string{}}
	for _, i := range interfaces {
		c.Ifaces = append(c.Ifaces, &iface{Name: i, Lines: []string{"port link-type trunk", "port trunk allow-pass vlan 2 to 4094"}, Applied: map[string][]string{}, TPID: 0x8100})
	}
	return &Switch{Name: name, cloud: cloud, running: c}
}

// Shell is a login.
func (c *Switch) Shell() clitest.Shell { return &shell{c: c, page: 24} }

// Type carries out commands in system view, as an operator at the console does, and commits
// them on a CloudEngine; the first that is refused ends the program.
func (c *Switch) Type(lines ...string) {
	sh := &shell{c: c, views: []view{{kind: system}}, candidate: c.running.clone(), base: c.running}
	if c.cloud {
		lines = append(slices.Clone(lines), "commit")
	}
	for _, line := range lines {
		if answer, _ := sh.Do(line); answer != "" {
			panic(line + ": " + answer)
		}
	}
}

// Pull takes an interface out, as with its card.
func (c *Switch) Pull(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.running.clone()
	now.Ifaces = slices.DeleteFunc(now.Ifaces, func(i *iface) bool { return i.Name == name })
	c.running = now
}

// Running is the running configuration, as display current-configuration has it.
func (c *Switch) Running() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	return c.text()
}

// Changes is how often it changed.
func (c *Switch) Changes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes
}

// Saves is how often the configuration was saved.
func (c *Switch) Saves() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.saves
}

func (c *Switch) operator(all bool) string {
	word := "operator"
	if c.cloud {
		word = "type"
	}
	if all {
		return word + " and"
	}
	return word + " or"
}

func (c *Switch) text() string {
	var b strings.Builder
	section := func(head string, lines []string) {
		b.WriteString("#\n" + head + "\n")
		for _, l := range lines {
			b.WriteString(" " + l + "\n")
		}
	}
	r := c.running
	section("sysname "+c.Name, nil)
	if r.Atomic {
		section("traffic-policy atomic-update-mode", nil)
	}
	for _, name := range slices.Sorted(maps.Keys(r.VLANs)) {
		section("vlan "+name, r.VLANs[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.Classes)) {
		section("traffic classifier "+name+" "+c.operator(r.Classes[name].All), r.Classes[name].Lines)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Behaviors)) {
		lines := r.Behaviors[name]
		if !c.cloud {
			lines = append([]string{"permit"}, lines...)
		}
		section("traffic behavior "+name, lines)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Policies)) {
		head, lines := "traffic policy "+name, []string(nil)
		for _, p := range r.Policies[name] {
			line := "classifier " + p.Class + " behavior " + p.Behavior
			if c.cloud {
				line += fmt.Sprintf(" precedence %d", p.Precedence)
			}
			lines = append(lines, line)
		}
		if !c.cloud {
			head += " match-order config"
		}
		section(head, lines)
	}
	for _, line := range r.Global {
		section(line, nil)
	}
	for _, i := range r.Ifaces {
		lines := slices.Clone(i.Lines)
		if i.TPID != 0x8100 {
			lines = append(lines, fmt.Sprintf("qinq protocol %04x", i.TPID))
		}
		if i.Longest > 0 {
			lines = append(lines, fmt.Sprintf("jumboframe enable %d", i.Longest))
		}
		for _, direction := range []string{"inbound", "outbound"} {
			for _, p := range i.Applied[direction] {
				lines = append(lines, "traffic-policy "+p+" "+direction)
			}
		}
		section("interface "+i.Name, lines)
	}
	return b.String() + "#\nreturn\n"
}

// change makes a configuration the running one.
func (c *Switch) change(now *config) {
	old := c.running
	if reflect.DeepEqual(old, now) {
		return
	}
	c.running = now
	c.changes++
	if c.Changed == nil {
		return
	}
	was, will := c.meaning(old), c.meaning(now)
	if edited := slices.Clone(will); !now.Atomic {
		gap := false
		for i := range edited {
			same := reflect.DeepEqual(old.Ifaces[i].Applied["outbound"], now.Ifaces[i].Applied["outbound"])
			if len(now.Ifaces[i].Applied["outbound"]) > 0 && same && !reflect.DeepEqual(was[i], will[i]) {
				edited[i].Outbound, gap = nil, true
			}
		}
		if gap {
			if c.Changed(edited); c.InGap != nil {
				c.InGap()
			}
		}
	}
	held := c.Changed(will)
	c.before, c.changed, c.failed = c.failed, time.Now(), map[string]bool{}
	for i := range will {
		if i < len(held) && held[i] < len(will[i].Outbound) || now.twice(now.Ifaces[i]) {
			c.failed[will[i].Name] = true
			if now.Atomic { // what was in force stays
				will[i].Outbound = was[i].Outbound
			}
		}
	}
	if now.Atomic && len(c.failed) > 0 {
		c.Changed(will)
	}
}

// twice reports whether two bindings of a policy have one precedence: they are not delivered.
func (c *config) twice(i *iface) bool {
	for _, policy := range i.Applied["outbound"] {
		seen := map[int]bool{}
		for _, p := range c.Policies[policy] {
			if p.Precedence != 0 && seen[p.Precedence] {
				return true
			}
			seen[p.Precedence] = true
		}
	}
	return false
}

// meaning is what the applied policies of a configuration mean.
func (c *Switch) meaning(r *config) (ports []Port) {
	for _, i := range r.Ifaces {
		p := Port{Name: i.Name, TPID: i.TPID, In: i.frames()}
		if !c.cloud { // a CloudEngine looks at what comes in alone
			p.Out = p.In
		}
		for _, policy := range i.Applied["outbound"] {
			list := slices.Clone(r.Policies[policy])
			slices.SortStableFunc(list, func(a, b pair) int { return a.Precedence - b.Precedence })
			for _, a := range list {
				p.Outbound = append(p.Outbound, r.rules(a)...)
			}
		}
		if c.Backward {
			slices.Reverse(p.Outbound)
		}
		ports = append(ports, p)
	}
	return ports
}

// rules are those of a binding: one, or one for each line where any has to match; none where
// its classifier or behavior is empty.
func (c *config) rules(a pair) (out []Rule) {
	cl, mark := c.Classes[a.Class], -1
	for _, line := range c.Behaviors[a.Behavior] {
		fmt.Sscanf(line[strings.LastIndex(line, " ")+1:], "%d", &mark) //nolint:errcheck // it was checked
	}
	if mark < 0 {
		return nil
	}
	whole := Rule{Class: a.Class, PCP: -1, Mark: mark}
	for _, line := range cl.Lines {
		w := strings.Fields(line)
		one := Rule{Class: a.Class, PCP: -1, Mark: mark}
		if w[1] == "8021p" {
			one.PCP = int(w[2][0] - '0')
			whole.PCP = one.PCP
		} else {
			one.VIDs = []VIDs{vids(w[2:])}
			whole.VIDs = meet(whole.VIDs, one.VIDs[0])
		}
		out = append(out, one)
	}
	if cl.All && len(out) > 0 {
		return []Rule{whole}
	}
	return out
}

// meet is what is in all ranges.
func meet(list []VIDs, r VIDs) []VIDs {
	if len(list) == 0 {
		return []VIDs{r}
	}
	return []VIDs{{max(list[0].First, r.First), min(list[0].Last, r.Last)}}
}
