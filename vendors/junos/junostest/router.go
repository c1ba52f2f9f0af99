// Package junostest is a switch or router with Junos for tests: an interpreter of the part of
// its command line that csig uses: a candidate configuration of set lines, exclusive sessions,
// commits on trial, prompts and errors. A command or statement that it does not know is an
// error. Vendor texts are cited in vendors/junos.
package junostest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csig-agent/csig/vendors/cli/clitest"
)

// Router is one device.
type Router struct {
	Name    string
	Options string // the statement of Ethernet options: ether-options or gigether-options
	Any     bool   // it takes any TPID, and not those of a list

	Engines bool   // two Routing Engines, both of which report a commit
	Refuses string // a commit fails with this text; "": it does not
	Cuts    bool   // a commit with TPIDs cuts off every login from then on

	Changed func(tpids [][]uint16) // is called when the configuration in force has changed: the TPIDs of each port

	ports     []string
	mu        sync.Mutex // guards what follows
	commits   clitest.Commits[[]string]
	previous  []string // what rollback 1 loads
	exclusive *shell
	cut       bool
	out       string // a port whose card is out
}

// Pull takes the card of a port out, whose configuration stays; "" puts it back.
func (r *Router) Pull(port string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out = port
}

// New returns a device with these interfaces, of which one is configured.
func New(name, options string, interfaces ...string) *Router {
	r := &Router{Name: name, Options: options, Any: options == "gigether-options", ports: interfaces}
	r.commits.Commit([]string{
		"set interfaces " + interfaces[0] + " unit 0 family ethernet-switching interface-mode trunk",
		"set system host-name " + name,
	})
	return r
}

// Shell is a login.
func (r *Router) Shell() clitest.Shell { return &shell{r: r, page: 24} }

// Type carries out statements in configuration mode and commits them, as an operator at the
// console does; the first that is refused ends the program.
func (r *Router) Type(lines ...string) {
	sh := r.Shell()
	for _, line := range append(append([]string{"configure exclusive"}, lines...), "commit", "exit configuration-mode") {
		if answer, _ := sh.Do(line); strings.Contains(answer, "error") {
			panic(line + ": " + answer)
		}
	}
}

// Running is the configuration in force, as set lines.
func (r *Router) Running() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.commits.Running(), "\n")
}

// Commits is how often the configuration in force changed.
func (r *Router) Commits() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.commits.Count()
}

// Trial reports whether a commit waits for its confirmation.
func (r *Router) Trial() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.commits.Trial()
}

// history is what show system commit prints: that a commit was on trial stays with it.
func (r *Router) history() string {
	pending := ""
	if r.commits.Trial() {
		pending = "    rollback pending\n"
	}
	return "0   2020-11-20 10:21:12 UTC by admin via cli commit confirmed, rollback in 1mins\n" + pending +
		"1   2020-11-20 10:20:01 UTC by admin via cli commit confirmed, rollback in 10mins\n    first\n2   2020-11-20 10:11:00 UTC by root via other\n"
}

// Restore ends what Cuts has begun.
func (r *Router) Restore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Cuts, r.cut = false, false
}

// Texts of Junos's command line.
const (
	syntax  = "                 ^\nsyntax error."
	unknown = "                 ^\nunknown command."
	locked  = "error: configuration database locked by:\n  admin terminal p0 (pid 4711) on since 2020-11-20 10:21:12 UTC, idle 00:00:07\n      exclusive [edit]"
)

// shell is one login.
type shell struct {
	r         *Router
	config    bool
	candidate []string
	page      int
}

func (s *shell) Prompt() string {
	if !s.config {
		return "{master:0}\r\nadmin@" + s.r.Name + "> "
	}
	pending := ""
	if s.r.commits.Trial() {
		pending = "# commit confirmed will be rolled back in 1 minute\r\n"
	}
	return pending + "{master:0}[edit]\r\nadmin@" + s.r.Name + "# "
}

func (s *shell) Page() (int, string) { return s.page, "---(more)---" }

// Ended ends the login.
func (s *shell) Ended() {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.leave()
}

func (s *shell) leave() {
	s.config, s.candidate = false, nil
	if s.r.exclusive == s {
		s.r.exclusive = nil
	}
}

// Do carries out one line.
func (s *shell) Do(line string) (string, bool) {
	if line == "" {
		return "", false
	}
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	before := s.r.commits.Count()
	defer func() {
		if s.r.commits.Running(); s.r.Changed != nil && s.r.commits.Count() != before {
			s.r.Changed(s.r.tpids())
		}
	}()
	switch {
	case s.r.cut:
		return "", true
	case s.config:
		return s.edit(line), false
	case line == "exit":
		return "", true
	}
	return s.operate(line), false
}

func (s *shell) operate(line string) string {
	running := s.r.commits.Running()
	switch line {
	case "show system commit":
		return s.r.history()
	case "configure exclusive":
		if s.r.exclusive != nil && s.r.exclusive != s {
			return locked
		}
		s.r.exclusive = s
		s.config, s.candidate = true, slices.Clone(running)
		return "warning: uncommitted changes will be discarded on exit\nEntering configuration mode"
	case "set cli screen-length 0":
		s.page = 0
		return "Screen length set to 0"
	case "set cli screen-width 511":
		return "Screen width set to 511"
	case "set cli complete-on-space off":
		return "Disabling complete-on-space"
	case "show version":
		return "Hostname: " + s.r.Name + "\nModel: qfx5120-48y-8c\nJunos: 22.4R1.10\nJUNOS OS Kernel 64-bit  [20221112.1]"
	case "show interfaces":
		return s.r.status(running)
	case "show configuration interfaces | display set":
		return strings.Join(interfaces(running), "\n")
	case "show configuration interfaces | display inheritance | display set":
		return strings.Join(inherited(interfaces(running)), "\n")
	}
	if pattern, ok := strings.CutPrefix(line, "show configuration | display set | match "); ok {
		re, err := regexp.Compile(strings.Trim(pattern, `"`))
		if err != nil {
			return "error: regex error"
		}
		return strings.Join(slices.DeleteFunc(slices.Clone(running), func(l string) bool { return !re.MatchString(l) }), "\n")
	}
	return unknown
}

func (s *shell) edit(line string) string {
	switch {
	case line == "exit configuration-mode":
		if !slices.Equal(s.candidate, s.r.commits.Running()) {
			return "The configuration has been changed but not committed\nwarning: Auto rollback on exiting 'configure exclusive'\nDiscard uncommitted changes? [yes,no] (yes) "
		}
		s.leave()
		return "Exiting configuration mode"
	case line == "rollback 0":
		s.candidate = slices.Clone(s.r.commits.Running())
		return "load complete"
	case line == "rollback 1":
		s.candidate = slices.Clone(s.r.previous)
		return "load complete"
	case strings.HasPrefix(line, "run "):
		return s.operate(strings.TrimPrefix(line, "run "))
	case line == "commit", line == "commit confirmed 1":
		return s.commit(line != "commit")
	case strings.HasPrefix(line, "delete "):
		path := "set " + strings.TrimPrefix(line, "delete ")
		before := len(s.candidate)
		s.candidate = slices.DeleteFunc(s.candidate, func(l string) bool { return l == path || strings.HasPrefix(l, path+" ") })
		if len(s.candidate) == before {
			return "warning: statement not found"
		}
		return ""
	case strings.HasPrefix(line, "deactivate interfaces "):
		path := "set " + strings.TrimPrefix(line, "deactivate ")
		if !slices.ContainsFunc(s.candidate, func(l string) bool { return strings.HasPrefix(l+" ", path+" ") }) {
			return "warning: statement not found"
		}
		s.add(line)
		return ""
	case strings.HasPrefix(line, "activate interfaces "):
		s.candidate = slices.DeleteFunc(s.candidate, func(l string) bool { return l == "de"+line })
		return ""
	case strings.HasPrefix(line, "set "):
		return s.set(line)
	}
	return unknown
}

func (s *shell) commit(trial bool) string {
	if s.r.Refuses != "" {
		return s.r.Refuses
	}
	s.r.previous = slices.Clone(s.r.commits.Running())
	if trial {
		s.r.commits.Try(slices.Clone(s.candidate), time.Minute)
	} else {
		s.r.commits.Commit(slices.Clone(s.candidate))
	}
	s.r.cut = s.r.Cuts && strings.Contains(strings.Join(s.candidate, "\n"), "tag-protocol-id")
	done := "commit complete\n"
	if s.r.Engines {
		done = "re0: \nconfiguration check succeeds\nre1: \ncommit complete\nre0: \ncommit complete\n"
	}
	if trial {
		done = "commit confirmed will be automatically rolled back in 1 minutes unless confirmed\n" + done
	}
	return done
}

var (
	macro = regexp.MustCompile(`^set apply-macro (\S{1,64}) (\S{1,64}) "?[^"]{1,256}"?$`)
	speed = regexp.MustCompile(`^set interfaces (\S+) mtu (\d+)$`)
	tags  = regexp.MustCompile(`^(set interfaces (\S+) (ether-options|gigether-options|aggregated-ether-options) ethernet-switch-profile tag-protocol-id) (\[ (?:0x[0-9a-f]{4} )+\]|0x[0-9a-f]{4})$`)
	group = regexp.MustCompile(`^set interfaces interface-range (\S+) (member (\S+)|ether-options ethernet-switch-profile tag-protocol-id 0x[0-9a-f]{4})$`)
	ad    = regexp.MustCompile(`^set interfaces (\S+) (ether-options|gigether-options) 802\.3ad ae\d+$`)
)

func (s *shell) set(line string) string {
	has := func(port string) bool { return slices.Contains(s.r.ports, port) }
	switch m := tags.FindStringSubmatch(line); {
	case m != nil:
		if want := s.r.Options; !has(m[2]) || m[3] != want && (m[3] != "aggregated-ether-options" || !strings.HasPrefix(m[2], "ae")) {
			return syntax
		}
		for _, tpid := range strings.Fields(strings.Trim(m[4], "[]")) {
			if !s.r.Any && !slices.Contains([]string{"0x8100", "0x88a8", "0x9100", "0x9200"}, tpid) {
				return "error: invalid value: " + tpid
			}
			s.add(m[1] + " " + tpid)
		}
	case group.MatchString(line), ad.MatchString(line), macro.MatchString(line), speed.MatchString(line) && has(speed.FindStringSubmatch(line)[1]):
		if m := macro.FindStringSubmatch(line); m != nil { // a name has one value
			s.candidate = slices.DeleteFunc(s.candidate, func(l string) bool { return strings.HasPrefix(l, "set apply-macro "+m[1]+" "+m[2]+" ") })
		}
		if m := speed.FindStringSubmatch(line); m != nil {
			s.candidate = slices.DeleteFunc(s.candidate, func(l string) bool { return strings.HasPrefix(l, "set interfaces "+m[1]+" mtu ") })
		}
		s.add(line)
	default:
		return syntax
	}
	return ""
}

func (s *shell) add(line string) {
	if !slices.Contains(s.candidate, line) {
		s.candidate = append(s.candidate, line)
		slices.Sort(s.candidate)
	}
}

// tpids are those that each port takes for VLAN tags.
func (r *Router) tpids() (out [][]uint16) {
	for _, port := range r.ports {
		var list []uint16
		for _, line := range r.commits.Running() {
			var tpid uint16
			if m := tags.FindStringSubmatch(line); m != nil && m[2] == port {
				if _, err := fmt.Sscanf(m[4], "0x%x", &tpid); err == nil {
					list = append(list, tpid)
				}
			}
		}
		if list == nil {
			list = []uint16{0x8100}
		}
		out = append(out, list)
	}
	return out
}

func interfaces(running []string) (out []string) {
	for _, line := range running {
		if strings.HasPrefix(line, "set interfaces ") || strings.HasPrefix(line, "deactivate interfaces ") {
			out = append(out, line)
		}
	}
	return out
}

// inherited are lines with what ranges of interfaces give their members.
func inherited(lines []string) []string {
	out := slices.Clone(lines)
	for _, line := range lines {
		m := group.FindStringSubmatch(line)
		if m == nil || m[3] == "" {
			continue
		}
		for _, gives := range lines {
			if g := group.FindStringSubmatch(gives); g != nil && g[1] == m[1] && g[3] == "" {
				out = append(out, "set interfaces "+m[3]+" "+g[2])
			}
		}
	}
	return out
}

func (r *Router) status(running []string) string {
	var b strings.Builder
	for _, name := range append([]string{"vme", "lo0"}, r.ports...) {
		if name == r.out {
			continue
		}
		mtu := "1514"
		for _, line := range running {
			if m := speed.FindStringSubmatch(line); m != nil && m[1] == name {
				mtu = m[2]
			}
		}
		fmt.Fprintf(&b, "Physical interface: %s, Enabled, Physical link is Up\n  Interface index: 650, SNMP ifIndex: 513\n  Link-level type: Ethernet, MTU: %s, LAN-PHY mode, Speed: 10Gbps,\n  Current address: 02:00:00:00:00:01, Hardware address: 02:00:00:00:00:01\n\n  Logical interface %s.0 (Index 554) (SNMP ifIndex 547)\n    Protocol eth-switch, MTU: 1500\n\n", name, mtu, name)
	}
	return b.String()
}
