package vrptest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/csig-agent/csig/vendors/cli/clitest"
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
	own       *clitest.Login
	logins    func() []*clitest.Login
	ends      *clitest.Login // if the answer is yes
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
	if s.asks {
		return "Warning: Uncommitted configurations found. Are you sure to commit them before exiting? [Y/N/C]:"
	}
	if s.ends != nil {
		return fmt.Sprintf("Warning: User interface VTY%d will be freed. Continue? [Y/N]:", s.ends.Line)
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
	if l := s.ends; l != nil {
		if s.ends = nil; strings.EqualFold(line, "y") {
			l.End()
			return fmt.Sprintf("Info: User interface VTY%d is free.", l.Line), false
		}
		return "", false
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
	case len(w) == 4 && w[0] == map[bool]string{false: "free", true: "kill"}[s.c.cloud] && w[1] == "user-interface" && w[2] == "vty":
		return s.free(w[3])
	}
	return unrecognized
}

// free asks whether to end a login.
func (s *shell) free(line string) string {
	for _, l := range s.logins() {
		switch {
		case strconv.Itoa(l.Line) != line:
		case l == s.own:
			return "Error: The user interface is the current one."
		default:
			s.ends = l
			return ""
		}
	}
	return wrong
}

// users is the display of logins.
func (s *shell) users() string {
	var b strings.Builder
	b.WriteString("  User-Intf    Delay    Type   Network Address     AuthenStatus    AuthorcmdFlag\n")
	for _, l := range s.logins() {
		mark := " "
		if l == s.own {
			mark = "+"
		}
		idle := time.Since(l.Since).Truncate(time.Second)
		fmt.Fprintf(&b, "%s %d VTY %d   %02d:%02d:%02d  SSH    %s                pass\n  Username : %s\n\n", mark, 129+l.Line, l.Line, int(idle.Hours()), int(idle.Minutes())%60, int(idle.Seconds())%60, l.From, l.User)
	}
	return b.String()
}

func (s *shell) configure(w []string) string {
	switch v := s.view(); v.kind {
	case system:
		return s.system(w)
	case classView:
		if s.candidate.Classes[v.name] == nil { // another login has removed it, and this one committed
			return unrecognized
		}
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
