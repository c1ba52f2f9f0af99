package qos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestFrameNames(t *testing.T) {
	for _, f := range []foundFrames{{asDefault, 1600, 10000, HashOf("x")}, {denied, 1, 65535, 0}, {sized, 9216, 9220, 1<<40 - 1}} {
		name := f.behavior()
		if got, ok := parseFrames(name); !ok || got != f || len(name) > MaxName {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
	for _, foreign := range []string{"csig-mtu-", "csig-mtu-d0640-2710", "csig-mtu-x0640-2710-0000000001", "csig-mtu-d640-2710-0000000001", "csig-mtu-d0640-2710-0000000001x"} {
		if _, ok := parseFrames(foreign); ok {
			t.Errorf("%s is csig's", foreign)
		}
	}
}

func TestReadFrames(t *testing.T) {
	got := ReadFrames(strings.Split(`GigabitEthernet1/0/1
Current state: UP
Maximum frame length: 10000
Allow jumbo frames to pass
Description: The Maximum Frame Length is 1500
 GigabitEthernet1/0/2 current state : UP
Switch Port, PVID :    1, TPID : 8100(Hex), The Maximum Frame Length is 9216
Maximum frame length: of nothing
 GigabitEthernet1/0/1 is no line of its state
The Maximum Frame Length is 123456
XGE0/0/1 current state : UP
The Maximum Frame Length is 1600
GigabitEthernet1/0/3
`, "\n"), func(name string) bool { return strings.HasPrefix(name, "Gig") })
	if fmt.Sprint(got) != "map[GigabitEthernet1/0/1:10000 GigabitEthernet1/0/2:9216]" {
		t.Error(got)
	}
}

// TestFrames: what a port had comes back as it was, where it is still csig's.
func TestFrames(t *testing.T) {
	for _, tc := range []struct {
		line         string
		denies       bool
		now          int
		set, restore string
	}{
		{"", true, 1600, "jumboframe enable 1700", "jumboframe enable 1600"},
		{"", false, 1600, "jumboframe enable 1700", "undo jumboframe enable"},
		{"undo jumboframe enable", true, 1536, "jumboframe enable 1700", "undo jumboframe enable"},
		{"jumboframe enable 1550", true, 1550, "jumboframe enable 1700", "jumboframe enable 1550"},
		{"jumboframe enable 1550 1518", false, 1550, "jumboframe enable 1700 1518", "jumboframe enable 1550 1518"},
	} {
		j, behaviors := Jumbo{Denies: tc.denies}, map[string][]string{"theirs": {"x"}}
		step := func(now int, line string, length int) []string {
			t.Helper()
			lines, err := j.Set(behaviors, Frames{Port: "x1", Line: line, Now: now}, length)
			if err != nil {
				t.Fatal(err)
			}
			return lines
		}
		lines := step(tc.now, tc.line, 1700)
		if len(lines) != 5 || !strings.HasPrefix(lines[0], "traffic behavior csig-mtu-") || lines[3] != tc.set || !HasFrames(behaviors, "x1") || HasFrames(behaviors, "x2") || forgetFrames(behaviors, []string{"x2", "x1"}) != nil {
			t.Errorf("%+v: %q", tc, lines)
		}
		if lines := step(1700, tc.set, 1700); len(lines) > 0 {
			t.Errorf("it has that: %q", lines)
		}
		noted := maps.Clone(behaviors)
		if lines := step(1700, tc.set, tc.now); len(lines) != 4 || lines[1] != tc.restore || len(behaviors) != 1 {
			t.Errorf("%+v: %q, %v", tc, lines, behaviors)
		}
		// A second change keeps what was there first; Back gives that.
		behaviors = maps.Clone(noted)
		second := strings.Replace(tc.set, "1700", "1800", 1)
		if lines := step(1700, tc.set, 1800); len(lines) != 6 || lines[3] != second || len(behaviors) != 2 {
			t.Errorf("%+v: %q, %v", tc, lines, behaviors)
		}
		if lines := j.Back(behaviors, Frames{Port: "x1", Line: second, Now: 1800}); len(lines) != 4 || lines[1] != tc.restore || len(behaviors) != 1 {
			t.Errorf("%+v: %q, %v", tc, lines, behaviors)
		}
		// Another user's stays.
		for name, lines := range map[string][]string{
			"changed": j.Back(maps.Clone(noted), Frames{Port: "x1", Line: "jumboframe enable 1999", Now: 1999}),
			"gone":    forgetFrames(maps.Clone(noted), []string{"x2"}),
		} {
			if len(lines) != 1 || !strings.HasPrefix(lines[0], "undo traffic behavior csig-mtu-") {
				t.Errorf("%s: %q", name, lines)
			}
		}
		if _, err := j.Set(maps.Clone(noted), Frames{Port: "x1", Line: "jumboframe enable 1999", Now: 1999}, tc.now); err == nil || !strings.Contains(err.Error(), "another user has set its longest frame to 1999") {
			t.Error(err)
		}
	}
	for _, length := range []int{0, MinFrame - 1, 1 << 16} {
		if _, err := (Jumbo{}).Set(map[string][]string{}, Frames{Port: "x", Now: 1600}, length); err == nil {
			t.Errorf("%d bytes: no error", length)
		}
	}
	if _, err := (Jumbo{}).Set(map[string][]string{}, Frames{Port: "x"}, 1700); err == nil || !strings.Contains(err.Error(), "does not report") {
		t.Error(err)
	}
	if lines := []string{"jumboframe enable", "jumboframe enable 1 2", "undo jumboframe enable"}; slices.ContainsFunc(lines, func(l string) bool { return !FrameLine(l) }) || FrameLine("jumboframe enable x") {
		t.Error("lines of frames")
	}
}

// FuzzReadFrames reads reports of any content.
func FuzzReadFrames(f *testing.F) {
	f.Add("x\nMaximum frame length: 10000\n")
	f.Fuzz(func(t *testing.T, text string) {
		for port, n := range ReadFrames(strings.Split(text, "\n"), func(name string) bool { return name == "x" }) {
			if port != "x" || n < 0 || n > 99999 {
				t.Errorf("%s %d", port, n)
			}
		}
	})
}
