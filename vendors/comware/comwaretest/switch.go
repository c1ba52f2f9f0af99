// Package comwaretest is a switch of Comware for tests: an interpreter of the part of its
// command line that csig uses, with the views, prompts and errors of Comware, which hands
// the rules that its configuration means to a data plane. A command that it does not know
// is an error. Vendor texts are cited in vendors/comware/facts.go.
package comwaretest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/csig-agent/csig/vendors/cli/clitest"
)

// VIDs is a range of VLAN IDs.
type VIDs struct{ First, Last uint16 }

// Rule is one class of an applied policy, in match order.
type Rule struct {
	Class                         string
	Service, Customer             []VIDs // of the outer and of the inner tag; none: any
	ServicePCP, CustomerPCP       int    // -1: any
	RemarkService, RemarkCustomer int    // -1: as it is
}

// Port is what a port's configuration means.
type Port struct {
	Name     string
	Service  uint16 // TPID of outer tags
	Longest  int    // frame, in bytes, both ways; longer ones are discarded
	Outbound []Rule
}

// maxFrame is the longest that a switch can be told.
const maxFrame = 10000

// Switch is one switch, with its running configuration.
type Switch struct {
	Name     string // sysname
	Customer uint16 // TPID of inner tags
	NoEAA    bool   // it has no EAA policies
	Longest  int    // frame of an interface without jumboframe enable
	Silent   bool   // it does not report the longest frame of interfaces
	Old      bool   // Comware 5: it has free user-interface only

	// Unprivileged accounts may not end logins.
	Unprivileged bool

	Frozen bool // policies that are applied cannot be modified, as on the HP 4800G

	// Changed is called with what the configuration means when a command has changed it. It
	// returns how many rules of each port are in hardware; nil: all.
	Changed func(ports []Port) []int

	ahead atomic.Int64 // ns that Skip moved the clock on

	mu        sync.Mutex // guards what follows
	classes   map[string]*class
	behaviors map[string]*behavior
	policies  map[string][]pair
	ifaces    []*iface
	elsewhere []string            // applications of policies in system view, to all ports or to VLANs
	profiles  map[string][]string // user profiles, with theirs
	held      []int
	nqa       map[string]*nqa // by administrator and tag
	tracks    map[int]*track
	rtm       map[string]*rtm
	saves     int
	changes   int
	text      string // of the configuration after the last command
}

type class struct {
	or    bool
	lines []string
}

type behavior struct{ lines []string }

type pair struct{ class, behavior, mode string }

type iface struct {
	name     string
	policies map[string]string // by direction
	words    map[string]string // what stands behind the direction
	service  uint16
	longest  int      // by jumboframe enable; 0: the default
	denied   bool     // undo jumboframe enable
	instance []string // lines of its Ethernet service instance
}

// New returns a switch with these interfaces.
func New(name string, interfaces ...string) *Switch {
	c := &Switch{Name: name, Customer: 0x8100, Longest: 9216, classes: map[string]*class{}, behaviors: map[string]*behavior{}, policies: map[string][]pair{}, profiles: map[string][]string{},
		nqa: map[string]*nqa{}, tracks: map[int]*track{}, rtm: map[string]*rtm{}}
	for _, i := range interfaces {
		c.ifaces = append(c.ifaces, &iface{name: i, policies: map[string]string{}, words: map[string]string{}, service: 0x8100})
	}
	c.text = c.running()
	return c
}

// Shell is a login.
func (c *Switch) Shell() clitest.Shell { return &shell{c: c, page: 24} }

// Type carries out commands in system view, as an operator at the console does; the first
// that is refused ends the program.
func (c *Switch) Type(lines ...string) {
	sh := &shell{c: c, views: []view{{kind: system}}}
	for _, line := range lines {
		if answer, _ := sh.Do(line); answer != "" {
			panic(line + ": " + answer)
		}
	}
}

// Running is the running configuration, as display current-configuration has it.
func (c *Switch) Running() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running()
}

// Settle has the hardware take what it has room for now.
func (c *Switch) Settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
}

func (c *Switch) settle() {
	if c.held = nil; c.Changed != nil {
		c.held = c.Changed(c.meaning())
	}
}

// Changes is how often a command changed it.
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

func (c *Switch) running() string {
	var b strings.Builder
	section := func(head string, lines []string) {
		b.WriteString("#\n" + head + "\n")
		for _, l := range lines {
			b.WriteString(" " + l + "\n")
		}
	}
	fmt.Fprintf(&b, "#\n version 7.1.070, Release 3507P02\n#\n sysname %s\n", c.Name)
	if c.Customer != 0x8100 {
		section(fmt.Sprintf("qinq ethernet-type customer-tag %04x", c.Customer), nil)
	}
	for _, name := range slices.Sorted(maps.Keys(c.classes)) {
		operator := "and"
		if c.classes[name].or {
			operator = "or"
		}
		section("traffic classifier "+name+" operator "+operator, c.classes[name].lines)
	}
	for _, name := range slices.Sorted(maps.Keys(c.behaviors)) {
		section("traffic behavior "+name, c.behaviors[name].lines)
	}
	for _, name := range slices.Sorted(maps.Keys(c.policies)) {
		var lines []string
		for _, p := range c.policies[name] {
			lines = append(lines, "classifier "+p.class+" behavior "+p.behavior+p.mode)
		}
		section("qos policy "+name, lines)
	}
	for _, l := range c.elsewhere {
		fmt.Fprintf(&b, "#\n %s\n", l)
	}
	for _, name := range slices.Sorted(maps.Keys(c.profiles)) {
		section("user-profile "+name, c.profiles[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.nqa)) {
		lines := []string{"type udp-echo"}
		for _, l := range c.nqa[name].lines {
			lines = append(lines, " "+l)
		}
		section("nqa entry "+name, lines)
	}
	for _, name := range slices.Sorted(maps.Keys(c.nqa)) {
		if c.nqa[name].running {
			fmt.Fprintf(&b, "#\n nqa schedule %s start-time now lifetime forever\n", name)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(c.tracks)) {
		fmt.Fprintf(&b, "#\n track %d nqa entry %s reaction 1\n", n, c.tracks[n].entry)
	}
	for _, name := range slices.Sorted(maps.Keys(c.rtm)) {
		lines := c.rtm[name].lines
		if c.rtm[name].committed {
			lines = append(slices.Clone(lines), "user-role network-admin", "commit")
		}
		section("rtm cli-policy "+name, lines)
	}
	for _, i := range c.ifaces {
		lines := []string{"port link-mode bridge"}
		if i.service != 0x8100 {
			lines = append(lines, fmt.Sprintf("qinq ethernet-type service-tag %04x", i.service))
		}
		if _, line := c.frames(i); line != "" {
			lines = append(lines, line)
		}
		for _, direction := range []string{"inbound", "outbound"} {
			if p := i.policies[direction]; p != "" {
				lines = append(lines, "qos apply policy "+p+" "+direction+i.words[direction])
			}
		}
		if len(i.instance) > 0 {
			lines = append(lines, "service-instance 1")
			for _, l := range i.instance {
				lines = append(lines, " "+l)
			}
		}
		section("interface "+i.name, lines)
	}
	return b.String() + "#\nreturn\n"
}

// meaning is what the applied policies mean.
func (c *Switch) meaning() (ports []Port) {
	for _, i := range c.ifaces {
		p := Port{Name: i.name, Service: i.service}
		p.Longest, _ = c.frames(i)
		for _, a := range c.policies[i.policies["outbound"]] {
			if r, ok := c.rule(a); ok {
				p.Outbound = append(p.Outbound, r)
			}
		}
		ports = append(ports, p)
	}
	return ports
}

// rule is an association; ok is false where its class matches nothing or its behavior does
// nothing, as null ones do.
func (c *Switch) rule(a pair) (Rule, bool) {
	r := Rule{Class: a.class, ServicePCP: -1, CustomerPCP: -1, RemarkService: -1, RemarkCustomer: -1}
	cl, b := c.classes[a.class], c.behaviors[a.behavior]
	if len(cl.lines) == 0 || len(b.lines) == 0 {
		return r, false
	}
	for _, line := range cl.lines {
		w := strings.Fields(line)
		n, _ := strconv.Atoi(w[2])
		switch w[1] {
		case "service-dot1p":
			r.ServicePCP = n
		case "customer-dot1p":
			r.CustomerPCP = n
		case "service-vlan-id": // clauses of one kind are alternatives
			r.Service = append(r.Service, vids(w[2:])...)
		case "customer-vlan-id":
			r.Customer = append(r.Customer, vids(w[2:])...)
		}
	}
	for _, line := range b.lines {
		w := strings.Fields(line)
		n, _ := strconv.Atoi(w[2])
		if w[1] == "service-vlan-id" {
			r.RemarkService = n
		} else {
			r.RemarkCustomer = n
		}
	}
	return r, true
}

// vids reads a list of VLAN IDs and ranges; nil where it is none.
func vids(words []string) (list []VIDs) {
	for i := 0; i < len(words); i++ {
		first, ok := vid(words[i])
		last := first
		if ok && i+2 < len(words) && words[i+1] == "to" {
			last, ok = vid(words[i+2])
			ok = ok && first < last
			i += 2
		}
		if !ok {
			return nil
		}
		list = append(list, VIDs{first, last})
	}
	return list
}

func vid(word string) (uint16, bool) {
	n, err := strconv.Atoi(word)
	return uint16(n), err == nil && n >= 1 && n <= 4094 && strconv.Itoa(n) == word
}
