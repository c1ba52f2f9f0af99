package nxos

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/setup"
	"github.com/csig-agent/csig/vendors/setuponly"
)

// Platform is what fleet files say of Nexus switches.
var Platform = inventory.Platform{
	Name: "nxos", Key: "nxos", Doc: "Which tag of a frame CSIG's is, for the platform nxos.", Keys: (*setup.Keys)(nil),
	PortName: portName,
}

// settle is how long after a change of its TPID a link that flaps is taken to do so because
// of it.
const settle = 10 * time.Second

// Dialect is NX-OS's command line.
var Dialect = &setup.Dialect{
	Platform: setuponly.Platform{Offline: Offline, Format: setup.Listed(tpids), Stepwise: true},
	Session:  cli.Config{Platform: cli.NXOS, Refusals: []string{"% Invalid", "% Permission denied", "Syntax error"}},
	Enter:    "configure terminal", Leave: "end",
	PortName: portName,
	Read:     []string{"show version", "show running-config interface", "show running-config aclmgr", "show interface"},
	Parse:    parse,
	TPID: func(port, tpid, _ string) []string {
		if tpid == "" {
			return in("interface "+port, "no switchport dot1q ethertype")
		}
		return in("interface "+port, "switchport dot1q ethertype "+tpid)
	},
	MTU: func(port string, mtu int) []string {
		if mtu == 0 {
			return in("interface "+port, "no mtu")
		}
		return in("interface "+port, "mtu "+strconv.Itoa(mtu))
	},
	Record: setup.Remarks("ip access-list", 90),
	Lost:   lost,
}

func in(mode, line string) []string { return []string{mode, line, "exit"} }

var names = regexp.MustCompile(`^(Ethernet\d{1,3}(/\d{1,3}){1,3}|port-channel\d{1,4})$`)

func portName(name string) string {
	if !names.MatchString(name) {
		return "want the interface as NX-OS writes it, e.g. Ethernet1/1 or port-channel1"
	}
	return ""
}

// lost is why hardware may not have a TPID that was set this long ago, by the time that the
// switch is up. The configuration does not show it.
func lost(p *setup.Port, ago time.Duration) string {
	switch {
	case ago < 0:
		return "the switch has restarted after csig set its TPID, and hardware may have 0x8100 since (CSCvw27705)"
	case p.Flapped == 0 || p.Flapped+settle >= ago:
		return ""
	}
	return "its link flapped after csig set its TPID, and hardware may have 0x8100 since (CSCvw27705, CSCvu24785)"
}

// parse reads the answers to Dialect.Read. Access lists, applied nowhere, with the names of
// slots have csig's record as remarks.
func parse(answers [][]string) *setup.View {
	v := &setup.View{Identity: identity(answers[0]), Up: uptime(answers[0]), Slots: map[string][]setup.Comment{}}
	setup.Sections(answers[1], func(head string, lines []string) {
		name, ok := strings.CutPrefix(head, "interface ")
		if !ok || portName(name) != "" {
			return
		}
		p := setup.Port{Port: setuponly.Port{Name: name}}
		for _, line := range lines {
			switch w := strings.Fields(line); {
			case len(w) == 4 && strings.HasPrefix(line, "switchport dot1q ethertype "):
				p.TPID = setup.Hex(w[3])
			case w[0] == "mtu" && len(w) == 2:
				p.MTU, _ = strconv.Atoi(w[1])
			case w[0] == "channel-group" && len(w) > 1:
				p.Refused = "it is a member of port-channel" + untrusted.Text(w[1], 8) + ", which has the TPID of its members: name that"
			}
		}
		v.Ports = append(v.Ports, p)
	})
	setup.Sections(answers[2], func(head string, lines []string) {
		slot, ok := strings.CutPrefix(head, "ip access-list ")
		if !ok || !slices.Contains(setup.Slots[:], slot) {
			return
		}
		v.Remarks(slot, lines)
	})
	at := map[string]*setup.Port{}
	for i := range v.Ports {
		at[v.Ports[i].Name] = &v.Ports[i]
	}
	var p *setup.Port // whose lines follow
	for _, line := range answers[3] {
		switch w := strings.Fields(line); {
		case len(w) == 0:
		case line[0] != ' ' && len(w) > 1 && w[1] == "is": // others at the margin belong to it
			p = at[w[0]]
		case p != nil:
			status(p, w)
		}
	}
	return v
}

// status reads a line of what `show interface` prints of a port.
func status(p *setup.Port, w []string) {
	switch line := strings.Join(w, " "); {
	case len(w) > 2 && w[0] == "MTU" && strings.HasPrefix(w[2], "bytes"):
		p.Now, _ = strconv.Atoi(w[1])
	case len(w) == 3 && strings.HasPrefix(line, "EtherType is "):
		p.InForce = setup.Hex(w[2])
	case line == "Port mode is routed":
		p.Refused = "it is a routed port, which has no TPID (no switchport)"
	case strings.HasPrefix(line, "Last link flapped "):
		p.Flapped = elapsed(w[3:])
	}
}

const day = 24 * time.Hour

// elapsed is the longest that a time of NX-OS can be, "00:07:28" or "15week(s) 5day(s)", which it
// cuts down to the last unit; 0 for never, and for anything else.
func elapsed(words []string) (total time.Duration) {
	unit := time.Duration(0)
	for _, w := range words {
		var h, m, s int
		if n, _ := fmt.Sscanf(w, "%d:%d:%d", &h, &m, &s); n == 3 {
			total, unit = total+time.Duration(h)*time.Hour+time.Duration(m)*time.Minute+time.Duration(s)*time.Second, time.Second
		} else if span, last := sum(w); last != 0 {
			total, unit = total+span, last
		}
	}
	if unit == 0 {
		return 0
	}
	return total + unit
}

var spans = regexp.MustCompile(`(\d+) ?(week|day|hour|minute|second|w|d|h)`)

// sum adds up numbers with their units; last is the last one's, 0 for none.
func sum(text string) (total, last time.Duration) {
	for _, span := range spans.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(span[1])
		last = map[string]time.Duration{"week": 7 * day, "w": 7 * day, "day": day, "d": day, "hour": time.Hour, "h": time.Hour, "minute": time.Minute, "second": time.Second}[span[2]]
		total += time.Duration(min(n, 50_000)) * last
	}
	return total, last
}

// uptime is since when the switch runs, as `show version` has it to the second; 0: it does not.
func uptime(lines []string) time.Duration {
	for _, line := range lines {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "Kernel uptime is "); ok {
			if up, last := sum(text); last == time.Second {
				return up
			}
		}
	}
	return 0
}

var (
	version = regexp.MustCompile(`^\s*(?:NXOS|system):\s+version (\S+)`)
	chassis = regexp.MustCompile(`^\s*cisco (Nexus.*?)(?: [Cc]hassis.*)?\s*$`)
	serial  = regexp.MustCompile(`^\s*Processor Board ID (\S+)`)
)

// identity is what `show version` says (networktocode/ntc-templates
// ntc_templates/templates/cisco_nxos_show_version.textfsm).
func identity(lines []string) vendors.Identity {
	id := vendors.Identity{Maker: "Cisco"}
	for _, line := range lines {
		for _, f := range []struct {
			re *regexp.Regexp
			to *string
		}{{version, &id.Version}, {chassis, &id.Model}, {serial, &id.Serial}} {
			if m := f.re.FindStringSubmatch(line); m != nil && *f.to == "" {
				*f.to = untrusted.Text(m[1], 64)
			}
		}
	}
	return id
}
