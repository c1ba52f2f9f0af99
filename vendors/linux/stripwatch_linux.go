package linux

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/vendors"
)

// stripLook is how far apart looks at the programs of strip ports are at least.
// The kernel sends no notification of a detached program, and a check costs two
// system calls a port: a schedule of a few milliseconds need not pay for it in
// every cycle.
const stripLook = 100 * time.Millisecond

// watchStrip makes sure that the programs of the ports that strip still run,
// and tries again what went wrong with programs and may pass. It returns what
// was put right.
func (d *Driver) watchStrip() []vendors.Change {
	d.retryStrip()
	now := d.cfg.Now()
	if since := now.Sub(d.strip.looked); since >= 0 && since < stripLook || !slices.ContainsFunc(d.ports, stripsNow) {
		return nil
	}
	d.strip.looked = now
	var changes []vendors.Change
	err := d.strip.inside(func() error {
		for _, p := range d.ports {
			if !stripsNow(p) {
				continue
			}
			why, err := d.strip.look(p.index, p.spec)
			if err == nil && why == "" || errors.Is(err, unix.ENODEV) {
				continue // right, or gone meanwhile, which the next cycle hears
			}
			if err == nil {
				err = d.strip.ensure(p.index, p.spec)
			}
			if p.strip = stripProblem(p.name, err); p.strip == nil {
				changes = append(changes, vendors.Change{Kind: vendors.Create, Port: p.name, What: "strip", Detail: why})
			}
		}
		return nil
	})
	if err != nil { // the namespace cannot be entered: nothing is known of any of them
		for _, p := range d.ports {
			if stripsNow(p) {
				p.strip = stripProblem(p.name, err)
			}
		}
	}
	return changes
}

// stripsNow tells whether a program of ours should run on a port's device.
func stripsNow(p *port) bool { return p.spec.wanted() && p.strip == nil && p.index != 0 }

// look is check of a port that strips, which costs little as long as the program
// that it found right still runs. It runs inside.
func (s *stripper) look(index int, spec stripSpec) (why string, err error) {
	found, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: ebpf.AttachTCXEgress})
	if err != nil {
		return "", fmt.Errorf("list the BPF programs on tcx egress: %w", err)
	}
	// The kernel counts changes of the list, but restarts when it is empty.
	have := lookedAt{s.programs[spec].tag, found.Revision, 0}
	if n := len(found.Programs); n > 0 {
		have.last = found.Programs[n-1].ID
	}
	if s.right[index] == have && have.last != 0 && have.tag != "" {
		return "", nil
	}
	delete(s.right, index)
	why, err = s.check(index, spec)
	if err == nil && why == "" && s.programs[spec].tag == have.tag {
		if s.right == nil {
			s.right = map[int]lookedAt{}
		}
		s.right[index] = have
	}
	return why, err
}

// lookedAt tells a device's list of programs from any other that it had: the
// kernel gives a program's number to another only after all others.
type lookedAt struct {
	tag      string // what ours should do
	revision uint64
	last     ebpf.ProgramID
}
