package integration

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/quantize"
)

// csig off of a device for which the fleet file names no daemon, while an agent
// programs it all the same: it finds that agent by its lock, marks it where it
// listens at the usual socket, hanging or not, and is no success where it does not.
func TestLongOffBesideAnAgentThatTheFleetFileDoesNotName(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	before := b.ruleset(t)
	local, reached := b.write(t), filepath.Join(b.dir, "reached.yaml")
	text := strings.Replace(fmt.Sprintf(fleetText, quantize.Draft00), "local: true", fmt.Sprintf("management: {netns: /proc/%d/fd/%d}", os.Getpid(), b.s1.FD()), 1)
	if err := os.WriteFile(reached, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	// The usual places are the machine's: here they are the test's own.
	places := b.s1.Command("unshare", "--mount", "sh", "-c", "mount -t tmpfs csig-run /run && mount -t tmpfs csig-lib /var/lib && echo ready && exec cat")
	in, err := places.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := places.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := places.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = places.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
	inside := []string{"--target", fmt.Sprint(places.Process.Pid), "--mount", "--", csig}
	root := fmt.Sprintf("/proc/%d/root", places.Process.Pid)
	const usual = "/run/csig/agent.sock"
	mark := root + api.OffMarker(usual)
	start := func(socket string) *agent {
		t.Helper()
		args := append(inside[:len(inside):len(inside)], "agent", "-i", local, "--no-self-test", "--socket", socket)
		a := launchIn(t, b.s1.Command("nsenter", args...), root+socket)
		a.live()
		return a
	}
	off := func(fleet string, want int) string {
		t.Helper()
		cmd := b.s1.Command("nsenter", append(inside[:len(inside):len(inside)], "off", "-i", fleet)...)
		if fleet == reached { // from outside
			cmd = b.h1.Node().Command("nsenter", append(inside[:len(inside):len(inside)], "off", "-i", fleet)...)
		}
		return strings.Join(strings.Fields(exits(t, want, cmd)), " ")
	}
	stays := func(a *agent) {
		t.Helper()
		s := a.await("that its cycles see the mark", func(s *api.Status) bool { return strings.Contains(s.Cycle.LastError, "csig off") })
		a.await("more of its cycles", func(now *api.Status) bool { return now.Cycle.Failed > s.Cycle.Failed+5 })
		if after := b.ruleset(t); after != before {
			t.Errorf("after csig off:\n%s", after)
		}
	}
	for _, c := range []struct {
		fleet string
		hangs bool
	}{{local, false}, {local, true}, {reached, false}} {
		a := start(usual)
		if c.hangs {
			if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}
		printed := off(c.fleet, 0)
		if want := fmt.Sprintf("device s1: csig agent (process %d) programs it", a.cmd.Process.Pid); !strings.Contains(printed, want) || !strings.Contains(printed, api.OffMarker(usual)) {
			t.Errorf("the output of off lacks %q:\n%s", want, printed)
		}
		if c.hangs {
			if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		}
		stays(a)
		_ = a.signal(syscall.SIGTERM) // how it ends is not the point
		if err := os.Remove(mark); err != nil {
			t.Error(err)
		}
	}

	a := start(usual + ".other")
	for _, fleet := range []string{local, reached} {
		printed := off(fleet, 1)
		if want := fmt.Sprintf("csig agent (process %d) programs it, not at the usual socket %s", a.cmd.Process.Pid, usual); !strings.Contains(printed, want) || !strings.Contains(printed, "management: {daemon: {socket: PATH}}") {
			t.Errorf("the output of off lacks %q:\n%s", want, printed)
		}
		if _, err := os.Stat(mark); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a mark that the agent does not look for: %v", err)
		}
	}
	_ = a.signal(syscall.SIGTERM)
	if printed := off(local, 0); strings.Contains(printed, "process") {
		t.Errorf("without an agent the output of off is\n%s", printed)
	}
	if after := b.ruleset(t); after != before {
		t.Errorf("after csig off:\n%s", after)
	}
}
