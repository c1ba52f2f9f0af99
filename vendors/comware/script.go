package comware

import (
	"errors"
	"slices"

	"github.com/csig-agent/csig/vlanrules"
)

// script is commands of configuration, from the system view and back to it. What it adds
// is in the view at once: where a command fails the view is read again.
type script struct {
	view  *view
	at    position
	lines []string
}

func (s *script) add(lines ...string) { s.lines = append(s.lines, lines...) }

// class makes a class that a policy does not have yet and that matches what an entry does,
// and returns its name.
func (s *script) class(policy string, e *vlanrules.Entry) (string, error) {
	r := rule{at: s.at, pcp: e.Match.PCP.Value, first: e.Match.VID.First, last: e.Match.VID.Last}
	for _, r.bank = range []byte("ab") {
		name := r.class()
		if slices.ContainsFunc(s.view.policies[policy], func(p pair) bool { return p.class == name }) {
			continue
		}
		if _, there := s.view.classes[name]; there {
			if s.view.rightClass(&r) {
				return name, nil
			}
			if s.view.used(name) {
				continue
			}
			s.add("undo traffic classifier " + name)
		}
		lines := r.matches()
		s.add("traffic classifier " + name + " operator and")
		s.add(lines...)
		s.add("quit")
		slices.Sort(lines)
		s.view.classes[name] = append([]string{"and"}, lines...)
		return name, nil
	}
	return "", errors.New("both classes for its next value are in use and not as csig left them: remove them (undo traffic classifier " + r.class() + ")")
}

// behavior makes the behavior that marks a VID, and returns its name.
func (s *script) behavior(vid uint16) (string, error) {
	x := value{at: s.at, vid: vid}
	name := x.behavior()
	_, there := s.view.behaviors[name]
	switch {
	case there && s.view.rightBehavior(&x):
		return name, nil
	case there && s.view.marks(name):
		return "", errors.New("behavior " + name + " is in use and not as csig left it: remove it (undo traffic behavior " + name + ")")
	case there:
		s.add("undo traffic behavior " + name)
	}
	s.add("traffic behavior "+name, x.mark(), "quit")
	s.view.behaviors[name] = []string{x.mark()}
	return name, nil
}

// change carries out operations of the compiler on a policy, which may not exist yet: an
// entry that is added comes behind all others. strays are taken out last.
func (s *script) change(policy string, ops []vlanrules.Op, strays []string) (err error) {
	before, there := s.view.policies[policy]
	defer func() {
		if err == nil {
			return
		}
		// Classes and behaviors that it made so far are of use, or idle.
		if s.view.policies[policy] = before; !there {
			delete(s.view.policies, policy)
		}
	}()
	var lines []string
	pairs := slices.Clone(s.view.policies[policy])
	take := func(i int) {
		lines = append(lines, "undo classifier "+pairs[i].class)
		pairs = slices.Delete(pairs, i, i+1)
	}
	for i := range ops {
		e := &ops[i].Entry
		switch ops[i].Kind {
		case vlanrules.Add:
			class, err := s.class(policy, e)
			if err != nil {
				return err
			}
			behavior, err := s.behavior(e.VID)
			if err != nil {
				return err
			}
			lines = append(lines, "classifier "+class+" behavior "+behavior)
			pairs = append(pairs, pair{class, behavior})
		case vlanrules.Delete:
			at := slices.IndexFunc(pairs, func(p pair) bool {
				h, ok := s.view.entry(p, s.at)
				return ok && h.Match == e.Match && h.VID == e.VID
			})
			if at < 0 {
				return errors.New("csig's defect: an entry to be deleted is not there")
			}
			take(at)
		default:
			return errors.New("csig's defect: an entry cannot change in place")
		}
		s.view.policies[policy] = pairs // what class looks at
	}
	for _, class := range strays {
		if at := slices.IndexFunc(pairs, func(p pair) bool { return p.class == class }); at >= 0 {
			take(at)
		}
	}
	s.view.policies[policy] = pairs
	s.add("qos policy " + policy)
	s.add(lines...)
	s.add("quit")
	return nil
}

// apply applies a port's own policy to it.
func (s *script) apply(p *port) {
	if name := policyName(p.name); p.outbound != name {
		s.add("interface "+p.name, "qos apply policy "+name+" outbound", "quit")
		p.outbound = name
	}
}

// drop takes csig off a port.
func (s *script) drop(name string) {
	policy := policyName(name)
	if p := s.view.port(name); p != nil && p.outbound == policy {
		s.add("interface "+name, "undo qos apply policy outbound", "quit")
		p.outbound = ""
	}
	if _, there := s.view.policies[policy]; there {
		s.add("undo qos policy " + policy)
		delete(s.view.policies, policy)
	}
}

// tidy removes classes and behaviors of csig's that no policy has.
func (s *script) tidy() {
	classes, behaviors := s.view.idle()
	for _, name := range classes {
		s.add("undo traffic classifier " + name)
		delete(s.view.classes, name)
	}
	for _, name := range behaviors {
		s.add("undo traffic behavior " + name)
		delete(s.view.behaviors, name)
	}
}

// record notes a setup, and forgets every other; "" is none.
func (s *script) record(name string) {
	if _, there := s.view.behaviors[name]; name != "" && !there {
		s.add("traffic behavior "+name, "quit")
		s.view.behaviors[name] = nil
	}
	for _, old := range s.view.records() {
		if old != name {
			s.add("undo traffic behavior " + old)
			delete(s.view.behaviors, old)
		}
	}
}
