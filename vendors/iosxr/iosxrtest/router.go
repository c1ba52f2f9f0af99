// Package iosxrtest is a router with IOS XR for tests: an interpreter of the part of its command
// line that csig uses, with a target configuration, commits, commits on trial, prompts and
// errors. A command that it does not know is an error. Vendor texts are cited in vendors/iosxr.
package iosxrtest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/csig-agent/csig/vendors/cli/clitest"
)

// Port is what a port's configuration means.
type Port struct {
	Name string
	TPID uint16 // of the outer tag of its subinterfaces with two tags
}

// Router is one router.
type Router struct {
	Name string

	Refuses string            // a commit fails with this text; "": it does not
	Cuts    bool              // a commit with a TPID cuts off every login from then on
	Changed func(list []Port) // is called when the configuration in force has changed

	mu        sync.Mutex // guards what follows
	commits   clitest.Commits[*config]
	exclusive *shell
	trier     *shell // whose commit is on trial, while one is
	inside    int    // sessions in configuration mode
	cut       bool
}

type config struct {
	order  []string
	ifaces map[string]*iface
	lists  map[string]map[int]string
}

type iface struct {
	lines []string // but for what follows
	tpid  string
	mtu   string
}

func (c *config) clone() *config {
	out := &config{order: slices.Clone(c.order), ifaces: map[string]*iface{}, lists: map[string]map[int]string{}}
	for name, i := range c.ifaces {
		one := *i
		one.lines = slices.Clone(i.lines)
		out.ifaces[name] = &one
	}
	for name, list := range c.lists {
		out.lists[name] = maps.Clone(list)
	}
	return out
}

// New returns a router with these interfaces, and a subinterface with two tags on each.
func New(name string, interfaces ...string) *Router {
	c := &config{ifaces: map[string]*iface{}, lists: map[string]map[int]string{}}
	for _, i := range interfaces {
		c.order = append(c.order, i, i+".100 l2transport")
		c.ifaces[i] = &iface{}
		c.ifaces[i+".100 l2transport"] = &iface{lines: []string{"encapsulation dot1q 901 second-dot1q any"}}
	}
	r := &Router{Name: name}
	r.commits.Commit(c)
	return r
}

// Shell is a login.
func (r *Router) Shell() clitest.Shell { return &shell{r: r, page: 24} }

// Type carries out commands in configuration mode and commits them, as an operator at the
// console does; the first that is refused ends the program.
func (r *Router) Type(lines ...string) {
	sh := &shell{r: r, mode: configMode, target: r.inForce().clone()}
	for _, line := range append(lines, "root", "commit") {
		if answer, _ := sh.Do(line); answer != "" && !strings.HasPrefix(answer, stamp) {
			panic(line + ": " + answer)
		}
	}
}

func (r *Router) inForce() *config {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.commits.Running()
}

// Running is the configuration in force.
func (r *Router) Running() string {
	c := r.inForce()
	return c.interfaces() + c.acls()
}

// Commits is how often the configuration in force changed.
func (r *Router) Commits() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.commits.Count()
}

// Trial reports whether a commit waits for its confirmation.
func (r *Router) Trial() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.commits.Trial()
}

// Restore ends what Cuts has begun.
func (r *Router) Restore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Cuts, r.cut = false, false
}

func (r *Router) changed() {
	if r.Changed == nil {
		return
	}
	var list []Port
	c := r.commits.Running()
	for _, name := range c.order {
		if strings.Contains(name, ".") {
			continue
		}
		p := Port{Name: name, TPID: 0x8100}
		if n, err := strconv.ParseUint(strings.TrimPrefix(c.ifaces[name].tpid, "0x"), 16, 16); err == nil {
			p.TPID = uint16(n)
		}
		list = append(list, p)
	}
	r.Changed(list)
}

func (c *config) interfaces() string {
	var b strings.Builder
	b.WriteString("interface MgmtEth0/RP0/CPU0/0\n ipv4 address 192.0.2.8 255.255.255.0\n!\n")
	for _, name := range c.order {
		i := c.ifaces[name]
		fmt.Fprintf(&b, "interface %s\n", name)
		for _, line := range i.lines {
			fmt.Fprintf(&b, " %s\n", line)
		}
		if i.mtu != "" {
			fmt.Fprintf(&b, " mtu %s\n", i.mtu)
		}
		if i.tpid != "" {
			fmt.Fprintf(&b, " dot1q tunneling ethertype %s\n", i.tpid)
		}
		b.WriteString("!\n")
	}
	return b.String()
}

func (c *config) acls() string {
	if len(c.lists) == 0 {
		return "% No such configuration item(s)\n"
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.lists)) {
		fmt.Fprintf(&b, "ipv4 access-list %s\n", name)
		for _, seq := range slices.Sorted(maps.Keys(c.lists[name])) {
			fmt.Fprintf(&b, " %d %s\n", seq, c.lists[name][seq])
		}
		b.WriteString("!\n")
	}
	return b.String()
}
