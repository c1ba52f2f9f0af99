package eostest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// handler is an event handler that looks at a counter of Bash's (EOS User Manual, Event
// Manager; configurations that show it: vendors/eos/doc.go).
type handler struct {
	lines map[string]string // action bash, delay, timeout, poll interval, condition
	seen  time.Duration     // when it looked last
	left  string            // the configuration that its action left: it has no effect on that
	shown string            // its text; "": not made yet
}

// handlerKeys are the lines of a handler, in the order in which they are shown.
var handlerKeys = []string{"action bash", "delay", "asynchronous", "timeout", "poll interval", "condition"}

// text is how the running configuration shows it.
func (h *handler) text() string {
	if h.shown != "" {
		return h.shown
	}
	var b strings.Builder
	for _, key := range handlerKeys {
		switch value, there := h.lines[key]; {
		case key == "poll interval":
			b.WriteString("   !\n   trigger on-counters\n")
			fallthrough
		case key == "condition":
			if there {
				fmt.Fprintf(&b, "      %s %s\n", key, value)
			}
		case there:
			fmt.Fprintf(&b, "   %s\n", strings.TrimSpace(key+" "+value))
		}
	}
	h.shown = b.String()
	return h.shown
}

// alive is the command that notes the time, and condition how long ago that was, by the one
// script that this interpreter of Bash knows.
const alive = "bash timeout 10 cp /proc/uptime /tmp/csig-alive"

var (
	condition = regexp.MustCompile(`^bashCmd\."awk '\{ t\[NR\] = \$1 \} END \{ print int\(t\[1\] - t\[2\]\) \}' /proc/uptime /tmp/csig-alive" > (\d+)$`)
	action    = regexp.MustCompile(`^FastCli -p15 -c \$'([^']+)'$`)
)

// inHandler carries out a line of an event handler, or of its trigger.
func (s *shell) inHandler(h *handler, text string, trigger bool) string {
	if text == "trigger on-counters" && !trigger {
		s.modes = append(s.modes, mode{triggerMode, s.mode().name})
		return ""
	}
	if text == "asynchronous" && !trigger {
		h.lines[text], h.shown = "", ""
		return ""
	}
	for _, key := range handlerKeys {
		value, ok := strings.CutPrefix(text, key+" ")
		if !ok || key == "asynchronous" || trigger != (key == "poll interval" || key == "condition") {
			continue
		}
		switch key {
		case "action bash":
			ok = action.MatchString(value)
		case "condition":
			ok = condition.MatchString(value)
		default:
			_, err := strconv.Atoi(value)
			ok = err == nil
		}
		if ok {
			h.lines[key], h.shown = value, ""
			return ""
		}
	}
	return invalid
}

// Pass lets time go by, of the clock that the test has: event handlers look, and act.
func (c *Switch) Pass(by time.Duration) { c.pass(by, time.Sleep) }

// Skip is Pass with the switch's clock moved on in place of waiting, where csig is a process of its own, which
// no virtual time holds.
func (c *Switch) Skip(by time.Duration) {
	c.pass(by, func(d time.Duration) {
		c.lock()
		c.started = c.started.Add(-d)
		c.mu.Unlock()
	})
}

// untilNext is how long no handler looks, in whole seconds.
func (c *Switch) untilNext() time.Duration {
	c.lock()
	defer c.mu.Unlock()
	next, up := time.Hour, c.uptime()
	for _, h := range c.running.handlers {
		if poll, err := strconv.Atoi(h.lines["poll interval"]); err == nil {
			next = min(next, h.seen+time.Duration(poll)*time.Second-up)
		}
	}
	return max(time.Second, (next + time.Second - 1).Truncate(time.Second))
}

func (c *Switch) pass(by time.Duration, wait func(time.Duration)) {
	for left := by; left > 0; {
		next := min(left, c.untilNext())
		wait(next)
		left -= next
		c.lock()
		up := c.uptime()
		var due []*handler
		for _, name := range slices.Sorted(maps.Keys(c.running.handlers)) {
			h := c.running.handlers[name]
			poll, err := strconv.Atoi(h.lines["poll interval"])
			m := condition.FindStringSubmatch(h.lines["condition"])
			if err != nil || m == nil || up-h.seen < time.Duration(poll)*time.Second {
				continue
			}
			h.seen = up
			if most, err := strconv.Atoi(m[1]); err == nil && int((up-c.alive)/time.Second) > most && h.left != c.text {
				due = append(due, h)
			}
		}
		c.mu.Unlock()
		for _, h := range due {
			if m := action.FindStringSubmatch(h.lines["action bash"]); m != nil {
				sh := &shell{c: c}
				for _, line := range strings.Split(m[1], `\n`) {
					sh.Do(line) // FastCli goes on behind a line that is refused
				}
			}
		}
		c.lock()
		for _, h := range due {
			h.left = c.text
		}
		c.mu.Unlock()
	}
}
