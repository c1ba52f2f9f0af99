package qos

import (
	"errors"
	"fmt"
	"slices"

	"github.com/csig-agent/csig/vlanrules"
)

// Script is commands of configuration, from the system view and back to it. What it adds is
// in the view at once: where a command fails the view is read again.
type Script struct {
	View *View
	At   Position

	// Freed are the classifiers and behaviors that went out of use, the last at the end: Tidy
	// leaves those. It is kept from script to script.
	Freed *[]string

	Lines []string
	ports []string // the port that each line is for, "" for all
	port  string   // the one that what is added is for
}

// For has what is added now be for a port, "" for all: a line that is refused is that
// port's.
func (s *Script) For(port string) { s.port = port }

// PortOf is the port of a line, "" for all.
func (s *Script) PortOf(line int) string {
	if line < 0 || line >= len(s.ports) {
		return ""
	}
	return s.ports[line]
}

func (s *Script) add(lines ...string) {
	s.Lines = append(s.Lines, lines...)
	for range lines {
		s.ports = append(s.ports, s.port)
	}
}

// Append adds lines of the caller's own.
func (s *Script) Append(lines ...string) { s.add(lines...) }

// class makes a classifier that a policy does not have yet and that matches what an entry
// does, and returns its name.
func (s *Script) class(policy string, e *vlanrules.Entry) (string, error) {
	v := s.View
	r := Rule{At: s.At, PCP: e.Match.PCP.Value, First: e.Match.VID.First, Last: e.Match.VID.Last}
	for _, r.Bank = range banks {
		name := r.Class()
		if slices.ContainsFunc(v.Policies[policy], func(b Binding) bool { return b.Class == name }) {
			continue
		}
		if _, there := v.Classes[name]; there {
			if v.rightClass(&r) {
				return name, nil
			}
			if v.uses(func(b Binding) bool { return b.Class == name }) {
				continue
			}
			s.add("undo traffic classifier " + name)
		}
		lines := v.Dialect.classLines(&r)
		s.add("traffic classifier " + name + " " + v.Dialect.All)
		s.add(lines...)
		s.add("quit")
		v.Classes[name] = lines
		return name, nil
	}
	return "", fmt.Errorf("both classifiers for its next value are in use and not as csig left them: take one out of its policy (undo classifier %s)", r.Class())
}

// behavior makes a behavior that marks a VID, and returns its name.
func (s *Script) behavior(vid uint16) (string, error) {
	v := s.View
	x := Value{At: s.At, VID: vid}
	for _, x.Bank = range banks {
		name := x.Behavior()
		if _, there := v.Behaviors[name]; there {
			if v.rightBehavior(&x) {
				return name, nil
			}
			if v.uses(func(b Binding) bool { return b.Behavior == name }) {
				continue
			}
			s.add("undo traffic behavior " + name)
		}
		s.add("traffic behavior "+name, v.Dialect.markLine(&x), "quit")
		v.Behaviors[name] = []string{v.Dialect.markLine(&x)}
		return name, nil
	}
	return "", fmt.Errorf("both behaviors for its next value are in use and not as csig left them: give one back the line %q alone (traffic behavior %s)", v.Dialect.markLine(&x), x.Behavior())
}

// Add carries out the additions among operations of the compiler on a port's policy, which
// may not exist yet. Nothing is bound where it returns an error.
func (s *Script) Add(port string, ops []vlanrules.Op) error {
	v, policy := s.View, PolicyName(port)
	before, there := v.Policies[policy]
	list := slices.Clone(before)
	var lines []string
	for i := range ops {
		if ops[i].Kind == vlanrules.Delete {
			continue
		}
		if ops[i].Kind != vlanrules.Add {
			return errors.New("csig's defect: an entry cannot change in place")
		}
		class, err := s.class(policy, &ops[i].Entry)
		if err == nil {
			b := Binding{Class: class, Number: v.free(list)}
			if b.Behavior, err = s.behavior(ops[i].Entry.VID); err == nil {
				lines = append(lines, v.Dialect.bindLine(&b))
				list = append(list, b)
				v.Policies[policy] = list // what class looks at
				continue
			}
		}
		if v.Policies[policy] = before; !there {
			delete(v.Policies, policy)
		}
		return err
	}
	if v.Policies[policy] = list; len(lines) > 0 || !there {
		s.add(v.Dialect.Policy + " " + policy)
		s.add(lines...)
		s.add("quit")
	}
	return nil
}

// free is the lowest number that no binding has.
func (v *View) free(list []Binding) int {
	if !v.Dialect.Numbered {
		return 0
	}
	n := 1
	for slices.ContainsFunc(list, func(b Binding) bool { return b.Number == n }) {
		n++
	}
	return n
}

// Out takes the classifiers of bindings out of a port's policy.
func (s *Script) Out(port string, classes []string) {
	if len(classes) == 0 {
		return
	}
	v, policy := s.View, PolicyName(port)
	s.add(v.Dialect.Policy + " " + policy)
	list := slices.Clone(v.Policies[policy])
	for _, class := range classes {
		s.add("undo classifier " + class)
		list = slices.DeleteFunc(list, func(b Binding) bool {
			if b.Class == class {
				s.freed(b)
			}
			return b.Class == class
		})
	}
	v.Policies[policy] = list
	s.add("quit")
}

// Deleted are the classifiers of a port's policy that the deletions among operations of the
// compiler stand for.
func (v *View) Deleted(port string, at Position, ops []vlanrules.Op) (classes []string) {
	list := v.Policies[PolicyName(port)]
	for i := range ops {
		if ops[i].Kind != vlanrules.Delete {
			continue
		}
		if n := slices.IndexFunc(list, func(b Binding) bool {
			e, ok := v.entry(b, at)
			return ok && e.Match == ops[i].Entry.Match && e.VID == ops[i].Entry.VID && !slices.Contains(classes, b.Class)
		}); n >= 0 {
			classes = append(classes, list[n].Class)
		}
	}
	return classes
}

// Apply applies a port's own policy to it, in the place of the dead-man's.
func (s *Script) Apply(p *Port) {
	if p.Ours() {
		return
	}
	name := PolicyName(p.Name)
	s.add("interface " + p.Name)
	s.fallBackEnds(p)
	s.add(s.View.Dialect.Apply(name), "quit")
	p.Applied = append(p.Applied, name)
}

// fallBackEnds takes the dead-man's policy off a port, in its view.
func (s *Script) fallBackEnds(p *Port) {
	if s.View.fallen(p) {
		s.add(s.View.Dialect.Unapply(s.View.Kept))
		p.Applied = slices.DeleteFunc(p.Applied, func(name string) bool { return name == s.View.Kept })
	}
}

// Drop takes csig off a port, the dead-man's policy included.
func (s *Script) Drop(port string) {
	policy := PolicyName(port)
	if p := s.View.Port(port); p != nil && (p.Ours() || s.View.fallen(p)) {
		s.add("interface " + port)
		s.fallBackEnds(p)
		if p.Ours() {
			s.add(s.View.Dialect.Unapply(policy))
			p.Applied = slices.DeleteFunc(p.Applied, func(name string) bool { return name == policy })
		}
		s.add("quit")
	}
	if list, there := s.View.Policies[policy]; there {
		s.freed(list...)
		s.add("undo " + s.View.Dialect.Policy + " " + policy)
		delete(s.View.Policies, policy)
	}
}

// Orphans removes policies of csig's whose interface is not there.
func (s *Script) Orphans() {
	for _, policy := range s.View.Orphans() {
		s.add("undo " + s.View.Dialect.Policy + " " + policy)
		delete(s.View.Policies, policy)
	}
}

func (s *Script) freed(list ...Binding) {
	for _, b := range list {
		*s.Freed = append(slices.DeleteFunc(*s.Freed, func(name string) bool { return name == b.Class || name == b.Behavior }), b.Class, b.Behavior)
	}
}

// Tidy removes classifiers and behaviors of csig's that no policy has, but for so many of
// each, those that were in use last.
func (s *Script) Tidy(keep int) {
	classes, behaviors := s.View.Idle()
	for _, name := range s.oldest(classes, keep) {
		s.add("undo traffic classifier " + name)
		delete(s.View.Classes, name)
	}
	for _, name := range s.oldest(behaviors, keep) {
		s.add("undo traffic behavior " + name)
		delete(s.View.Behaviors, name)
	}
}

// oldest are all but so many of names.
func (s *Script) oldest(names []string, keep int) []string {
	if len(names) <= keep {
		return nil
	}
	slices.SortStableFunc(names, func(a, b string) int { return slices.Index(*s.Freed, a) - slices.Index(*s.Freed, b) })
	names = names[:len(names)-keep]
	*s.Freed = slices.DeleteFunc(*s.Freed, func(name string) bool { return slices.Contains(names, name) })
	return names
}

// Note makes a behavior without actions, which records a setup beside what is recorded; Forget removes every other
// record. Between the two the switch has what a change leads from, and to.
func (s *Script) Note(record string) {
	if _, there := s.View.Behaviors[record]; !there {
		s.add("traffic behavior "+record, "quit")
		s.View.Behaviors[record] = nil
	}
}

// Forget removes every record but one, "" for none.
func (s *Script) Forget(but string) {
	for _, old := range s.View.Records() {
		if old != but {
			s.add("undo traffic behavior " + old)
			delete(s.View.Behaviors, old)
		}
	}
}
