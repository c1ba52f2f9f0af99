package plans

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// lastWave is what no other wave of a stage has.
const lastWave = "rest"

// wave is one of Options.Waves. A wave of a tag has the devices with that tag that
// no earlier tag has. A percentage is of the devices that a stage changes and that
// no tag has: the first of them in the order of the fleet file, up to this part of
// them, rounded up, those of the percentages before included.
type wave struct {
	name    string
	percent int  // 0: of a tag
	one     bool // the default's: one device, where no tag says which
}

// upTo is how many of the devices without a tag the waves have up to this one.
func (w wave) upTo(loose int) int {
	if w.one {
		return min(1, loose)
	}
	return (loose*w.percent + 99) / 100
}

// noTag is the wave of a node that only percentages count.
const noTag = -1

// parseWaves takes the waves that are asked for. One that would be empty if the
// whole fleet changed is an error.
func (b *builder) parseWaves() error {
	for i := range b.nodes {
		b.nodes[i].wave = noTag
	}
	if b.options.Waves == nil {
		b.assignTagWave(wave{name: "canary"})
		if len(b.waves) == 0 {
			b.waves = []wave{{name: "canary", one: true}}
		}
		b.waves = append(b.waves, wave{name: "10%", percent: 10})
		return nil
	}
	for _, name := range b.options.Waves {
		percent, isPercent, err := percentage(name)
		switch {
		case err != nil:
			return err
		case name == lastWave:
			return fmt.Errorf("wave %q: that is the name of the last wave, of all that the others leave", name)
		case isPercent:
			b.waves = append(b.waves, wave{name: name, percent: percent})
		case b.assignTagWave(wave{name: name}) > 0:
		case slices.ContainsFunc(b.nodes, func(n node) bool { return !n.outside && slices.Contains(n.dev.Tags, name) }):
			return fmt.Errorf("wave %q is empty: the waves before it have every device with that tag", name)
		default:
			of := b.fleet.Path
			if b.plan.Target != nil {
				of = "the target"
			}
			return fmt.Errorf("wave %q: no device of %s has that tag; waves are tags, or percentages such as 10%%", name, of)
		}
	}
	loose := 0
	for i := range b.nodes {
		if b.nodes[i].wave == noTag && !b.nodes[i].outside {
			loose++
		}
	}
	had := 0
	for _, w := range b.waves {
		if w.percent == 0 {
			continue
		}
		if loose == 0 {
			return fmt.Errorf("wave %q is empty: percentages count the devices that no tag of --waves has, and there are none", w.name)
		}
		n := w.upTo(loose)
		if n <= had {
			return fmt.Errorf("wave %q is empty: percentages include the waves before them, and %d of the %d devices that no tag has are in those already; %d%% of them are %d", w.name, had, loose, w.percent, n)
		}
		had = n
	}
	return nil
}

// assignTagWave puts the devices with the wave's tag that are in no wave into it, and
// returns how many.
func (b *builder) assignTagWave(w wave) int {
	n := 0
	for i := range b.nodes {
		if one := &b.nodes[i]; one.wave == noTag && !one.outside && slices.Contains(one.dev.Tags, w.name) {
			b.nodes[i].wave = len(b.waves)
			n++
		}
	}
	if n > 0 {
		b.waves = append(b.waves, w)
	}
	return n
}

// addStageInWaves appends a stage that has these steps, by their nodes, in waves; none
// where there is no step. Empty waves are left out.
func (b *builder) addStageInWaves(s Stage, nodes []int, steps []Step) {
	if len(steps) == 0 {
		return
	}
	loose := 0
	for _, i := range nodes {
		if b.nodes[i].wave == noTag {
			loose++
		}
	}
	waves := make([]Wave, len(b.waves)+1)
	seen := 0 // of the loose
	for k, i := range nodes {
		at := b.nodes[i].wave
		if at == noTag {
			at = slices.IndexFunc(b.waves, func(w wave) bool { return (w.one || w.percent > 0) && seen < w.upTo(loose) })
			if at < 0 {
				at = len(b.waves)
			}
			seen++
		}
		waves[at].Steps = append(waves[at].Steps, steps[k])
	}
	for at, w := range waves {
		if len(w.Steps) == 0 {
			continue
		}
		if w.Name = lastWave; at < len(b.waves) {
			w.Name = b.waves[at].name
		}
		for k := range w.Steps {
			b.steps++
			w.Steps[k].ID = b.steps
		}
		s.Waves = append(s.Waves, w)
	}
	b.plan.Stages = append(b.plan.Stages, s)
}

// percentage reads a wave such as "10%"; false for one that is none.
func percentage(name string) (percent int, ok bool, err error) {
	digits, ok := strings.CutSuffix(name, "%")
	if !ok {
		return 0, false, nil
	}
	if _, err := fmt.Sscanf(digits, "%d", &percent); err != nil || percent < 1 || percent > 100 || fmt.Sprint(percent) != digits {
		return 0, false, fmt.Errorf("wave %q: want a percentage between 1%% and 100%%", name)
	}
	return percent, true, nil
}

// sameNames refuses waves that a journal could not tell apart, and devices with
// two steps in one wave.
func (p *Plan) sameNames() error {
	waves := map[string]bool{}
	for name, w := range p.EachWave() {
		if waves[name] {
			return fmt.Errorf("not a plan: it has wave %q twice", untrusted.Text(name, 60))
		}
		waves[name] = true
		devices := make(map[string]bool, len(w.Steps))
		for i := range w.Steps {
			if devices[w.Steps[i].Device] {
				return fmt.Errorf("not a plan: device %q has two steps in wave %q", untrusted.Text(w.Steps[i].Device, 60), untrusted.Text(name, 60))
			}
			devices[w.Steps[i].Device] = true
		}
	}
	return nil
}
