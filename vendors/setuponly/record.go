package setuponly

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// maxRecord is how many bytes of a record are looked at: 512 ports with long names have half.
const maxRecord = 128 << 10

// record is what the switch says of csig.
type record struct {
	Setup  *vendors.Setup    // nil: there is none
	Before map[string]before // by port
}

// recordJSON is a record as the switch keeps it: ports that had the same together, since
// places for text are small.
type recordJSON struct {
	Setup  *vendors.Setup `json:"setup,omitempty"`
	Before []sameBefore   `json:"before,omitempty"`
}

type sameBefore struct {
	before
	Ports []string `json:"ports"`
}

// before is what csig found at a port where it changed something, beside what it wrote:
// nothing else is given back.
type before struct {
	TPID *string `json:"tpid,omitempty"` // nil: csig did not change it
	Ours string  `json:"tpid_csig,omitempty"`

	MTU     *int `json:"mtu,omitempty"`      // as configured; 0: it was not
	MTUNow  int  `json:"mtu_now,omitempty"`  // that held
	OursMTU int  `json:"mtu_csig,omitempty"` // that csig wrote

	// While lines of a change are given one by one: what csig wrote before.
	Old    []string `json:"tpid_csig_before,omitempty"`
	OldMTU []int    `json:"mtu_csig_before,omitempty"`
}

// both is what is true of a port before and after a change: csig's is what either says.
func both(old, now before) before {
	if now.TPID == nil {
		now.TPID, now.Ours = old.TPID, old.Ours
	} else if old.TPID != nil && !slices.Contains(now.Old, old.Ours) {
		now.Old = append(now.Old, old.Ours)
	}
	if now.MTU == nil {
		now.MTU, now.MTUNow, now.OursMTU = old.MTU, old.MTUNow, old.OursMTU
	} else if old.MTU != nil && !slices.Contains(now.OldMTU, old.OursMTU) {
		now.OldMTU = append(now.OldMTU, old.OursMTU)
	}
	for _, tpid := range old.Old {
		if !slices.Contains(now.Old, tpid) {
			now.Old = append(now.Old, tpid)
		}
	}
	for _, mtu := range old.OldMTU {
		if !slices.Contains(now.OldMTU, mtu) {
			now.OldMTU = append(now.OldMTU, mtu)
		}
	}
	return now
}

// between is what is true while an edit turns the record old into r. again are ports that are
// given the TPID that they have: meanwhile they have the default.
func (r record) between(old record, again map[string]string) record {
	out := record{Setup: r.Setup, Before: maps.Clone(r.Before)}
	if out.Setup == nil {
		out.Setup = old.Setup
	}
	for port, b := range old.Before {
		out.Before[port] = both(b, out.Before[port])
	}
	for port, tpid := range again {
		b := out.Before[port]
		if b.TPID == nil {
			b.TPID, b.Ours = &tpid, ""
		} else if !slices.Contains(b.Old, "") {
			b.Old = append(slices.Clone(b.Old), "")
		}
		out.Before[port] = b
	}
	return out
}

// done deletes what was only true while a change was under way.
func (r record) done() {
	for port, b := range r.Before {
		b.Old, b.OldMTU = nil, nil
		r.Before[port] = b
	}
}

// record is csig's. The error says why it cannot be read.
func (c *Config) record() (record, error) {
	if c.Damaged != "" {
		return record{Before: map[string]before{}}, errors.New(c.Damaged)
	}
	return parse(c.Record)
}

// parse reads a record. The error says why it cannot be read.
func parse(text string) (record, error) {
	r := record{Before: map[string]before{}}
	switch {
	case text == "":
		return r, nil
	case len(text) > maxRecord:
		return r, fmt.Errorf("it has %d bytes, and none of csig's has more than %d", len(text), maxRecord)
	case untrusted.Text(text, maxRecord) != text:
		return r, errors.New("it has characters that cannot be printed")
	}
	var in recordJSON
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		return r, errors.New(untrusted.Text(err.Error(), 128))
	}
	r.Setup = in.Setup
	for _, same := range in.Before {
		for _, port := range same.Ports {
			r.Before[port] = same.before
		}
	}
	return r, nil
}

// text is the record as the switch keeps it; "" where there is nothing to say.
func (r record) text() (string, error) {
	maps.DeleteFunc(r.Before, func(_ string, b before) bool { return b.TPID == nil && b.MTU == nil })
	if r.Setup == nil && len(r.Before) == 0 {
		return "", nil
	}
	out := recordJSON{Setup: r.Setup}
	groups := map[string]int{}
	for _, port := range slices.Sorted(maps.Keys(r.Before)) {
		key, err := json.Marshal(r.Before[port])
		if err != nil {
			return "", err
		}
		i, there := groups[string(key)]
		if !there {
			i = len(out.Before)
			groups[string(key)] = i
			out.Before = append(out.Before, sameBefore{before: r.Before[port]})
		}
		out.Before[i].Ports = append(out.Before[i].Ports, port)
	}
	text, err := json.Marshal(out)
	if err == nil && untrusted.Text(string(text), maxRecord) != string(text) {
		err = &vendors.PermanentError{Err: fmt.Errorf("the record of the setup would have %d bytes, or characters that cannot be printed", len(text))}
	}
	return string(text), err
}

// ours reports whether a port has the TPID that csig gave it.
func (r record) ours(p *Port) bool {
	b := r.Before[p.Name]
	return b.TPID != nil && (p.TPID == b.Ours || slices.Contains(b.Old, p.TPID))
}

// takes records what a port has that csig gives a TPID.
func (r record) takes(p *Port, tpid string) {
	b := r.Before[p.Name]
	if b.TPID == nil {
		was := p.TPID
		b.TPID = &was
	}
	if b.Ours = tpid; *b.TPID == tpid { // as csig found it
		b.TPID, b.Ours = nil, ""
	}
	r.Before[p.Name] = b
}

// back has the edit give a port what csig found there, unless another program has changed
// it since. A port that is not there keeps its record: back returns false.
func (r record) back(e *Edit, p *Port, name string) bool {
	if p == nil {
		return false
	}
	if r.ours(p) {
		e.port(name).TPID = r.Before[name].TPID
	}
	b := r.Before[name]
	b.TPID, b.Ours = nil, ""
	r.Before[name] = b
	r.mtuBack(e, p)
	return true
}

// mtuBack is back for the MTU alone.
func (r record) mtuBack(e *Edit, p *Port) {
	if r.oursMTU(p) {
		e.port(p.Name).MTU = r.Before[p.Name].MTU
	}
	b := r.Before[p.Name]
	b.MTU, b.MTUNow, b.OursMTU = nil, 0, 0
	r.Before[p.Name] = b
}

// oursMTU reports whether a port has the MTU that csig gave it.
func (r record) oursMTU(p *Port) bool {
	b := r.Before[p.Name]
	return b.MTU != nil && (p.MTU == b.OursMTU || slices.Contains(b.OldMTU, p.MTU))
}
