// Package deploy has what csig is installed with; its tests install it.
package deploy

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// run runs a command, and returns what it writes.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// build makes packages of a version.
func build(t *testing.T, version, arches, programs string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	run(t, []string{"OUT=" + dir, "ARCHES=" + arches, "PROGRAMS=" + programs, "COMPRESSION=none", "SOURCE_DATE_EPOCH=1764000000"}, "./debian/build", version)
	return dir
}

// root is a system of its own, which the packages are installed in.
type root struct {
	t   *testing.T
	dir string
}

// make makes it in the background, without a wait for the disk after each file; done waits for that.
// Killed, debootstrap would leave mounts.
func (r root) make() (done func() error) {
	r.write("etc/dpkg/dpkg.cfg.d/unsafe-io", "force-unsafe-io\n")
	result := make(chan error)
	go func() {
		out, err := exec.Command("debootstrap", "--variant=minbase", "--include=systemd", "bookworm", r.dir).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("debootstrap: %w\n%s", err, out)
		}
		result <- err
	}()
	done = sync.OnceValue(func() error { return <-result })
	r.t.Cleanup(func() { _ = done() })
	return done
}

func (r root) run(name string, args ...string) string {
	r.t.Helper()
	return run(r.t, []string{"DEBIAN_FRONTEND=noninteractive", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, "chroot", append([]string{r.dir, name}, args...)...)
}

// files are all names, and the text of the files of users. What dpkg and useradd write for
// themselves differs each time.
func (r root) files() []string {
	r.t.Helper()
	var out []string
	own := regexp.MustCompile(`^(var/lib/dpkg/(status|.*-old|lock.*|triggers/.*|updates)|var/log/.*|var/cache/.*|etc/(passwd|group|shadow|gshadow|subuid|subgid)-|etc/\.pwd\.lock|proc/.*|sys/.*|dev/.*|deb/.*|tmp/.*)$`)
	err := filepath.Walk(r.dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(strings.TrimPrefix(path, r.dir), "/")
		if own.MatchString(name) {
			return nil
		}
		line := fmt.Sprint(name, " ", info.Mode())
		if slices.Contains([]string{"etc/passwd", "etc/group", "etc/shadow", "etc/gshadow"}, name) {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += "\n" + string(text)
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// TestLongPackages reads what is in the packages, installs csig in a new Debian, runs it under systemd, upgrades
// it, and purges it.
func TestLongPackages(t *testing.T) {
	r := root{t, filepath.Join(t.TempDir(), "root")}
	made := r.make()
	native := map[string]string{"amd64": "amd64", "arm64": "arm64", "arm": "armhf"}[runtime.GOARCH]
	both := "csig csig-controller"
	older, newer, again := build(t, "0.1.0", native, both), build(t, "v0.2.0", native, both), build(t, "v0.2.0", "amd64 arm64 armhf", "csig")
	deb := func(dir, program, version string) string {
		return filepath.Join(dir, program+"_"+version+"_"+native+".deb")
	}
	one, err := os.ReadFile(deb(newer, "csig", "0.2.0"))
	if err != nil {
		t.Fatal(err)
	}
	if two, err := os.ReadFile(deb(again, "csig", "0.2.0")); err != nil || !bytes.Equal(one, two) {
		t.Errorf("the same source makes another package: %v", err)
	}
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "armhf": elf.EM_ARM} { // make release builds both programs for all
		file, tree := filepath.Join(again, "csig_0.2.0_"+arch+".deb"), t.TempDir()
		if got := strings.TrimSpace(run(t, nil, "dpkg-deb", "--field", file, "Architecture")); got != arch {
			t.Errorf("%s is for %s", file, got)
		}
		run(t, nil, "dpkg-deb", "--extract", file, tree)
		bin, err := elf.Open(filepath.Join(tree, "usr/bin/csig"))
		if err != nil {
			t.Fatal(err)
		}
		if bin.Machine != machine {
			t.Errorf("%s has a program for %v", file, bin.Machine)
		}
		bin.Close()
	}

	for _, program := range strings.Fields(both) {
		documents(t, deb(newer, program, "0.2.0"), program)
	}

	if err := made(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(r.dir, "deb"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.boot().halt() // it makes files of its own
	install := func(dir, version string, run func(string, ...string) string) {
		t.Helper()
		for _, program := range strings.Fields(both) {
			text, err := os.ReadFile(deb(dir, program, version))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(r.dir, "deb", program+".deb"), text, 0o644); err != nil {
				t.Fatal(err)
			}
			run("dpkg", "--install", "/deb/"+program+".deb")
		}
	}
	before := r.files()
	install(older, "0.1.0", r.run) // no systemd runs
	for _, name := range []string{"usr/share/man/man1/csig-agent.1.gz", "usr/share/man/man1/csig-controller.1.gz", "usr/share/bash-completion/completions/csig", "usr/share/zsh/vendor-completions/_csig", "usr/share/fish/vendor_completions.d/csig-controller.fish", "usr/lib/systemd/system/csig-agent.service", "etc/csig/agent.conf", "usr/lib/systemd/system/csig-mesh.service", "etc/csig/mesh.conf", "usr/lib/systemd/system/csig-host.service", "etc/csig/host.conf"} {
		if info, err := os.Stat(filepath.Join(r.dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if wants, _ := filepath.Glob(filepath.Join(r.dir, "etc/systemd/system/*.wants/csig*")); len(wants) != 0 {
		t.Errorf("the installation enables %q", wants)
	}
	if out := r.run("csig", "version"); !strings.Contains(out, "0.1.0") {
		t.Errorf("installed: %s", out)
	}

	m := r.agentUnit(func(m *machine) {
		// A conffile that the operator has changed stays.
		conf := filepath.Join(r.dir, "etc/csig/agent.conf")
		mine, err := os.ReadFile(conf)
		if err != nil {
			t.Fatal(err)
		}
		install(newer, "0.2.0", m.run)
		if text, err := os.ReadFile(conf); err != nil || !bytes.Equal(text, mine) {
			t.Errorf("after the upgrade the conffile is %q, %v", text, err)
		}
		if out := m.run("csig", "version"); !strings.Contains(out, "0.2.0") {
			t.Errorf("upgraded: %s", out)
		}
	})
	m.meshUnit()
	m.hostUnit()
	m.removeCrashed("csig", "csig-agent")
	m.purge("csig", "csig-agent")
	if rules := m.host("nft", "list", "ruleset"); rules != "" {
		t.Errorf("purged, and there are rules:\n%s", rules)
	}
	m.reads("purged, tags pass as they are", func(s uint32, lm uint16) bool { return s == 31 && lm == 126 })
	m.controllerUnit()
	r.write("var/lib/csig/csig-vs1.sock.off", "")
	m.purge("csig-controller", "csig-controller")
	m.halt()
	for _, name := range []string{switchFile, "/etc/csig/fleet.yaml", meshFile, meshKey, hostFile} { // an operator's
		if err := os.Remove(filepath.Join(r.dir, name)); err != nil {
			t.Errorf("purged, and gone is %v", err)
		}
	}
	if err := os.Remove(filepath.Join(r.dir, "etc/csig")); err != nil {
		t.Errorf("purged, and something stays beside the operator's files: %v", err)
	}
	after := r.files()
	for _, line := range after {
		if !slices.Contains(before, line) {
			t.Errorf("purged, and there is %s", line)
		}
	}
	for _, line := range before {
		if !slices.Contains(after, line) {
			t.Errorf("purged, and gone is %s", line)
		}
	}
}
