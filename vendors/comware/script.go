package comware

import (
	"slices"

	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vlanrules"
)

// script is commands of configuration, from the system view and back to it. What it adds
// is in the view at once: where a command fails the view is read again.
type script struct {
	qos.Script
	view *view
}

func newScript(v *view, at position, freed *[]string) *script {
	return &script{Script: qos.Script{View: v.View, At: at, Freed: freed}, view: v}
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
	c := &change{port: port, ops: len(ops)}
	out := append(slices.Clone(strays), s.View.Deleted(port, s.At, ops)...)
	if err := s.Add(port, ops); err != nil {
		return nil, err
	}
	c.first = s.Cut()
	s.Out(port, out)
	c.then, c.policy = s.Cut(), s.view.associated(port)
	return c, nil
}

// apply applies a port's own policy to it, in the place of the dead-man's: a port takes one.
func (s *script) apply(p *qos.Port) {
	if outbound(p) != deadPolicy {
		s.Apply(p)
		return
	}
	s.Append("interface "+p.Name, dialect.Unapply(deadPolicy), dialect.Apply(qos.PolicyName(p.Name)), "quit")
	p.Applied = []string{qos.PolicyName(p.Name)}
}

// drop takes csig off a port, the dead-man's policy included.
func (s *script) drop(name string) {
	if p := s.View.Port(name); p != nil && outbound(p) == deadPolicy {
		s.Append("interface "+name, dialect.Unapply(deadPolicy), "quit")
		p.Applied = nil
	}
	s.Drop(name)
}

// maxIdle is how many classes, and behaviors, stay that no policy has: a bucket that comes
// back needs no lines for those.
const maxIdle = 16
