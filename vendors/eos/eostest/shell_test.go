package eostest

import (
	"strings"
	"testing"
)

// An event handler's commands go on while another login removes what they are in.
func TestRemovedUnderAnotherLogin(t *testing.T) {
	c := New("sw1", "Ethernet1")
	for _, path := range [][]string{
		{"configure", "directflow", "flow one", "no flow one", "priority 1"},
		{"configure", "event-handler one", "no event-handler one", "delay 1"},
		{"configure", "event-handler one", "trigger on-counters", "no event-handler one", "poll interval 5"},
	} {
		one := &shell{c: c}
		last := len(path) - 1
		for _, line := range path[:last-1] {
			if answer, _ := one.Do(line); answer != "" {
				t.Fatalf("%s: %s", line, answer)
			}
		}
		other := []string{path[last-1]}
		if strings.Contains(other[0], "flow") {
			other = append([]string{"directflow"}, other...)
		}
		c.Type(other...)
		if answer, _ := one.Do(path[last]); !strings.Contains(answer, "does not exist") {
			t.Errorf("%s after %s: %q", path[last], path[last-1], answer)
		}
	}
}
