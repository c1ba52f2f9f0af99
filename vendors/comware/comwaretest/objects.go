package comwaretest

import (
	"maps"
	"slices"
	"strings"
)

// name is an object's, of 1 to 31 characters.
func name(word string) bool { return len(word) <= 31 }

// remove deletes an object that nothing uses.
func remove[T any](from map[string]T, name string, used bool) string {
	if _, there := from[name]; !there {
		return absent
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
		if !slices.ContainsFunc(b.lines, same) {
			return absent
		}
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
