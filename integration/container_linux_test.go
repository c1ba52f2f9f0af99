package integration

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// TestLongContainer builds the image of deploy/Containerfile, and runs it by the command that is
// written there, in place of a switch's agent.
func TestLongContainer(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	b.setLoad(t, roomy)
	const containerfile = "../deploy/Containerfile"
	text, err := os.ReadFile(containerfile)
	if err != nil {
		t.Fatal(err)
	}
	documented := regexp.MustCompile(`(?m)^#   podman run (.*) csig$`).FindSubmatch(text)
	if documented == nil {
		t.Fatal("the file has no command that runs the image")
	}
	dir := func(name string) string {
		path := filepath.Join(b.dir, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// Apart from what this machine has of containers.
	removeLeft(t)
	apart := []string{"--root=" + dir("storage"), "--runroot=" + dir("running"), "--tmpdir=" + dir("tmp"), "--storage-driver=vfs", "--cgroup-manager=cgroupfs", "--events-backend=none", "--runtime=runc", "--runtime-flag=root=" + dir("runc")}
	podman := func(args ...string) []string { return append(apart[:len(apart):len(apart)], args...) }

	program, err := os.ReadFile(released(t))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir("context"), "csig"), program, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("podman", podman("build", "-f", containerfile, "--build-arg", "BINARY=csig", "-t", "csig", filepath.Join(b.dir, "context"))...).CombinedOutput(); err != nil {
		t.Fatalf("podman build: %v\n%s", err, out)
	}
	state, sockets := dir("state"), dir("sockets")
	args := strings.NewReplacer("-v /var/lib/csig:", "-v "+state+":", "-v /run/csig:", "-v "+sockets+":").Replace(string(documented[1]))
	a := launchIn(t, b.s1.Command("podman", podman(append(append([]string{"run", "--name=agent"}, strings.Fields(args)...), "csig")...)...), filepath.Join(sockets, "agent.sock"))
	t.Cleanup(func() {
		if out, err := exec.Command("podman", podman("rm", "--force", "--ignore", "agent")...).CombinedOutput(); err != nil {
			t.Errorf("podman rm: %v\n%s", err, out)
		}
	})
	a.await("that it waits", func(s *api.Status) bool { return s.Waiting != "" })
	config, err := inventory.Marshal(b.fleet)
	if err != nil {
		t.Fatal(err)
	}
	configure(t, filepath.Join(sockets, "agent.sock"), config)
	a.live()
	if s := a.await("its self-test", func(s *api.Status) bool { return s.SelfTest.Level != api.SelfTestNotRun }); s.SelfTest.Level != "full" {
		t.Errorf("the self-test: %+v", s.SelfTest)
	}
	if out, err := exec.Command("podman", podman("stop", "agent")...).CombinedOutput(); err != nil {
		t.Fatalf("podman stop: %v\n%s", err, out)
	}
	<-a.ended
	if a.err != nil {
		t.Errorf("stopped, it ends with %v", a.err)
	}
	b.run(t, "nft", "list", "chain", "netdev", "csig", "p_swp3") // an error: its setup is gone
	if lease := b.run(t, "nft", "list", "set", "netdev", "csig", "lease"); strings.Contains(lease, "elements") {
		t.Errorf("stopped, and its lease goes on:\n%s", lease)
	}
}

// removeLeft removes at the end what podman leaves: control groups, and runc's folder.
func removeLeft(t *testing.T) {
	const made = "/sys/fs/cgroup/*/libpod_parent"
	if before, _ := filepath.Glob(made); len(before) > 0 {
		return
	}
	const state = "/run/runc"
	if _, err := os.Stat(state); errors.Is(err, fs.ErrNotExist) {
		t.Cleanup(func() { _ = os.Remove(state) }) // it may not have been made
	}
	t.Cleanup(func() {
		roots, _ := filepath.Glob(made)
		var groups []string
		for _, root := range roots {
			err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					groups = append(groups, path)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
		for _, group := range slices.Backward(groups) { // the inner ones first
			if err := os.Remove(group); err != nil {
				t.Error(err)
			}
		}
	})
}
