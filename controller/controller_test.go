package controller

import (
	"context"
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

// fleetOf is a fleet file with these devices.
func fleetOf(t *testing.T, devices ...string) *inventory.Fleet {
	t.Helper()
	f, err := inventory.Parse("fleet.yaml", []byte("format: csig.fleet/v1\nprofile: {name: x, tpid: 0x88a8, interval: 200ms, signals: {abw: {buckets: log-100M}}}\nvlan_tpids: [0x8100]\ndevices:\n"+strings.Join(devices, "")))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// remote is a switch that is driven from here; it does not answer.
func remote(name, socket string) string {
	return "  - {name: " + name + ", platform: ovs, address: " + name + ".invalid, management: {ovs: {bridge: b}, ssh: {user: u, key: /none, known_hosts: /none, port: 1}, daemon: {at: here, socket: " + socket + "}}, ports: [{name: p1, speed: 1G, lm: 5}]}\n"
}

func TestDevices(t *testing.T) {
	const local = "  - {name: l1, platform: linux, local: true, ports: [{name: p1, speed: 1G, lm: 6}]}\n"
	for name, c := range map[string]struct {
		devices []string
		want    string // names, or a part of the error
	}{
		"those of this machine": {[]string{remote("a", "/run/a.sock"), local, remote("b", "/run/b.sock")}, "a b"},
		"none":                  {[]string{local}, "no device for a controller"},
		"on the device alone":   {[]string{strings.NewReplacer("platform: ovs", "platform: linux-ebpf", "ovs: {bridge: b}, ", "").Replace(remote("a", "/run/a.sock"))}, "is driven on the device alone"},
		"without a driver":      {[]string{strings.NewReplacer("platform: ovs", "platform: fortiswitch", "ovs: {bridge: b}, ", "").Replace(remote("a", "/run/a.sock"))}, "fleet.yaml:5:"},
	} {
		list, err := Devices(fleetOf(t, c.devices...))
		got := ""
		for _, d := range list {
			got += " " + d.Name
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || err == nil && got != " "+c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestOneCannotListen: an agent that cannot listen harms no other, and is tried again.
func TestOneCannotListen(t *testing.T) {
	dir := t.TempDir()
	taken, free := filepath.Join(dir, "taken.sock"), filepath.Join(dir, "free.sock")
	if err := os.WriteFile(taken, nil, 0o600); err != nil { // no socket: not to be replaced
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	fleet, ended := fleetOf(t, remote("a", taken), remote("b", free)), make(chan string, 100)
	log.AddHook(hook(func(e *logrus.Entry) {
		if strings.Contains(e.Message, "its agent ended") {
			ended <- e.Data["device"].(string)
		}
	}))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Config{Fleet: fleet, State: filepath.Join(dir, "state"), Agent: agent.Config{Log: logrus.NewEntry(log)}})
	}()
	if got := <-ended; got != "a" {
		t.Errorf("the agent of %s ended", got)
	}
	client := api.NewClient(free)
	defer client.Close()
	for end := time.Now().Add(time.Minute); ; {
		s, err := client.Status(t.Context())
		if err == nil && strings.Contains(s.Waiting, "csig apply gives it one") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the other agent: %+v, %v", s, err)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(free); err == nil {
		t.Error("its socket is left behind")
	}
	if text, err := os.ReadFile(taken); err != nil || len(text) > 0 {
		t.Errorf("what was in the way is changed: %q, %v", text, err)
	}
}

type hook func(*logrus.Entry)

func (hook) Levels() []logrus.Level { return logrus.AllLevels }

func (h hook) Fire(e *logrus.Entry) error { h(e); return nil }
