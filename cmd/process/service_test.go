//go:build unix

package process

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
)

// TestService has a service manager's socket, and a program that hangs for a while.
func TestService(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "300000")
	t.Setenv("WATCHDOG_PID", "")
	// next is the next message, "" when none comes in time.
	next := func(within time.Duration) string {
		t.Helper()
		b := make([]byte, 4096)
		if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(b)
		if err != nil {
			return ""
		}
		return string(b[:n])
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	s := NewService(logrus.NewEntry(log))
	ctx, stop := context.WithCancel(t.Context())
	var alive atomic.Bool
	alive.Store(true)
	s.Ready(ctx, alive.Load, func() string { return "2 ports" })
	if got := next(time.Minute); got != "READY=1\nSTATUS=2 ports" {
		t.Errorf("at first %q", got)
	}
	for range 3 {
		if got := next(time.Minute); got != "WATCHDOG=1" {
			t.Errorf("then %q", got)
		}
	}
	alive.Store(false)
	const twoAreDue = 300 * time.Millisecond
	if next(twoAreDue) != "" { // one may be under way
		if got := next(twoAreDue); got != "" {
			t.Errorf("hanging: %q", got)
		}
	}
	alive.Store(true)
	if got := next(time.Minute); got != "WATCHDOG=1" {
		t.Errorf("again: %q", got)
	}
	done := s.Reloading()
	done()
	var all []string
	for len(all) < 2 || all[len(all)-1] != "READY=1" {
		got := next(time.Minute)
		if got == "" {
			t.Fatalf("reloading: %q", all)
		}
		all = append(all, got)
	}
	if text := strings.Join(all, "\n"); !strings.Contains(text, "RELOADING=1\nMONOTONIC_USEC=") {
		t.Errorf("reloading: %q", text)
	}
	stop()
	s.Close()
	last := ""
	for got := next(time.Minute); got != ""; got = next(time.Millisecond) { // all of it is there
		last = got
	}
	if last != "STOPPING=1" {
		t.Errorf("at last %q", last)
	}
}
