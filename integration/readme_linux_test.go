package integration

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
)

// The README's way for this Linux box, line by line, on a machine with three ports: the agent in shadow mode
// programs nothing, the other does, and Ctrl-C takes everything away.
func TestLongReadmeOnThisBox(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	before := b.ruleset(t)
	_, block, found := strings.Cut(string(readFile(t, "../README.md")), "**This Linux box.**")
	_, block, sh := strings.Cut(block, "```sh\n")
	block, _, end := strings.Cut(block, "```")
	if !found || !sh || !end {
		t.Fatal("README.md has no commands for this box")
	}
	l := newLaboratory(t) // its /run is its own, and so the usual socket
	dir := l.dir
	writeFile(t, filepath.Join(dir, "pids"), nil)
	in := func(line string) (*bytes.Buffer, func() error, func(os.Signal) error) {
		t.Helper()
		c := b.s1.Command("nsenter", fmt.Sprintf("--mount=/proc/%d/ns/mnt", l.pid), "/bin/sh", "-c", `cd "$0" && PATH="$1:$PATH" && exec `+line, dir, filepath.Dir(csig))
		out := new(bytes.Buffer)
		c.Stdout, c.Stderr = out, out
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return out, c.Wait, c.Process.Signal
	}
	ran := 0
	for line := range strings.Lines(block) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "csig ") {
			continue // make build and install: the test has its own
		}
		ran++
		out, wait, signal := in(line)
		if !strings.HasPrefix(line, "csig agent") {
			if err := wait(); err != nil {
				t.Fatalf("%s: %v\n%s", line, err, out)
			}
			if strings.Contains(line, "--init") { // what only a person knows
				file := filepath.Join(dir, "fleet.yaml")
				writeFile(t, file, bytes.ReplaceAll(readFile(t, file), []byte("name: swp1"), []byte("name: swp1, speed: 50M")))
			}
			continue
		}
		for limit := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) { // to ask again
			said, ended, _ := in("csig status")
			if err := ended(); err == nil && strings.Contains(said.String(), "live") {
				break
			}
			if time.Now().After(limit) {
				t.Fatalf("%s: no port is live\n%s", line, said)
			}
		}
		if shadow := strings.Contains(line, "--dry-run"); shadow != (b.ruleset(t) == before) {
			t.Errorf("%s: it programs in shadow mode, or not without", line)
		}
		if err := signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if err := wait(); err != nil {
			t.Errorf("%s, after Ctrl-C: %v", line, err)
		}
		if b.ruleset(t) != before {
			t.Errorf("%s leaves rules behind", line)
		}
	}
	if ran < 5 {
		t.Errorf("only %d commands found", ran)
	}
}
