package comwaretest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Errors of Comware's command line.
const (
	unrecognized = " % Unrecognized command found at '^' position."
	incomplete   = " % Incomplete command found at '^' position."
	wrong        = " % Wrong parameter found at '^' position."
	tooMany      = " % Too many parameters found at '^' position."
)

// view kinds.
const (
	user = iota
	system
	classView
	behaviorView
	policyView
	ifaceView
	profileView
	instanceView
	nqaView
	trackView
	rtmView
)

// view is where a shell is.
type view struct {
	kind int
	name string // of the object

	within bool // of an NQA operation: the view of its type
}

// shell is one login.
type shell struct {
	c     *Switch
	views []view // above user view
	page  int
}

func (s *shell) view() view {
	if len(s.views) == 0 {
		return view{}
	}
	return s.views[len(s.views)-1]
}

func (s *shell) Prompt() string {
	name := s.c.Name
	switch v := s.view(); v.kind {
	case user:
		return "<" + name + ">"
	case classView:
		name += "-classifier-" + v.name
	case behaviorView:
		name += "-behavior-" + v.name
	case policyView:
		name += "-qospolicy-" + v.name
	case ifaceView:
		name += "-" + v.name
	case profileView:
		name += "-user-profile-" + v.name
	case instanceView:
		name += "-" + v.name + "-srv1"
	case nqaView:
		if name += "-nqa-" + strings.ReplaceAll(v.name, " ", "-"); v.within {
			name += "-udp-echo"
		}
	case trackView:
		name += "-track-" + v.name
	case rtmView:
		name += "-rtm-" + v.name
	}
	return "[" + name + "]"
}

func (s *shell) Page() (int, string) { return s.page, "---- More ----" }

// Do carries out one line.
func (s *shell) Do(line string) (string, bool) {
	w := strings.Fields(line)
	if len(w) == 0 {
		return "", false
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	answer, end := s.do(w)
	if now := s.c.running(); now != s.c.text {
		s.c.text = now
		s.c.changes++
		s.c.settle()
	}
	return answer, end
}

func (s *shell) do(w []string) (string, bool) {
	switch {
	case w[0] == "display":
		return s.display(w[1:]), false
	case slices.Equal(w, []string{"return"}):
		s.views = nil
		return "", false
	case slices.Equal(w, []string{"quit"}):
		if len(s.views) == 0 {
			return "", true
		}
		s.views = s.views[:len(s.views)-1]
		return "", false
	}
	switch v := s.view(); v.kind {
	case user:
		return s.user(w), false
	case system:
		return s.system(w), false
	case classView:
		return s.class(s.c.classes[v.name], w), false
	case behaviorView:
		return s.behavior(s.c.behaviors[v.name], w), false
	case policyView:
		return s.policy(v.name, w), false
	case profileView:
		return s.applyTo(s.c.profiles[v.name], w, func(lines []string) { s.c.profiles[v.name] = lines }), false
	case instanceView:
		i := s.c.iface(v.name)
		return s.applyTo(i.instance, w, func(lines []string) { i.instance = lines }), false
	case nqaView:
		return s.nqa(v.name, w), false
	case trackView:
		return unrecognized, false
	case rtmView:
		return s.rtm(v.name, w), false
	default:
		return s.iface(s.c.iface(v.name), w), false
	}
}

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

func (s *shell) user(w []string) string {
	switch strings.Join(w, " ") {
	case "system-view":
		s.views = []view{{kind: system}}
		return "System View: return to User View with Ctrl+Z."
	case "screen-length disable":
		s.page = 0
	case "undo terminal monitor", "undo terminal logging":
	case "save", "save force":
		s.c.saves++
	default:
		return unrecognized
	}
	return ""
}

// name is an object's, of 1 to 31 characters.
func name(word string) bool { return len(word) <= 31 }

func (s *shell) system(w []string) string {
	undo := w[0] == "undo"
	if undo {
		w = w[1:]
	}
	if len(w) < 2 {
		return incomplete
	}
	if w[0] == "interface" {
		i := s.c.iface(w[1])
		if undo || i == nil || len(w) > 2 {
			return wrong
		}
		s.views = append(s.views, view{kind: ifaceView, name: i.name})
		return ""
	}
	switch w[0] {
	case "nqa", "track", "rtm":
		return s.monitoring(w, undo)
	}
	if w[0] == "user-profile" && len(w) == 2 && !undo {
		if _, there := s.c.profiles[w[1]]; !there {
			s.c.profiles[w[1]] = nil
		}
		s.views = append(s.views, view{kind: profileView, name: w[1]})
		return ""
	}
	if len(w) < 3 {
		return incomplete
	}
	if !name(w[2]) {
		return wrong
	}
	c := s.c
	switch strings.Join(w[:2], " ") {
	case "traffic classifier":
		operator := "and"
		switch {
		case len(w) == 5 && w[3] == "operator" && !undo && (w[4] == "and" || w[4] == "or"):
			operator = w[4]
		case len(w) > 3:
			return wrong
		}
		if undo {
			return remove(c.classes, w[2], c.uses(func(p pair) bool { return p.class == w[2] }))
		}
		if c.classes[w[2]] == nil {
			c.classes[w[2]] = &class{}
		}
		c.classes[w[2]].or = operator == "or"
		s.views = append(s.views, view{kind: classView, name: w[2]})
	case "traffic behavior":
		if len(w) > 3 {
			return tooMany
		}
		if undo {
			return remove(c.behaviors, w[2], c.uses(func(p pair) bool { return p.behavior == w[2] }))
		}
		if c.behaviors[w[2]] == nil {
			c.behaviors[w[2]] = &behavior{}
		}
		s.views = append(s.views, view{kind: behaviorView, name: w[2]})
	case "qos policy":
		if len(w) > 3 {
			return tooMany
		}
		if undo {
			return remove(c.policies, w[2], c.applied(w[2]))
		}
		if _, there := c.policies[w[2]]; !there {
			c.policies[w[2]] = nil
		}
		s.views = append(s.views, view{kind: policyView, name: w[2]})
	case "qos apply", "qos vlan-policy":
		return s.elsewhere(w, undo)
	case "qinq ethernet-type":
		if undo && w[2] == "customer-tag" {
			c.Customer = 0x8100
			return ""
		}
		n, ok := tpid(w, "customer-tag")
		if undo || !ok {
			return wrong
		}
		c.Customer = n
	default:
		return unrecognized
	}
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

// remove deletes an object that nothing uses.
func remove[T any](from map[string]T, name string, used bool) string {
	if _, there := from[name]; !there {
		return "The specified object does not exist."
	}
	if used {
		return "The object is in use."
	}
	delete(from, name)
	return ""
}

func (c *Switch) uses(is func(pair) bool) bool {
	for _, list := range c.policies {
		if slices.ContainsFunc(list, is) {
			return true
		}
	}
	return false
}

func (c *Switch) applied(policy string) bool {
	lines := slices.Concat(slices.Collect(maps.Values(c.profiles))...)
	for _, i := range c.ifaces {
		lines = append(lines, i.instance...)
		if i.policies["inbound"] == policy || i.policies["outbound"] == policy {
			return true
		}
	}
	return slices.ContainsFunc(append(lines, c.elsewhere...), func(l string) bool { return slices.Contains(strings.Fields(l), policy) })
}

// frozen reports whether an object belongs to an applied policy that cannot be modified.
func (c *Switch) frozen(is func(pair) bool) bool {
	if !c.Frozen {
		return false
	}
	for name, list := range c.policies {
		if c.applied(name) && slices.ContainsFunc(list, is) {
			return true
		}
	}
	return false
}

const isApplied = "The policy has been applied and cannot be modified."

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

func (s *shell) class(cl *class, w []string) string {
	undo := w[0] == "undo"
	if undo {
		w = w[1:]
	}
	if len(w) < 1 || w[0] != "if-match" {
		return unrecognized
	}
	if len(w) < 3 {
		return incomplete
	}
	switch w[1] {
	case "service-dot1p", "customer-dot1p":
		if len(w) != 3 || len(w[2]) != 1 || w[2] < "0" || w[2] > "7" {
			return wrong // one value: the class has the operator AND
		}
		if same := slices.ContainsFunc(cl.lines, func(l string) bool { return strings.HasPrefix(l, "if-match "+w[1]+" ") }); same && !undo {
			return "Only one criterion of this kind takes effect."
		}
	case "service-vlan-id", "customer-vlan-id":
		if list := vids(w[2:]); len(list) == 0 || len(list) > 10 {
			return wrong
		}
	default:
		return unrecognized
	}
	if s.c.frozen(func(p pair) bool { return s.c.classes[p.class] == cl }) {
		return isApplied
	}
	return line(&cl.lines, strings.Join(w, " "), undo)
}

// line adds a line, or takes it out.
func line(lines *[]string, text string, undo bool) string {
	at := slices.Index(*lines, text)
	switch {
	case undo && at < 0:
		return "The specified criterion does not exist."
	case undo:
		*lines = slices.Delete(*lines, at, at+1)
	case at < 0:
		*lines = append(*lines, text)
		slices.Sort(*lines)
	}
	return ""
}

func (s *shell) behavior(b *behavior, w []string) string {
	undo := w[0] == "undo"
	if undo {
		w = w[1:]
	}
	if len(w) < 2 || w[0] != "remark" || w[1] != "service-vlan-id" && w[1] != "customer-vlan-id" {
		return unrecognized
	}
	if s.c.frozen(func(p pair) bool { return s.c.behaviors[p.behavior] == b }) {
		return isApplied
	}
	head := "remark " + w[1]
	same := func(l string) bool { return strings.HasPrefix(l, head+" ") }
	if undo {
		b.lines = slices.DeleteFunc(b.lines, same)
		return ""
	}
	if len(w) != 3 {
		return incomplete
	}
	if _, ok := vid(w[2]); !ok {
		return wrong
	}
	b.lines = append(slices.DeleteFunc(b.lines, same), head+" "+w[2])
	return ""
}

func (s *shell) policy(policy string, w []string) string {
	c := s.c
	list := c.policies[policy]
	if c.Frozen && c.applied(policy) {
		return isApplied
	}
	switch {
	case len(w) == 3 && w[0] == "undo" && w[1] == "classifier":
		at := slices.IndexFunc(list, func(p pair) bool { return p.class == w[2] })
		if at < 0 {
			return "The specified class does not exist in the policy."
		}
		c.policies[policy] = slices.Delete(slices.Clone(list), at, at+1)
	case (len(w) == 4 || len(w) == 6 && w[4] == "mode" && w[5] == "qppb-manipulation") && w[0] == "classifier" && w[2] == "behavior" && name(w[1]) && name(w[3]):
		if slices.ContainsFunc(list, func(p pair) bool { return p.class == w[1] }) {
			return "The class is already associated."
		}
		if c.classes[w[1]] == nil {
			c.classes[w[1]] = &class{} // a null one
		}
		if c.behaviors[w[3]] == nil {
			c.behaviors[w[3]] = &behavior{}
		}
		c.policies[policy] = append(slices.Clone(list), pair{w[1], w[3], strings.TrimRight(" "+strings.Join(w[4:], " "), " ")})
	default:
		return unrecognized
	}
	return ""
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
	case text == "version":
		return "H3C Comware Software, Version 7.1.070, Release 3507P02\nCopyright (c) 2004-2017 New H3C Technologies Co., Ltd. All rights reserved.\nH3C S5130S-28S-HI uptime is 0 weeks, 0 days, 3 hours, 7 minutes\nLast reboot reason : Cold reboot\n"
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
