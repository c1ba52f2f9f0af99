package sai

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/vendors/sai/saitest"
)

func TestMain(m *testing.M) {
	saitest.Process()
	fabric.Tests(m, fabric.Loopback)
}

// TestLocal finds orchagent among this machine's processes, as the switch's host sees it: by its name, what its SAI has
// by the library that it has loaded, and ServerSai's socket in its container's /tmp.
func TestLocal(t *testing.T) {
	sw := newSwitch(t)
	proc := t.TempDir() // other tests' processes may be there, too
	host := Local{Proc: proc}
	if _, err := host.Orchagent(t.Context()); !errors.Is(err, ErrNoOrchagent) {
		t.Errorf("without one: %v", err)
	}
	// A user's process with its name is none.
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	open, err := os.MkdirTemp("", "csig-sai-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(open)
	name := filepath.Join(open, "orchagent")
	if err := errors.Join(os.Chmod(open, 0o755), os.WriteFile(name, text, 0o755)); err != nil {
		t.Fatal(err)
	}
	users := exec.Command(name, "600")
	users.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if err := users.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = users.Process.Kill(); _ = users.Wait() }()
	other := fmt.Sprint(users.Process.Pid)
	if err := os.Symlink("/proc/"+other, filepath.Join(proc, other)); err != nil {
		t.Fatal(err)
	}
	if _, err := host.Orchagent(t.Context()); !errors.Is(err, ErrNoOrchagent) {
		t.Errorf("of a user: %v", err)
	}
	orchagent := sw.RunProcess(attrDBit)
	pid := fmt.Sprint(orchagent)
	if err := os.Symlink("/proc/"+pid, filepath.Join(proc, pid)); err != nil {
		t.Fatal(err)
	}
	if _, err := host.Orchagent(t.Context()); !errors.Is(err, errNoSyncd) {
		t.Errorf("without syncd: %v", err)
	}
	show := func(pid int) {
		t.Helper()
		of := fmt.Sprint(pid)
		if err := os.Symlink("/proc/"+of, filepath.Join(proc, of)); err != nil {
			t.Fatal(err)
		}
	}
	sync := sw.Syncd
	sw.Syncd = []string{"-u", "-p", "/etc/sai.d/sai.profile"}
	syncd := sw.RunSyncd()
	show(syncd)
	if p, err := host.Orchagent(t.Context()); err != nil || !strings.HasPrefix(p.Unfit, fmt.Sprintf("syncd (process %d) runs asynchronously", syncd)) {
		t.Errorf("%+v, %v", p.Unfit, err)
	}
	sw.Syncd = sync
	show(sw.RunSyncd())
	p, err := host.Orchagent(t.Context())
	if err != nil || p.Unfit != "" || p.missing() != "" || p.Names[attrDBit] || len(p.Names) < 20 {
		t.Fatalf("%+v, %v", p, err)
	}
	again, err := host.Orchagent(t.Context())
	if err != nil || again.ID != p.ID {
		t.Errorf("%+v, %v", again, err)
	}
	var f fabric.Fabric
	defer f.Close()
	asic1, err := f.AddHost("asic1")
	if err != nil {
		t.Fatal(err)
	}
	if err := asic1.Do(func() error { _, err := host.Orchagent(t.Context()); return err }); !errors.Is(err, ErrNoOrchagent) || !strings.Contains(err.Error(), "1 run in other network namespaces") {
		t.Errorf("of another ASIC: %v", err)
	}
	l, want := liveOf(t, sw, inputs(t)[0])
	l.cfg.Host = host
	if err := l.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if err := l.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	empty(t, sw)
	kills(t, orchagent)
	if _, err := host.Orchagent(t.Context()); !errors.Is(err, ErrNoOrchagent) {
		t.Errorf("of one that has ended: %v", err)
	}
}

// TestSeveralASICs has an orchagent of one ASIC of several: csig takes the databases of that ASIC alone.
func TestSeveralASICs(t *testing.T) {
	sw := newSwitch(t)
	sw.ASIC = "asic1"
	proc := t.TempDir()
	for _, pid := range []int{sw.RunProcess(), sw.RunSyncd()} {
		of := fmt.Sprint(pid)
		if err := os.Symlink("/proc/"+of, filepath.Join(proc, of)); err != nil {
			t.Fatal(err)
		}
	}
	in := inputs(t)[1]
	l, want := liveOf(t, sw, in)
	l.cfg.Host = Local{Proc: proc}
	for of, says := range map[string]string{"": `those of ""`, "asic0": `those of "asic0"`, "Asic1": "", "asic1": ""} {
		sw.Redis.Do(4, "HSET", "DEVICE_METADATA|localhost", "asic_name", of)
		sw.Log()
		err := l.Apply(t.Context(), want)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", of, err)
		}
		if sent := len(sw.Log()); says != "" && sent > 0 {
			t.Errorf("%q: %d requests", of, sent)
		}
		l.hangUp()
	}
	has(t, sw, l, want, in)
	// The host's own databases have no switch.
	sw.Redis.Do(1, "FLUSHDB")
	if _, err := l.Observe(t.Context()); err == nil || !strings.Contains(err.Error(), "management: redis: databases") {
		t.Error(err)
	}
}
