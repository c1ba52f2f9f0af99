package vrp

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/qos"
)

// The platforms that this driver is for.
const (
	SSeries     = "vrp"         // VRP 5: S series switches
	CloudEngine = "cloudengine" // VRP 8 and YunShan OS: CloudEngine switches
)

// profile is how a line of Huawei's software writes and does it.
type profile struct {
	name    string
	dialect *qos.Dialect
	example string // name of a port
	commits bool   // lines take effect by commit (two-phase validation mode)
	tpids   vendors.TPIDs
	status  func(lines []string) map[string][]string

	version *regexp.Regexp // of the software, in `display version`
	runs    string         // it, for people
	other   string         // the other platform
}

func applied(verb string) func(string) string {
	return func(policy string) string { return verb + "traffic-policy " + policy + " outbound" }
}

func qinq(_ qos.Position, tpid uint16) string {
	if tpid == qos.DefaultTPID {
		return "undo qinq protocol"
	}
	return fmt.Sprintf("qinq protocol %04x", tpid)
}

var profiles = map[string]*profile{
	SSeries: {
		name: SSeries, other: CloudEngine, example: "XGigabitEthernet0/0/1", runs: "VRP 5",
		dialect: &qos.Dialect{
			All: "operator and", Policy: "traffic policy", Noun: "traffic policy", Apply: applied(""), Unapply: applied("undo "), TPID: qinq,
			Words: map[qos.Position]qos.Words{qos.Outer: {PCP: "if-match 8021p", VID: "if-match vlan-id", Mark: "remark vlan-id"}},
			Idle:  []string{"permit"},
		},
		tpids:   vendors.TPIDs{Any: true, AtMost: 1, Scope: vendors.ScopePort, AsVLAN: true},
		version: regexp.MustCompile(`^VRP \(R\) software, Version (5\.\S+) \(\S+ (V\S+)\)`),
		status:  sStatus,
	},
	CloudEngine: {
		name: CloudEngine, other: SSeries, example: "100GE1/0/1", runs: "VRP 8 or YunShan OS", commits: true,
		dialect: &qos.Dialect{
			All: "type and", Policy: "traffic policy", Noun: "traffic policy", Apply: applied(""), Unapply: applied("undo "), TPID: qinq, Numbered: true,
			Words: map[qos.Position]qos.Words{qos.Outer: {PCP: "if-match 8021p", VID: "if-match vlan", Mark: "vlan-mapping vlan"}},
			Idle:  []string{"permit"},
		},
		tpids:   vendors.TPIDs{List: vendors.TPIDList{0x88a8, 0x9100}, AtMost: 1, Scope: vendors.ScopePort, AsVLAN: true},
		version: regexp.MustCompile(`^(?:VRP \(R\) software, Version 8|YunShan OS, Version 1)(\.\S+) \(.* (V\S+)\)`),
		status:  ceStatus,
	},
}

// session is how a login speaks.
func (p *profile) session(c cli.Config) cli.Config {
	c.Platform = cli.VRP
	c.Start = []string{"undo terminal monitor"}
	c.Refusals = []string{"Error:"}
	c.Users = &cli.Users{List: "display users", End: []string{"kill user-interface %s", "free user-interface %s"}} // VRP 8, VRP 5
	c.Prompt = `(?im)^\[[~*]?[\w.\-@/:]{1,96}\]$`
	if p.commits {
		c.Commit, c.Discard = "commit", "clear configuration candidate"
	}
	return c
}

// sStatus reads `display traffic-policy applied-record` of the S series: the states of each
// port's policy, by slot.
func sStatus(lines []string) map[string][]string {
	out := map[string][]string{}
	port, ours := "", false
	for _, line := range lines {
		text := strings.TrimSpace(line)
		switch w := strings.Fields(text); {
		case strings.HasPrefix(text, "*"):
			port, _ = strings.CutPrefix(text, "*interface ")
			if port, ours = strings.ReplaceAll(port, " ", ""), false; port == text {
				port = ""
			}
		case len(w) == 3 && w[0] == "traffic-policy":
			ours = w[1] == qos.PolicyName(port) && w[2] == "outbound"
		case len(w) >= 4 && w[0] == "slot" && w[2] == ":" && port != "" && ours:
			out[port] = append(out[port], untrusted.Text(strings.Join(w[3:], " "), 80))
		}
	}
	return out
}

// ceStatus reads it of a CloudEngine, where it is a table.
func ceStatus(lines []string) map[string][]string {
	out := map[string][]string{}
	port := ""
	reasons := map[string]string{} // by their numbers
	for _, line := range lines {
		w := strings.Fields(line)
		if number, text, ok := strings.Cut(strings.TrimSpace(line), " -- "); ok {
			reasons["fail("+number+")"] = text
			continue
		}
		for i, word := range w {
			name, ok := strings.CutSuffix(word, "(OUT)")
			switch {
			case ok && (i == 0 || w[i-1] == qos.PolicyName(name)):
				port = name
			case strings.HasSuffix(word, ")") && strings.Contains(word, "("): // of another place, or a state
				if !strings.HasPrefix(word, "fail(") {
					port = ""
				}
				continue
			default:
				continue
			}
			w = w[i+1:]
			break
		}
		if port != "" && len(w) == 2 && strings.Trim(w[0], "0123456789/") == "" {
			out[port] = append(out[port], untrusted.Text(w[1], 80))
		}
	}
	for _, states := range out {
		for i, state := range states {
			if why := reasons[state]; why != "" {
				states[i] = untrusted.Text(state+": "+why, 200)
			}
		}
	}
	return out
}
