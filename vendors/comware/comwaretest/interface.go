package comwaretest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// applyTo applies a policy in a view that has nothing else.
func (s *shell) applyTo(lines, w []string, to func([]string)) string {
	if len(w) != 5 || strings.Join(w[:3], " ") != "qos apply policy" || w[4] != "outbound" && w[4] != "inbound" {
		return unrecognized
	}
	if _, there := s.c.policies[w[3]]; !there {
		return "The QoS policy does not exist."
	}
	to(append(lines, strings.Join(w, " ")))
	return ""
}

// elsewhere is qos apply policy NAME global DIRECTION (HPE 12500 5998-4884) and qos
// vlan-policy NAME vlan LIST DIRECTION (3Com 4800G, p. 889).
func (s *shell) elsewhere(w []string, undo bool) string {
	policy := ""
	switch direction := w[len(w)-1]; {
	case direction != "inbound" && direction != "outbound":
		return wrong
	case len(w) == 6 && w[2] == "policy" && w[4] == "global":
		policy = w[3]
	case len(w) == 6 && w[1] == "vlan-policy" && w[3] == "vlan" && len(vids(w[4:5])) == 1:
		policy = w[2]
	default:
		return wrong
	}
	if _, there := s.c.policies[policy]; !there {
		return "The QoS policy does not exist."
	}
	return line(&s.c.elsewhere, strings.Join(w, " "), undo)
}

func (c *Switch) iface(name string) *iface {
	for _, i := range c.ifaces {
		if i.name == name {
			return i
		}
	}
	return nil
}

// tpid reads "qinq ethernet-type TAG HEX".
func tpid(w []string, tag string) (uint16, bool) {
	if len(w) != 4 || w[2] != tag {
		return 0, false
	}
	n, err := strconv.ParseUint(w[3], 16, 16)
	reserved := []uint64{0, 0x0806, 0x0200, 0x8035, 0x0800, 0x86dd, 0x8863, 0x8864, 0x8847, 0x8848, 0x8137, 0x8000, 0x8809, 0x88cc, 0x888e, 0x8902, 0x88a7, 0xfffd, 0xfffe, 0xffff}
	return uint16(n), err == nil && !slices.Contains(reserved, n)
}

func (s *shell) iface(i *iface, w []string) string {
	text := strings.Join(w, " ")
	direction, word := w[len(w)-1], ""
	if len(w) == 6 && w[0] == "qos" && (direction == "dynamic" || direction == "share-mode") { // 3Com Switch 8800 V5 p. 845
		direction, word = w[4], " "+direction
	}
	in := direction == "inbound" || direction == "outbound"
	switch {
	case text == "service-instance 1":
		s.views = append(s.views, view{kind: instanceView, name: i.name})
	case strings.HasPrefix(text, "qos apply policy ") && (len(w) == 5 || word != "") && in:
		if _, there := s.c.policies[w[3]]; !there {
			return "The QoS policy does not exist."
		}
		if strings.HasPrefix(i.name, "Bridge-Aggregation") && direction == "outbound" {
			return "The operation is not supported on the interface."
		}
		if p := i.policies[direction]; p != "" && p != w[3] {
			return "A QoS policy has been applied in this direction."
		}
		i.policies[direction], i.words[direction] = w[3], word
	case strings.HasPrefix(text, "undo qos apply policy ") && in && (len(w) == 5 || len(w) == 6):
		if i.policies[direction] == "" || len(w) == 6 && w[4] != i.policies[direction] {
			return "No QoS policy is applied."
		}
		delete(i.policies, direction)
	case strings.HasPrefix(text, "qinq ethernet-type "):
		n, ok := tpid(w, "service-tag")
		if !ok {
			return wrong
		}
		i.service = n
	case text == "undo qinq ethernet-type service-tag":
		i.service = 0x8100
	case w[0] == "jumboframe" || len(w) == 3 && w[0] == "undo" && w[1] == "jumboframe":
		return s.c.jumboframe(i, w)
	default:
		return unrecognized
	}
	return ""
}

func (s *shell) display(w []string) string {
	switch text := strings.Join(w, " "); {
	case text == "current-configuration":
		return s.c.running()
	case strings.HasPrefix(text, "current-configuration | include "):
		var b strings.Builder
		for l := range strings.Lines(s.c.running()) {
			if strings.Contains(l, text[len("current-configuration | include "):]) {
				b.WriteString(l)
			}
		}
		return b.String()
	case text == "users" && s.logins != nil:
		return s.users()
	case text == "version":
		return "H3C Comware Software, Version 7.1.070, Release 3507P02\nCopyright (c) 2004-2017 New H3C Technologies Co., Ltd. All rights reserved.\nH3C S5130S-28S-HI uptime is 0 weeks, 0 days, 3 hours, 7 minutes\nLast reboot reason : Cold reboot\n"
	case w[0] == "interface" && len(w) <= 2:
		var b strings.Builder
		for _, i := range s.c.ifaces {
			if len(w) == 1 || w[1] == i.name {
				b.WriteString(s.c.report(i))
			}
		}
		if b.Len() > 0 {
			return b.String()
		}
		return wrong
	case strings.HasPrefix(text, "qos policy interface ") && len(w) == 5 && w[4] == "outbound":
		return s.c.applications(w[3])
	}
	return unrecognized
}

// applications is display qos policy interface NAME outbound. What hardware has no room
// for says so behind the class; no public text shows how a switch of Comware 7 does.
func (c *Switch) applications(name string) string {
	i := c.iface(name)
	if i == nil {
		return wrong
	}
	policy := i.policies["outbound"]
	if policy == "" {
		return ""
	}
	held := -1
	if c.held != nil {
		held = c.held[slices.Index(c.ifaces, i)]
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Interface: %s\n  Direction: Outbound\n  Policy: %s\n", i.name, policy)
	for n, p := range c.policies[policy] {
		failed := ""
		if held >= 0 && n >= held {
			failed = " (Failed)"
		}
		fmt.Fprintf(&b, "   Classifier: %s%s\n     Operator: AND\n     Rule(s) :\n", p.class, failed)
		for _, l := range c.classes[p.class].lines {
			fmt.Fprintf(&b, "      I%s\n", l[1:])
		}
		fmt.Fprintf(&b, "     Behavior: %s\n      Marking:\n", p.behavior)
		for _, l := range c.behaviors[p.behavior].lines {
			fmt.Fprintf(&b, "        R%s\n", l[1:])
		}
	}
	return b.String()
}
