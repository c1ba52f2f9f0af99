package iosxrtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Texts of IOS XR's command line.
const (
	invalid    = "                 ^\n% Invalid input detected at '^' marker."
	incomplete = "% Incomplete command."
	locked     = "% Failed to enter exclusive configuration mode: the configuration is locked by another session"
	leaving    = "You are exiting after a 'commit confirm' with an active rollback session.  If you exit the configuration awaiting confirmation will not be confirmed and the router will immediately rollback to the previous configuration.\nDo you wish to exit? [no]:"
	stamp      = "Fri Nov 20 10:21:12.123 UTC"
)

// Modes.
const (
	execMode   = ""
	configMode = "config"
	portMode   = "config-if"
	listMode   = "config-ipv4-acl"
)

// shell is one login.
type shell struct {
	r      *Router
	mode   string
	name   string  // of the interface or access list
	target *config // of configuration mode
	page   int
	asked  bool
}

func (s *shell) Prompt() string {
	if s.asked {
		return ""
	}
	if s.mode == execMode {
		return "RP/0/RP0/CPU0:" + s.r.Name + "#"
	}
	return "RP/0/RP0/CPU0:" + s.r.Name + "(" + s.mode + ")#"
}

func (s *shell) Page() (int, string) { return s.page, " --More-- " }

// Do carries out one line.
func (s *shell) Do(line string) (string, bool) {
	w := strings.Fields(line)
	if len(w) == 0 {
		return "", false
	}
	text := strings.Join(w, " ")
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if s.r.cut {
		return "", true
	}
	if s.asked { // whether to leave: anything but yes is no
		if s.asked = false; text == "yes" {
			s.leave()
		}
		return "", false
	}
	before := s.r.commits.Count()
	answer, end := s.do(w, text)
	s.r.commits.Running()
	if s.r.commits.Count() != before {
		s.r.changed()
	}
	return answer, end
}

func (s *shell) do(w []string, text string) (string, bool) {
	switch {
	case s.mode == execMode && text == "exit":
		return "", true
	case s.mode == execMode:
		return s.exec(text), false
	case (text == "abort" || text == "end" || text == "exit" && s.mode == configMode) && s.r.trier == s && s.r.commits.Trial():
		s.asked = true
		return leaving, false
	case w[0] == "do":
		return s.exec(strings.TrimPrefix(text, "do ")), false
	case text == "abort" || text == "end":
		if text == "end" && s.dirty() {
			return "Uncommitted changes found, commit them before exiting(yes/no/cancel)? [cancel]:", false
		}
		s.leave()
		return "", false
	case text == "root":
		s.mode = configMode
		return "", false
	case text == "exit" && s.mode == configMode:
		s.leave()
		return "", false
	case text == "exit":
		s.mode = configMode
		return "", false
	case w[0] == "commit" && s.mode == configMode:
		return s.commit(w), false
	}
	if answer, ok := s.config(w); ok {
		return answer, false
	}
	switch s.mode {
	case portMode:
		return s.port(s.target.ifaces[s.name], w, text), false
	case listMode:
		return s.list(w, text), false
	}
	return invalid, false
}

func (s *shell) dirty() bool {
	c := s.r.commits.Running()
	return s.target.interfaces()+s.target.acls() != c.interfaces()+c.acls()
}

func (s *shell) leave() {
	if s.mode != execMode {
		s.r.inside--
	}
	s.mode, s.target = execMode, nil
	if s.r.trier == s && !s.r.cut { // its trial ends with it, where the router sees that it ended
		s.r.trier = nil
		s.r.commits.Undo()
	}
	if s.r.exclusive == s {
		s.r.exclusive = nil
	}
}

// Ended ends the login.
func (s *shell) Ended() {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.leave()
}

func (s *shell) exec(text string) string {
	c := s.r.commits.Running()
	switch text {
	case "configure exclusive", "configure terminal":
		if s.r.exclusive != nil && s.r.exclusive != s {
			return locked
		}
		if text == "configure exclusive" {
			s.r.exclusive = s
		}
		s.r.inside++
		s.mode, s.target = configMode, c.clone()
		return stamp
	case "show configuration sessions detail":
		return stamp + "\n" + s.r.sessions()
	case "terminal length 0":
		s.page = 0
		return stamp
	case "terminal width 512":
		return stamp
	case "show running-config interface":
		return stamp + "\n" + c.interfaces()
	case "show running-config ipv4 access-list":
		return stamp + "\n" + c.acls()
	case "show interfaces":
		return stamp + "\n" + c.status()
	case "show version":
		return stamp + "\nCisco IOS XR Software, Version 7.3.2\nCopyright (c) 2013-2021 by Cisco Systems, Inc.\n\nBuild Information:\n Built By     : ingunawa\n\nSystem uptime is 2 days\n\ncisco NCS-5500 () processor\nSystem uptime is 2 days 3 hours 4 minutes\n"
	}
	return invalid
}

func (s *shell) commit(w []string) string {
	var within time.Duration
	switch {
	case len(w) == 1:
	case len(w) == 3 && w[1] == "confirmed":
		n, err := strconv.Atoi(w[2])
		if err != nil || n < 30 || n > 65535 {
			return invalid
		}
		within = time.Duration(n) * time.Second
	default:
		return invalid
	}
	if s.r.Refuses != "" {
		return s.r.Refuses
	}
	if !s.dirty() && !s.r.commits.Trial() {
		return stamp + "\n% No configuration changes to commit."
	}
	sets := strings.Contains(s.target.interfaces(), "ethertype")
	s.r.cut = s.r.Cuts && sets
	if within > 0 {
		s.r.commits.Try(s.target.clone(), within)
		s.r.trier = s
		return stamp
	}
	confirms := s.r.commits.Trial()
	s.r.commits.Commit(s.target.clone())
	if s.r.trier = nil; confirms {
		return stamp + "\n\n% Confirming commit for trial session."
	}
	return stamp
}

// config is what any mode of configuration takes.
func (s *shell) config(w []string) (string, bool) {
	t := s.target
	switch {
	case w[0] == "interface" && len(w) == 2:
		if t.ifaces[w[1]] == nil {
			return invalid, true
		}
		s.mode, s.name = portMode, w[1]
	case len(w) == 3 && w[0] == "ipv4" && w[1] == "access-list":
		if t.lists[w[2]] == nil {
			t.lists[w[2]] = map[int]string{}
		}
		s.mode, s.name = listMode, w[2]
	case len(w) == 4 && w[0] == "no" && w[1] == "ipv4" && w[2] == "access-list":
		delete(t.lists, w[3])
	default:
		return "", false
	}
	return "", true
}

func (s *shell) port(i *iface, w []string, text string) string {
	switch {
	case strings.HasPrefix(text, "dot1q tunneling ethertype"):
		if len(w) == 3 {
			return incomplete
		}
		if len(w) != 4 || w[3] != "0x9100" && w[3] != "0x9200" {
			return invalid
		}
		i.tpid = w[3]
	case text == "no dot1q tunneling ethertype":
		i.tpid = ""
	case w[0] == "mtu" && len(w) == 2:
		if n, err := strconv.Atoi(w[1]); err != nil || n < 64 || n > 9646 {
			return invalid
		}
		i.mtu = w[1]
	case text == "no mtu":
		i.mtu = ""
	case w[0] == "description" && len(w) > 1, text == "bundle id 7 mode active":
		i.lines = append(i.lines, text)
	default:
		return invalid
	}
	return ""
}

func (s *shell) list(w []string, text string) string {
	lines := s.target.lists[s.name]
	seq, err := strconv.Atoi(w[0])
	switch {
	case len(w) == 2 && w[0] == "no":
		if seq, err = strconv.Atoi(w[1]); err != nil {
			return invalid
		}
		delete(lines, seq)
	case err == nil && seq > 0 && len(w) > 2 && slices.Contains([]string{"remark", "permit"}, w[1]):
		lines[seq] = strings.TrimPrefix(text, w[0]+" ")
	default:
		return invalid
	}
	return ""
}

func (c *config) status() string {
	var b strings.Builder
	for _, name := range c.order {
		if strings.Contains(name, ".") {
			continue
		}
		mtu := c.ifaces[name].mtu
		if mtu == "" {
			mtu = "1514"
		}
		fmt.Fprintf(&b, "%s is up, line protocol is up \n  Interface state transitions: 1\n  Hardware is TenGigE, address is 0200.0000.0001 (bia 0200.0000.0001)\n  Layer 2 Transport Mode\n  MTU %s bytes, BW 10000000 Kbit (Max: 10000000 Kbit)\n     reliability 255/255, txload 0/255, rxload 0/255\n  Encapsulation ARPA,\n\n", name, mtu)
	}
	return b.String()
}

// sessions are those in configuration mode, and one more while a commit is on trial.
func (r *Router) sessions() string {
	var b strings.Builder
	entry := func(n int, client, lock string) {
		fmt.Fprintf(&b, "%d) Session: 00001000-00001a2b-0000000%d\n   Client: %s\n   User: admin\n   Lock: %s\n", n, n, client, lock)
	}
	for n := range r.inside {
		lock := "Not reserved"
		if r.exclusive != nil && n == r.inside-1 {
			lock = "Reserved"
		}
		entry(n+1, "parser", lock)
	}
	if r.commits.Trial() {
		entry(r.inside+1, "commit-confirm", "Not reserved")
	}
	return b.String()
}
