package ssh

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ssh/sshtest"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// TestHostile: whatever a switch does, logging in, a command, root's command and
// a connection end within their time, in little memory, with an error of one line.
func TestHostile(t *testing.T) {
	for _, how := range sshtest.Hostilities {
		t.Run(how, func(t *testing.T) {
			if strings.HasPrefix(how, "floods") { // and virtual time stands still
				hostile(t, how, sshtest.Hostile(t, how))
				return
			}
			synctest.Test(t, func(t *testing.T) { hostile(t, how, sshtest.HostileInMemory(t, how)) })
		})
	}
}

func hostile(t *testing.T, how string, s *sshtest.Server) {
	const soon = 300 * time.Millisecond
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	check := func(what string, err error) {
		t.Helper()
		if err == nil || err.Error() != untrusted.Text(err.Error(), 1<<20) || !strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s: %q", what, err)
		}
	}
	cfg := Config{Address: s.Address, Login: s.Login, Dial: s.Dial, Timeout: soon}
	if sshtest.LogsIn(how) || strings.HasPrefix(how, "floods") {
		cfg.Timeout = time.Minute // it ends before that
	}
	dial := func() *Client {
		t.Helper()
		c, err := Dial(t.Context(), cfg)
		if !sshtest.LogsIn(how) {
			check("dial", err)
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, what := range []string{"run", "root", "unix", "tcp"} {
		c := dial()
		if c == nil {
			break
		}
		limit := time.Minute
		if how == "no channel" || how == "silent channel" || how == "drips" || how == "floods output" && what == "root" {
			limit = soon
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		switch what {
		case "run":
			_, err := c.Run(ctx, "true", []byte("input"))
			check(what, err)
			if strings.HasPrefix(how, "floods") {
				select {
				case <-c.lost.Done():
				case <-ctx.Done():
					t.Error("the connection is still open")
				}
			}
		case "root":
			login := s.Login
			login.Sudo = &inventory.Sudo{}
			c.becomeRoot(login, limit)
			_, err := c.Run(ctx, "true", nil)
			check(what, err)
		case "unix", "tcp":
			conn, err := c.dial(ctx, what, "/x:1", "x", "why")
			if err != nil {
				check(what, err)
				break
			}
			// The reader bounds it, and can give up.
			_ = conn.SetReadDeadline(time.Now().Add(soon))
			if n, err := io.Copy(io.Discard, io.LimitReader(conn, 1<<20)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %d bytes, %v", what, n, err)
			}
			conn.Close()
		}
		cancel()
		c.Close()
	}
	runtime.ReadMemStats(&after)
	if got := int64(after.HeapSys-before.HeapSys) >> 20; got > 250 { // at any time, by both ends
		t.Errorf("%d MiB more are in use", got)
	}
}

// TestDeadlines: a connection through SSH ends with its deadline and with Close,
// although the switch answers neither.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, deadlines)
}

func deadlines(t *testing.T) {
	s := sshtest.HostileInMemory(t, "silent channel")
	c, err := Dial(t.Context(), Config{Address: s.Address, Login: s.Login, Dial: s.Dial})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	conn, err := c.DialUnix(t.Context(), "/x")
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	_ = conn.SetReadDeadline(time.Time{})
	time.AfterFunc(10*time.Millisecond, func() { conn.Close() })
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
}
