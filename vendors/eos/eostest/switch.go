// Package eostest is a switch of Arista's EOS for tests: an interpreter of the part of its
// command line that csig uses, with modes, prompts, errors and configuration sessions,
// which hands the flows that its configuration means to a data plane. A command that it
// does not know is an error. The texts that the grammar is from are in vendors/eos/doc.go;
// that match vlan takes a mask, and that a commit timer holds up other commits, is in none
// of them.
package eostest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csig-agent/csig/vendors/cli/clitest"
)

// Switch is one switch, with its running configuration.
type Switch struct {
	Name   string // hostname
	NoMask bool   // match vlan takes no mask
	NoTPID bool   // the platform has no configurable TPID

	// Shown is how the switch writes a line of its configuration; nil: as it was given.
	Shown func(line string) string

	// Changed is called with the flows that the configuration means when a command has
	// changed it. It returns how many of them, in their order, are in hardware.
	Changed func(flows []Flow) int

	mu       sync.Mutex // guards what follows
	running  *config
	sessions map[string]*session
	held     int // flows in hardware, of the last Changed
	saves    int
	changes  int
	started  time.Time
	alive    time.Duration // the uptime that was noted
	text     string        // of the running configuration after the last command
}

// session is one of the configuration.
type session struct {
	config *config
	before *config // where it is on trial
	until  time.Time
}

// config is a configuration.
type config struct {
	vlans    string
	on       bool
	flows    map[string]*flow
	lists    map[string][]string // MAC access lists
	handlers map[string]*handler
	ifaces   []*iface
}

type flow struct {
	lines map[string]string // by what they say, such as "match vlan"
	seq   int
	shown string // the lines, as the configuration has them; "": not made yet
}

type iface struct {
	name  string
	lines map[string]string // by what they say, such as "switchport mode"
}

// New returns a switch with these interfaces, which are trunks of all VLANs, and with
// DirectFlow on.
func New(name string, interfaces ...string) *Switch {
	c := &config{vlans: "2-4094", on: true, flows: map[string]*flow{}, lists: map[string][]string{}, handlers: map[string]*handler{}}
	for _, i := range interfaces {
		c.ifaces = append(c.ifaces, &iface{i, map[string]string{"switchport mode": "trunk"}})
	}
	return &Switch{Name: name, running: c, sessions: map[string]*session{}, started: time.Now().Add(-time.Hour), text: c.text("")}
}

func (c *config) clone() *config {
	out := *c
	out.flows, out.lists, out.handlers, out.ifaces = map[string]*flow{}, map[string][]string{}, map[string]*handler{}, nil
	for name, h := range c.handlers {
		out.handlers[name] = &handler{maps.Clone(h.lines), h.seen, h.left, h.shown}
	}
	for name, f := range c.flows {
		out.flows[name] = &flow{maps.Clone(f.lines), f.seq, f.shown}
	}
	for name, list := range c.lists {
		out.lists[name] = slices.Clone(list)
	}
	for _, i := range c.ifaces {
		out.ifaces = append(out.ifaces, &iface{i.name, maps.Clone(i.lines)})
	}
	return &out
}

func (c *config) iface(name string) *iface {
	for _, i := range c.ifaces {
		if i.name == name {
			return i
		}
	}
	return nil
}

// Shell is a login.
func (c *Switch) Shell() clitest.Shell { return &shell{c: c, page: 24} }

// Type carries out commands of configuration mode, as an operator does; the first that is
// refused ends the program.
func (c *Switch) Type(lines ...string) {
	sh := &shell{c: c, modes: []mode{{kind: global}}}
	for _, line := range lines {
		if answer, _ := sh.Do(line); answer != "" {
			panic(line + ": " + answer)
		}
	}
}

func (c *Switch) uptime() time.Duration { return time.Since(c.started) }

// lock locks what mu guards, with the changes taken back whose commit timer has ended.
func (c *Switch) lock() {
	c.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(c.sessions)) {
		if s := c.sessions[name]; s.before != nil && !time.Now().Before(s.until) {
			c.running = s.before
			delete(c.sessions, name)
			c.changed()
		}
	}
}

// changed hands the flows to the hardware where the running configuration has changed.
func (c *Switch) changed() {
	if text := c.running.text(""); text != c.text {
		c.text = text
		c.program()
	}
}

// Running is the running configuration, as show running-config has it.
func (c *Switch) Running() string {
	c.lock()
	defer c.mu.Unlock()
	return c.running.text(c.Name)
}

// Sessions are the names of the configuration sessions that there are.
func (c *Switch) Sessions() []string {
	c.lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.sessions))
}

// Changes is how often the running configuration changed.
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

func (c *config) text(hostname string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "! Command: show running-config\n! device: %s (DCS-7050X3-FAKE, EOS-4.31.2F)\n!\nhostname %s\n!\n", hostname, hostname)
	if c.vlans != "" {
		fmt.Fprintf(&b, "vlan %s\n!\n", c.vlans)
	}
	for _, i := range c.ifaces {
		fmt.Fprintf(&b, "interface %s\n", i.name)
		for _, key := range slices.Sorted(maps.Keys(i.lines)) {
			b.WriteString("   " + key + " " + i.lines[key] + "\n")
		}
		b.WriteString("!\n")
	}
	for _, name := range slices.Sorted(maps.Keys(c.handlers)) {
		fmt.Fprintf(&b, "event-handler %s\n%s!\n", name, c.handlers[name].text())
	}
	for _, name := range slices.Sorted(maps.Keys(c.lists)) {
		fmt.Fprintf(&b, "mac access-list %s\n", name)
		for _, line := range c.lists[name] {
			b.WriteString("   " + line + "\n")
		}
		b.WriteString("!\n")
	}
	if c.on || len(c.flows) > 0 {
		b.WriteString("directflow\n")
		if c.on {
			b.WriteString("   no shutdown\n")
		}
		for n, name := range slices.Sorted(maps.Keys(c.flows)) {
			if n > 0 {
				b.WriteString("   !\n")
			}
			b.WriteString("   flow " + name + "\n")
			b.WriteString(c.flows[name].text())
		}
		b.WriteString("!\n")
	}
	return b.String() + "end\n"
}

// text is the lines of a flow, as the configuration shows them.
func (f *flow) text() string {
	if f.shown != "" {
		return f.shown
	}
	for _, key := range flowKeys {
		if value, there := f.lines[key]; there {
			f.shown += "      " + strings.TrimSpace(key+" "+value) + "\n"
		}
	}
	return f.shown
}

// shown is how the switch writes a configuration.
func (c *Switch) shown(config *config) string {
	text := config.text(c.Name)
	if c.Shown == nil {
		return text
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(c.Shown(line))
	}
	return out.String()
}

// flowKeys are the lines of a flow, in the order in which they are shown.
var flowKeys = []string{
	"priority", "match input interface", "match destination mac", "match ethertype", "match destination ip",
	"match vlan", "match cos", "action drop", "action set vlan", "action set cos", "action output interface",
}

// status is what show directflow detail has, as JSON.
func (c *Switch) status() string {
	var report struct {
		Details struct {
			Status map[string]string `json:"status"`
			Number int               `json:"numFlowsProgrammed"`
		} `json:"details"`
	}
	report.Details.Status = map[string]string{}
	for i, f := range c.running.meaning() {
		text := "Flow programmed"
		if i >= c.held {
			text = "Flow rejected due to insufficient resources"
		} else {
			report.Details.Number++
		}
		report.Details.Status[f.Name] = text
	}
	text, err := json.MarshalIndent(report, "", "    ")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// program hands the flows to the hardware.
func (c *Switch) program() {
	c.changes++
	flows := c.running.meaning()
	if c.held = len(flows); c.Changed != nil {
		c.held = c.Changed(flows)
	}
}
