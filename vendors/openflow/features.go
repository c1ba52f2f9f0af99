package openflow

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/ofp"
)

// features are what the switch says of csig's tables.
type features struct {
	of      *ofp.Conn // that was asked
	problem string    // what a table cannot, by its number and name; "" where it can all
	strip   string    // the same, for what only ports that strip need
	assumed string    // why that is not known
	entries int       // that tableLive has; 0: it does not say
}

// askFeatures asks the switch what its tables can do, once for a connection.
func (d *Driver) askFeatures(ctx context.Context) (*features, error) {
	if d.features != nil && d.features.of == d.of {
		return d.features, nil
	}
	f := &features{of: d.of}
	list, err := d.of.TableFeatures(ctx)
	var refused *ofp.Error
	switch {
	case errors.As(err, &refused):
		f.assumed = "the switch does not say what its tables can do: " + refused.Error()
	case err != nil:
		return nil, d.broken(err)
	case len(list) == 0:
		f.assumed = "the switch does not say what its tables can do"
	default:
		f.judge(list, d.cfg.Table)
	}
	d.features = f
	return f, nil
}

// judge looks for what csig's tables need.
func (f *features) judge(list []ofp.TableFeatures, base uint8) {
	var problems, strip, silent []string
	for table := range uint8(tables) {
		var t *ofp.TableFeatures
		for i := range list {
			if list[i].ID == base+table {
				t = &list[i]
			}
		}
		if t == nil {
			problems = append(problems, fmt.Sprintf("there is no table %d", base+table))
			continue
		}
		name := fmt.Sprintf("table %d", t.ID)
		if t.Name != "" {
			name += " (" + t.Name + ")"
		}
		lacks := func(to *[]string, what string, has bool) {
			if !has {
				*to = append(*to, name+" cannot "+what)
			}
		}
		if t.Match == nil || !t.Instructions.Known {
			silent = append(silent, name)
		}
		if t.Match != nil {
			_, masked := t.Matches(ofp.FieldMetadata)
			lacks(&problems, fmt.Sprintf("match the bits %#x of METADATA", portMask), masked && t.MetadataMatch&portMask == portMask)
			to := &problems
			if table == tableSelect { // only ports that strip have a tag matched there
				to = &strip
			}
			_, masked = t.Matches(ofp.FieldVLANVID)
			lacks(to, "mask VLAN_VID", masked)
			if table != tableSelect {
				pcp, _ := t.Matches(ofp.FieldVLANPCP)
				lacks(&problems, "match VLAN_PCP", pcp)
			}
		}
		if table != tableSelect && t.ApplySetFields != nil {
			lacks(&problems, "set VLAN_VID", t.Sets(ofp.FieldVLANVID))
		}
		if t.ApplyActions.Known {
			lacks(&problems, "output", t.ApplyActions.Has(ofp.ActionOutput))
			if table == tableSelect {
				lacks(&strip, "pop a VLAN tag", t.ApplyActions.Has(ofp.ActionPopVLAN))
			}
		}
		if t.Instructions.Known {
			lacks(&problems, "apply actions", t.Instructions.Has(ofp.InstructionApply))
			if table == tableSelect {
				lacks(&problems, "lead to other tables", t.Instructions.Has(ofp.InstructionGoto))
			}
		}
		for _, next := range []uint8{tableLive, tableStale} {
			if table == tableSelect && t.Next.Known {
				lacks(&problems, fmt.Sprintf("lead to table %d", base+next), t.Next.Has(base+next))
			}
		}
		if table == tableLive {
			f.entries = int(t.MaxEntries)
		}
	}
	f.problem, f.strip = strings.Join(problems, "; "), strings.Join(strip, "; ")
	if len(silent) > 0 {
		f.assumed = "the switch does not say all of what tables can do: " + strings.Join(silent, ", ")
	}
}

// refuse refuses, before anything is written, a setup that needs what the tables
// cannot do.
func (f *features) refuse(s *vendors.Setup) error {
	why := f.problem
	if why == "" && s.Strips() {
		why = f.strip
	}
	if why == "" {
		return nil
	}
	return &vendors.PermanentError{Err: fmt.Errorf("%s: give csig other tables with management: {openflow: {table: N}}", why)}
}
