package openflow

import (
	"github.com/csig-agent/csig/protocol/ofp"
)

// sort gives each port of csig's what the switch has of it: flows by their rows, and
// groups. loose are flows of csig's that are of no row or no port: those of a
// forwarding flow that is declared no more, of another priority, or the record.
func (f *flat) sort(flows []ofp.Flow, groups []ofp.Group) (ports map[uint32]*flatPort, loose []ofp.Flow) {
	ports = map[uint32]*flatPort{}
	at := func(number uint32) *flatPort {
		if ports[number] == nil {
			ports[number] = &flatPort{groups: map[uint32]ofp.Group{}}
		}
		return ports[number]
	}
	declared := map[ofp.Match]uint32{}
	for i := range f.forwards {
		declared[f.forwards[i].match] = f.forwards[i].number
	}
	for _, fl := range flows {
		if !isOwn(&fl) || fl.Table != f.table {
			continue
		}
		fl.Match = canonical(fl.Match)
		m := fl.Match
		m.VID, m.VIDMask, m.PCP, m.MatchPCP = 0, 0, 0, false
		row := int(fl.Priority) - int(f.priority)
		number, known := declared[m]
		if !known || row < rowStale || row > rowBand1 {
			loose = append(loose, fl)
			continue
		}
		p := at(number)
		p.rows[row] = append(p.rows[row], fl)
	}
	for _, g := range groups {
		if g.ID&ownGroupMask == ownGroup {
			at(g.ID >> 5 & maxOFDPAPort).groups[g.ID] = g
		}
	}
	return ports, loose
}
