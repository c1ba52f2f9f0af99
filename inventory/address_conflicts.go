package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
)

// addressConflicts refuses a device at the address of another one: an IP address and
// port, a socket or a network namespace. Devices that share a machine differ in something
// else that leads to them, as bridges of Open vSwitch do.
func (c *compiler) addressConflicts(d *Device, about *deviceOrigins, what string, taken map[string]originID) {
	m := &d.Management
	within := m.Place(func(path string) string { return path }, false) // the machine
	used := false
	claim := func(at originID, key, text string) {
		if used = true; at == notGiven {
			return
		}
		first, there := taken[key]
		if !there {
			taken[key] = at
			return
		}
		if o := c.origins.of(first); first == at {
			c.errorf(at, "give each its own", "%s: %s is that of another device, too, by the same line", what, text)
		} else if o.File == c.origins.of(at).File {
			c.errorf(at, fmt.Sprintf("the first is on line %d, column %d", o.Line, o.Col), "%s: %s is that of another device, too", what, text)
		} else {
			c.errorf(at, fmt.Sprintf("the first is %s:%d:%d", o.File, o.Line, o.Col), "%s: %s is that of another device, too", what, text)
		}
	}
	address := strings.ToLower(strings.TrimSuffix(d.Address, "."))
	if ip, err := netip.ParseAddr(address); err == nil {
		address = ip.Unmap().String()
		if ip.IsLoopback() && ip.Is6() && !ip.Is4In6() {
			address = loopback
		}
	} else if address == "localhost" {
		address = loopback
	}
	at, reach := about.from.originOf("address"), &about.from.keys.Management
	if m.NetNS != "" && m.SSH == nil { // both are a mistake already
		claim(reach.originOf("netns"), "netns "+samePath(m.NetNS)+within, "network namespace "+m.NetNS)
	}
	if address != "" {
		if m.SSH != nil {
			login := within
			if m.Daemon != nil && m.Daemon.At == "" {
				login += " " + m.Daemon.Socket
			}
			claim(at, fmt.Sprintf("ssh %s %d%s", address, m.SSH.Port, login), fmt.Sprintf("%s, SSH port %d,", d.Address, m.SSH.Port))
		}
		if m.Daemon != nil && m.Daemon.Port != 0 {
			host := cmp.Or(m.Daemon.At, d.Address)
			claim(at, fmt.Sprintf("daemon %s %d", cmp.Or(strings.ToLower(m.Daemon.At), address), m.Daemon.Port), fmt.Sprintf("%s, daemon port %d,", host, m.Daemon.Port))
		}
		switch s, g := d.Counters.SNMP, d.Counters.GNMI; {
		case d.Counters.Source == SNMPSource && s != nil:
			claim(at, fmt.Sprintf("snmp %s %d %s %s", address, s.Port, s.Context, s.Community), fmt.Sprintf("%s, SNMP port %d,", d.Address, s.Port))
		case d.Counters.Source == GNMISource && g != nil:
			claim(at, fmt.Sprintf("gnmi %s %d %s", address, g.Port, g.Target), fmt.Sprintf("%s, gNMI port %d,", d.Address, g.Port))
		}
		if !used && !d.Local {
			claim(at, "address "+address+within, "address "+d.Address)
		}
	}
	if m.Daemon != nil && m.Daemon.Socket != "" && (m.Daemon.At == Here || m.SSH == nil && address == "") {
		claim(reach.originOf("daemon"), "socket "+samePath(m.Daemon.Socket), "socket "+m.Daemon.Socket)
	}
	for key, own := range m.Own {
		if keys, ok := own.(ListeningKeys); ok && m.Daemon != nil && m.Daemon.At != "" && keys.Listens() != "" {
			at := keys.Listens()
			claim(reach.originOf(key), listenKey(strings.ToLower(m.Daemon.At), at, taken), at+", where one agent of a machine can listen,")
		}
	}
}

// loopback is what localhost, 127.0.0.1 and ::1 are compared as.
const loopback = "127.0.0.1"

// listenKey names an address where an agent of a machine listens. It is that of another
// one, where there is one already that both cannot listen at.
func listenKey(machine, at string, taken map[string]originID) string {
	text, err := netip.ParseAddrPort(at)
	if err != nil { // the key's own check reports it
		return "listen " + machine + " " + at
	}
	ip := text.Addr().Unmap()
	of := fmt.Sprintf("listen %s %d ", machine, text.Port())
	for _, key := range slices.Sorted(maps.Keys(taken)) {
		if there, is := strings.CutPrefix(key, of); is {
			if o, err := netip.ParseAddr(there); err == nil && (covers(o, ip) || covers(ip, o)) {
				return key
			}
		}
	}
	return of + ip.String()
}

// covers reports whether a listener at an address has the connections to another one: that
// of no address has all of its family, and :: those of IPv4, too.
func covers(ip, other netip.Addr) bool {
	return ip.IsUnspecified() && (ip.Is6() || other.Is4())
}

// samePath is one spelling of a file of this machine: without links where it
// exists, and /run for /var/run where it does not.
func samePath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	path = filepath.Clean(path)
	if below, ok := strings.CutPrefix(path, "/var/run/"); ok {
		return "/run/" + below
	}
	return path
}
