package eos

import (
	"errors"
	"fmt"
	"slices"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Rules is what the table is to the compiler: covers of direct values, of which it does not
// matter which of two that match wins. Their values change in place to it, as the
// priorities make it look. VLAN IDs that are set are 1 to 4094.
func Rules() vlanrules.Caps {
	return vlanrules.Caps{Match: vlanrules.MatchTernaryUnordered, MatchPCP: true, Txn: vlanrules.TxnEntry, Modify: true, VIDMin: 1, VIDMax: 4094, MatchReserved: true}
}

// covers are the entries of intents.
func (d *Driver) covers(intents []vlanrules.Intent) (vlanrules.Table, error) {
	var res vlanrules.Result
	d.Compiler.Compile(&res, nil, intents)
	if res.Verdict.Level == vlanrules.Refused {
		return nil, errors.New(res.Verdict.Reason)
	}
	return res.Table, nil
}

// rules are a port's flows in a band.
func (d *Driver) rules(port string, table vlanrules.Table, band int) map[string]rule {
	out := map[string]rule{}
	for i := range d.cfg.Forwarding {
		f := &d.cfg.Forwarding[i]
		if f.Port != port {
			continue
		}
		for j := range table {
			r := ruleOf(f, &table[j], band)
			out[r.name()] = r
		}
	}
	return out
}

// replace adds to a script a port's flows for these intents, in a band of its own over or
// under those that there are, and to old the flows that go when they are in hardware. There
// is nothing to do where the port has them.
func (d *Driver) replace(s, old *script, v *view, port string, intents []vlanrules.Intent) error {
	table, err := d.covers(intents)
	if err != nil {
		return &vendors.PermanentError{Port: port, Err: err}
	}
	held, damaged, used := d.held(v, port)
	fallen := d.fallen(v, port)
	if len(damaged) == 0 && d.same(port, table, held) {
		old.del(v, fallen...)
		return nil
	}
	band, err := freeBand(used)
	if err != nil {
		return &vendors.PermanentError{Port: port, Err: err}
	}
	for _, r := range d.rules(port, table, band) {
		if err := s.add(r, d.forward(r.forward), d.cfg.Priority); err != nil {
			return &vendors.PermanentError{Port: port, Err: err}
		}
	}
	old.del(v, slices.Concat(sorted(held), damaged, fallen)...)
	return nil
}

// same reports whether a port's flows are those of a table, in one band.
func (d *Driver) same(port string, table vlanrules.Table, held map[string]rule) bool {
	band := 0
	for _, r := range held {
		band = r.band
		break
	}
	want := d.rules(port, table, band)
	if len(want) != len(held) {
		return false
	}
	for name := range want {
		if _, ok := held[name]; !ok {
			return false
		}
	}
	return true
}

// freeBand is one over all that are in use, else under all.
func freeBand(used [bands]bool) (int, error) {
	first, last := slices.Index(used[:], true), -1
	for i, u := range used {
		if u {
			last = i
		}
	}
	switch {
	case first < 0:
		return 0, nil
	case last < bands-1:
		return last + 1, nil
	case first > 0:
		return first - 1, nil
	}
	return 0, fmt.Errorf("its flows have the first and the last of csig's %d priorities, as changes that broke off may leave them: csig off and csig apply make them again", bands)
}
