package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent"
	"github.com/csig-agent/csig/controller"
	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/web"
)

// TestPage: the page has the devices of the controller, and those of the fleet file when it is
// read again.
func TestPage(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "fleet.yaml")
	write := func(names ...string) {
		text := "format: csig.fleet/v1\nprofile: {name: x, tpid: 0x9900, interval: 200ms, signals: {abw: {buckets: log-100M}}}\ndevices:\n"
		for _, n := range names {
			text += "  - {name: " + n + ", platform: ovs, address: " + n + ".invalid, management: {ovs: {bridge: b}, ssh: {user: u, key: /none, known_hosts: /none, port: 1}, daemon: {at: here, socket: " +
				filepath.Join(dir, n+".sock") + "}}, ports: [{name: p1, speed: 1G, lm: 5}]}\n"
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a")
	fleet, err := device.LoadFleet(file)
	if err != nil {
		t.Fatal(err)
	}
	log, addr := logrus.New(), make(chan string, 1)
	log.SetOutput(io.Discard)
	log.AddHook(serving(addr))
	reload := make(chan struct{}, 1)
	cfg := controller.Config{Fleet: fleet, State: filepath.Join(dir, "state"), Agent: agent.Config{Log: logrus.NewEntry(log)}, Reload: reload, Statuses: new(controller.Statuses)}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- withPage(ctx, web.Config{Addr: "127.0.0.1:0"}, &cfg, func(ctx context.Context) error { return controller.Run(ctx, cfg) })
	}()
	at := <-addr
	shows := func(want func(text string) bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; {
			text := first(t, "http://"+at+"/api/v1/live")
			if want(text) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("the page has %s", text)
			}
		}
	}
	shows(func(text string) bool {
		return strings.Contains(text, `"device":"a"`) && strings.Contains(text, "csig apply gives it one")
	})
	write("a", "b")
	reload <- struct{}{}
	shows(func(text string) bool { return strings.Contains(text, `"device":"b"`) })
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", at); err == nil {
		c.Close()
		t.Error("the page goes on without the controller")
	}
}

// first is the first event of a stream.
func first(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text strings.Builder
	for part := make([]byte, 1); !strings.HasSuffix(text.String(), "\n"); {
		if _, err := resp.Body.Read(part); err != nil {
			t.Fatal(err)
		}
		text.Write(part)
	}
	return text.String()
}

// serving has the page's address from the log.
type serving chan string

func (serving) Levels() []logrus.Level { return logrus.AllLevels }

func (s serving) Fire(e *logrus.Entry) error {
	if e.Message == "serving the page" {
		s <- e.Data["address"].(string)
	}
	return nil
}

// A fleet file goes with -i, and the error says so; --version is as that of csig.
func TestUsage(t *testing.T) {
	for _, c := range []struct {
		arg, out, err string
	}{
		{"--version", "csig-controller unknown (go", ""},
		{"fleet.yaml", "", `unexpected "fleet.yaml": the fleet file goes with -i: csig-controller -i fleet.yaml; see csig-controller --help`},
		{"-cx", "", "unknown shorthand flag: 'c' in -cx: the fleet file goes with -i; see csig-controller --help"},
		{"--state=x", "", "-i/--inventory is missing: fleet file; see csig-controller --help"},
		{"--no-such", "", "unknown flag: --no-such; see csig-controller --help"},
	} {
		cmd, out := newRoot(), new(strings.Builder)
		cmd.SetOut(out)
		cmd.SetArgs([]string{c.arg})
		err := cmd.Execute()
		if !strings.HasPrefix(out.String(), c.out) || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%s: %q, %v", c.arg, out, err)
		}
	}
}

// TestHelp: its exit codes are in it, as in the help of csig.
func TestHelp(t *testing.T) {
	if help := newRoot().UsageString(); !strings.HasSuffix(help, "\nExit codes:\n  0 it was asked to end, 1 an error\n") {
		t.Error(help)
	}
}
