package integration

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
)

// TestServiceManager is one: it listens to csig agent as systemd does.
func TestServiceManager(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	b.setLoad(t, roomy)
	path := filepath.Join(b.dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// next is the next message but one of the watchdog's, unless it is asked for.
	next := func(watchdog bool, within time.Duration) string {
		t.Helper()
		buf := make([]byte, 4096)
		for end := time.Now().Add(within); ; {
			if err := conn.SetReadDeadline(end); err != nil {
				t.Fatal(err)
			}
			n, err := conn.Read(buf)
			if err != nil {
				return ""
			}
			if text := string(buf[:n]); watchdog == (text == "WATCHDOG=1") {
				return text
			}
		}
	}
	socket := filepath.Join(b.dir, "agent.sock")
	cmd := b.s1.Command(csig, "agent", "-i", b.write(t), "--socket", socket, "--no-self-test")
	cmd.SysProcAttr.Setsid = true
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=600000", "WATCHDOG_PID=")
	before := b.ruleset(t)
	a := launchIn(t, cmd, socket)
	if got := next(false, patience); !strings.HasPrefix(got, "READY=1\nSTATUS=s1: ") {
		t.Fatalf("at first %q", got)
	}
	if b.ruleset(t) == before {
		t.Error("ready, and nothing of csig is on the switch")
	}
	for range 3 {
		if next(true, patience) == "" {
			t.Fatal("the watchdog is not fed")
		}
	}
	if err := a.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"RELOADING=1\nMONOTONIC_USEC=", "READY=1"} {
		got := next(false, patience)
		for strings.HasPrefix(got, "STATUS=") {
			got = next(false, patience)
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); next(true, time.Second) != ""; { // what was sent before
		if time.Now().After(end) {
			t.Fatal("stopped, and it feeds the watchdog")
		}
	}
	if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if next(true, patience) == "" {
		t.Error("the watchdog is not fed again")
	}
	if err := a.signal(syscall.SIGTERM); err != nil {
		t.Errorf("the agent exits with %v", err)
	}
	last := ""
	const sent = 200 * time.Millisecond // all of it, before its end
	for got := next(false, sent); got != ""; got = next(false, sent) {
		last = got
	}
	if last != "STOPPING=1" {
		t.Errorf("at last %q", last)
	}
}
