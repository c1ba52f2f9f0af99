package vrp

import (
	"errors"
	"slices"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vlanrules"
)

// plan is what makes a setup of what a view has.
type plan struct {
	profile  *profile
	compiler *vlanrules.Compiler
	want     *vendors.Setup
	signals  map[string]*vendors.PortSignal // what ports write
	skip     func(port string) bool         // ports that keep what they have
}

// record is the name of the setup's; "" for that of none.
func (p *plan) record() string {
	if p.want.TPID == 0 {
		return ""
	}
	return qos.RecordName(p.want, at)
}

// prepare is what comes before the ports' changes. The record of another setup goes last:
// what stands at any moment between is csig's by a record, or by its name.
func (p *plan) prepare(s *qos.Script) {
	if record := p.record(); record != "" {
		s.Note(record)
	}
	want := updating(p.want)
	for _, name := range s.View.Ours() {
		if !want.HasPort(name) && !p.skip(name) && s.View.ForeignIn(name) == "" {
			s.For(name)
			s.Drop(name)
		}
	}
	s.For("")
}

// finish is what comes after them. What Update made and has no use for is no reason to write.
func (p *plan) finish(s *qos.Script) {
	s.Orphans()
	want := updating(p.want)
	s.GiveBack(func(port string) bool { // also of one whose policy the switch did not take
		at := s.View.Port(port)
		return want.HasPort(port) && at != nil && at.Ours() || p.skip(port)
	})
	s.Forget(p.record())
	if len(s.Lines) > 0 {
		s.Tidy(0)
	}
}

// changes are those of the ports.
func (p *plan) changes(v *view) (out []*change) {
	want, old := updating(p.want), v.setup()
	fresh := describe(&old) != describe(want) || old.Damaged != ""
	for i := range want.Ports {
		port := want.Ports[i].Port
		if p.skip(port) {
			continue
		}
		_, there := v.Policies[qos.PolicyName(port)]
		c := &change{port: port, apply: true, tpid: want.TPID}
		// What a port that had a policy already writes stays, unless what all share changes.
		if _, strays := v.Table(nil, port, at); !there || fresh || len(strays) > 0 {
			intents := want.Fallback()
			if g := p.signals[port]; g != nil && g.Given() && !g.Refused() && !fresh {
				intents = slices.Clone(g.Intents())
			}
			c.compile = func(have vlanrules.Table) ([]vlanrules.Op, error) {
				var r vlanrules.Result
				p.compiler.Compile(&r, have, intents)
				if r.Verdict.Level == vlanrules.Refused || r.Gap {
					return nil, &vendors.PermanentError{Port: port, Err: errors.New(r.Verdict.Reason)}
				}
				return slices.Clone(r.Ops), nil
			}
		}
		out = append(out, c)
	}
	return out
}
