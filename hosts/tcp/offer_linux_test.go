package tcp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// TestOfferIsForReading has no program that gets a map write into it, and none get a map where there is no BPF file system.
func TestOfferIsForReading(t *testing.T) {
	cfg := local(t)
	p, err := cfg.load(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if o, files := p.offer(cfg); len(files) != 0 || !strings.Contains(o.Files, "mount -t bpf") {
		t.Errorf("%+v, %d files", o, len(files))
	}
	dir := t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	o, files := p.offer(cfg)
	if len(files) != 2 || o.Files != "" {
		t.Fatalf("%+v, %d files", o, len(files))
	}
	keys := []int{4, 36}
	for i, f := range files {
		fd, err := unix.Dup(int(f.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		m, err := ebpf.NewMapFromFD(fd)
		if err != nil {
			t.Fatal(err)
		}
		key := make([]byte, keys[i])
		value := make([]byte, m.ValueSize())
		if err := m.Put(key, value); err == nil || !strings.Contains(err.Error(), unix.EPERM.Error()) {
			t.Errorf("map %d: writing: %v", i, err)
		}
		if err := m.Freeze(); err == nil {
			t.Errorf("map %d may be frozen", i)
		}
		// A name gives another file of it, by which one may write but for what the map itself refuses.
		name := filepath.Join(dir, "name")
		if err := m.Pin(name); err != nil {
			t.Fatal(err)
		}
		other, err := ebpf.LoadPinnedMap(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Put(key, value); err == nil || !strings.Contains(err.Error(), unix.EPERM.Error()) {
			t.Errorf("map %d: writing by a name: %v", i, err)
		}
		other.Close()
		if err := m.Unpin(); err != nil {
			t.Error(err)
		}
		m.Close()
		f.Close()
	}
	if left, err := os.ReadDir(filepath.Join(dir, "csig-host")); err != nil || len(left) > 0 {
		t.Errorf("names are left: %v, %v", left, err)
	}
}
