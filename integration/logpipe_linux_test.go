package integration

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// deafAgent runs csig agent with a log pipe that is full and has no reader.
// What read returns is all that came into it, after the test is done with it.
func (b *bed) deafAgent(t *testing.T, args ...string) (a *agent, read func() string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Close() // read may have closed it
	})
	size, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096)
	if err != nil {
		t.Fatal(err)
	}
	filler := strings.Repeat("\n", size)
	if _, err := w.WriteString(filler); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(b.dir, "deaf.sock")
	cmd := b.s1.Command(csig, append([]string{"agent", "-i", b.write(t), "--socket", socket}, args...)...)
	cmd.Stderr = w
	a = &agent{&running{t: t, ended: make(chan struct{}), cmd: cmd}, api.NewClient(socket)}
	if err := errors.Join(cmd.Start(), w.Close()); err != nil {
		t.Fatal(err)
	}
	go func() {
		a.err = cmd.Wait()
		close(a.ended)
	}()
	t.Cleanup(func() {
		a.client.Close()
		_ = cmd.Process.Kill() // it may have ended
		<-a.ended
	})
	return a, func() string {
		t.Helper()
		all, err := io.ReadAll(r)
		if err != nil {
			t.Error(err)
		}
		return strings.TrimPrefix(string(all), filler)
	}
}

// A log pipe that is open and is not read blocks no cycle, so that no lease
// expires, and does not block the agent's end.
func TestLongAgentWithAnUnreadLog(t *testing.T) {
	t.Parallel()
	t.Run("to its end", func(t *testing.T) {
		b := newBed(t, quantize.Draft00)
		b.setLoad(t, roomy)
		a, read := b.deafAgent(t)
		a.live()
		begun := a.await("cycles", func(s *api.Status) bool { return s.Cycle.Count > 0 })
		s := a.await("more cycles", func(s *api.Status) bool { return s.Cycle.Count > begun.Cycle.Count+20 })
		if n := s.Cycle.Lapses; n != 0 {
			t.Errorf("the lease expired %d times", n)
		}
		if err := a.signal(syscall.SIGTERM); err != nil {
			t.Errorf("SIGTERM: the agent exits with %v", err)
		}
		if log := read(); log != "" {
			t.Errorf("the pipe was not read, and has more in it than before: %q", log)
		}
	})
	t.Run("read in the end", func(t *testing.T) {
		b := newBed(t, quantize.Draft00)
		// A port that is not there is one line of a shadow's log, at least.
		const ports = 900
		dev := &b.fleet.Devices[0]
		for i := range ports {
			lm := uint16(1 + i%100)
			dev.Ports = append(dev.Ports, inventory.Port{Name: fmt.Sprintf("nowhere%03d", i), Speed: 1e9, Action: vlanrules.Update,
				LM: map[quantize.Signal]uint16{quantize.MinABW: lm, quantize.MinABWC: lm}})
		}
		a, read := b.deafAgent(t, "--dry-run")
		a.await("cycles", func(s *api.Status) bool { return s.Cycle.Count > 3 })
		got := make(chan string, 1)
		go func() { got <- read() }()
		if err := a.signal(syscall.SIGTERM); err != nil {
			t.Errorf("SIGTERM: the agent exits with %v", err)
		}
		var log string
		select {
		case log = <-got:
		case <-time.After(patience):
			t.Fatal("the pipe has no end: a process holds it")
		}
		lines := strings.Split(strings.TrimSpace(log), "\n")
		if !regexp.MustCompile(`lines of the log were dropped: no reader" dropped=[1-9]`).MatchString(log) {
			t.Errorf("none of %d lines has how many were dropped; the first are\n%s", len(lines), strings.Join(lines[:min(5, len(lines))], "\n"))
		}
		if last := lines[len(lines)-1]; !strings.Contains(last, "shadow mode ends") {
			t.Errorf("the last line is %q", last)
		}
	})
}
