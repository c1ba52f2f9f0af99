package junos

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

// One is a platform.
type One struct {
	Title    string
	Platform inventory.Platform
	Dialect  *setup.Dialect
}

// All are the platforms, which share their keys in fleet files.
var All = []One{
	one("junos-ex", "Juniper Junos on EX", "ether-options", offlineEX, formatListed),
	one("junos-qfx", "Juniper Junos on QFX", "ether-options", offlineQFX, formatListed),
	one("junos-mx", "Juniper Junos on MX", "gigether-options", offlineMX, formatAny),
}

func one(name, title, options string, offline func() vendors.Facts, format func(uint16) (string, error)) One {
	return One{
		Title: title,
		Platform: inventory.Platform{
			Name: name, Key: "junos", Doc: "Which tag of a frame CSIG's is, for the platforms junos-ex, junos-qfx and junos-mx.", Keys: (*setup.Keys)(nil),
			PortName: portName,
		},
		Dialect: dialect(options, offline, format),
	}
}

// dialect is the command line of Junos where options is the statement of an interface's
// Ethernet options.
func dialect(options string, offline func() vendors.Facts, format func(uint16) (string, error)) *setup.Dialect {
	path := func(port string) string {
		if strings.HasPrefix(port, "ae") {
			return "interfaces " + port + " aggregated-ether-options ethernet-switch-profile tag-protocol-id"
		}
		return "interfaces " + port + " " + options + " ethernet-switch-profile tag-protocol-id"
	}
	return &setup.Dialect{
		Platform: setuponly.Platform{Offline: offline, Format: format},
		Session: cli.Config{
			Platform: cli.Junos, Mode: "configuration-exclusive", Discard: "rollback 0",
			Refusals: []string{"error:", "permission denied"},
			// The hierarchy and the role before a prompt, and what commits that succeed print: with
			// two Routing Engines, or members of a Virtual Chassis, each of them.
			Noise: regexp.MustCompile(`^((\{[\w:-]+\})?(\[edit.*\])?|((re|fpc|node|member)\d+:)|-+|configuration check succeeds|load complete|commit complete|(# )?commit confirmed will be (automatically )?rolled back in \d+ minutes?( unless confirmed)?)$`),
		},
		Enter: "configure exclusive", Leave: "exit configuration-mode",
		PortName: portName,
		Read: []string{
			"show version", "show interfaces",
			"show configuration interfaces | display set", "show configuration interfaces | display inheritance | display set", "show configuration | display set | match \"^set apply-macro csig-\"",
		},
		Parse: parse,
		TPID: func(port, tpid, old string) (lines []string) {
			if old != "" {
				lines = append(lines, "delete "+path(port))
			}
			if tpid != "" {
				lines = append(lines, "set "+path(port)+" [ "+tpid+" ]")
			}
			return lines
		},
		MTU: func(port string, mtu int) []string {
			if mtu == 0 {
				return []string{"delete interfaces " + port + " mtu"}
			}
			return []string{fmt.Sprintf("set interfaces %s mtu %d", port, setuponly.WithHeader(mtu))}
		},
		Record: setup.Record{
			Within: func(string) string { return "" },
			Note: func(slot string, c setup.Comment) string {
				return fmt.Sprintf("set apply-macro %s %d %q", slot, c.Seq, c.Text)
			},
			Drop:    func(slot string) string { return "delete apply-macro " + slot },
			MaxNote: 200,
		},
		Commit: &setup.Commit{
			Trial: "commit confirmed 1", Confirm: "commit", Undo: []string{"rollback 1", "commit"}, Within: time.Minute,
			Show: "show system commit", In: "run", Pending: pending,
		},
	}
}

// pending reports whether a commit is on trial: the newest one, with number 0, then has the line
// "rollback pending". That it once was on trial stays beside it for good.
func pending(answer []string) bool {
	newest := false
	for _, line := range answer {
		if w := strings.Fields(line); len(w) > 1 {
			if _, err := strconv.Atoi(w[0]); err == nil {
				newest = w[0] == "0"
			}
		}
		if newest && strings.TrimSpace(line) == "rollback pending" {
			return true
		}
	}
	return false
}

// formatListed is the TPIDs of a port of a switch, which takes a list of them: ordinary tags are
// to stay tags.
func formatListed(tpid uint16) (string, error) {
	one, err := setup.Listed(tpidList)(tpid)
	if err != nil {
		return "", err
	}
	return joined([]string{"0x8100", one}), nil
}

// formatAny is that of a router.
func formatAny(tpid uint16) (string, error) {
	if tpid == 0x8100 || tpid < 0x0600 {
		return "", fmt.Errorf("0x%04x cannot be the TPID of CSIG tags", tpid)
	}
	return joined([]string{"0x8100", fmt.Sprintf("0x%04x", tpid)}), nil
}

// joined is a list of TPIDs, which is in no order.
func joined(list []string) string {
	slices.Sort(list)
	return strings.Join(slices.Compact(list), " ")
}

var names = regexp.MustCompile(`^((ge|xe|et)-\d{1,3}(/\d{1,3}){2}(:\d{1,2})?|ae\d{1,4})$`)

func portName(name string) string {
	if !names.MatchString(name) {
		return "want the physical interface as Junos writes it, e.g. xe-0/0/1 or ae0"
	}
	return ""
}

// parse reads the answers to Dialect.Read.
func parse(answers [][]string) *setup.View {
	v := &setup.View{Identity: identity(answers[0]), Slots: map[string][]setup.Comment{}}
	at := map[string]int{}
	port := -1
	for _, line := range answers[1] {
		if name, ok := strings.CutPrefix(line, "Physical interface: "); ok {
			name, _, _ = strings.Cut(name, ",")
			if port = -1; portName(name) == "" {
				port, at[name] = len(v.Ports), len(v.Ports)
				v.Ports = append(v.Ports, setup.Port{Port: setuponly.Port{Name: name}})
			}
		}
		if m := mtu.FindStringSubmatch(line); m != nil && port >= 0 && v.Ports[port].Now == 0 {
			v.Ports[port].Now = setuponly.WithoutHeader(m[1])
		}
	}
	own := map[string][]string{}
	inactive := map[string]bool{}
	for _, line := range answers[2] {
		w := strings.Fields(line)
		if len(w) < 2 || w[1] != "interfaces" {
			continue
		}
		if w[0] == "deactivate" {
			if len(w) == 2 || tpidPath(w) {
				inactive[strings.Join(w[2:min(len(w), 3)], "")] = true
			}
			continue
		}
		if len(w) < 5 || w[0] != "set" || portName(w[2]) != "" {
			continue
		}
		if _, ok := at[w[2]]; !ok { // configured, while its card is out
			at[w[2]] = len(v.Ports)
			v.Ports = append(v.Ports, setup.Port{Port: setuponly.Port{Name: w[2]}})
		}
		switch p := &v.Ports[at[w[2]]]; {
		case w[3] == "mtu" && len(w) == 5:
			p.MTU = setuponly.WithoutHeader(w[4])
		case len(w) == 7 && tpidPath(w):
			own[w[2]] = append(own[w[2]], setup.Hex(w[6]))
		case len(w) == 6 && w[4] == "802.3ad":
			p.Refused = "it is a member of " + untrusted.Text(w[5], 16) + ": name that"
		}
	}
	inherits := map[string]bool{}
	for _, line := range answers[3] {
		if w := strings.Fields(line); len(w) == 7 && w[0] == "set" && tpidPath(w) && !slices.Contains(own[w[2]], setup.Hex(w[6])) {
			inherits[w[2]] = true
		}
	}
	for i := range v.Ports {
		p := &v.Ports[i]
		list := own[p.Name]
		p.TPID = joined(list)
		switch {
		case p.Refused != "":
		case inactive[p.Name] || inactive[""]:
			p.TPID = strings.TrimSpace("inactive " + p.TPID)
			p.Refused = "its configuration is inactive there (deactivate): activate or delete it"
		case inherits[p.Name]:
			p.TPID = strings.TrimSpace("inherited " + p.TPID)
			p.Refused = "it inherits TPIDs from a configuration group or an interface range"
		case slices.ContainsFunc(list, func(tpid string) bool { return tpid != "0x8100" }):
			p.Refused = "it has TPIDs of its own (" + untrusted.Text(p.TPID, 80) + "), which csig would take away"
		}
	}
	for _, line := range answers[4] {
		rest, ok := strings.CutPrefix(line, "set apply-macro ")
		slot, rest, _ := strings.Cut(rest, " ")
		if !ok || !slices.Contains(setup.Slots[:], slot) {
			continue
		}
		number, text, _ := strings.Cut(rest, " ")
		seq, err := strconv.Atoi(number)
		if err != nil {
			v.Foreign = line
			continue
		}
		v.Slots[slot] = append(v.Slots[slot], setup.Comment{Seq: seq, Text: strings.Trim(text, `"`)})
	}
	return v
}

// tpidPath reports whether the words of a line are the statement of a port's TPIDs, or one that it
// is below.
func tpidPath(w []string) bool {
	for i, word := range w {
		switch i {
		case 1:
			if word != "interfaces" {
				return false
			}
		case 3:
			if !strings.HasSuffix(word, "ether-options") {
				return false
			}
		case 4:
			if word != "ethernet-switch-profile" {
				return false
			}
		case 5:
			if word != "tag-protocol-id" {
				return false
			}
		}
	}
	return len(w) > 1
}

var mtu = regexp.MustCompile(`\bMTU: (\d+)`)

// identity is what `show version` says.
func identity(lines []string) vendors.Identity {
	id := vendors.Identity{Maker: "Juniper"}
	for _, line := range lines {
		if model, ok := strings.CutPrefix(line, "Model: "); ok {
			id.Model = untrusted.Text(model, 64)
		}
		if version, ok := strings.CutPrefix(line, "Junos: "); ok {
			id.Version = untrusted.Text(version, 64)
		}
	}
	return id
}
