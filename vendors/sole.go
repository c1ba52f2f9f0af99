package vendors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// AgentLock is the abstract socket of the agent that programs the ports of a network
// namespace, which is its lock.
const AgentLock = "@csig-agent"

// AgentDir is where an agent keeps its socket, and its lock where another process has that
// name: $XDG_RUNTIME_DIR/csig for an ordinary user, else /run/csig.
func AgentDir() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" && os.Geteuid() != 0 {
		return filepath.Join(dir, "csig")
	}
	return "/run/csig"
}

// Former is what csig made on a device's box by another platform than the device's: after a
// change of the fleet file's platform its rules would go on rewriting frames beside the
// device's own, with values that no agent renews (DESIGN §5: one box, one plane).
type Former struct {
	What   string // for people: the objects, and the platform that made them
	By     string // the process that drives it; "": none does
	Unread error  // why it could not be looked at: nothing is known of it, and nothing can be removed
	Apart  bool   // it is at none of the device's ports: another device's, or one that the file no longer has
	Remove func(ctx context.Context) error
}

// atPorts reports whether it is known to be at the device's ports.
func (o *Former) atPorts() bool { return !o.Apart && o.Unread == nil }

// Sole is a driver of a device that no other data plane of csig's works beside.
type Sole struct {
	Driver

	// Formers finds what other platforms left on the device's box.
	Formers func(ctx context.Context) ([]Former, error)

	alone bool // Apply has seen to it: what this process drives no other does, and a reload need not wait
}

// Unwrap returns the driver, for its optional capabilities.
func (s *Sole) Unwrap() any { return s.Driver }

// Alone is a driver that leaves what other platforms left.
func Alone(d Driver) Driver {
	if s, ok := d.(*Sole); ok {
		return s.Driver
	}
	return d
}

// Probe reports what csig made elsewhere on the box and no process drives, too.
func (s *Sole) Probe(ctx context.Context) (Facts, error) {
	f, err := s.Driver.Probe(ctx)
	if err != nil {
		return f, err
	}
	formers, err := s.Formers(ctx)
	for _, o := range formers {
		switch {
		case o.Unread != nil:
			f.Left = append(f.Left, fmt.Sprintf("%s could not be looked at (%v): flows of csig's may be there", o.What, o.Unread))
		case o.Apart && o.By == "":
			f.Left = append(f.Left, fmt.Sprintf("%s is on this machine and at none of the device's ports, and no process drives it: start the agent of its device, or run csig off with a fleet file that has the device as it was", o.What))
		}
	}
	f.Notes = append(f.Notes, f.Left...)
	return f, err
}

// Observe reads back the setup. What another platform left at the device's ports is damage.
func (s *Sole) Observe(ctx context.Context) (Setup, error) {
	seen, err := s.Driver.Observe(ctx)
	if err != nil {
		return seen, err
	}
	return seen, s.damage(ctx, &seen)
}

// damage adds what is left to a setup. A look at failing cycles, which is the driver's own,
// does not search for it: it has no time to wait for others.
func (s *Sole) damage(ctx context.Context, seen *Setup) error {
	formers, err := s.Formers(ctx)
	for _, o := range formers {
		if !o.atPorts() {
			continue
		}
		if seen.Damaged != "" {
			seen.Damaged += "; "
		}
		seen.Damaged += o.What + " is at its ports, too"
		if o.By != "" {
			seen.Damaged += ", and " + o.By + " drives it"
		}
	}
	return err
}

// Apply refuses ports that another process drives by another platform, and removes what no
// process drives. It does so last: while both are there, frames carry the worse of the two.
func (s *Sole) Apply(ctx context.Context, want Setup) error {
	if s.alone {
		return s.Driver.Apply(ctx, want)
	}
	formers, err := s.Formers(ctx)
	if err != nil {
		return err
	}
	var held []error
	for _, o := range formers {
		if o.atPorts() && o.By != "" {
			held = append(held, fmt.Errorf("%s is at its ports: %w: stop that first", o.What, &HeldError{By: o.By}))
		}
	}
	if held != nil {
		return &PermanentError{Err: errors.Join(held...)}
	}
	err = s.Driver.Apply(ctx, want)
	if whole(err) {
		return err
	}
	s.alone = true
	for _, o := range formers {
		if !o.atPorts() {
			continue
		}
		if left := o.Remove(ctx); left != nil {
			s.alone = false
			for i := range want.Ports {
				err = errors.Join(err, &PortError{Port: want.Ports[i].Port, Err: fmt.Errorf("remove what an earlier configuration left, %s: %w", o.What, left)})
			}
		}
	}
	return err
}

// whole reports whether an error is of the whole device, and not of single ports.
func whole(err error) bool {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case nil, *PortError:
		return false
	case *PermanentError:
		return e.Port == ""
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), whole)
	case interface{ Unwrap() error }:
		return whole(e.Unwrap())
	}
	return true
}

// Remove deletes everything of csig's at the device's ports, by whichever platform. What could not
// be looked at is an error, unless this account may not look.
func (s *Sole) Remove(ctx context.Context) error {
	s.alone = false
	err := s.Driver.Remove(ctx)
	formers, looking := s.Formers(ctx)
	err = errors.Join(err, looking)
	for _, o := range formers {
		switch {
		case o.Unread != nil && !errors.Is(o.Unread, os.ErrPermission):
			err = errors.Join(err, fmt.Errorf("%s could not be looked at, and flows of csig's may be there: %w", o.What, o.Unread))
			continue
		case !o.atPorts():
			continue
		}
		switch left := o.Remove(ctx); {
		case left != nil:
			err = errors.Join(err, fmt.Errorf("remove %s: %w", o.What, left))
		case o.By != "":
			err = errors.Join(err, fmt.Errorf("%s is removed, and %s may restore it: stop that and run csig off again", o.What, o.By))
		}
	}
	return err
}
