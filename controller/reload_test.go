package controller

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent"
	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
)

// TestReload adds a device to the fleet file of a controller that runs, moves one to another
// socket, and takes one away; one that is not concerned goes on.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	socket := func(name string) string { return filepath.Join(dir, name+".sock") }
	path := filepath.Join(dir, "fleet.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	fleet := func(devices ...string) string {
		return "format: csig.fleet/v1\nprofile: {name: x, tpid: 0x88a8, interval: 200ms, signals: {abw: {buckets: log-100M}}}\nvlan_tpids: [0x8100]\ndevices:\n" + strings.Join(devices, "")
	}
	write(fleet(remote("a", socket("a")), remote("b", socket("b"))))
	first, err := inventory.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	write(fleet(remote("a", socket("a")), remote("b", socket("b")), remote("c", socket("c")))) // before it runs the first
	lines := make(chan *logrus.Entry, 100)
	log := logrus.New()
	log.SetOutput(io.Discard)
	log.AddHook(hook(func(e *logrus.Entry) {
		if strings.Contains(e.Message, "reloaded") {
			lines <- e
		}
	}))
	ctx, stop := context.WithCancel(t.Context())
	var statuses Statuses
	check := func(f *inventory.Fleet) error {
		if f.Mesh != nil {
			return errors.New("the collector wants another mesh")
		}
		return nil
	}
	taken := make(chan *inventory.Fleet, 10)
	wish, done := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		done <- Run(ctx, Config{Fleet: first, State: filepath.Join(dir, "state"), Agent: agent.Config{Log: logrus.NewEntry(log)}, Reload: wish, Statuses: &statuses, Check: check, OnReload: func(f *inventory.Fleet) { taken <- f }})
	}()
	// answers waits until an agent answers at a socket, and returns since when it runs.
	answers := func(name string) time.Time {
		t.Helper()
		c := api.NewClient(socket(name))
		defer c.Close()
		for end := time.Now().Add(time.Minute); ; {
			if s, err := c.Status(t.Context()); err == nil {
				return s.Started
			} else if time.Now().After(end) {
				t.Fatalf("no agent at %s: %v", socket(name), err)
			}
		}
	}
	since := answers("a")
	answers("b")
	if e := <-lines; e.Level != logrus.InfoLevel || e.Data["devices"] != 3 {
		t.Errorf("a change while it starts: %s %v", e.Message, e.Data)
	}
	if f := <-taken; len(f.Devices) != 3 {
		t.Errorf("handed on are %d devices", len(f.Devices))
	}
	answers("c")

	more := filepath.Join(dir, "more.yaml")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(more, []byte("format: csig.fleet/v1\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("wrong: 1\n")
	write(fleet(remote("a", socket("a")), remote("b", socket("b"))) + "include: more.yaml\n")
	if e := <-lines; e.Level != logrus.ErrorLevel || !strings.Contains(e.Data["error"].(string), more+":2:") {
		t.Errorf("a mistake: %s %v", e.Message, e.Data)
	}
	if r := statuses.Reload(); r == nil || !strings.Contains(r.Error, more+":2:") || r.Time.IsZero() {
		t.Errorf("a mistake, in metrics: %+v", r)
	}
	answers("c")
	put("mesh: {key: {env: KEY}}\n")
	if e := <-lines; e.Level != logrus.ErrorLevel || e.Data["error"] != "the collector wants another mesh" {
		t.Errorf("what is refused beside: %s %v", e.Message, e.Data)
	}
	if len(taken) != 0 {
		t.Error("what is refused is handed on")
	}
	answers("c")
	put("")
	if e := <-lines; e.Level != logrus.InfoLevel || e.Data["devices"] != 2 || e.Data["stopped"] != 1 {
		t.Errorf("the mistake is corrected: %s %v", e.Message, e.Data)
	}

	write(fleet(remote("a", socket("a")), remote("b", socket("moved")), remote("d", socket("d"))))
	wish <- struct{}{}
	e := <-lines
	if e.Level != logrus.InfoLevel || e.Data["devices"] != 3 || e.Data["started"] != 2 || e.Data["stopped"] != 1 {
		t.Errorf("a change: %s %v", e.Message, e.Data)
	}
	if r := statuses.Reload(); r == nil || r.Error != "" {
		t.Errorf("a change, in metrics: %+v", r)
	}
	answers("moved")
	answers("d")
	if again := answers("a"); !again.Equal(since) {
		t.Errorf("the agent that is not concerned was started at %v, and again at %v", since, again)
	}
	for _, name := range []string{"b", "c"} {
		if _, err := os.Lstat(socket(name)); err == nil {
			t.Errorf("the socket %s is left behind", name)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
