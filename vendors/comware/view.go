package comware

import (
	"slices"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/vendors/cli/qos"
)

// dialect is Comware's words of what csig writes.
var dialect = &qos.Dialect{
	All: "operator and", Policy: "qos policy",
	Words: map[qos.Position]qos.Words{
		inner: {PCP: "if-match customer-dot1p", VID: "if-match customer-vlan-id", Mark: "remark customer-vlan-id"},
		outer: {PCP: "if-match service-dot1p", VID: "if-match service-vlan-id", Mark: "remark service-vlan-id"},
	},
	Apply:   func(policy string) string { return "qos apply policy " + policy + " outbound" },
	Unapply: func(policy string) string { return "undo qos apply policy " + policy + " outbound" },

	DefaultTPID: defaultTPID,
}

// view is what csig knows of a switch's configuration. What blocks a port is the line by which
// another policy is applied there, beside the one of the port, or in its place.
type view struct {
	*qos.View
	customer  uint16 // TPID of inner tags
	probe     bool   // there is csig's NQA operation
	scheduled bool   // it runs
	rtm       bool   // there is csig's EAA policy
	track     int    // csig's track entry; 0: none
	tracks    []int  // all
	elsewhere string // a line that applies a policy to what leaves ports, not at a port; "" for none
}

func newView() *view {
	return &view{View: qos.NewView(dialect), customer: defaultTPID}
}

// clone is a view that changes by itself.
func (v *view) clone() *view {
	c := *v
	c.View = v.Clone()
	return &c
}

// outbound is the policy applied at a port, "" for none: there is one.
func outbound(p *qos.Port) string {
	if len(p.Applied) == 0 {
		return ""
	}
	return p.Applied[0]
}

// defaultTPID is Comware's, of either tag (HPE 5950 Layer 2 - LAN Switching Command
// Reference 5200-2215a, qinq ethernet-type).
const defaultTPID = 0x8100

// parse reads `display current-configuration`.
func parse(lines []string) (v *view, err error) {
	v = &view{customer: defaultTPID}
	if v.View, err = qos.Parse(dialect, lines, v.section); err != nil {
		return nil, err
	}
	v.Kept = deadPolicy
	return v, nil
}

// section begins a section that is no QoS object, with its first line.
func (v *view) section(q *qos.View, words []string) qos.Take {
	line := strings.Join(words, " ")
	is := func(want ...string) bool {
		return len(words) > len(want) && slices.Equal(words[:len(want)], want)
	}
	switch {
	case is("qinq", "ethernet-type", "customer-tag"):
		v.customer = tpid(words[3])
	case line == "nqa entry "+nqaEntry:
		v.probe = true
		return func(int, string) {}
	case strings.HasPrefix(line, "nqa schedule "+nqaEntry+" "):
		v.scheduled = true
	case line == "rtm cli-policy "+deadPolicy:
		v.rtm = true
		return func(int, string) {}
	case is("track"):
		if n, err := strconv.Atoi(words[1]); err == nil {
			if v.tracks = append(v.tracks, n); strings.Contains(line, " nqa entry "+nqaEntry+" ") {
				v.track = n
			}
		}
	case is("interface"):
		p := &qos.Port{Name: words[1], TPID: defaultTPID}
		q.Ports = append(q.Ports, p)
		return iface(p)
	case appliesOutbound(words): // in system view, to all ports or to VLANs
		v.elsewhere = line
	}
	return func(_ int, text string) { // for example a user profile
		if appliesOutbound(strings.Fields(text)) {
			v.elsewhere = line + ", " + text
		}
	}
}

// iface reads the lines of an interface, and of the views within it.
func iface(p *qos.Port) qos.Take {
	within := ""
	return func(depth int, line string) {
		w := strings.Fields(line)
		switch {
		case depth > 1 && appliesOutbound(w): // for example an Ethernet service instance
			p.Blocked = within + ", " + line
		case depth > 1:
		case appliesOutbound(w):
			if p.Applied = []string{w[3]}; len(w) != 5 {
				p.Blocked = line
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
func (v *view) associated(port string) (classes []string) {
	for _, b := range v.Policies[qos.PolicyName(port)] {
		classes = append(classes, b.Class)
	}
	return classes
}
