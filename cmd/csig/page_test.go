package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// carryOutPage runs the commands of a page's blocks of a kind, in a folder, and compares what they
// show; after is called after each.
func carryOutPage(t *testing.T, page, kind, dir string, after func(command string)) {
	t.Helper()
	shown, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	inside, skip := false, false
	for line := range strings.Lines(string(shown)) {
		text := strings.TrimRight(line, "\n")
		switch text {
		case "```" + kind:
			inside = true
		case "```":
			inside, skip = false, false
		}
		if command, ok := strings.CutPrefix(text, "$ csig "); inside && ok {
			out.WriteString(line)
			out.WriteString(masked(string(runShown(t, dir, strings.Fields(command))), dir))
			skip = true
			after(command)
		} else if !skip {
			out.WriteString(line)
		}
	}
	switch {
	case bytes.Equal(out.Bytes(), shown):
	case *update:
		if err := os.WriteFile(page, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s shows another session (go test ./cmd/csig -run %s -update):\n%s", page, t.Name(), out.String())
	}
}

// folderFor is a new folder for a platform's session, and the platform's example. The folder's name is always as long as
// this one: csig breaks lines by it.
func folderFor(t *testing.T, name string) (dir, example string) {
	t.Helper()
	dir = fmt.Sprintf("/tmp/csig-%s-%08x", name, rand.Uint32())
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return dir, string(text)
}

// startAgent starts the agent of a device, which ends with the test.
func startAgent(t *testing.T, dir, device string) *os.Process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, device+".sock")
	agent := exec.Command(exe, "agent", "--wait", "-i", filepath.Join(dir, device+"-agent.yaml"), "--socket", socket)
	agent.Args[0] = "csig"
	var log bytes.Buffer
	agent.Stdout, agent.Stderr = &log, &log
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = agent.Wait() // it is killed
	}()
	t.Cleanup(func() {
		_ = agent.Process.Kill()
		<-ended
		if t.Failed() {
			t.Log(log.String())
		}
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			return agent.Process
		}
		select {
		case <-ended:
			t.Fatalf("the agent ended: %v", agent.ProcessState)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("the agent does not listen")
		}
	}
}

var (
	elapsed = regexp.MustCompile(`(?m)^ +[0-9.]+m?s`)
	differs = regexp.MustCompile(`\b[0-9a-f]{12,64}\b|\b[0-9.]+m?s\b`)
)

// masked is output without what differs from run to run.
func masked(text, dir string) string {
	text = elapsed.ReplaceAllString(strings.ReplaceAll(text, dir+"/", ""), "  …")
	return differs.ReplaceAllString(text, "…")
}
