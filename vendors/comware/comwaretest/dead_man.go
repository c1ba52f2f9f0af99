package comwaretest

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// NQA operations of the type udp-echo, track entries and EAA policies with a track event:
// HP 5920 Network Management and Monitoring Configuration Guide p. 136, HP 6125XLG High
// Availability Command Reference p. 122, H3C S6300 Network Management and Monitoring
// Command Reference R243x (EAA). No public text tells what an EAA policy does with an entry
// that was never positive: here it does nothing.

type nqa struct {
	lines   []string // of its type's view
	running bool
	next    time.Time // its next probe
	failed  int       // probes one after the other
}

type track struct {
	entry    string // of NQA
	positive bool
}

type rtm struct {
	lines     []string
	committed bool
}

// number is that of a line of a list which begins like this, -1 for none.
func number(lines []string, head string) int {
	for _, l := range lines {
		if text, ok := strings.CutPrefix(l, head); ok {
			first, _, _ := strings.Cut(text, " ")
			if n, err := strconv.Atoi(first); err == nil {
				return n
			}
		}
	}
	return -1
}

// Pass lets time go by, of the clock that the test has. Each probe that is due is sent to its
// address by probe, which reports whether it came back.
func (c *Switch) Pass(by time.Duration, probe func(address string) bool) {
	for end := c.now().Add(by); c.step(end, probe, time.Sleep); {
	}
}

// Skip is Pass with the switch's clock moved on in place of waiting, where csig is a process of its own, which
// no virtual time holds.
func (c *Switch) Skip(by time.Duration, probe func(address string) bool) {
	for end := c.now().Add(by); c.step(end, probe, func(d time.Duration) { c.ahead.Add(int64(max(0, d))) }); {
	}
}

func (c *Switch) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// step sends the next probe that is due before the end.
func (c *Switch) step(end time.Time, probe func(string) bool, wait func(time.Duration)) bool {
	c.mu.Lock()
	var due *nqa
	for _, q := range c.nqa {
		if q.running && !q.next.After(end) && (due == nil || q.next.Before(due.next)) {
			due = q
		}
	}
	if due == nil {
		c.mu.Unlock()
		wait(end.Sub(c.now()))
		return false
	}
	at, address := due.next, ""
	for _, l := range due.lines {
		if text, ok := strings.CutPrefix(l, "destination ip "); ok {
			address = net.JoinHostPort(text, fmt.Sprint(number(due.lines, "destination port ")))
		}
	}
	c.mu.Unlock()
	wait(at.Sub(c.now()))
	ok := probe(address)
	c.mu.Lock()
	due.next = due.next.Add(time.Duration(number(due.lines, "frequency ")) * time.Millisecond)
	if due.failed++; ok {
		due.failed = 0
	}
	var run []*rtm
	for n, t := range c.tracks {
		if q := c.nqa[t.entry]; q != due {
			continue
		}
		most := number(due.lines, "reaction 1 checked-element probe-fail threshold-type consecutive ")
		was := t.positive
		t.positive = ok || t.positive && due.failed < most
		for _, p := range c.rtm {
			if was && !t.positive && p.committed && slices.Contains(p.lines, fmt.Sprintf("event track %d state negative", n)) {
				run = append(run, p)
			}
		}
	}
	c.mu.Unlock()
	for _, p := range run {
		c.run(p)
	}
	return true
}

// run carries out a policy's actions, up to the first that is refused.
func (c *Switch) run(p *rtm) {
	sh := &shell{c: c}
	for i := range 232 {
		at := slices.IndexFunc(p.lines, func(l string) bool { return strings.HasPrefix(l, fmt.Sprintf("action %d cli ", i)) })
		if at < 0 {
			continue
		}
		_, line, _ := strings.Cut(p.lines[at], " cli ")
		if answer, _ := sh.Do(line); answer != "" && !strings.HasPrefix(answer, "System View") {
			return
		}
	}
}

// monitoring is commands of system view that begin with nqa, track or rtm.
func (s *shell) monitoring(w []string, undo bool) string {
	c := s.c
	entry := ""
	if len(w) > 3 && w[0] == "nqa" {
		entry = w[2] + " " + w[3]
	}
	q := c.nqa[entry]
	switch {
	case c.NoEAA && w[0] == "rtm":
		return unrecognized
	case len(w) == 4 && w[1] == "entry" && entry != "" && undo:
		if q == nil || q.running {
			return "The operation does not exist, or is running."
		}
		delete(c.nqa, entry)
	case len(w) == 4 && w[1] == "entry" && entry != "":
		if q != nil && q.running {
			return "The operation is running."
		}
		if q == nil {
			c.nqa[entry] = &nqa{}
		}
		s.views = append(s.views, view{kind: nqaView, name: entry})
	case len(w) == 4 && w[1] == "schedule" && undo:
		if q == nil || !q.running {
			return absent
		}
		q.running = false
	case strings.HasSuffix(strings.Join(w, " "), " start-time now lifetime forever") && w[1] == "schedule" && q != nil && !undo:
		if number(q.lines, "destination port ") < 0 || number(q.lines, "frequency ") <= 0 {
			return "The operation is not complete."
		}
		q.running, q.next, q.failed = true, c.now(), 0
	case w[0] == "track" && len(w) == 2 && undo:
		n := number(w[1:], "")
		if c.tracks[n] == nil {
			return absent
		}
		delete(c.tracks, n)
	case w[0] == "track" && len(w) == 8 && w[2] == "nqa" && w[3] == "entry" && w[6] == "reaction" && w[7] == "1" && !undo:
		n, err := strconv.Atoi(w[1])
		if err != nil || n < 1 || n > 1024 || c.tracks[n] != nil {
			return wrong
		}
		c.tracks[n] = &track{entry: w[4] + " " + w[5]}
		s.views = append(s.views, view{kind: trackView, name: w[1]})
	case w[0] == "rtm" && len(w) == 3 && w[1] == "cli-policy" && undo:
		return remove(c.rtm, w[2], false)
	case w[0] == "rtm" && len(w) == 3 && w[1] == "cli-policy":
		if c.rtm[w[2]] == nil {
			c.rtm[w[2]] = &rtm{}
		}
		s.views = append(s.views, view{kind: rtmView, name: w[2]})
	default:
		return wrong
	}
	return ""
}

func (s *shell) nqa(entry string, w []string) string {
	q, text := s.c.nqa[entry], strings.Join(w, " ")
	switch v := &s.views[len(s.views)-1]; {
	case text == "type udp-echo" && !v.within: // its view takes the place of the entry's
		v.within = true
	case v.within && (len(w) == 3 && w[0] == "destination" && (w[1] == "ip" && net.ParseIP(w[2]) != nil || w[1] == "port" && number(w[2:], "") > 0) ||
		len(w) == 2 && w[0] == "frequency" && number(w[1:], "") > 0 || len(w) == 3 && w[0] == "probe" && w[1] == "timeout" && number(w[2:], "") >= 10 ||
		strings.HasPrefix(text, "reaction 1 checked-element probe-fail threshold-type consecutive ") && len(w) == 9 && w[7] == "action-type" && w[8] == "trigger-only"):
		return line(&q.lines, text, false)
	default:
		return unrecognized
	}
	return ""
}

func (s *shell) rtm(policy string, w []string) string {
	p, text := s.c.rtm[policy], strings.Join(w, " ")
	switch {
	case text == "commit":
		if number(p.lines, "event track ") < 0 || number(p.lines, "action ") < 0 {
			return "The policy is not complete."
		}
		p.committed = true
	case len(w) == 5 && strings.HasPrefix(text, "event track ") && w[3] == "state" && w[4] == "negative",
		len(w) > 3 && w[0] == "action" && w[2] == "cli" && number(w[1:2], "") >= 0 && number(w[1:2], "") <= 231,
		len(w) == 2 && w[0] == "running-time" && number(w[1:], "") >= 0:
		p.committed = false
		return line(&p.lines, text, false)
	default:
		return unrecognized
	}
	return ""
}
