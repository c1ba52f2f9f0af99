package integration

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// terminal is a program on its own pseudo-terminal. It is the session leader
// there, unlike a command of a shell in a window, which is similar enough.
type terminal struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd
	ended  chan struct{}
	fresh  chan struct{} // something arrived

	mu  sync.Mutex
	out []byte
}

// newPTY opens a pseudo-terminal and the end of it that a program has.
func newPTY(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatalf("open a pseudo-terminal: %v", err)
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatalf("unlock a pseudo-terminal: %v", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatalf("name of a pseudo-terminal: %v", err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// onTerminal starts a program on a terminal of a size.
func onTerminal(t *testing.T, columns, rows uint16, name string, args ...string) *terminal {
	t.Helper()
	master, slave := newPTY(t)
	tt := &terminal{t: t, master: master, ended: make(chan struct{}), fresh: make(chan struct{}, 1)}
	defer slave.Close()
	tt.resize(columns, rows)
	tt.cmd = exec.Command(name, args...)
	tt.cmd.Env = append(os.Environ(), "TERM=xterm")
	tt.cmd.Stdin, tt.cmd.Stdout, tt.cmd.Stderr = slave, slave, slave
	tt.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := tt.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tt.cmd.Process.Kill() //nolint:errcheck // it has ended, unless the test failed
		<-tt.ended
	})
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := tt.master.Read(b)
			tt.mu.Lock()
			tt.out = append(tt.out, b[:n]...)
			tt.mu.Unlock()
			select {
			case tt.fresh <- struct{}{}:
			default:
			}
			if err != nil { // EIO once the other end is closed
				tt.cmd.Wait() //nolint:errcheck // ProcessState has it
				close(tt.ended)
				return
			}
		}
	}()
	return tt
}

// resize changes the terminal's size, as a window manager does.
func (tt *terminal) resize(columns, rows uint16) {
	tt.t.Helper()
	if err := unix.IoctlSetWinsize(int(tt.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
		tt.t.Fatal(err)
	}
	// Fd makes the file blocking.
	if err := unix.SetNonblock(int(tt.master.Fd()), true); err != nil {
		tt.t.Fatal(err)
	}
}

func (tt *terminal) text() string {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	return string(tt.out)
}

// await waits until what has been written from an offset on satisfies a condition.
func (tt *terminal) await(what string, from int, ok func(string) bool) {
	tt.t.Helper()
	giveUp := time.NewTimer(patience)
	defer giveUp.Stop()
	for !ok(tt.text()[from:]) {
		select {
		case <-tt.fresh:
		case <-tt.ended:
			if ok(tt.text()[from:]) { // its last words
				return
			}
			tt.t.Fatalf("it ended (%v) before: %s\n%s", tt.cmd.ProcessState, what, tt.text())
		case <-giveUp.C:
			tt.t.Fatalf("no sign of: %s\n%s", what, tt.text())
		}
	}
}

// press types a key.
func (tt *terminal) press(key string) {
	tt.t.Helper()
	if _, err := tt.master.WriteString(key); err != nil && !errors.Is(err, unix.EIO) { // EIO: it has ended, which end reports
		tt.t.Fatal(err)
	}
}

// end waits for the program's end and returns its status. Nothing of its
// session may live on.
func (tt *terminal) end() int {
	tt.t.Helper()
	select {
	case <-tt.ended:
	case <-time.After(patience):
		tt.t.Fatalf("it does not end:\n%s", tt.text())
	}
	for pid, p := range processes(tt.t) {
		if p.session == tt.cmd.Process.Pid {
			tt.t.Errorf("process %d (%s) lives on", pid, p.name)
		}
	}
	return tt.cmd.ProcessState.ExitCode()
}

// process is a process as /proc lists it.
type process struct {
	name            string
	parent, session int
}

// processes lists what this PID namespace can see, zombies excepted.
func processes(t *testing.T) map[int]process {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	list := map[int]process{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it ended
		}
		open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
		if err != nil || open < 0 || end < open {
			t.Fatalf("/proc/%d/stat: %q, %v", pid, b, err)
		}
		f := strings.Fields(string(b[end+1:]))
		if len(f) < 4 || f[0] == "Z" || f[0] == "X" {
			continue
		}
		p := process{name: string(b[open+1 : end])}
		p.parent, _ = strconv.Atoi(f[1])
		p.session, _ = strconv.Atoi(f[3])
		list[pid] = p
	}
	return list
}

// screen is as much of a terminal as a table redrawn in place needs.
type screen struct {
	columns, rows int
	cells         [][]rune
	x, y          int
	wrapped       int // how often a line went over the right margin
}

func newScreen(columns, rows int) *screen {
	return &screen{columns: columns, rows: rows, cells: make([][]rune, rows)}
}

// write shows text; the error names what this screen does not know.
func (s *screen) write(text string) error {
	for len(text) > 0 {
		if seq, ok := strings.CutPrefix(text, "\x1b["); ok {
			i := strings.IndexFunc(seq, func(r rune) bool { return r >= '@' && r <= '~' })
			if i < 0 {
				return nil // cut off while it was written
			}
			if err := s.control(seq[:i], seq[i]); err != nil {
				return err
			}
			text = seq[i+1:]
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		switch {
		case r == '\r':
			s.x = 0
		case r == '\n':
			s.newline()
		case r < ' ':
			return fmt.Errorf("a control character %q", r)
		default:
			if s.x == s.columns {
				s.wrapped++
				s.x = 0
				s.newline()
			}
			for len(s.cells[s.y]) <= s.x {
				s.cells[s.y] = append(s.cells[s.y], ' ')
			}
			s.cells[s.y][s.x] = r
			s.x++
		}
	}
	return nil
}

func (s *screen) newline() {
	if s.y++; s.y == s.rows { // scroll
		copy(s.cells, s.cells[1:])
		s.y--
		s.cells[s.y] = nil
	}
}

func (s *screen) control(arg string, final byte) error {
	switch n, err := strconv.Atoi(arg); {
	case final == 'A' && err == nil:
		s.y = max(0, s.y-n)
	case final == 'J' && arg == "":
		s.cells[s.y] = s.cells[s.y][:min(s.x, len(s.cells[s.y]))]
		clear(s.cells[s.y+1:])
	case final == 'H' && arg == "":
		s.x, s.y = 0, 0
	default:
		return fmt.Errorf("a control sequence %q", "\x1b["+arg+string(final))
	}
	return nil
}

func (s *screen) String() string {
	var b strings.Builder
	for _, row := range s.cells {
		b.WriteString(strings.TrimRight(string(row), " ") + "\n")
	}
	return b.String()
}
