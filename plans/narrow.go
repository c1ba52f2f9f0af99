package plans

import (
	"slices"

	"github.com/csig-agent/csig/findings"
)

// Narrow is the plan of some of its devices, for reading: their steps in the order
// of the whole, and the findings about them or the fleet. The totals stay those of
// the whole. It cannot be carried out, as what makes the order safe is left out;
// nil is the plan itself.
func (p *Plan) Narrow(names []string) *Plan {
	if len(names) == 0 {
		return p
	}
	asked := make(map[string]bool, len(names))
	for _, name := range names {
		asked[name] = true
	}
	out := *p
	out.Only = slices.Clone(names)
	out.Devices = slices.DeleteFunc(slices.Clone(p.Devices), func(d Device) bool { return !asked[d.Device] })
	out.Findings = slices.DeleteFunc(slices.Clone(p.Findings), func(f findings.Finding) bool {
		return f.Device != "" && !asked[f.Device] && !slices.ContainsFunc(f.Peers, func(peer string) bool { return asked[peer] })
	})
	out.Stages = []Stage{}
	for _, s := range p.Stages {
		waves := []Wave{}
		for _, w := range s.Waves {
			w.Steps = slices.DeleteFunc(slices.Clone(w.Steps), func(step Step) bool { return !asked[step.Device] })
			if len(w.Steps) > 0 {
				waves = append(waves, w)
			}
		}
		s.Waves = waves // none leave the stage in its place
		out.Stages = append(out.Stages, s)
	}
	return &out
}
