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

// class makes a classifier that a policy does not have yet and that matches what an entry
// does, and returns its name.
func (s *Script) class(policy string, e *vlanrules.Entry) (string, error) {
	v := s.View
	r := Rule{At: s.At, PCP: e.Match.PCP.Value, First: e.Match.VID.First, Last: e.Match.VID.Last}
	for _, r.Bank = range []byte("ab") {
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

// behavior makes the behavior that marks a VID, and returns its name.
func (s *Script) behavior(vid uint16) (string, error) {
	v := s.View
	x := Value{At: s.At, VID: vid}
	name := x.Behavior()
	if _, there := v.Behaviors[name]; there {
		switch {
		case v.rightBehavior(&x):
			return name, nil
		case v.uses(func(b Binding) bool { return b.Behavior == name }):
			return "", fmt.Errorf("behavior %s is in use and not as csig left it: give it back the line %q alone", name, v.Dialect.markLine(&x))
		}
		s.add("undo traffic behavior " + name)
	}
	s.add("traffic behavior "+name, v.Dialect.markLine(&x), "quit")
	v.Behaviors[name] = []string{v.Dialect.markLine(&x)}
	return name, nil
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
		list = slices.DeleteFunc(list, func(b Binding) bool { return b.Class == class })
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

// Apply applies a port's own policy to it.
func (s *Script) Apply(p *Port) {
	if !p.Ours() {
		s.add("interface "+p.Name, s.View.Dialect.Apply(PolicyName(p.Name)), "quit")
		p.Applied = append(p.Applied, PolicyName(p.Name))
	}
}

// Drop takes csig off a port.
func (s *Script) Drop(port string) {
	policy := PolicyName(port)
	if p := s.View.Port(port); p != nil && p.Ours() {
		s.add("interface "+port, s.View.Dialect.Unapply(policy), "quit")
		p.Applied = slices.DeleteFunc(p.Applied, func(name string) bool { return name == policy })
	}
	if _, there := s.View.Policies[policy]; there {
		s.add("undo " + s.View.Dialect.Policy + " " + policy)
		delete(s.View.Policies, policy)
	}
}

// Tidy removes classifiers and behaviors of csig's that no policy has, where there are more
// than so many of either.
func (s *Script) Tidy(most int) {
	classes, behaviors := s.View.Idle()
	if len(classes) <= most && len(behaviors) <= most {
		return
	}
	for _, name := range classes {
		s.add("undo traffic classifier " + name)
		delete(s.View.Classes, name)
	}
	for _, name := range behaviors {
		s.add("undo traffic behavior " + name)
		delete(s.View.Behaviors, name)
	}
}

// Record notes a setup by its RecordName, and forgets every other; "" is none.
func (s *Script) Record(name string) {
	if _, there := s.View.Behaviors[name]; name != "" && !there {
		s.add("traffic behavior "+name, "quit")
		s.View.Behaviors[name] = nil
	}
	for _, old := range s.View.Records() {
		if old != name {
			s.add("undo traffic behavior " + old)
			delete(s.View.Behaviors, old)
		}
	}
}
