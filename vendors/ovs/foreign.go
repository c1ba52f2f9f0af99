package ovs

import (
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vlanrules"
)

// csig deletes and overwrites only flows with its cookie. Where a foreign one appears in
// csig's tables, the ports whose frames it may take have the fallback among their live
// flows, lease or not, and an error.

// taker is a foreign flow of csig's tables that may take frames of a port's in place of
// csig's own flows; nil: there is none.
func (d *Driver) taker(s *state, number uint32, action vlanrules.Action) *ofp.Flow {
	for i := range s.foreign {
		f := &s.foreign[i]
		out := f.Match.Regs[regOut]
		switch table := f.Table - d.cfg.Table; {
		case number == 0 || (out.Value^number)&out.Mask != 0:
		case action == vlanrules.Passthrough && table != tableEntry:
		case action == vlanrules.Strip && (table == tableLive || table == tableStale):
		case action != vlanrules.Passthrough && table == tableEntry && f.Priority < priorityPort: // tagged frames do not meet it
		default:
			return f
		}
	}
	return nil
}
