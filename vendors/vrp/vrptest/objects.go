package vrptest

import (
	"slices"
	"strconv"
	"strings"
)

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
