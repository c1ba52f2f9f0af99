package vrptest

import (
	"fmt"
	"reflect"
	"strconv"
	"time"
)

func same(a, b *config) bool { return reflect.DeepEqual(a, b) }

// commit is commit [ trial [ time ] ] [ persist id ].
func (s *shell) commit(w []string) string {
	seconds, id, trying := 600, "", false
	for len(w) > 0 {
		switch {
		case w[0] == "trial" && !trying:
			trying, w = true, w[1:]
			if len(w) > 0 {
				if n, err := strconv.Atoi(w[0]); err == nil {
					if n < 60 || n > 65535 {
						return wrong
					}
					seconds, w = n, w[1:]
				}
			}
		case w[0] == "persist" && len(w) > 1:
			id, w = w[1], w[2:]
		default:
			return wrong
		}
	}
	c := s.c
	if t := c.trial; t != nil && (t.id != id || t.id == "" && t.by != s) {
		return "Error: The system is in the trial configuration mode of another session."
	} else if t == nil && id != "" && !trying {
		return "Error: The system is not in the trial configuration mode."
	}
	if s.dirty && s.base != c.running {
		return "Error: The running configuration was changed by another session. Run refresh configuration candidate."
	}
	if trying && !s.dirty && c.trial == nil {
		return "Error: There is no configuration to be committed."
	}
	switch {
	case trying && c.trial == nil:
		c.trial = &trial{id: id, by: s, back: c.running.clone()}
		fallthrough
	case trying:
		c.trial.until = time.Now().Add(time.Duration(seconds) * time.Second)
	default:
		c.trial = nil
	}
	if s.dirty {
		c.change(s.candidate)
		s.candidate, s.base, s.dirty = c.running.clone(), c.running, false
	}
	if trying {
		return fmt.Sprintf("Info: The system enters the trial configuration mode.\nThe system will revert to previous configuration if the trial configuration is not confirmed in %d seconds.", seconds)
	}
	return ""
}

// expire takes a trial back whose time is over.
func (c *Switch) expire() {
	if t := c.trial; t != nil && !time.Now().Before(t.until) {
		c.trial = nil
		c.change(t.back)
	}
}

func (c *Switch) trialStatus() string {
	t := c.trial
	if t == nil {
		return "Trial status: INACTIVE\nTrial time left (sec): 0\n"
	}
	id := ""
	if t.id != "" {
		id = "Persist id: " + t.id + "\n"
	}
	return fmt.Sprintf("Trial status: ACTIVE\n%sTrial time left (sec): %d\n", id, int(time.Until(t.until).Seconds()))
}
