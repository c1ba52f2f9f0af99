package vrptest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Errors of VRP's command line.
const (
	unrecognized = "          ^\nError: Unrecognized command found at '^' position."
	incomplete   = "          ^\nError:Incomplete command found at '^' position."
	wrong        = "          ^\nError: Wrong parameter found at '^' position."
	tooMany      = "          ^\nError:Too many parameters found at '^' position."
)

// view kinds.
const (
	user = iota
	system
	classView
	behaviorView
	policyView
	ifaceView
	vlanView
)

// view is where a shell is.
type view struct {
	kind int
	name string // of the object
}

// shell is one login.
type shell struct {
	c         *Switch
	views     []view // above user view
	page      int
	candidate *config // of a CloudEngine, from system view on
	base      *config // what it began as
	dirty     bool
	asks      bool // whether to commit before exiting
}

func (s *shell) view() view {
	if len(s.views) == 0 {
		return view{}
	}
	return s.views[len(s.views)-1]
}

func (s *shell) Prompt() string {
	if s.asks {
		return "Warning: Uncommitted configurations found. Are you sure to commit them before exiting? [Y/N/C]:"
	}
	name := s.c.Name
	switch v := s.view(); v.kind {
	case user:
		return "<" + name + ">"
	case classView:
		name += "-classifier-" + v.name
	case behaviorView:
		name += "-behavior-" + v.name
	case policyView:
		name += "-trafficpolicy-" + v.name
	case ifaceView:
		name += "-" + v.name
	case vlanView:
		name += "-vlan" + v.name
	}
	switch {
	case s.c.cloud && s.dirty:
		name = "*" + name
	case s.c.cloud:
		name = "~" + name
	}
	return "[" + name + "]"
}

func (s *shell) Page() (int, string) { return s.page, "  ---- More ----" }

// Do carries out one line.
func (s *shell) Do(line string) (string, bool) {
	w := strings.Fields(line)
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.c.expire()
	if s.asks {
		return s.answer(strings.ToUpper(line)), false
	}
	if len(w) == 0 {
		return "", false
	}
	switch {
	case w[0] == "display":
		return s.display(w[1:]), false
	case len(w) == 1 && w[0] == "return":
		s.leave(nil)
		return "", false
	case len(w) == 1 && w[0] == "quit":
		if len(s.views) == 0 {
			return "", true
		}
		s.leave(s.views[:len(s.views)-1])
		return "", false
	case s.view().kind == user:
		return s.user(w), false
	case s.c.cloud && w[0] == "commit":
		return s.commit(w[1:]), false
	case s.c.cloud && w[0] == "abort" && len(w) > 1 && w[1] == "trial":
		return unrecognized, false // it asks, and csig does not need it
	case s.c.cloud && strings.Join(w, " ") == "clear configuration candidate":
		s.candidate, s.base, s.dirty = s.c.running.clone(), s.c.running, false
		s.views = s.views[:1]
		return "", false
	}
	if !s.c.cloud {
		s.candidate = s.c.running.clone()
	}
	before := s.candidate.clone()
	answer := s.configure(w)
	if isError(answer) {
		s.candidate = before
		return answer, false
	}
	if !s.c.cloud {
		s.c.change(s.candidate)
	} else if !same(before, s.candidate) {
		s.dirty = true
	}
	return answer, false
}

func isError(answer string) bool { return strings.Contains(answer, "Error:") }

// leave goes to other views, unless something is not committed.
func (s *shell) leave(views []view) {
	if len(views) == 0 && s.dirty {
		s.asks = true
		return
	}
	s.views = views
}

func (s *shell) answer(key string) string {
	switch s.asks = false; key {
	case "Y":
		if answer := s.commit(nil); isError(answer) {
			return answer
		}
		s.views = nil
	case "N":
		s.dirty, s.views = false, nil
	case "C":
	default:
		s.asks = true
		return "Error: Please choose 'YES', 'NO' or 'CANCEL' first before pressing 'Enter'. [Y/N/C]:"
	}
	return ""
}

func (s *shell) user(w []string) string {
	switch text := strings.Join(w, " "); {
	case text == "system-view":
		s.views = []view{{kind: system}}
		s.candidate, s.base, s.dirty = s.c.running.clone(), s.c.running, false
		if s.c.cloud {
			return "Enter system view, return user view with return command."
		}
		return "Enter system view, return user view with Ctrl+Z."
	case text == "screen-length 0 temporary":
		s.page = 0
		return "Info: The configuration takes effect on the current user terminal interface only."
	case text == "undo terminal monitor":
		return "Info: Current terminal monitor is off."
	case w[0] == "save":
		s.c.saves++
		return "Info: Save the configuration successfully."
	}
	return unrecognized
}

func (s *shell) configure(w []string) string {
	switch v := s.view(); v.kind {
	case system:
		return s.system(w)
	case classView:
		return s.class(s.candidate.Classes[v.name], w)
	case behaviorView:
		return s.behavior(v.name, w)
	case policyView:
		return s.policy(v.name, w)
	case ifaceView:
		return s.iface(s.candidate.iface(v.name), w)
	default:
		return applyLine(w, func(text string, undo bool) { s.candidate.VLANs[v.name] = lines(s.candidate.VLANs[v.name], text, undo) })
	}
}

// lines has a line, or has it no more.
func lines(list []string, text string, undo bool) []string {
	list = slices.DeleteFunc(slices.Clone(list), func(l string) bool { return l == text })
	if !undo {
		list = append(list, text)
	}
	return list
}

// applyLine is traffic-policy in a view whose policies csig leaves alone.
func applyLine(w []string, set func(text string, undo bool)) string {
	undo := w[0] == "undo"
	if undo {
		w = w[1:]
	}
	if len(w) < 3 || w[0] != "traffic-policy" || !slices.Contains(w, "outbound") && !slices.Contains(w, "inbound") {
		return unrecognized
	}
	set(strings.Join(w, " "), undo)
	return ""
}

// name reports whether the switch takes a name for an object.
func (s *shell) name(text string) bool {
	most := 64
	if s.c.cloud {
		most = 31
	}
	return len(text) <= most
}

func (s *shell) system(w []string) string {
	undo := w[0] == "undo"
	if undo {
		w = w[1:]
	}
	c, text := s.candidate, strings.Join(w, " ")
	switch {
	case text == "traffic-policy atomic-update-mode" && s.c.cloud:
		c.Atomic = !undo
		return ""
	case w[0] == "traffic-policy":
		return applyLine(append(map[bool][]string{true: {"undo"}}[undo], w...), func(text string, undo bool) { c.Global = lines(c.Global, text, undo) })
	case w[0] == "interface" && len(w) == 2 && !undo:
		if c.iface(w[1]) == nil {
			return wrong
		}
		s.views = append(s.views[:1:1], view{ifaceView, w[1]})
		return ""
	case w[0] == "vlan" && len(w) == 2 && !undo:
		c.VLANs[w[1]] = append([]string{}, c.VLANs[w[1]]...)
		s.views = append(s.views[:1:1], view{vlanView, w[1]})
		return ""
	case len(w) < 2:
		return unrecognized
	case len(w) == 2 && w[0] == "traffic":
		return incomplete
	case len(w) > 2 && !s.name(w[2]):
		return wrong
	}
	kind := 0
	switch w[0] + " " + w[1] {
	case "traffic classifier":
		kind = classView
		if undo {
			return remove(c.Classes, w, c.uses(func(p pair) bool { return p.Class == w[2] }))
		}
		all := false
		switch text := strings.Join(w[3:], " "); text {
		case s.c.operator(true):
			all = true
		case s.c.operator(false), "":
		default:
			return wrong
		}
		if c.Classes[w[2]] == nil {
			if len(c.Classes) >= 512 && !s.c.cloud {
				return "Error: The number of traffic classifiers has reached the upper limit."
			}
			c.Classes[w[2]] = &class{}
		}
		c.Classes[w[2]].All = all
	case "traffic behavior":
		kind = behaviorView
		if undo {
			return remove(c.Behaviors, w, c.uses(func(p pair) bool { return p.Behavior == w[2] }))
		}
		if _, there := c.Behaviors[w[2]]; !there {
			if len(c.Behaviors) >= 256 && !s.c.cloud {
				return "Error: The number of traffic behaviors has reached the upper limit."
			}
			c.Behaviors[w[2]] = []string{}
		}
	case "traffic policy":
		kind = policyView
		if undo {
			return remove(c.Policies, w, c.applied(w[2]))
		}
		if _, there := c.Policies[w[2]]; !there {
			c.Policies[w[2]] = []pair{}
		}
	default:
		return unrecognized
	}
	if kind != classView && len(w) > 3 {
		return tooMany
	}
	s.views = append(s.views[:1:1], view{kind, w[2]})
	return ""
}

// remove deletes an object that nothing uses.
func remove[T any](from map[string]T, w []string, used bool) string {
	switch _, there := from[w[2]]; {
	case len(w) > 3:
		return tooMany
	case !there:
		return "Error: The " + w[1] + " does not exist."
	case used:
		return "Error: The " + w[1] + " is in use, and cannot be deleted."
	}
	delete(from, w[2])
	return ""
}

func (c *config) uses(is func(pair) bool) bool {
	for _, list := range c.Policies {
		if slices.ContainsFunc(list, is) {
			return true
		}
	}
	return false
}

func (c *config) applied(policy string) bool {
	for _, i := range c.Ifaces {
		if slices.Contains(i.Applied["inbound"], policy) || slices.Contains(i.Applied["outbound"], policy) {
			return true
		}
	}
	return slices.ContainsFunc(c.Global, func(l string) bool { return strings.HasPrefix(l, "traffic-policy "+policy+" ") })
}

func (c *config) iface(name string) *iface {
	for _, i := range c.Ifaces {
		if i.Name == name {
			return i
		}
	}
	return nil
}

// vids reads a VLAN ID or a range; {} where it is none.
func vids(w []string) (r VIDs) {
	one := func(word string) uint16 {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > 4094 || strconv.Itoa(n) != word {
			return 0
		}
		return uint16(n)
	}
	switch {
	case len(w) == 1:
		r = VIDs{one(w[0]), one(w[0])}
	case len(w) == 3 && w[1] == "to":
		r = VIDs{one(w[0]), one(w[2])}
	}
	if r.First == 0 || r.Last == 0 || r.First > r.Last || len(w) == 3 && r.First == r.Last {
		return VIDs{}
	}
	return r
}

func (s *shell) class(cl *class, w []string) string {
	undo := w[0] == "undo"
	if undo {
		w = w[1:]
	}
	vlan := "vlan-id"
	if s.c.cloud {
		vlan = "vlan"
	}
	switch {
	case w[0] != "if-match":
		return unrecognized
	case len(w) < 3 && !undo:
		return incomplete
	case w[1] == "8021p":
		if !undo && (len(w) != 3 || len(w[2]) != 1 || w[2] < "0" || w[2] > "7") {
			return wrong // csig gives one value
		}
		// The latest takes effect.
		cl.Lines = slices.DeleteFunc(slices.Clone(cl.Lines), func(l string) bool { return strings.HasPrefix(l, "if-match 8021p ") })
	case w[1] == vlan:
		if vids(w[2:]) == (VIDs{}) {
			return wrong
		}
	default:
		return unrecognized
	}
	if text := strings.Join(w, " "); len(w) > 2 {
		cl.Lines = lines(cl.Lines, text, undo)
		slices.Sort(cl.Lines)
	}
	return ""
}

func (s *shell) behavior(name string, w []string) string {
	undo := w[0] == "undo"
	if undo {
		w = w[1:]
	}
	head := "remark vlan-id"
	if s.c.cloud {
		head = "vlan-mapping vlan"
	}
	if len(w) < 2 || w[0]+" "+w[1] != head {
		return unrecognized
	}
	list := slices.DeleteFunc(slices.Clone(s.candidate.Behaviors[name]), func(l string) bool { return strings.HasPrefix(l, head+" ") })
	switch {
	case undo:
	case len(w) != 3:
		return incomplete
	case vids(w[2:]) == (VIDs{}):
		return wrong
	default:
		list = append(list, head+" "+w[2])
	}
	s.candidate.Behaviors[name] = list
	return ""
}

func (s *shell) policy(policy string, w []string) string {
	c := s.candidate
	list := slices.Clone(c.Policies[policy])
	switch {
	case len(w) == 3 && w[0] == "undo" && w[1] == "classifier":
		at := slices.IndexFunc(list, func(p pair) bool { return p.Class == w[2] })
		if at < 0 {
			return "Error: The classifier is not bound to the policy."
		}
		c.Policies[policy] = slices.Delete(list, at, at+1)
		return ""
	case len(w) < 4 || w[0] != "classifier" || w[2] != "behavior":
		return unrecognized
	case c.Classes[w[1]] == nil:
		return "Error: The classifier does not exist."
	case c.Behaviors[w[3]] == nil:
		return "Error: The behavior does not exist."
	}
	b := pair{Class: w[1], Behavior: w[3]}
	switch {
	case s.c.cloud && len(w) == 6 && w[4] == "precedence":
		n, err := strconv.Atoi(w[5])
		if err != nil || n < 0 || n > 65535 {
			return wrong
		}
		b.Precedence = n
	case len(w) > 4:
		return tooMany
	case s.c.cloud: // as its own configuration scripts show
		for _, p := range list {
			b.Precedence = max(b.Precedence, p.Precedence)
		}
		b.Precedence = b.Precedence/5*5 + 5
	}
	if at := slices.IndexFunc(list, func(p pair) bool { return p.Class == b.Class }); at >= 0 {
		list[at] = b // it has one behavior
	} else if list = append(list, b); len(list) > 256 && !s.c.cloud {
		return "Error: The number of classifiers in the policy has reached the upper limit."
	}
	c.Policies[policy] = list
	return ""
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
	case text == "version" && s.c.cloud:
		return "Huawei Versatile Routing Platform Software\nYunShan OS, Version 1.23.0.1 (CE6800 V300R023C00SPC500)\nCopyright (C) 2021-2023 Huawei Technologies Co., Ltd.\nHUAWEI CE6866-48S8CQ-P uptime is 0 day, 5 hours, 32 minutes\n"
	case text == "version":
		return "Huawei Versatile Routing Platform Software\nVRP (R) software, Version 5.170 (S6720 V200R019C10SPC500)\nCopyright (C) 2000-2020 HUAWEI TECH Co., Ltd.\nHUAWEI S6720-30C-EI-24S-AC Routing Switch uptime is 0 week, 0 day, 3 hours, 7 minutes\n"
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
