package linux

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/vendors"
)

// stripper attaches strip programs to tcx egress. Programs are attached by
// BPF_PROG_ATTACH and not by a link: a link ends with the process that holds
// it, unless it is pinned in a bpffs, and strip has to outlive the agent.
type stripper struct {
	programs map[stripSpec]loaded

	looked time.Time        // when the ports that strip were looked at last
	right  map[int]lookedAt // by index: what was found right, which costs little to find again
}

// lookedAt tells a device's list of programs from any other that it had: the
// kernel counts changes of the list, restarts when it is empty, and gives a
// program's number to another only after all others.
type lookedAt struct {
	tag      string // what ours should do
	revision uint64
	last     ebpf.ProgramID
}

// loaded is a program in the kernel.
type loaded struct {
	program *ebpf.Program
	tag     string // what it does, hashed by the kernel
}

// maxLoaded is how many programs are kept at hand. A setup has two at most: that
// of ports that strip, and that of ports which strip other TPIDs only.
const maxLoaded = 4

// errNoBPF is the reason where programs may not be loaded or looked for.
var errNoBPF = errors.New("strip needs Linux 6.6 or newer (tcx), and CAP_NET_ADMIN and CAP_SYS_ADMIN outside any user namespace")

// errHidden is the reason where it cannot be told whose a program is.
var errHidden = errors.New("a BPF program on tcx egress may be ours, and only CAP_SYS_ADMIN may look at it")

// load makes the program, if it is not there yet.
func (s *stripper) load(spec stripSpec) (loaded, error) {
	if l, ok := s.programs[spec]; ok {
		return l, nil
	}
	if len(s.programs) >= maxLoaded {
		if err := s.close(); err != nil {
			return loaded{}, err
		}
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         stripName,
		Type:         ebpf.SchedCLS,
		AttachType:   ebpf.AttachTCXEgress,
		Instructions: stripProgram(spec),
		License:      "Apache-2.0",
	})
	if err != nil {
		return loaded{}, noBPF("load the BPF program "+stripName, err)
	}
	info, err := p.Info()
	if err != nil {
		return loaded{}, errors.Join(fmt.Errorf("read back the BPF program %s: %w", stripName, err), p.Close())
	}
	if info.Name != stripName {
		return loaded{}, errors.Join(fmt.Errorf("%w: the kernel calls the BPF program %q and not %s, by which it would be known again", errNoBPF, info.Name, stripName), p.Close())
	}
	// CAP_BPF alone loads a program, but a later start would not find it again,
	// nor Remove take it away.
	if id, ok := info.ID(); ok {
		again, err := ebpf.NewProgramFromID(id)
		if err != nil {
			return loaded{}, errors.Join(noBPF("find the BPF program "+stripName+" again", err), p.Close())
		}
		if err := again.Close(); err != nil {
			return loaded{}, errors.Join(err, p.Close())
		}
	}
	if s.programs == nil {
		s.programs = map[stripSpec]loaded{}
	}
	l := loaded{p, info.Tag}
	s.programs[spec] = l
	return l, nil
}

// noBPF says of an error that means that BPF is not to be had what is missing.
// The library's guess at the cause, limits of locked memory, is left out: no
// kernel with tcx counts that.
func noBPF(what string, err error) error {
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w: %s: %w", errNoBPF, what, unix.EPERM)
	case errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Errorf("%w: %s: %w", errNoBPF, what, ebpf.ErrNotSupported)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// attachment is a program of ours on a device.
type attachment struct {
	program *ebpf.Program
	tag     string
}

// query lists the programs on a device. It runs inside.
func query(index int) (*link.QueryResult, error) {
	found, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: ebpf.AttachTCXEgress})
	if err != nil {
		return nil, noBPF("list the BPF programs on tcx egress", err)
	}
	return found, nil
}

// attached lists our programs on a device, in their order. It runs inside.
func attached(index int) ([]attachment, error) {
	found, err := query(index)
	if err != nil {
		return nil, err
	}
	return ours(found)
}

// ours are the programs of a list that are ours.
func ours(found *link.QueryResult) ([]attachment, error) {
	var out []attachment
	for _, f := range found.Programs {
		if _, byLink := f.LinkID(); byLink {
			continue // ours are not
		}
		p, err := ebpf.NewProgramFromID(f.ID)
		if errors.Is(err, os.ErrNotExist) {
			continue // gone meanwhile
		}
		if errors.Is(err, os.ErrPermission) {
			return nil, errors.Join(fmt.Errorf("%w: program %d", errHidden, f.ID), release(out))
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("look at BPF program %d: %w", f.ID, err), release(out))
		}
		info, err := p.Info()
		if err != nil {
			return out, errors.Join(fmt.Errorf("look at BPF program %d: %w", f.ID, err), p.Close(), release(out))
		}
		if info.Name != stripName {
			if err := p.Close(); err != nil {
				return out, errors.Join(err, release(out))
			}
			continue
		}
		out = append(out, attachment{p, info.Tag})
	}
	return out, nil
}

func release(list []attachment) error {
	var errs []error
	for _, a := range list {
		errs = append(errs, a.program.Close())
	}
	return errors.Join(errs...)
}

// check says what is wrong with a device's programs, "" for nothing. It runs
// inside.
func (s *stripper) check(index int, spec stripSpec) (why string, err error) {
	wanted := spec.wanted()
	seen := lookedAt{tag: s.programs[spec].tag}
	var have []attachment
	found, err := query(index)
	if err == nil {
		seen.revision = found.Revision
		if n := len(found.Programs); n > 0 {
			seen.last = found.Programs[n-1].ID
		}
		if wanted && seen.tag != "" && seen.last != 0 && s.right[index] == seen {
			return "", nil
		}
		delete(s.right, index)
		have, err = ours(found)
	}
	switch {
	case errors.Is(err, errNoBPF) && !wanted:
		return "", nil // then there is none of ours either
	case errors.Is(err, errHidden) && !wanted:
		return "", nil // a foreign one, on a port that csig never stripped; Remove asks again
	case err != nil:
		return "", err
	}
	defer func() { err = errors.Join(err, release(have)) }()
	switch {
	case !wanted && len(have) > 0:
		return "BPF program " + stripName + " is not wanted", nil
	case !wanted:
		return "", nil
	case len(have) == 0:
		return "BPF program " + stripName + " is missing", nil
	}
	l, err := s.load(spec)
	if err != nil {
		return "", err
	}
	if len(have) > 1 || have[0].tag != l.tag {
		return "BPF program " + stripName + " is another one", nil
	}
	if s.right == nil {
		s.right = map[int]lookedAt{}
	}
	seen.tag = l.tag
	s.right[index] = seen
	return "", nil
}

// restore makes a device's programs what spec says, and returns what was wrong, ""
// for nothing. A device that has gone meanwhile is one of the next cycle's. It runs
// inside.
func (s *stripper) restore(index int, spec stripSpec) (why string, err error) {
	why, err = s.check(index, spec)
	switch {
	case errors.Is(err, unix.ENODEV):
		return "", nil
	case err != nil || why == "":
		return why, err
	case spec.wanted():
		return why, s.attach(index, spec)
	}
	return why, s.remove(index)
}

// attach makes our program, and no other of ours, run on a device. It runs
// inside. A program for another setup is replaced in one step.
func (s *stripper) attach(index int, spec stripSpec) (err error) {
	l, err := s.load(spec)
	if err != nil {
		return err
	}
	have, err := attached(index)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release(have)) }()
	opts := link.RawAttachProgramOptions{Target: index, Program: l.program, Attach: ebpf.AttachTCXEgress}
	keep := -1
	for i, a := range have {
		if a.tag == l.tag {
			keep = i
		}
	}
	switch {
	case keep < 0 && len(have) > 0:
		keep = 0
		opts.Anchor = link.ReplaceProgram(have[0].program)
		fallthrough
	case keep < 0:
		if err := link.RawAttachProgram(opts); err != nil {
			return noBPF("attach the BPF program "+stripName, err)
		}
	}
	for i, a := range have {
		if i != keep {
			err = errors.Join(err, detach(index, a))
		}
	}
	return err
}

// remove detaches our programs from a device. It runs inside.
func (s *stripper) remove(index int) (err error) {
	have, err := attached(index)
	if errors.Is(err, errNoBPF) {
		return nil // then there is none of ours
	}
	for _, a := range have {
		err = errors.Join(err, detach(index, a))
	}
	return errors.Join(err, release(have))
}

func detach(index int, a attachment) error {
	err := link.RawDetachProgram(link.RawDetachProgramOptions{Target: index, Program: a.program, Attach: ebpf.AttachTCXEgress})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("detach the BPF program %s: %w", stripName, err)
	}
	return nil
}

func (s *stripper) close() error {
	var errs []error
	for _, l := range s.programs {
		errs = append(errs, l.program.Close())
	}
	s.programs = nil
	return errors.Join(errs...)
}

// stripLook is how far apart looks at the programs of ports are at least. The kernel
// sends no notification of a detached program, and a look costs two system calls a
// port.
const stripLook = 100 * time.Millisecond

// watchStrip makes sure that the programs of the ports still run, and tries again what
// went wrong with one and may pass. It returns what was restored.
func (d *Driver) watchStrip() []vendors.Change {
	look := time.Since(d.strip.looked) >= stripLook
	if look {
		d.strip.looked = time.Now()
	}
	var due []*port
	for _, p := range d.ports {
		_, passing := p.strip.(*vendors.PortError) //nolint:errorlint // as stripProblem made it
		if p.index != 0 && (passing || look && p.strip == nil && p.spec.wanted()) {
			due = append(due, p)
		}
	}
	if due == nil {
		return nil
	}
	var changes []vendors.Change
	err := d.Do(func() error {
		for _, p := range due {
			ran := p.strip == nil
			why, err := d.strip.restore(p.index, p.spec)
			if p.strip = stripProblem(p.name, err); ran && err == nil && why != "" {
				changes = append(changes, vendors.Change{Kind: vendors.Create, Port: p.name, What: "strip", Detail: why})
			}
		}
		return nil
	})
	if err != nil { // the namespace cannot be entered: nothing is known of any of them
		for _, p := range due {
			p.strip = stripProblem(p.name, err)
		}
	}
	return changes
}
