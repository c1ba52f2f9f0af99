package vrp

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vlanrules"
)

// defaultTPID is that of either tag (S2720, S5700, and S6700 V200R019C10 Command Reference,
// qinq protocol).
const defaultTPID = 0x8100

// at is the only tag that VRP can be told another TPID of: the inner one's is 0x8100.
const at = qos.Outer

// view is what csig knows of a switch.
type view struct {
	*qos.View
	atomic     bool   // changes of an applied policy leave no gap
	everywhere string // why no port can have a policy; "": they can

	states map[string][]string // of each port's policy in hardware, by slot
}

// parse reads `display current-configuration`.
func (p *profile) parse(lines []string) (*view, error) {
	v := &view{}
	var err error
	if v.View, err = qos.Parse(p.dialect, lines, v.section); err != nil {
		return nil, err
	}
	for _, port := range v.Ports {
		if port.Blocked == "" {
			port.Blocked = v.everywhere
		}
	}
	return v, nil
}

// section begins a section that is no QoS object.
func (v *view) section(q *qos.View, words []string) qos.Take {
	line := strings.Join(words, " ")
	switch {
	case line == "traffic-policy atomic-update-mode":
		v.atomic = true
	case outbound(line):
		v.everywhere = foreign(line, "system view")
	case words[0] == "interface" && len(words) > 1:
		name := strings.Join(words[1:], "")
		if parent, _, sub := strings.Cut(name, "."); sub {
			return func(_ int, line string) {
				if p := q.Port(parent); p != nil && outbound(line) {
					p.Blocked = foreign(line, "interface "+name)
				}
			}
		}
		p := &qos.Port{Name: name, TPID: defaultTPID}
		q.Ports = append(q.Ports, p)
		return func(_ int, line string) { portLine(p, line) }
	case words[0] == "vlan", words[0] == "qos" && len(words) > 1 && words[1] == "group", words[0] == "bridge-domain":
		return func(_ int, text string) {
			if outbound(text) {
				v.everywhere = foreign(text, line)
			}
		}
	}
	return nil
}

// memberOf begins what blocks a member of an Eth-Trunk.
const memberOf = "it is a member of Eth-Trunk"

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
		p.Blocked = memberOf + untrusted.Text(w[1], 10) + ": name that, a policy there is in force at its members"
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

// setup is what a view has of ours.
func (v *view) setup() vendors.Setup {
	var s vendors.Setup
	records, ports := v.Records(), v.Ours()
	switch len(records) {
	case 0:
		if len(ports) == 0 {
			if classes, behaviors := v.Idle(); len(classes)+len(behaviors)+len(v.Orphans())+len(v.Found()) > 0 {
				s.Damaged = "there are classifiers, behaviors or policies of csig's, and nothing else"
			}
			return s
		}
		s.Damaged = "the record of the setup (traffic behavior csig-setup-…) is not there"
	default:
		if s, _, _ = qos.ParseRecord(records[len(records)-1]); len(records) > 1 {
			s.Damaged = "there is more than one record of the setup"
		}
	}
	s.Layout = quantize.Draft00
	for _, name := range ports {
		s.Ports = append(s.Ports, vendors.PortSetup{Port: name, Action: vlanrules.Update, Damaged: v.damage(name, s.TPID)})
	}
	return s
}

// damage is what is not as csig left it at a port that has a policy of csig's.
func (v *view) damage(name string, tpid uint16) string {
	p := v.Port(name)
	_, strays := v.Table(nil, name, at)
	switch why := v.refuses(name, tpid); {
	case why != nil:
		return why.Error()
	case tpid != 0 && p.TPID != tpid:
		return fmt.Sprintf("the TPID of its outer tags is 0x%04x", p.TPID)
	case !p.Ours():
		return "its policy is not applied"
	case len(strays) > 0:
		return "a classifier or behavior of its policy is not as csig left it: " + strings.Join(strays[:min(3, len(strays))], ", ")
	}
	if why := v.notInHardware(name); why != nil {
		return why.Error()
	}
	return ""
}

// refuses is why a port cannot have a policy of csig's as the switch is configured; nil
// where it can.
func (v *view) refuses(name string, tpid uint16) error {
	p := v.Port(name)
	switch {
	case p == nil:
		return fmt.Errorf("the switch has no such interface")
	case p.Blocked != "":
		return &vendors.ForeignError{What: p.Blocked}
	case p.Foreign() != "":
		return &vendors.ForeignError{What: "traffic policy " + p.Foreign() + " is applied at its outbound direction: remove it (undo traffic-policy " + p.Foreign() + " outbound)"}
	case v.ForeignIn(name) != "":
		return v.foreignIn(name)
	case tpid != 0 && !v.TakesTPID(p, tpid):
		return &vendors.ForeignError{What: fmt.Sprintf("the TPID of its outer tags is 0x%04x, which csig did not set, and the domain's is 0x%04x: remove it (undo qinq protocol)", p.TPID, tpid)}
	}
	return nil
}

// inForce reports whether csig's policy is what is applied at a port, whatever is near it.
func (v *view) inForce(name string) bool {
	p := v.Port(name)
	return p != nil && p.Ours() && p.Foreign() == ""
}

// foreignIn is what in a port's policy csig did not make.
func (v *view) foreignIn(name string) error {
	return &vendors.ForeignError{What: fmt.Sprintf("its policy %s has %q, which csig did not make: remove that", qos.PolicyName(name), untrusted.Text(v.ForeignIn(name), 120))}
}

// notInHardware is why a port's policy is configured and not in force, by the switch's own
// report; nil where it is.
func (v *view) notInHardware(name string) error {
	states := v.states[name]
	for _, state := range states {
		if state != "success" {
			return fmt.Errorf("its policy is %w: %s", vendors.ErrNotInHardware, state)
		}
	}
	if len(states) == 0 {
		return errors.New("its policy is configured, and the switch does not report it at the port")
	}
	return nil
}

// underWay reports whether the switch still works on a policy.
func (v *view) underWay() bool {
	for _, states := range v.states {
		for _, state := range states {
			if state == "waiting" || state == "processing" {
				return true
			}
		}
	}
	return false
}
