package ebpf

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/vendors"
)

const programName = "csig_egress"

// errNoBPF is the reason where the data plane may not be loaded or looked for.
var errNoBPF = errors.New("the data plane needs Linux 6.6 or newer (tcx) with BTF of its own (/sys/kernel/btf/vmlinux), and CAP_BPF, CAP_NET_ADMIN and CAP_SYS_ADMIN outside any user namespace")

// errNoRights is the reason where this process may not look: another one may have loaded it.
var errNoRights = fmt.Errorf("%w: this takes CAP_BPF, CAP_NET_ADMIN and CAP_SYS_ADMIN outside any user namespace: run csig as root", os.ErrPermission)

// firstUsers is the map of the user namespace that every machine begins with.
const firstUsers = "0 0 4294967295"

// mayLoad reports whether this process has them.
func mayLoad() bool {
	if users, err := os.ReadFile("/proc/self/uid_map"); err == nil && strings.Join(strings.Fields(string(users)), " ") != firstUsers {
		return false // those of another namespace do not count
	}
	header, have := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	if unix.Capget(&header, &have[0]) != nil {
		return true // then the kernel's own answer counts
	}
	for _, c := range []int{unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN} {
		if have[c/32].Effective&(1<<(c%32)) == 0 {
			return false
		}
	}
	return true
}

// refusedBPF says of an error that means that BPF is not to be had what is missing.
func refusedBPF(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case (errors.Is(err, os.ErrPermission) || errors.Is(err, ebpf.ErrNotSupported)) && !mayLoad():
		return fmt.Errorf("%s: %w", what, errNoRights)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w: %s: %w", errNoBPF, what, unix.EPERM)
	case errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Errorf("%w: %s: %w", errNoBPF, what, ebpf.ErrNotSupported)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// plane is the data plane of a namespace: the program and its maps, held open.
type plane struct {
	planeObjects
	tag string // what the program does, hashed by the kernel

	// same are programs that were found to be the plane's, or to do the same: the kernel gives
	// a program's number to another only after all others.
	same map[ebpf.ProgramID]bool

	// wasLive are the elements of csig_ports that frames may still be at; nil: any.
	wasLive map[uint32]bool
}

// kernelTypes are the kernel's where tests have read them once, for the hundred programs that they load. They are
// megabytes, which an agent does not hold: nil has each load read them.
var kernelTypes *btf.Spec

// load loads the program, with new maps or, where there are some, those of another program.
func load(with map[string]*ebpf.Map) (*plane, error) {
	p := &plane{}
	options := &ebpf.CollectionOptions{MapReplacements: with, Programs: ebpf.ProgramOptions{KernelTypes: kernelTypes}}
	if err := loadPlaneObjects(&p.planeObjects, options); err != nil {
		return nil, refusedBPF("load the BPF program "+programName, err)
	}
	info, err := p.CsigEgress.Info()
	if err == nil {
		p.tag = info.Tag
		err = p.CsigEgress.BindMap(p.CsigSetup)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("load the BPF program %s: %w", programName, err), p.Close())
	}
	return p, nil
}

// attached is the program of ours on a device, nil where there is none. It runs inside the
// namespace.
func attached(index int) (*ebpf.Program, error) {
	at, err := (&plane{}).attachedAt(index)
	return at.program, err
}

// attachment is what tcx egress of a device has.
type attachment struct {
	program *ebpf.Program  // of ours; nil where there is none, or same is true
	same    bool           // it is known to be the plane's
	before  ebpf.ProgramID // runs before ours, and may end what that would begin; 0: none
}

// attachedAt is that of a device. It runs inside the namespace.
func (p *plane) attachedAt(index int) (at attachment, err error) {
	found, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: ebpf.AttachTCXEgress})
	if errors.Is(err, unix.ENODEV) {
		return at, nil // gone meanwhile
	}
	if err != nil {
		return at, refusedBPF("list the BPF programs on tcx egress", err)
	}
	for _, f := range found.Programs {
		if _, byLink := f.LinkID(); byLink { // ours are not
			at.before = f.ID
			continue
		}
		if at.same = p.same[f.ID]; at.same {
			return at, nil
		}
		prog, err := ebpf.NewProgramFromID(f.ID)
		if errors.Is(err, os.ErrNotExist) {
			continue // gone meanwhile
		}
		if err != nil {
			return attachment{}, refusedBPF(fmt.Sprintf("look at BPF program %d", f.ID), err)
		}
		info, err := prog.Info()
		if err == nil && info.Name == programName {
			at.program = prog
			return at, nil
		}
		at.before = f.ID
		if err := errors.Join(err, prog.Close()); err != nil {
			return attachment{}, fmt.Errorf("look at BPF program %d: %w", f.ID, err)
		}
	}
	return attachment{}, nil
}

// mapsOf opens the maps of a program of ours.
func mapsOf(p *ebpf.Program) (map[string]*ebpf.Map, error) {
	info, err := p.Info()
	if err != nil {
		return nil, err
	}
	ids, ok := info.MapIDs()
	if !ok {
		return nil, errNoBPF
	}
	maps := make(map[string]*ebpf.Map)
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		var about *ebpf.MapInfo
		if err == nil {
			about, err = m.Info()
		}
		if err != nil {
			return nil, errors.Join(refusedBPF("open the maps of "+programName, err), closeMaps(maps))
		}
		maps[about.Name] = m
	}
	return maps, nil
}

func closeMaps(maps map[string]*ebpf.Map) (err error) {
	for _, m := range maps {
		err = errors.Join(err, m.Close())
	}
	return err
}

// take opens the plane that a program of ours belongs to. One with other maps, as of another
// version of csig, is nil.
func take(prog *ebpf.Program) (p *plane, err error) {
	maps, err := mapsOf(prog)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeMaps(maps)) }()
	spec, err := loadPlane()
	if err != nil {
		return nil, err
	}
	for name, m := range spec.Maps {
		if maps[name] == nil || m.Compatible(maps[name]) != nil {
			return nil, nil //nolint:nilnil // another version's
		}
	}
	return load(maps)
}

// attach makes our program, and no other of ours, run on a device. It runs inside the
// namespace. Another version is replaced in one step.
func (p *plane) attach(index int) (err error) {
	at, err := p.attachedAt(index)
	if err != nil || at.same {
		return err
	}
	have := at.program
	opts := link.RawAttachProgramOptions{Target: index, Program: p.CsigEgress, Attach: ebpf.AttachTCXEgress}
	if have != nil {
		defer func() { err = errors.Join(err, have.Close()) }()
		if same, err := p.is(have); same || err != nil {
			return err
		}
		opts.Anchor = link.ReplaceProgram(have)
	}
	return refusedBPF("attach the BPF program "+programName, link.RawAttachProgram(opts))
}

// is reports whether a program is the plane's, or one that does the same with the same maps.
func (p *plane) is(other *ebpf.Program) (bool, error) {
	info, err := other.Info()
	if err != nil || info.Tag != p.tag {
		return false, err
	}
	ids, _ := info.MapIDs()
	mine, err := p.CsigPorts.Info()
	if err != nil {
		return false, err
	}
	id, _ := mine.ID()
	if !slices.Contains(ids, id) {
		return false, nil
	}
	if id, ok := info.ID(); ok {
		if p.same == nil {
			p.same = map[ebpf.ProgramID]bool{}
		}
		p.same[id] = true
	}
	return true, nil
}

// detach removes our program from a device. It runs inside the namespace.
func detach(index int) error {
	for {
		have, err := attached(index)
		if have == nil || err != nil {
			return err
		}
		err = link.RawDetachProgram(link.RawDetachProgramOptions{Target: index, Program: have, Attach: ebpf.AttachTCXEgress})
		if err = errors.Join(err, have.Close()); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("detach the BPF program %s: %w", programName, err)
		}
	}
}

// record writes the setup that Observe reads.
func (p *plane) record(s *vendors.Setup) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	var r planeRecord
	if len(text) > len(r.Text) {
		return &vendors.PermanentError{Err: fmt.Errorf("the setup has %d bytes as text, at most %d can be: name fewer ports", len(text), len(r.Text))}
	}
	r.Size = uint32(copy(r.Text[:], text))
	return p.CsigSetup.Put(uint32(0), &r)
}

// recorded reads it; what is damaged says why it cannot be read.
func (p *plane) recorded() (s vendors.Setup, damaged string, err error) {
	var r planeRecord
	if err := p.CsigSetup.Lookup(uint32(0), &r); err != nil {
		return s, "", err
	}
	if int(r.Size) > len(r.Text) {
		return s, "the record of the setup is damaged", nil
	}
	if err := json.Unmarshal(r.Text[:r.Size], &s); err != nil {
		return vendors.Setup{}, "the record of the setup is damaged: " + err.Error(), nil
	}
	return s, "", nil
}
