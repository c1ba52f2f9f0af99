package vrp

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors/cli/qos"
)

// at is the only tag that VRP can be told another TPID of: the inner one's is 0x8100.
const at = qos.Outer

// own is what csig knows of a switch beside what all vendors have.
type own struct {
	atomic bool // changes of an applied policy leave no gap
}

func ownOf(v *qos.View) *own {
	if v.Own == nil {
		v.Own = &own{}
	}
	return v.Own.(*own)
}

// section begins a section that is no QoS object.
func section(v *qos.View, words []string) qos.Take {
	line := strings.Join(words, " ")
	switch {
	case line == "traffic-policy atomic-update-mode":
		ownOf(v).atomic = true
	case outbound(line):
		v.Blocked = foreign(line, "system view")
	case words[0] == "interface" && len(words) > 1:
		name := strings.Join(words[1:], "")
		if parent, _, sub := strings.Cut(name, "."); sub {
			return func(_ int, line string) {
				if p := v.Port(parent); p != nil && outbound(line) {
					p.Blocked = foreign(line, "interface "+name)
				}
			}
		}
		p := &qos.Port{Name: name, TPID: qos.DefaultTPID}
		v.Ports = append(v.Ports, p)
		return func(_ int, line string) { portLine(p, line) }
	case words[0] == "vlan", words[0] == "qos" && len(words) > 1 && words[1] == "group", words[0] == "bridge-domain":
		return func(_ int, text string) {
			if outbound(text) {
				v.Blocked = foreign(text, line)
			}
		}
	}
	return nil
}

// portLine reads a line of an interface.
func portLine(p *qos.Port, line string) {
	w := strings.Fields(line)
	switch {
	case len(w) == 3 && w[0] == "traffic-policy" && w[2] == "outbound":
		p.Applied = append(p.Applied, w[1])
	case outbound(line):
		p.Blocked = foreign(line, "interface "+p.Name)
	case len(w) == 3 && w[0] == "qinq" && w[1] == "protocol":
		p.TPID = 0 // none
		if n, err := strconv.ParseUint(strings.TrimPrefix(w[2], "0x"), 16, 16); err == nil {
			p.TPID = uint16(n)
		}
	case qos.FrameLine(line):
		p.Frames = line
	case len(w) >= 2 && w[0] == "eth-trunk":
		member := "it is a member of Eth-Trunk" + untrusted.Text(w[1], 10) + ": name that, "
		p.Blocked = member + "a policy there is in force at its members"
		p.Member = member + "which has the longest frame of its members, too"
	case strings.HasPrefix(line, "port vlan-mapping "), strings.HasPrefix(line, "port vlan-stacking "):
		p.Blocked = "it changes VLAN tags otherwise: " + untrusted.Text(line, 80)
	}
}

// outbound reports whether a line applies a traffic policy, or an ACL-based simplified one, to
// what is sent.
func outbound(line string) bool {
	head, rest, _ := strings.Cut(line, " ")
	switch head {
	case "traffic-policy", "traffic-filter", "traffic-limit", "traffic-mirror", "traffic-redirect", "traffic-remark", "traffic-secure", "traffic-statistic":
		return strings.Contains(" "+rest+" ", " outbound ")
	}
	return false
}

func foreign(line, where string) string {
	return fmt.Sprintf("%s has %q, which csig's policy at the port would take the place of, or fail by: remove that", untrusted.Text(where, 60), untrusted.Text(line, 120))
}
