package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
	"github.com/csig-agent/csig/vendors/ovs"
	"github.com/csig-agent/csig/vlanrules"
)

// A plan is saved over another, through no link, over no other file, and into what
// is no regular file without replacing that.
func TestSavePlan(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	p := &plans.Plan{Format: plans.Format}
	saved := func(name string) {
		t.Helper()
		f, err := os.Open(at(name))
		check(err)
		defer f.Close()
		if _, err := plans.Read(f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	check(os.Mkdir(at("elsewhere"), 0o700))
	for _, note := range []string{"", " replaces the plan that was saved there at "} {
		var noted strings.Builder
		check(savePlan(&noted, at("plain"), p))
		saved("plain")
		if (noted.Len() > 0) != (note != "") || !strings.Contains(noted.String(), note) {
			t.Errorf("noted %q, want %q", noted.String(), note)
		}
	}
	check(os.Symlink("plain", at("link")))
	check(os.Symlink("elsewhere/new", at("dangling")))
	check(os.WriteFile(at("fleet.yaml"), []byte("format: csig.fleet/v1\n"), 0o600))
	for _, name := range []string{"link", "dangling", "fleet.yaml"} {
		if err := savePlan(io.Discard, at(name), p); err == nil || !strings.Contains(err.Error(), "is not overwritten") {
			t.Errorf("%s: %v", name, err)
		}
	}

	check(syscall.Mkfifo(at("pipe"), 0o600))
	read := make(chan error, 1)
	go func() {
		f, err := os.Open(at("pipe"))
		if err == nil {
			_, err = plans.Read(io.LimitReader(f, 1<<20))
			err = errors.Join(err, f.Close())
		}
		read <- err
	}()
	check(savePlan(io.Discard, at("pipe"), p))
	if err := <-read; err != nil {
		t.Errorf("through a pipe: %v", err)
	}
	if info, err := os.Lstat(at("pipe")); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the pipe is one no more: %v, %v", info.Mode(), err)
	}
	if err := savePlan(io.Discard, at("elsewhere"), p); err == nil {
		t.Error("saved over a directory")
	}
	left, err := filepath.Glob(at(".csig-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A step that removes everything has no script of its own, and is no error.
func TestCommandsOfARemoval(t *testing.T) {
	for _, platform := range []string{"linux", "ovs", "sonic"} {
		d := &inventory.Device{Name: "s1", Platform: platform, Management: inventory.Management{Own: map[string]inventory.PlatformKeys{"ovs": &ovs.Keys{Bridge: "csig"}}}}
		have := vendors.Setup{TPID: 0x88a8, Signals: []quantize.Signal{quantize.MinABW}, OnStale: inventory.Conservative, Ports: []vendors.PortSetup{{Port: "p1", Action: vlanrules.Update}}}
		text, err := stepCommands(all.Default(), d, have, &plans.Step{ID: 1, Device: "s1"})
		if err != nil || !strings.Contains(string(text), "# everything of csig is removed") {
			t.Errorf("%s: %s, %v", platform, text, err)
		}
	}
}

// What --commands prints for a shell is run by a real one, with stubs that show
// their words: a name stays one word, whatever is in it, and runs nothing.
func TestCommandsForAShell(t *testing.T) {
	names := []string{"swp1", "a b", "it's", `"`, "$(>$HOME/r)", "`>$HOME/r`", "a;>$HOME/r", "*", "~", "a\nb", `\`, "#", "-x", "$HOME", "&", "<x", "!!", ""}
	home := t.TempDir()
	stubs := t.TempDir()
	for name, text := range map[string]string{
		"ip":        "#!/bin/sh\nfor w; do printf '<%s>' \"$w\" >&2; done; echo >&2\n",
		"ovs-vsctl": "#!/bin/sh\nfor w; do printf '<%s>' \"$w\" >&2; done; echo >&2; echo 1\n",
		"ovs-ofctl": "#!/bin/sh\nfor w; do printf '<%s>' \"$w\" >&2; done; echo \" in $OVS_RUNDIR\" >&2; cat >/dev/null\n",
	} {
		if err := os.WriteFile(filepath.Join(stubs, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	run := func(script []byte, want string) {
		t.Helper()
		for _, args := range [][]string{{"-n"}, {}} {
			cmd := exec.Command("sh", append(args, "-s")...)
			cmd.Env = []string{"PATH=" + stubs + ":" + os.Getenv("PATH"), "HOME=" + home}
			cmd.Stdin = bytes.NewReader(script)
			out, err := cmd.CombinedOutput()
			if err != nil || len(args) == 0 && string(out) != want {
				t.Errorf("sh %v: %q, %v, want %q of\n%s", args, out, err, want, script)
			}
		}
	}
	for _, name := range names {
		text, err := stepCommands(all.Default(), &inventory.Device{Name: "s1", Platform: "linux"}, vendors.Setup{}, &plans.Step{ID: 1, Device: "s1", MTU: []plans.PortMTU{{Port: name, From: 1500, To: 1504}}})
		if err != nil {
			t.Fatal(err)
		}
		run(append(stepHead("ready/canary", &plans.Step{ID: 1, Device: name}, name), text...), "<link><set><dev><"+name+"><mtu><1504>\n")
		if name == "" {
			continue // no bridge and no folder
		}
		d := &inventory.Device{Name: "s1", Platform: "ovs", Management: inventory.Management{Own: map[string]inventory.PlatformKeys{"ovs": &ovs.Keys{Bridge: name, RunDir: "/run/" + name, Table: 60}}}}
		want := vendors.Setup{TPID: 0x88a8, Signals: []quantize.Signal{quantize.MinABW}, OnStale: inventory.Conservative, Ports: []vendors.PortSetup{{Port: name, Action: vlanrules.Strip}}}
		if text, err = stepCommands(all.Default(), d, vendors.Setup{}, &plans.Step{ID: 1, Device: "s1", Want: want}); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		run(text, "<get><Interface><"+name+"><ofport>\n<-O><OpenFlow14><bundle><"+name+"><-> in /run/"+name+"\n")
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("a name was run: %v, %v", left, err)
	}
}
