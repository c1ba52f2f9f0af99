package comwaretest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/csig-agent/csig/vendors/cli/clitest"
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
	c      *Switch
	views  []view // above user view
	page   int
	own    *clitest.Login
	logins func() []*clitest.Login
	ends   *clitest.Login // if the answer is yes
}

// LogIn implements clitest.LogIn.
func (s *shell) LogIn(own *clitest.Login, all func() []*clitest.Login) { s.own, s.logins = own, all }

func (s *shell) view() view {
	if len(s.views) == 0 {
		return view{}
	}
	return s.views[len(s.views)-1]
}

func (s *shell) Prompt() string {
	if s.ends != nil {
		return fmt.Sprintf("Are you sure to free line vty%d? [Y/N]:", s.ends.Line)
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
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if l := s.ends; l != nil {
		if s.ends = nil; strings.EqualFold(line, "y") {
			l.End()
			return " [OK]", false
		}
		return "", false
	}
	if len(w) == 0 {
		return "", false
	}
	answer, end := s.do(w)
	if w[0] == "display" || len(w) == 1 && (w[0] == "quit" || w[0] == "return" || w[0] == "system-view") {
		return answer, end // they change nothing
	}
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
	v := s.view()
	if s.c.gone(v) {
		return unrecognized, false
	}
	switch v.kind {
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

// gone reports whether another login has removed what a view is of.
func (c *Switch) gone(v view) bool {
	switch v.kind {
	case classView:
		return c.classes[v.name] == nil
	case behaviorView:
		return c.behaviors[v.name] == nil
	case nqaView:
		return c.nqa[v.name] == nil
	case rtmView:
		return c.rtm[v.name] == nil
	default:
		return false
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
		if len(w) == 4 && w[0] == "free" && (w[1] == "line" && !s.c.Old || w[1] == "user-interface") && w[2] == "vty" {
			return s.free(w[3])
		}
		return unrecognized
	}
	return ""
}

// free asks whether to end a login.
func (s *shell) free(line string) string {
	for _, l := range s.logins() {
		switch {
		case strconv.Itoa(l.Line) != line:
		case s.c.Unprivileged || l == s.own:
			return "Permission denied."
		default:
			s.ends = l
			return ""
		}
	}
	return wrong
}

// users is the display of logins.
func (s *shell) users() string {
	var b, more strings.Builder
	b.WriteString("  Idx  Line     Idle       Time              Pid     Type\n")
	for _, l := range s.logins() {
		mark := " "
		if l == s.own {
			mark = "+"
		}
		idle := time.Since(l.Since).Truncate(time.Second)
		fmt.Fprintf(&b, "%s %d   VTY %d    %02d:%02d:%02d   %s   %d     SSH\n", mark, 10+l.Line, l.Line, int(idle.Hours()), int(idle.Minutes())%60, int(idle.Seconds())%60, l.Since.Format("Jan 02 15:04:05"), 320+l.Line)
		fmt.Fprintf(&more, "VTY %d   :\n        User name: %s\n        Location: %s\n", l.Line, l.User, l.From)
	}
	return b.String() + "\nFollowing are more details.\n" + more.String() + " +    : Current operation user.\n F    : Current operation user works in async mode.\n"
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
