package iosxr

import (
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

// Platform is what fleet files say of routers with IOS XR.
var Platform = inventory.Platform{
	Name: "iosxr", Key: "iosxr", Doc: "Which tag of a frame CSIG's is, for the platform iosxr.", Keys: (*setup.Keys)(nil),
	PortName: portName,
}

// Dialect is IOS XR's command line.
var Dialect = &setup.Dialect{
	Platform: setuponly.Platform{Offline: Offline, Format: setup.Listed(tpids)},
	Session: cli.Config{
		Platform: cli.IOSXR, Mode: "configuration-exclusive", Discard: "abort",
		Refusals: []string{"% Invalid", "% This command is not authorized"},
		// The time, before each answer, and what a commit that confirms prints.
		Noise: regexp.MustCompile(`^((Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} +\d+ [\d:.]+ \w+|% Confirming commit for trial session\.)$`),
	},
	Enter: "configure exclusive", Leave: "end",
	PortName: portName,
	Read:     []string{"show version", "show running-config interface", "show running-config ipv4 access-list", "show interfaces"},
	Parse:    parse,
	TPID: func(port, tpid, _ string) []string {
		if tpid == "" {
			return []string{"interface " + port, "no dot1q tunneling ethertype", "exit"}
		}
		return []string{"interface " + port, "dot1q tunneling ethertype " + tpid, "exit"}
	},
	MTU: func(port string, mtu int) []string {
		if mtu == 0 {
			return []string{"interface " + port, "no mtu", "exit"}
		}
		return []string{"interface " + port, "mtu " + strconv.Itoa(setuponly.WithHeader(mtu)), "exit"}
	},
	Record: setup.Remarks("ipv4 access-list", 200),
	Commit: &setup.Commit{
		Trial: "commit confirmed 60", Confirm: "commit", Within: time.Minute, // the end of the session that gave it takes it back
		Show: "show configuration sessions detail", In: "do", Pending: pending,
	},
}

// pending reports whether a commit is on trial: a session of the client commit-confirm is one.
func pending(answer []string) bool { return slices.ContainsFunc(answer, trial.MatchString) }

var trial = regexp.MustCompile(`\bClient:\s*commit-confirm`)

var names = regexp.MustCompile(`^((Gigabit|TenGig|TwentyFiveGig|FortyGig|FiftyGig|HundredGig|TwoHundredGig|FourHundredGig)E(thernet)?\d{1,3}(/\d{1,3}){3,4}|Bundle-Ether\d{1,5})$`)

func portName(name string) string {
	if !names.MatchString(name) {
		return "want the main interface as IOS XR writes it, e.g. TenGigE0/0/0/1 or Bundle-Ether1"
	}
	return ""
}

// parse reads the answers to Dialect.Read. Access lists, applied nowhere, with the names of
// slots have csig's record as remarks.
func parse(answers [][]string) *setup.View {
	v := &setup.View{Identity: identity(answers[0]), Slots: map[string][]setup.Comment{}}
	setup.Sections(answers[1], func(head string, lines []string) {
		name, ok := strings.CutPrefix(head, "interface ")
		if !ok || portName(name) != "" {
			return
		}
		p := setup.Port{Port: setuponly.Port{Name: name}}
		for _, line := range lines {
			switch w := strings.Fields(line); {
			case len(w) == 4 && strings.HasPrefix(line, "dot1q tunneling ethertype "):
				p.TPID = setup.Hex(w[3])
			case w[0] == "mtu" && len(w) == 2:
				p.MTU = setuponly.WithoutHeader(w[1])
			case w[0] == "bundle" && len(w) > 2 && w[1] == "id":
				p.Refused = "it is a member of Bundle-Ether" + untrusted.Text(w[2], 8) + ": name that"
			}
		}
		v.Ports = append(v.Ports, p)
	})
	setup.Sections(answers[2], func(head string, lines []string) {
		if slot, ok := strings.CutPrefix(head, "ipv4 access-list "); ok && slices.Contains(setup.Slots[:], slot) {
			v.Remarks(slot, lines)
		}
	})
	at := map[string]*setup.Port{}
	for i := range v.Ports {
		at[v.Ports[i].Name] = &v.Ports[i]
	}
	setup.Sections(answers[3], func(head string, lines []string) {
		name, _, _ := strings.Cut(head, " ")
		for _, line := range lines {
			if w := strings.Fields(line); at[name] != nil && len(w) > 2 && w[0] == "MTU" && strings.HasPrefix(w[2], "bytes") {
				at[name].Now = setuponly.WithoutHeader(w[1])
			}
		}
	})
	return v
}

var (
	version = regexp.MustCompile(`^Cisco IOS XR Software, Version ([^\s,]+)`)
	chassis = regexp.MustCompile(`^cisco (\S+(?: Series| \(\))?)`)
)

// identity is what `show version` says.
func identity(lines []string) vendors.Identity {
	id := vendors.Identity{Maker: "Cisco"}
	for _, line := range lines {
		if m := version.FindStringSubmatch(line); m != nil {
			id.Version = untrusted.Text(m[1], 64)
		}
		if m := chassis.FindStringSubmatch(line); m != nil && id.Model == "" {
			id.Model = untrusted.Text(strings.TrimSuffix(m[1], " ()"), 64)
		}
	}
	return id
}
