package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/csig-agent/csig/hosts/mesh"
)

// TestMeshFile has the fleet file of csig mesh run change: what is right is put in force when it is saved, what is
// wrong is refused with its place, and a key is read again when a user asks for it.
func TestMeshFile(t *testing.T) {
	dir := t.TempDir()
	file, key := filepath.Join(dir, "fleet.yaml"), filepath.Join(dir, "mesh.key")
	example, err := os.ReadFile(filepath.Join(repository, "examples", "mesh.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("{name: gpu-1,", "{name: gpu-1, local: true,", "/etc/csig/mesh.key", key).Replace(string(example))
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	write(file, text)
	write(key, "a key of sixteen bytes\n")
	synctest.Test(t, func(t *testing.T) {
		log, lines := logtest.NewNullLogger()
		log.SetOutput(io.Discard)
		wish, reloads := make(chan struct{}, 1), 0
		m := fleetFile[mesh.Member]{
			path: file, what: "the mesh", of: (&meshOptions{file: file, collect: true}).memberOf, log: logrus.NewEntry(log), wish: wish,
			reloading: func() func() { reloads++; return func() { reloads++ } },
		}
		if _, err := m.load(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got []mesh.Member
		var refuses error
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			m.follow(ctx, func(one mesh.Member) error {
				got = append(got, one)
				return refuses
			})
		}()
		// step is what happens after a change: how many members have been put in force, and what the log and the
		// metrics have of it.
		step := func(what string, puts int, line string) {
			t.Helper()
			time.Sleep(3 * fleetFileLook)
			synctest.Wait()
			said := ""
			if e := lines.LastEntry(); e != nil {
				said = e.Message
				if reason, is := e.Data["error"].(string); is {
					said += ": " + reason
				}
			}
			lines.Reset()
			if len(got) != puts || !strings.Contains(said, line) || line == "" && said != "" {
				t.Errorf("%s: %d put in force, want %d; %q, want %q", what, len(got), puts, said, line)
			}
			if r := m.reloaded(); line != "" && (r == nil || (r.Error == "") != (line == "fleet file reloaded")) {
				t.Errorf("%s: the metrics have %+v", what, r)
			}
		}
		step("nothing changes", 0, "")
		write(file, strings.Replace(text, "interval: 1s                      #", "interval: 2s                      #", 1))
		step("another interval", 1, "fleet file reloaded")
		if n := len(got); n == 1 && (got[0].Fleet.Mesh.Interval != 2*time.Second || got[0].Host.Name != "gpu-1" || got[0].Key != "a key of sixteen bytes") {
			t.Errorf("%+v", got[0])
		}
		write(file, strings.Replace(text, "interval: 1s", "interval: never", 1))
		step("a mistake", 1, "fleet file not reloaded: the mesh stays as it is: "+file+":")
		write(file, strings.Replace(text, "gpu-1, local: true,", "gpu-1,", 1))
		step("another machine's", 1, "no host is marked local")
		write(file, text[:strings.Index(text, "mesh:\n")])
		step("no mesh", 1, "has no mesh")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		step("no file", 1, "fleet file not reloaded")
		write(file, text)
		step("it is right again", 2, "fleet file reloaded")
		write(key, "another key of sixteen bytes\n")
		step("another key, and nobody says so", 2, "")
		wish <- struct{}{}
		step("another key", 3, "fleet file reloaded")
		if n := len(got); n == 3 && got[2].Key != "another key of sixteen bytes" {
			t.Errorf("%+v", got[2])
		}
		refuses = errors.New("the address is not there")
		wish <- struct{}{}
		step("what cannot be put in force", 4, "fleet file not reloaded: the mesh stays as it is: the address is not there")
		if reloads != 4 {
			t.Errorf("the service manager was told %d times, want 4", reloads)
		}
		stop()
		<-ended
	})
}
