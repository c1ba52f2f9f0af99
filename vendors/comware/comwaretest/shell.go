package comwaretest

import (
	"slices"
	"strings"
)

// Errors of Comware's command line.
const (
	unrecognized = " % Unrecognized command found at '^' position."
	incomplete   = " % Incomplete command found at '^' position."
	wrong        = " % Wrong parameter found at '^' position."
	tooMany      = " % Too many parameters found at '^' position."

	// absent is the answer to an undo of what is not there. The references have none for it: of a
	// default (a TPID, jumboframe enable) undo succeeds, of an object it cannot be relied on.
	absent = "The specified object does not exist."
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
