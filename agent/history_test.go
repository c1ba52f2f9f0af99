package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
)

// What ran is kept under its name, for its own eyes, and the oldest go.
func TestEarlierConfigurations(t *testing.T) {
	d := NewDaemon(Config{File: filepath.Join(t.TempDir(), "csig.yaml")})
	if err := d.saveHistory(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.historyDir()); err == nil {
		t.Error("there is a folder, and nothing ran")
	}
	const all = maxHistory + 3
	for i := range all {
		hash := fmt.Sprintf("%064x", i)
		if err := d.saveHistory(&running{config: "the " + hash, hash: hash}); err != nil {
			t.Fatal(err)
		}
		at := time.Unix(1e9+int64(i), 0)
		if err := os.Chtimes(filepath.Join(d.historyDir(), hash), at, at); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(d.historyDir(), hash))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
	}
	for i := range all {
		hash := fmt.Sprintf("%064x", i)
		text, err := d.Config(t.Context(), hash)
		if kept := i >= all-maxHistory; kept != (err == nil) || kept && text != "the "+hash {
			t.Errorf("configuration %d: %q, %v", i, text, err)
		}
	}
	if info, err := os.Stat(d.historyDir()); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	// A link to a folder is none of csig's.
	d = NewDaemon(Config{File: filepath.Join(t.TempDir(), "csig.yaml")})
	if err := os.Symlink(t.TempDir(), d.historyDir()); err != nil {
		t.Fatal(err)
	}
	if err := d.saveHistory(&running{config: "text", hash: fmt.Sprintf("%064x", 1)}); err == nil || !strings.Contains(err.Error(), "is no folder") {
		t.Errorf("a link: %v", err)
	}
}

// The name of a configuration is the same for every reader, and another where a
// command has other arguments.
func TestNameOfAConfiguration(t *testing.T) {
	text := strings.Replace(deviceText, "    ports:", "    counters: {source: snmp, snmp: {version: 2c, community: {command: [/bin/echo, one]}}}\n    address: 192.0.2.1\n    ports:", 1)
	name := func(text string) string {
		f, err := inventory.Parse("x", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		own := f.DeviceView(&f.Devices[0])
		written, err := inventory.Marshal(own)
		if err != nil {
			t.Fatal(err)
		}
		again, err := inventory.Parse("y", written)
		if err != nil || again.DeviceView(&again.Devices[0]).Hash() != own.Hash() {
			t.Errorf("written and read again it has another name (%v)\n%s", err, written)
		}
		return own.Hash()
	}
	if name(text) == name(strings.Replace(text, "one", "two", 1)) {
		t.Error("other arguments, and the same name")
	}
}
