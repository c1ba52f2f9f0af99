package vrptest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (c *config) iface(name string) *iface {
	for _, i := range c.Ifaces {
		if i.Name == name {
			return i
		}
	}
	return nil
}

func (s *shell) iface(i *iface, w []string) string {
	undo := w[0] == "undo"
	if undo {
		w = w[1:]
	}
	text, direction := strings.Join(w, " "), w[len(w)-1]
	switch {
	case w[0] == "traffic-policy" && len(w) == 3 && (direction == "inbound" || direction == "outbound"):
		at := slices.Index(i.Applied[direction], w[1])
		most := 1
		if s.c.cloud {
			most = 2
		}
		switch _, there := s.candidate.Policies[w[1]]; {
		case undo && at < 0:
			return "Error: The traffic policy is not applied."
		case undo:
			if i.Applied[direction] = slices.Delete(slices.Clone(i.Applied[direction]), at, at+1); len(i.Applied[direction]) == 0 {
				delete(i.Applied, direction)
			}
		case !there:
			return "Error: The traffic policy does not exist."
		case at < 0 && len(i.Applied[direction]) >= most:
			return "Error: A traffic policy has been applied to this direction."
		case at < 0:
			i.Applied[direction] = append(slices.Clone(i.Applied[direction]), w[1])
		}
	case strings.HasPrefix(text, "traffic-filter ") && !s.c.cloud, w[0] == "eth-trunk", w[0] == "port":
		i.Lines = lines(i.Lines, text, undo)
	case w[0] == "jumboframe":
		return s.jumboframe(i, w, undo)
	case text == "qinq protocol" && undo:
		i.TPID = 0x8100
	case strings.HasPrefix(text, "qinq protocol ") && len(w) == 3 && !undo:
		n, err := strconv.ParseUint(w[2], 16, 16)
		if err != nil || n < 0x600 || s.c.cloud && n != 0x8100 && n != 0x88a8 && n != 0x9100 {
			return wrong
		}
		i.TPID = uint16(n)
	default:
		return unrecognized
	}
	return ""
}

func (s *shell) display(w []string) string {
	switch text := strings.Join(w, " "); {
	case text == "current-configuration":
		return s.c.text()
	case text == "users" && s.logins != nil:
		return s.users()
	case text == "version" && s.c.cloud:
		return "Huawei Versatile Routing Platform Software\nYunShan OS, Version 1.23.0.1 (CE6800 V300R023C00SPC500)\nCopyright (C) 2021-2023 Huawei Technologies Co., Ltd.\nHUAWEI CE6866-48S8CQ-P uptime is 0 day, 5 hours, 32 minutes\n"
	case text == "version":
		return "Huawei Versatile Routing Platform Software\nVRP (R) software, Version 5.170 (S6720 V200R019C10SPC500)\nCopyright (C) 2000-2020 HUAWEI TECH Co., Ltd.\nHUAWEI S6720-30C-EI-24S-AC Routing Switch uptime is 0 week, 0 day, 3 hours, 7 minutes\n"
	case w[0] == "interface" && len(w) <= 2:
		var b strings.Builder
		for _, i := range s.c.running.Ifaces {
			if len(w) == 1 || w[1] == i.Name {
				b.WriteString(i.report())
			}
		}
		if b.Len() > 0 {
			return b.String()
		}
		return wrong
	case text == "traffic-policy applied-record":
		return s.c.record()
	case text == "configuration trial status" && s.c.cloud:
		return s.c.trialStatus()
	}
	return unrecognized
}

// record is display traffic-policy applied-record.
func (c *Switch) record() string {
	var b strings.Builder
	rule := strings.Repeat("-", 80) + "\n"
	now := c.failed
	if time.Since(c.changed) < c.Late {
		now = c.before
	}
	state := func(i *iface, failed string) string {
		if now[i.Name] {
			return failed
		}
		return "success"
	}
	if !c.cloud {
		for _, i := range c.running.Ifaces {
			for _, policy := range i.Applied["outbound"] {
				fmt.Fprintf(&b, "%s  Policy Name:   %s\n  Policy Index:  0\n", rule[30:], policy)
				for _, p := range c.running.Policies[policy] {
					fmt.Fprintf(&b, "     Classifier:%s     Behavior:%s\n", p.Class, p.Behavior)
				}
				fmt.Fprintf(&b, "%s *interface %s\n    traffic-policy %s outbound  \n      slot 0    :  %s\n", rule[30:], i.Name, policy, state(i, "fail"))
				fmt.Fprintf(&b, "%s  Policy total applied times: 1.\n", rule[30:])
			}
		}
		return b.String()
	}
	fmt.Fprintf(&b, "Total records : 1\n%sPolicy Type/Name                     Apply Parameter             Slot State\n%s", rule, rule)
	for _, i := range c.running.Ifaces {
		for _, direction := range []string{"inbound", "outbound"} {
			for _, policy := range i.Applied[direction] {
				mark := map[string]string{"inbound": "(IN)", "outbound": "(OUT)"}[direction]
				fmt.Fprintf(&b, "%-37s%-28s1    %s\n%s", policy, i.Name+mark, state(i, "fail(4)"), rule)
			}
		}
	}
	return b.String() + "Fail reason:\n  4 -- Insufficient ACL resources.\n"
}
