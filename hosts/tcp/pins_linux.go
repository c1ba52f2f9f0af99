package tcp

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// linkNames are the names of links in a directory of a BPF file system, in their order: what has a name there stays when
// csig host run ends.
var linkNames = []string{"link_reflect", "link_insert", "link_strip"}

// controlLink is the name of the congestion control's link there.
const controlLink = "link_control"

// openPins are the links and maps that a csig host run has left in a directory; nil: none, or a part of them, which is removed.
// What it returns has no programs.
func openPins(dir string) (*programs, error) {
	p := &programs{pins: dir}
	maps := p.keeps()
	var err error
	for name, m := range maps {
		if err == nil {
			*m, err = ebpf.LoadPinnedMap(filepath.Join(dir, name), nil)
		}
	}
	for _, name := range linkNames {
		var l link.Link
		if err == nil {
			if l, err = link.LoadPinnedLink(filepath.Join(dir, name), nil); err == nil {
				p.links = append(p.links, l)
			}
		}
	}
	switch {
	case err == nil:
		return p, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, errors.Join(fmt.Errorf("--pin %s: %w: remove it (rm -r), which ends what is left there", dir, err), p.close())
	}
	err = p.detach()
	for name := range maps {
		if failed := os.Remove(filepath.Join(dir, name)); !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	for _, name := range append([]string{controlLink}, linkNames...) {
		if failed := os.Remove(filepath.Join(dir, name)); !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	return nil, errors.Join(err, p.close())
}

// isAt reports whether links are at an interface of this network namespace, and at a control group.
func (p *programs) isAt(iface int, cgroup string) bool {
	if p == nil || len(p.links) != len(linkNames) {
		return false
	}
	group, err := os.Stat(cgroup)
	if err != nil {
		return false
	}
	info, err := p.links[0].Info()
	if err != nil || info.Cgroup() == nil || info.Cgroup().CgroupId != group.Sys().(*syscall.Stat_t).Ino {
		return false
	}
	for i, at := range []ebpf.AttachType{ebpf.AttachTCXEgress, ebpf.AttachTCXIngress} {
		info, err := p.links[i+1].Info()
		if err != nil {
			return false
		}
		there, err := link.QueryPrograms(link.QueryOptions{Target: iface, Attach: at})
		found := false
		if err == nil {
			for k := range there.Programs {
				id, ok := there.Programs[k].LinkID()
				found = found || ok && id == info.ID
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// pinMaps gives the maps that the next csig host run takes over their names, in place of what has them.
func (p *programs) pinMaps(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("--pin: %w", err)
	}
	for name, m := range p.kept() {
		at := filepath.Join(dir, name)
		_ = os.Remove(at)
		if err := m.Pin(at); err != nil {
			return fmt.Errorf("--pin %s: %w (a BPF file system is mounted by: mount -t bpf bpf /sys/fs/bpf)", dir, err)
		}
	}
	p.pins = dir
	return nil
}

// pinLinks gives the links their names.
func (p *programs) pinLinks() error {
	for i, l := range p.links {
		at := filepath.Join(p.pins, linkNames[i])
		_ = os.Remove(at) // of an interface that is gone
		if err := l.Pin(at); err != nil {
			return fmt.Errorf("--pin %s: %w", p.pins, err)
		}
	}
	return nil
}
