package main

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A terminal that moves no cursor counts as none: it gets lines, and no escape sequences.
func TestDumbTerminal(t *testing.T) {
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	n, err := unix.IoctlGetInt(int(control.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(control.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]bool{"xterm": true, "dumb": false} {
		t.Setenv("TERM", kind)
		for name, s := range map[string]*screen{"alone": newScreen(tty), "checked": newScreen(&checkedWriter{w: tty})} {
			if s.terminal() != want {
				t.Errorf("TERM=%s, %s: a terminal: %v", kind, name, s.terminal())
			}
		}
	}
}
