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
	freed *[]string // classes and behaviors, in the order in which they went out of use
	lines []string
}

func (s *script) add(lines ...string) { s.lines = append(s.lines, lines...) }

// class makes a class that a policy does not have yet and that matches what an entry does,
// and returns its name.
func (s *script) class(policy string, e *vlanrules.Entry) (string, error) {
	r := rule{at: s.at, pcp: e.Match.PCP.Value, first: e.Match.VID.First, last: e.Match.VID.Last}
	for _, r.bank = range banks {
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

// behavior makes a behavior that marks a VID, and returns its name.
func (s *script) behavior(vid uint16) (string, error) {
	x := value{at: s.at, vid: vid}
	for _, x.bank = range banks {
		name := x.behavior()
		if _, there := s.view.behaviors[name]; there {
			if s.view.rightBehavior(&x) {
				return name, nil
			}
			if s.view.marks(name) {
				continue
			}
			s.add("undo traffic behavior " + name)
		}
		s.add("traffic behavior "+name, x.mark(), "quit")
		s.view.behaviors[name] = []string{x.mark()}
		return name, nil
	}
	return "", errors.New("both behaviors for its next value are in use and not as csig left them: remove them (undo traffic behavior " + x.behavior() + ")")
}

// change is what gives a port other entries.
type change struct {
	port   string
	first  []string // make and associate what is new, behind the old
	then   []string // take the old out, once the new is in hardware
	policy []string // the classes that it leaves there
	ops    int
}

// change makes of operations of the compiler those of a port's policy, which may not exist
// yet. An entry that is added comes behind all others, so what is taken out comes last:
// strays too.
func (s *script) change(port string, ops []vlanrules.Op, strays []string) (*change, error) {
	policy := policyName(port)
	pairs, out := slices.Clone(s.view.policies[policy]), slices.Clone(strays)
	c := &change{port: port, ops: len(ops)}
	var associations []string
	for i := range ops {
		e := &ops[i].Entry
		switch ops[i].Kind {
		case vlanrules.Add:
			s.view.policies[policy] = pairs // what class and behavior look at
			class, err := s.class(policy, e)
			if err != nil {
				return nil, err
			}
			behavior, err := s.behavior(e.VID)
			if err != nil {
				return nil, err
			}
			associations = append(associations, "classifier "+class+" behavior "+behavior)
			pairs = append(pairs, pair{class, behavior})
		case vlanrules.Delete:
			at := slices.IndexFunc(pairs, func(p pair) bool {
				h, ok := s.view.entry(p, s.at)
				return ok && h.Match == e.Match && h.VID == e.VID && !slices.Contains(out, p.class)
			})
			if at < 0 {
				return nil, errors.New("csig's defect: an entry to be deleted is not there")
			}
			out = append(out, pairs[at].class)
		default:
			return nil, errors.New("csig's defect: an entry cannot change in place")
		}
	}
	c.first = s.lines
	if s.lines = nil; len(associations) > 0 || s.view.policies[policy] == nil {
		c.first = append(append(append(c.first, "qos policy "+policy), associations...), "quit")
	}
	left := pairs
	for _, class := range out {
		at := slices.IndexFunc(left, func(p pair) bool { return p.class == class })
		if at < 0 {
			continue
		}
		s.noteFreed(left[at].class, left[at].behavior)
		left = slices.Delete(slices.Clone(left), at, at+1)
		s.add("undo classifier " + class)
	}
	if len(s.lines) > 0 {
		c.then = append(append([]string{"qos policy " + policy}, s.lines...), "quit")
	}
	if s.lines = nil; left == nil {
		left = []pair{}
	}
	s.view.policies[policy] = left
	for _, p := range left {
		c.policy = append(c.policy, p.class)
	}
	return c, nil
}

// apply applies a port's own policy to it.
func (s *script) apply(p *port) {
	name := policyName(p.name)
	if p.outbound == name {
		return
	}
	s.add("interface " + p.name)
	if p.outbound == deadPolicy { // a port takes one
		s.add("undo qos apply policy outbound")
	}
	s.add("qos apply policy "+name+" outbound", "quit")
	p.outbound = name
}

// drop takes csig off a port.
func (s *script) drop(name string) {
	policy := policyName(name)
	if p := s.view.port(name); p != nil && (p.outbound == policy || p.outbound == deadPolicy) {
		s.add("interface "+name, "undo qos apply policy outbound", "quit")
		p.outbound = ""
	}
	if _, there := s.view.policies[policy]; there {
		s.add("undo qos policy " + policy)
		delete(s.view.policies, policy)
	}
}

// orphans removes policies of csig's whose interface is not there.
func (s *script) orphans() {
	for _, policy := range s.view.orphans() {
		s.add("undo qos policy " + policy)
		delete(s.view.policies, policy)
	}
}

// maxIdle is how many classes, and behaviors, stay that no policy has: a bucket that comes
// back needs no lines for those.
const maxIdle = 16

func (s *script) noteFreed(names ...string) {
	*s.freed = append(slices.DeleteFunc(*s.freed, func(name string) bool { return slices.Contains(names, name) }), names...)
}

// tidy removes classes and behaviors of csig's that no policy has, but for so many of each,
// those that were in use last.
func (s *script) tidy(keep int) {
	classes, behaviors := s.view.idle()
	oldest := func(names []string) []string {
		if len(names) <= keep {
			return nil
		}
		slices.SortStableFunc(names, func(a, b string) int { return slices.Index(*s.freed, a) - slices.Index(*s.freed, b) })
		names = names[:len(names)-keep]
		*s.freed = slices.DeleteFunc(*s.freed, func(name string) bool { return slices.Contains(names, name) })
		return names
	}
	for _, name := range oldest(classes) {
		s.add("undo traffic classifier " + name)
		delete(s.view.classes, name)
	}
	for _, name := range oldest(behaviors) {
		s.add("undo traffic behavior " + name)
		delete(s.view.behaviors, name)
	}
}

// note records a setup beside what is recorded; forget removes every other record. Between
// the two the switch has what a change leads from, and to.
func (s *script) note(record string) {
	if _, there := s.view.behaviors[record]; !there {
		s.add("traffic behavior "+record, "quit")
		s.view.behaviors[record] = nil
	}
}

func (s *script) forget(but string) {
	for _, old := range s.view.records() {
		if old != but {
			s.add("undo traffic behavior " + old)
			delete(s.view.behaviors, old)
		}
	}
}
