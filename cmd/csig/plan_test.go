package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
	"github.com/csig-agent/csig/vlanrules"
)

// A plan is saved where a link leads, and into what is no regular file without
// replacing that.
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
	for range 2 {
		check(savePlan(at("plain"), p))
		saved("plain")
	}
	check(os.Symlink("plain", at("link")))
	check(os.Symlink("elsewhere/new", at("dangling")))
	check(os.WriteFile(at("fleet.yaml"), []byte("format: csig.fleet/v1\n"), 0o600))
	for _, name := range []string{"link", "dangling", "fleet.yaml"} {
		if err := savePlan(at(name), p); err == nil || !strings.Contains(err.Error(), "is not overwritten") {
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
	check(savePlan(at("pipe"), p))
	if err := <-read; err != nil {
		t.Errorf("through a pipe: %v", err)
	}
	if info, err := os.Lstat(at("pipe")); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the pipe is one no more: %v, %v", info.Mode(), err)
	}
	if err := savePlan(at("elsewhere"), p); err == nil {
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
		d := &inventory.Device{Name: "s1", Platform: platform, Management: inventory.Management{OVS: &inventory.OVS{Bridge: "csig"}}}
		have := vendors.Setup{TPID: 0x88a8, Signals: []quantize.Signal{quantize.MinABW}, OnStale: inventory.Conservative, Ports: []vendors.PortSetup{{Port: "p1", Action: vlanrules.Update}}}
		text, err := stepCommands(all.Default(), d, have, &plans.Step{ID: 1, Device: "s1"})
		if err != nil || !strings.Contains(string(text), "# everything of csig is removed") {
			t.Errorf("%s: %s, %v", platform, text, err)
		}
	}
}
