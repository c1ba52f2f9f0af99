package openflow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
)

// features are what the switch reports of csig's tables.
type features struct {
	of      *ofp.Conn // that was asked
	problem string    // what a table cannot, by its number and name; "" where it can all
	strip   string    // the same, for what only ports that strip need
	assumed string    // why that is not known
	entries int       // that the table of the signal has; 0: it does not report it
}

// askFeatures asks the switch what its tables can do, once for a connection.
func (d *Driver) askFeatures(ctx context.Context) (*features, error) {
	return d.ask(ctx, func(f *features, list []ofp.TableFeatures) { f.judge(list, d.cfg.Table) })
}

func (d *Flat) askFeatures(ctx context.Context) (*features, error) {
	return d.ask(ctx, func(f *features, list []ofp.TableFeatures) { f.judgeOne(list, &d.cfg) })
}

func (d *device) ask(ctx context.Context, judge func(*features, []ofp.TableFeatures)) (*features, error) {
	if d.features != nil && d.features.of == d.of {
		return d.features, nil
	}
	f := &features{of: d.of}
	list, err := d.of.TableFeatures(ctx)
	var refused *ofp.Error
	switch {
	case errors.As(err, &refused):
		f.assumed = "assumed, because the switch does not report what its tables can do: " + refused.Error()
	case err != nil:
		return nil, d.broken(err)
	case len(list) == 0:
		f.assumed = "assumed, because the switch does not report what its tables can do"
	default:
		judge(f, list)
	}
	d.features = f
	return f, nil
}

// tableOf is a table and how messages call it; nil where the switch has none.
func tableOf(list []ofp.TableFeatures, id uint8) (*ofp.TableFeatures, string) {
	name := fmt.Sprintf("table %d", id)
	i := slices.IndexFunc(list, func(t ofp.TableFeatures) bool { return t.ID == id })
	if i < 0 {
		return nil, name
	}
	if list[i].Name != "" {
		name += " (" + list[i].Name + ")"
	}
	return &list[i], name
}

// judgeOne looks for what csig's flows in the one table need.
func (f *features) judgeOne(list []ofp.TableFeatures, cfg *FlatConfig) {
	t, name := tableOf(list, cfg.Table)
	if t == nil {
		f.problem = "there is no " + name
		return
	}
	f.entries = int(t.MaxEntries)
	var problems []string
	lacks := func(what string, has bool) {
		if text := name + " cannot " + what; !has && !slices.Contains(problems, text) {
			problems = append(problems, text)
		}
	}
	if t.Match != nil {
		matches := func(field ofp.Field, name string, mask bool) {
			all, masked := t.Matches(field)
			if mask {
				lacks("mask "+name, masked)
			} else {
				lacks("match "+name, all)
			}
		}
		matches(ofp.FieldVLANVID, "VLAN_VID", true)
		matches(ofp.FieldVLANPCP, "VLAN_PCP", false)
		for i := range cfg.Forwarding {
			w := &cfg.Forwarding[i]
			if w.InPort != "" {
				matches(oxmField(oxmInPort), "IN_PORT", false)
			}
			m, _ := w.match() // the fleet file was checked
			fields, _ := splitOXM(m.Else)
			for field, v := range fields {
				matches(oxmField(field), map[byte]string{oxmEthDst: "ETH_DST", oxmIPv4Dst: "IPV4_DST"}[field], len(bytes.Trim(v.mask, "\xff")) > 0)
			}
		}
	}
	if t.Instructions.Known && !cfg.OFDPA {
		lacks("apply actions", t.Instructions.Has(ofp.InstructionApply))
	}
	if t.Instructions.Known && cfg.OFDPA {
		lacks("write actions", t.Instructions.Has(ofp.InstructionWrite))
	}
	if t.ApplySetFields != nil && !cfg.OFDPA {
		lacks("set VLAN_VID", t.Sets(ofp.FieldVLANVID))
	}
	slices.Sort(problems)
	if f.problem = strings.Join(problems, "; "); t.Match == nil || !t.Instructions.Known {
		f.assumed = "assumed in part, because the switch does not report all that tables can do: " + name
	}
}

// oxmField is one of OpenFlow's own fields (§7.2.3.7).
func oxmField(id byte) ofp.Field { return 0x8000<<16 | ofp.Field(id)<<9 }

// judge looks for what csig's tables need.
func (f *features) judge(list []ofp.TableFeatures, base uint8) {
	var problems, strip, silent []string
	for table := range uint8(tables) {
		t, name := tableOf(list, base+table)
		if t == nil {
			problems = append(problems, "there is no "+name)
			continue
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
		f.assumed = "assumed in part, because the switch does not report all that tables can do: " + strings.Join(silent, ", ")
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
