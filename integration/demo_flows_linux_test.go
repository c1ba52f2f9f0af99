package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/csig-agent/csig/demo"
)

// demoGroup is the control group of a demo that runs.
func demoGroup(t *testing.T, family []int) string {
	t.Helper()
	for _, pid := range family {
		own, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(own)) {
			name, found := strings.CutPrefix(strings.TrimSpace(line), "0::/csig-demo-")
			if !found {
				continue
			}
			for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
				if dir := filepath.Join(root, "csig-demo-"+name); isDir(dir) {
					return dir
				}
			}
		}
	}
	t.Fatal("the demo has no control group of its own")
	return ""
}

func isDir(name string) bool {
	s, err := os.Stat(name)
	return err == nil && s.IsDir()
}

// TestFlowsDemo watches the demo of flows as people do, kills one, and ends another by Ctrl-C, which leaves nothing of either.
func TestFlowsDemo(t *testing.T) {
	t.Parallel()
	killed := onTerminal(t, 80, 24, csig, "demo", "--flows")
	killed.await("that the flow is under csig", 0, func(out string) bool { return strings.Contains(out, "under csig") })
	family := descendants(t, killed.cmd.Process.Pid)
	left := demoGroup(t, family)
	if err := killed.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-killed.ended
	if !within(patience, func() bool {
		now := processes(t)
		for _, pid := range family {
			if now[pid].name != "" {
				return false
			}
		}
		return true
	}) {
		t.Errorf("processes of a killed demo go on: %v", family)
	}

	tt := onTerminal(t, 80, 24, csig, "demo", "--flows")
	tt.await("that the flow's port is named", 0, func(out string) bool {
		return strings.Contains(out, "Mbit/s, bottleneck s1:swp3, ") && strings.Contains(out, "the signal comes") && strings.Count(out, "\x1b[J") > 2
	})
	own := demoGroup(t, descendants(t, tt.cmd.Process.Pid))
	out := tt.text()
	tt.press("\x03")
	if status := tt.end(); status != 0 {
		t.Errorf("status %d after Ctrl-C", status)
	}
	_, rest, _ := strings.Cut(tt.text()[len(out):], "^C")
	if !strings.Contains(rest, "LIMITED BY") || !strings.Contains(rest, "Verdict: with the signal the flow had ") || strings.Contains(rest, "csig:") {
		t.Errorf("no verdict, or an error:\n%s", rest)
	}
	s := newScreen(80, 24)
	if err := s.write(out[:strings.LastIndex(out, "\x1b[J")]); err != nil { // the last redraw may be half there
		t.Fatal(err)
	}
	if s.wrapped > 0 {
		t.Errorf("%d lines are longer than 80 columns", s.wrapped)
	}
	for _, once := range []string{"csig demo --flows", "LOAD OF OTHERS", "◀ limits a flow", "with the signal  ", "without "} {
		if n := strings.Count(s.String(), once); n != 1 {
			t.Errorf("%q is on the screen %d times:\n%s", once, n, s)
		}
	}
	if isDir(left) || isDir(own) {
		t.Errorf("a control group is left: %s or %s", left, own)
	}
}

// TestLongFlowsDemo runs all of it: both flows live on what is left, and the one with the signal reads which port leaves it.
func TestLongFlowsDemo(t *testing.T) {
	t.Parallel()
	text, err := exec.Command(csig, "demo", "--flows", "--json").Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var r demo.FlowsResult
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	ports := []string{"s1:swp3", "s3:swp3", "s2:swp3", "s3:swp3"}
	if len(r.Steps) != len(ports) || r.Format != demo.FlowsFormat {
		t.Fatalf("%s", text)
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Port != ports[i] || s.NamedNS == nil {
			t.Errorf("load %d: %s limits a flow, and was not read: %+v", i, s.Port, s)
		}
		for j, name := range []string{"csig", "cubic"} {
			if u := &s.Flows[j]; u.Control != name || float64(u.Bits) < 0.1*float64(s.RoomBPS)*float64(s.DurationNS)/1e9 {
				t.Errorf("load %d: the flow %s: %+v", i, u.Name, *u)
			}
		}
	}
}
