package tcp

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/hosts/internal/offer"
)

// offer is what programs of this machine may read.
func (p *programs) offer(cfg *Config) (*offer.Offer, []*os.File) {
	o := &offer.Offer{
		Format: offer.Format, Layout: cfg.Fleet.Profile.Layout.String(),
		Flows:     offer.Flows{Size: int(p.Flows.ValueSize()), Received: int(unsafe.Offsetof(tcpFlow{}.Received)), Learned: int(unsafe.Offsetof(tcpFlow{}.Learned))},
		Datagrams: offer.Datagrams{Size: int(p.Datagrams.ValueSize()), Received: int(unsafe.Offsetof(tcpDatagramFlow{}.Received))},
	}
	if cfg.Fleet.Mesh != nil {
		o.Mesh = cfg.Fleet.Mesh.Port
	}
	var files []*os.File
	for _, m := range []*ebpf.Map{p.Flows, p.Datagrams} {
		f, err := forReading(m)
		if err != nil {
			for _, f := range files {
				_ = f.Close()
			}
			o.Files = err.Error()
			return o, nil
		}
		files = append(files, f)
	}
	return o, files
}

// bpfMount is where a BPF file system is mounted.
func bpfMount() (string, error) {
	at, err := mountOf("bpf")
	if err == nil && at == "" {
		err = errors.New("no BPF file system is mounted (mount -t bpf bpf /sys/fs/bpf), without which programs cannot read the signals of their connections")
	}
	return at, err
}

// forReading is a file of a map by which nobody writes. The kernel gives one for a name in a BPF file system alone
// (by the map's number it takes CAP_SYS_ADMIN), and none of a socket's storage is made for reading: the name is there for a moment.
func forReading(m *ebpf.Map) (*os.File, error) {
	at, err := bpfMount()
	if err != nil {
		return nil, err
	}
	again, err := m.Clone()
	if err != nil {
		return nil, err
	}
	defer again.Close()
	dir := filepath.Join(at, "csig-host") // which the unit may write in
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	name := filepath.Join(dir, fmt.Sprintf("map-%d", os.Getpid()))
	_ = os.Remove(name) // of a process with this number that was killed here
	if err := again.Pin(name); err != nil {
		return nil, err
	}
	defer func() { _ = again.Unpin() }()
	read, err := ebpf.LoadPinnedMap(name, &ebpf.LoadPinOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer read.Close()
	fd, err := unix.FcntlInt(uintptr(read.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "map"), nil
}
