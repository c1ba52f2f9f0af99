package comware

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/vendors/cli/qos"
)

// dialect is Comware's words of what csig writes.
var dialect = &qos.Dialect{
	All: "operator and", Policy: "qos policy", Noun: "QoS policy",
	Words: map[qos.Position]qos.Words{
		qos.Inner: {PCP: "if-match customer-dot1p", VID: "if-match customer-vlan-id", Mark: "remark customer-vlan-id"},
		qos.Outer: {PCP: "if-match service-dot1p", VID: "if-match service-vlan-id", Mark: "remark service-vlan-id"},
	},
	Apply:   func(policy string) string { return "qos apply policy " + policy + " outbound" },
	Unapply: func(policy string) string { return "undo qos apply policy " + policy + " outbound" },
	TPID: func(at qos.Position, tpid uint16) string {
		side := map[qos.Position]string{qos.Inner: "customer", qos.Outer: "service"}[at]
		if tpid == qos.DefaultTPID {
			return "undo qinq ethernet-type " + side + "-tag"
		}
		return fmt.Sprintf("qinq ethernet-type %s-tag %04x", side, tpid)
	},
}

// deadObjects is what a switch has of csig's dead-man, beside its policy.
type deadObjects struct {
	probe     bool  // the NQA operation
	scheduled bool  // it runs
	rtm       bool  // the EAA policy
	track     int   // the track entry; 0: none
	tracks    []int // all that there are
}

// deadIn is what a view has of it.
func deadIn(v *qos.View) *deadObjects {
	if v.Own == nil {
		v.Own = &deadObjects{}
	}
	return v.Own.(*deadObjects)
}

// section begins a section that is no QoS object, with its first line.
func section(v *qos.View, words []string) qos.Take {
	v.Kept = deadPolicy
	dead, line := deadIn(v), strings.Join(words, " ")
	is := func(want ...string) bool {
		return len(words) > len(want) && slices.Equal(words[:len(want)], want)
	}
	switch {
	case is("qinq", "ethernet-type", "customer-tag"):
		v.InnerTPID = tpid(words[3])
	case line == "nqa entry "+nqaEntry:
		dead.probe = true
		return func(int, string) {}
	case strings.HasPrefix(line, "nqa schedule "+nqaEntry+" "):
		dead.scheduled = true
	case line == "rtm cli-policy "+deadPolicy:
		dead.rtm = true
		return func(int, string) {}
	case is("track"):
		if n, err := strconv.Atoi(words[1]); err == nil {
			if dead.tracks = append(dead.tracks, n); strings.Contains(line, " nqa entry "+nqaEntry+" ") {
				dead.track = n
			}
		}
	case is("interface"):
		p := &qos.Port{Name: words[1], TPID: qos.DefaultTPID}
		v.Ports = append(v.Ports, p)
		return iface(p)
	case appliesOutbound(words): // in system view, to all ports or to VLANs
		v.Elsewhere = line
	}
	return func(_ int, text string) { // for example a user profile
		if appliesOutbound(strings.Fields(text)) {
			v.Elsewhere = line + ", " + text
		}
	}
}

// iface reads the lines of an interface, and of the views within it.
func iface(p *qos.Port) qos.Take {
	within := ""
	foreign := func(line string) {
		p.Blocked = "a QoS policy is applied to what leaves it in a way that csig does not use: remove it (" + line + ")"
	}
	return func(depth int, line string) {
		w := strings.Fields(line)
		switch {
		case depth > 1 && appliesOutbound(w): // for example an Ethernet service instance
			foreign(within + ", " + line)
		case depth > 1:
		case appliesOutbound(w):
			if p.Applied = []string{w[3]}; len(w) != 5 {
				foreign(line)
			}
		case len(w) == 4 && strings.HasPrefix(line, "qinq ethernet-type service-tag "):
			p.TPID = tpid(w[3])
		case qos.FrameLine(line):
			p.Frames = line
		default:
			within = line
		}
	}
}

// appliesOutbound reports whether a line applies a policy to frames that leave ports. Behind
// the direction some series have another word, such as dynamic or share-mode.
func appliesOutbound(w []string) bool {
	return len(w) > 4 && w[0] == "qos" && (w[1] == "apply" && w[2] == "policy" || w[1] == "vlan-policy") && slices.Contains(w[3:], "outbound")
}

// tpid reads hexadecimal digits; 0 for what is none.
func tpid(text string) uint16 {
	n, err := strconv.ParseUint(text, 16, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}

// associated are the classes of a port's policy.
func associated(v *qos.View, port string) (classes []string) {
	for _, b := range v.Policies[qos.PolicyName(port)] {
		classes = append(classes, b.Class)
	}
	return classes
}
