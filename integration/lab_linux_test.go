package integration

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the output that pages show")

// laboratory is a directory, and a mount namespace whose /run is empty, so that
// named network namespaces are its own and go with it.
type laboratory struct {
	t   testing.TB
	dir string
	pid int
}

func newLaboratory(t testing.TB) *laboratory {
	t.Helper()
	l := &laboratory{t: t, dir: t.TempDir()}
	cmd := exec.Command("/bin/sh", "-c", "mount --make-rprivate / && mount -t tmpfs laboratory /run && echo ready && exec sleep infinity")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.endAgents()
		_ = cmd.Process.Kill() // the namespaces go with it
		_ = cmd.Wait()         // it was killed
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("a mount namespace: %q, %v", line, err)
	}
	l.pid = cmd.Process.Pid
	return l
}

// endAgents ends the agents that the page has started.
func (l *laboratory) endAgents() {
	pids, err := os.ReadFile(filepath.Join(l.dir, "pids"))
	if err != nil {
		l.t.Error(err)
	}
	for _, pid := range strings.Fields(string(pids)) {
		n, err := strconv.Atoi(pid)
		if err == nil {
			err = syscall.Kill(n, syscall.SIGKILL)
		}
		if err != nil {
			l.t.Errorf("agent %s: %v", pid, err)
		}
	}
}

// run types a command line, and returns what a terminal would show, and its
// status.
func (l *laboratory) run(line string) (string, int) {
	l.t.Helper()
	cmd := exec.Command("nsenter", fmt.Sprintf("--mount=/proc/%d/ns/mnt", l.pid), "/bin/sh", "-c", `cd "$0" && PATH="$1:$PATH:/usr/sbin:/sbin" && eval "$2"`, l.dir, filepath.Dir(csig), line)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		l.t.Fatalf("%v (Debian: apt-get install util-linux)", err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// The page's laboratory is built with the page's commands, and what its blocks
// show is what comes of theirs, one after the other.
func TestLongRollOutPage(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	page, err := filepath.Abs("../docs/rollout.md")
	if err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	l := newLaboratory(t)
	var out strings.Builder
	var kind, block string // of the block we are in
	commands := 0
	for line := range strings.Lines(string(old)) {
		text := strings.TrimRight(line, "\n")
		switch {
		case kind == "" && strings.HasPrefix(text, "```"):
			kind, block = text, ""
			out.WriteString(line)
		case kind == "":
			out.WriteString(line)
		case text != "```":
			block += line
		default:
			switch kind {
			case "```yaml lab.yaml":
				if err := os.WriteFile(filepath.Join(l.dir, "lab.yaml"), []byte(block), 0o600); err != nil {
					t.Fatal(err)
				}
			case "```sh lab":
				if text, status := l.run("set -e\n" + block); status != 0 {
					t.Fatalf("building the laboratory: %s", text)
				}
			case "```console lab":
				fresh := l.again(block)
				commands += strings.Count(fresh, "$ ")
				if timeless(fresh) != timeless(block) {
					block = fresh
				}
			}
			kind = ""
			out.WriteString(block + line)
		}
	}
	if commands < 10 {
		t.Errorf("only %d commands found: this test checks little", commands)
	}
	switch {
	case out.String() == string(old):
	case *update:
		if err := os.WriteFile(page, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("rollout.md shows what csig does not print (go test ./integration -run TestLongRollOutPage -update):\n%s", difference(string(old), out.String()))
	}
}

// again carries out the commands of a block.
func (l *laboratory) again(block string) string {
	l.t.Helper()
	var out strings.Builder
	for line := range strings.Lines(block) {
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		text, status := l.run(strings.TrimSpace(command))
		pending := strings.HasPrefix(command, "csig plan ") && status == 2
		paused := strings.Contains(command, " --stop-after ") && status == 3
		if status != 0 && !pending && !paused {
			l.t.Errorf("%s: exit code %d\n%s", strings.TrimSpace(command), status, text)
		}
		out.WriteString(line)
		out.WriteString(text)
	}
	return out.String()
}

var clock = regexp.MustCompile(`^ *\d+\.\d+s  (\S+)`)

// measuredAge is how old a signal gets, with the time that a reading took.
var measuredAge = regexp.MustCompile(`is up to [\d.]+m?s old`)

// timeless is a block without what differs from run to run: the time of each
// event, how long a reading took, and the order of those that are side by side, in one wave.
func timeless(block string) string {
	lines := strings.Split(measuredAge.ReplaceAllString(block, "is up to AGE old"), "\n")
	var waves []string
	for i, line := range lines {
		wave := ""
		if m := clock.FindStringSubmatchIndex(line); m != nil {
			wave = line[m[2]:m[3]]
			lines[i] = "TIME  " + line[m[2]:]
		}
		waves = append(waves, wave)
	}
	for i := 0; i < len(lines); {
		k := i + 1
		for k < len(lines) && waves[i] != "" && waves[k] == waves[i] {
			k++
		}
		slices.Sort(lines[i:k])
		i = k
	}
	return strings.Join(lines, "\n")
}

// difference is the lines that only one of two texts has, in short.
func difference(old, fresh string) string {
	var out bytes.Buffer
	has := func(text string) map[string]bool {
		m := map[string]bool{}
		for line := range strings.Lines(text) {
			m[line] = true
		}
		return m
	}
	inOld, inFresh := has(old), has(fresh)
	for line := range strings.Lines(old) {
		if !inFresh[line] {
			out.WriteString("- " + line)
		}
	}
	for line := range strings.Lines(fresh) {
		if !inOld[line] {
			out.WriteString("+ " + line)
		}
	}
	return out.String()
}
