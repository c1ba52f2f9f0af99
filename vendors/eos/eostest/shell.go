package eostest

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Errors of EOS's command line.
const (
	invalid     = "% Invalid input"
	incomplete  = "% Incomplete command"
	unavailable = "% Unavailable command (not supported on this hardware platform)"
)

// Kinds of modes.
const (
	exec = iota
	global
	ifaceMode
	listMode
	directflowMode
	flowMode
	handlerMode
	triggerMode
)

type mode struct {
	kind int
	name string
}

// shell is one login.
type shell struct {
	c       *Switch
	page    int
	modes   []mode // above privileged EXEC
	session string // of the configuration, "" for the running one
}

func (s *shell) mode() mode {
	if len(s.modes) == 0 {
		return mode{}
	}
	return s.modes[len(s.modes)-1]
}

func (s *shell) Prompt() string {
	head := "config"
	if s.session != "" {
		head += "-s-" + s.session[:min(len(s.session), 6)]
	}
	switch m := s.mode(); m.kind {
	case exec:
		return s.c.Name + "#"
	case ifaceMode:
		head += "-if-" + m.name[:2]
	case listMode:
		head += "-mac-acl"
	case directflowMode:
		head += "-directflow"
	case flowMode:
		head += "-directflow-flow"
	}
	return s.c.Name + "(" + head + ")#"
}

func (s *shell) Page() (int, string) { return s.page, " --More-- " }

// Do carries out one line.
func (s *shell) Do(line string) (string, bool) {
	w := strings.Fields(line)
	if len(w) == 0 {
		return "", false
	}
	s.c.lock()
	defer s.c.mu.Unlock()
	if s.session != "" && s.c.sessions[s.session] == nil { // another login has ended it
		gone := s.session
		s.modes, s.session = nil, ""
		return "% Error: session " + gone + " does not exist", false
	}
	in := s.session
	answer, end := s.do(w, strings.Join(w, " "))
	if w[0] != "show" && (in == "" || s.session == "") { // else the session's configuration has changed at most
		s.c.changed()
	}
	return answer, end
}

// config is what commands change.
func (s *shell) config() *config {
	if s.session != "" {
		return s.c.sessions[s.session].config
	}
	return s.c.running
}

func (s *shell) do(w []string, text string) (string, bool) {
	switch {
	case w[0] == "show":
		return s.show(text), false
	case text == "end" && len(s.modes) > 0:
		s.modes, s.session = nil, ""
		return "", false
	case text == "exit":
		if len(s.modes) == 0 {
			return "", true
		}
		if s.modes = s.modes[:len(s.modes)-1]; len(s.modes) == 0 {
			s.session = ""
		}
		return "", false
	case s.session != "" && (w[0] == "abort" || w[0] == "commit"):
		return s.finish(s.session, w), false
	}
	switch m := s.mode(); m.kind {
	case exec:
		return s.exec(w, text), false
	case global:
		return s.global(w, text), false
	case ifaceMode:
		return s.iface(s.config().iface(m.name), w, text), false
	case listMode:
		if w[0] != "permit" && w[0] != "deny" {
			return invalid, false
		}
		c := s.config()
		c.lists[m.name] = append(c.lists[m.name], text)
		return "", false
	case directflowMode:
		return s.directflow(w, text), false
	case handlerMode, triggerMode:
		h := s.config().handlers[m.name]
		if h == nil { // another login has removed it since
			return "% Error: event-handler " + m.name + " does not exist", false
		}
		return s.inHandler(h, text, m.kind == triggerMode), false
	default:
		f := s.config().flows[m.name]
		if f == nil {
			return "% Error: flow " + m.name + " does not exist", false
		}
		return s.flow(f, text), false
	}
}

func (s *shell) exec(w []string, text string) string {
	switch {
	case text == "terminal length 0":
		s.page = 0
		return "Pagination disabled."
	case text == "terminal width 32767":
		return "Width set to 32767 columns."
	case text == "enable":
		return ""
	case text == alive:
		s.c.alive = s.c.uptime()
		return ""
	case text == "configure terminal", text == "configure":
		s.modes = []mode{{kind: global}}
		return ""
	case text == "write memory", text == "copy running-config startup-config":
		s.c.saves++
		return "Copy completed successfully."
	case len(w) == 3 && w[0] == "configure" && w[1] == "session":
		if s.c.sessions[w[2]] == nil {
			waits := 0
			for _, one := range s.c.sessions {
				if one.before == nil {
					waits++
				}
			}
			if waits >= 5 {
				return "% Error: maximum number of pending sessions has been reached"
			}
			s.c.sessions[w[2]] = &session{config: s.c.running.clone()}
		} else if s.c.sessions[w[2]].before != nil {
			return "% Error: the session is waiting for its commit timer"
		}
		s.session, s.modes = w[2], []mode{{kind: global}}
		return ""
	case len(w) >= 4 && w[0] == "configure" && w[1] == "session":
		if s.c.sessions[w[2]] == nil {
			return "% Error: session " + w[2] + " does not exist"
		}
		return s.finish(w[2], w[3:])
	}
	return invalid
}

// finish ends a session of the configuration.
func (s *shell) finish(name string, w []string) string {
	one := s.c.sessions[name]
	on := slices.ContainsFunc(slices.Collect(maps.Values(s.c.sessions)), func(o *session) bool { return o.before != nil })
	switch text := strings.Join(w, " "); {
	case text == "abort":
		if one.before != nil {
			s.c.running = one.before
		}
	case text == "commit" && one.before != nil: // confirmed
	case on:
		return "% Cannot commit session due to the commit timer of another one"
	case text == "commit":
		s.c.running = one.config
	case timerText.MatchString(text):
		var h, m, sec int
		fmt.Sscanf(w[2], "%d:%d:%d", &h, &m, &sec) //nolint:errcheck // it matches
		one.until = time.Now().Add(time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + time.Duration(sec)*time.Second)
		one.before, s.c.running, one.config = s.c.running, one.config, one.config.clone()
		s.session, s.modes = "", nil
		return ""
	default:
		return invalid
	}
	delete(s.c.sessions, name)
	s.session, s.modes = "", nil
	return ""
}

var timerText = regexp.MustCompile(`^commit timer \d\d:[0-5]\d:[0-5]\d$`)

func (s *shell) global(w []string, text string) string {
	c := s.config()
	no := w[0] == "no"
	if no {
		w = w[1:]
	}
	switch {
	case len(w) == 2 && w[0] == "vlan":
		c.vlans = w[1]
		if no {
			c.vlans = ""
		}
	case text == "directflow":
		s.modes = append(s.modes, mode{kind: directflowMode})
	case len(w) == 2 && w[0] == "event-handler":
		if no {
			delete(c.handlers, w[1])
			return ""
		}
		if c.handlers[w[1]] == nil {
			c.handlers[w[1]] = &handler{lines: map[string]string{}}
		}
		s.modes = append(s.modes, mode{handlerMode, w[1]})
	case len(w) == 2 && w[0] == "interface" && !no:
		if c.iface(w[1]) == nil {
			return invalid
		}
		s.modes = append(s.modes, mode{ifaceMode, w[1]})
	case len(w) == 3 && w[0] == "mac" && w[1] == "access-list":
		if no {
			delete(c.lists, w[2])
			return ""
		}
		if _, there := c.lists[w[2]]; !there {
			c.lists[w[2]] = nil
		}
		s.modes = append(s.modes, mode{listMode, w[2]})
	default:
		return invalid
	}
	return ""
}

func (s *shell) iface(i *iface, w []string, text string) string {
	no := w[0] == "no"
	text = strings.TrimPrefix(text, "no ")
	for _, key := range []string{"switchport mode", "switchport trunk allowed vlan", "switchport trunk native vlan", "switchport dot1q ethertype", "channel-group", "description", "l2 mtu", "l2 mru"} {
		value, ok := strings.CutPrefix(text, key)
		if value = strings.TrimSpace(value); !ok {
			continue
		}
		switch {
		case key == "switchport dot1q ethertype" && s.c.NoTPID:
			return unavailable
		case no:
			delete(i.lines, key)
			return ""
		case value == "":
			return incomplete
		}
		if n, err := strconv.Atoi(value); strings.HasPrefix(key, "l2 ") && (err != nil || n < 64 || n > 65535) {
			return invalid
		}
		if key == "switchport dot1q ethertype" {
			n, err := strconv.ParseUint(value, 0, 16)
			if err != nil || n < 0x600 {
				return invalid
			}
			value = fmt.Sprintf("0x%04x", n)
			if n == 0x8100 {
				delete(i.lines, key)
				return ""
			}
		}
		i.lines[key] = value
		return ""
	}
	return invalid
}

func (s *shell) directflow(w []string, text string) string {
	c := s.config()
	switch {
	case text == "shutdown", text == "no shutdown":
		c.on = text != "shutdown"
	case len(w) == 2 && w[0] == "flow":
		if c.flows[w[1]] == nil {
			c.flows[w[1]] = &flow{lines: map[string]string{}}
		}
		s.modes = append(s.modes, mode{flowMode, w[1]})
	case len(w) == 3 && w[0] == "no" && w[1] == "flow":
		if c.flows[w[2]] == nil {
			return "% Error: flow " + w[2] + " does not exist"
		}
		delete(c.flows, w[2])
	default:
		return invalid
	}
	return ""
}

func (s *shell) flow(f *flow, text string) string {
	for _, key := range flowKeys {
		value, ok := strings.CutPrefix(text, key)
		if ok && (value == "" || value[0] == ' ') {
			if value = strings.TrimSpace(value); !s.takes(key, strings.Fields(value)) {
				return invalid
			}
			f.lines[key], f.shown = value, ""
			return ""
		}
	}
	return invalid
}

// takes reports whether a line of a flow may have a value.
func (s *shell) takes(key string, w []string) bool {
	number := func(i, first, last int) bool {
		n, err := strconv.Atoi(w[i])
		return err == nil && n >= first && n <= last && strconv.Itoa(n) == w[i]
	}
	switch key {
	case "priority":
		return len(w) == 1 && number(0, 0, 65535)
	case "match vlan":
		if len(w) == 2 && !s.c.NoMask {
			mask, err := strconv.ParseUint(w[1], 0, 12)
			return err == nil && mask < 0xfff && number(0, 0, 4095)
		}
		return len(w) == 1 && number(0, 0, 4095)
	case "match cos", "action set cos":
		return len(w) == 1 && number(0, 0, 7)
	case "action set vlan":
		return len(w) == 1 && number(0, 1, 4094)
	case "match input interface", "action output interface":
		return len(w) == 1 && s.config().iface(w[0]) != nil
	case "match destination mac":
		return len(w) > 0 && len(w) < 3 && !slices.ContainsFunc(w, func(text string) bool { _, err := net.ParseMAC(text); return err != nil })
	case "match ethertype":
		return len(w) == 1 && w[0] == "ip"
	case "match destination ip":
		_, err := netip.ParsePrefix(strings.Join(w, ""))
		return len(w) == 1 && err == nil
	case "action drop":
		return len(w) == 0
	}
	return false
}

func (s *shell) show(text string) string {
	if what, ok := strings.CutPrefix(text, "show running-config | include "); ok {
		var out strings.Builder
		for line := range strings.Lines(s.c.shown(s.c.running)) {
			if strings.Contains(line, what) {
				out.WriteString(line)
			}
		}
		return out.String()
	}
	switch text {
	case "show running-config":
		return s.c.shown(s.c.running)
	case "show directflow detail | json":
		return s.c.status()
	case "show version":
		return "Arista DCS-7050X3-FAKE\nHardware version: 11.01\nSerial number: FAKE0001\nHardware MAC address: 021c.7300.0001\n\nSoftware image version: 4.31.2F\nArchitecture: i686\n"
	case "show configuration sessions":
		out := "Maximum number of completed sessions: 1\nMaximum number of pending sessions: 5\n\n  Name                      State                User     Terminal\n  ------------------------- -------------------- -------- --------\n"
		for _, name := range slices.Sorted(maps.Keys(s.c.sessions)) {
			state := "pending"
			if s.c.sessions[name].before != nil {
				state = "pendingCommitTimer"
			}
			out += fmt.Sprintf("  %-25s %-20s %-8s vty3\n", name, state, "admin")
		}
		return out
	case "show session-config diffs":
		if s.session != "" {
			return diff(s.c.shown(s.c.running), s.c.shown(s.config()), s.session)
		}
	}
	return invalid
}
