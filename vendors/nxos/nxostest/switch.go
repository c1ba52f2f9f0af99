// Package nxostest is a Nexus switch for tests: an interpreter of the part of NX-OS's
// command line that csig uses, with its modes, prompts and errors, and the hardware behind
// it, which may lose the EtherType of its ports while the configuration keeps it. A command
// that it does not know is an error. Vendor texts are cited in vendors/nxos.
package nxostest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csig-agent/csig/vendors/cli/clitest"
)

const standard = 0x8100

// VIDs is a range of VLAN IDs.
type VIDs struct{ First, Last uint16 }

// Port is what hardware does at a switched port.
type Port struct {
	Name   string
	TPID   uint16
	VLANs  VIDs // allowed
	Native uint16
}

// Untagged reports whether frames that have no tag with the port's TPID are forwarded.
func (p *Port) Untagged() bool { return p.Native >= p.VLANs.First && p.Native <= p.VLANs.Last }

// Reserved are the VLANs that no port carries.
var Reserved = VIDs{3968, 4094}

// Switch is one switch, with its running configuration.
type Switch struct {
	Name string // hostname

	// Keeps is a switch whose hardware keeps the EtherType; others lose it with the link.
	Keeps bool
	// Hides is one whose `show interface` has the configured EtherType, not hardware's.
	Hides bool
	// Locked has each change refused, as while another user rolls back.
	Locked bool

	Changed func(list []Port) // is called when hardware changes

	mu      sync.Mutex // guards what follows
	started time.Time
	ifaces  []*iface
	lists   map[string]map[int]string // access lists: their lines
	order   []string                  // their names
	saves   int
	changes int
}

type iface struct {
	name     string
	lines    []string // of the configuration, but for what follows
	tpid     uint16
	mtu      int
	routed   bool
	channel  string
	vlans    VIDs
	native   uint16
	hardware uint16 // the EtherType in force
	flapped  time.Time
}

// New returns a switch with these interfaces, all of them trunks of VLANs 2 to 4094.
func New(name string, interfaces ...string) *Switch {
	c := &Switch{Name: name, lists: map[string]map[int]string{}}
	for _, i := range interfaces {
		c.ifaces = append(c.ifaces, &iface{name: i, tpid: standard, hardware: standard, mtu: 1500, vlans: VIDs{2, 4094}, native: 1})
	}
	return c
}

// Shell is a login.
func (c *Switch) Shell() clitest.Shell { return &shell{c: c, page: 24} }

// Type carries out commands in configuration mode, as an operator at the console does; the
// first that is refused ends the program.
func (c *Switch) Type(lines ...string) {
	sh := &shell{c: c, mode: config}
	for _, line := range lines {
		if answer, _ := sh.Do(line); answer != "" {
			panic(line + ": " + answer)
		}
	}
}

// Flap takes the link of an interface down and up.
func (c *Switch) Flap(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.iface(name)
	i.flapped = time.Now()
	if !c.Keeps {
		i.hardware = standard
	}
	c.changed()
}

// Restart restarts the switch with the configuration that it has, as one that was saved.
func (c *Switch) Restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started = time.Now()
	for _, i := range c.ifaces {
		if i.flapped = c.started; !c.Keeps {
			i.hardware = standard
		}
	}
	c.changed()
}

// uptime is how long it runs; a day when it is asked first.
func (c *Switch) uptime() string {
	if c.started.IsZero() {
		c.started = time.Now().Add(-24 * time.Hour)
	}
	d := time.Since(c.started)
	return fmt.Sprintf("%d day(s), %d hour(s), %d minute(s), %d second(s)", int(d.Hours())/24, int(d.Hours())%24, int(d.Minutes())%60, int(d.Seconds())%60)
}

// Running is the running configuration, as show running-config has it.
func (c *Switch) Running() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running()
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

func (c *Switch) iface(name string) *iface {
	for _, i := range c.ifaces {
		if i.name == name {
			return i
		}
	}
	return nil
}

func (c *Switch) changed() {
	if c.Changed == nil {
		return
	}
	var list []Port
	for _, i := range c.ifaces {
		list = append(list, Port{Name: i.name, TPID: i.hardware, VLANs: i.vlans, Native: i.native})
	}
	c.Changed(list)
}

func (c *Switch) running() string { return c.interfaces() + c.aclmgr() }

func header(command string) string {
	return "\n!Command: show running-config " + command + "\n!Running configuration last done at: Mon Nov 16 10:21:12 2020\n!Time: Mon Nov 16 10:22:01 2020\n\nversion 9.3(3) Bios:version 07.66 \n"
}

func (c *Switch) interfaces() string {
	var b strings.Builder
	b.WriteString(header("interface") + "\ninterface mgmt0\n  vrf member management\n  ip address 192.0.2.7/24\n")
	for _, i := range c.ifaces {
		lines := []string{"switchport", "switchport mode trunk", fmt.Sprintf("switchport trunk allowed vlan %d-%d", i.vlans.First, i.vlans.Last)}
		if i.routed {
			lines = []string{"no switchport"}
		}
		if i.native != 1 {
			lines = append(lines, fmt.Sprintf("switchport trunk native vlan %d", i.native))
		}
		if i.tpid != standard {
			lines = append(lines, fmt.Sprintf("switchport dot1q ethertype 0x%04x", i.tpid))
		}
		if i.mtu != 1500 {
			lines = append(lines, fmt.Sprintf("mtu %d", i.mtu))
		}
		if i.channel != "" {
			lines = append(lines, "channel-group "+i.channel+" mode active")
		}
		fmt.Fprintf(&b, "\ninterface %s\n", i.name)
		for _, line := range append(lines, i.lines...) {
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	return b.String()
}

func (c *Switch) aclmgr() string {
	var b strings.Builder
	b.WriteString(header("aclmgr"))
	for _, name := range c.order {
		fmt.Fprintf(&b, "ip access-list %s\n", name)
		var seqs []int
		for seq := range c.lists[name] {
			seqs = append(seqs, seq)
		}
		slices.Sort(seqs)
		for _, seq := range seqs {
			fmt.Fprintf(&b, "  %d %s\n", seq, c.lists[name][seq])
		}
	}
	return b.String()
}
