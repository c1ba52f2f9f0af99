package sonic

import (
	"context"
	"errors"
	"maps"

	"github.com/csig-agent/csig/vendors"
)

// unchanged reports whether the rows and the TPIDs are as we left them, the ASIC has as
// many entries, and orchagent is the same and still knows one of the rows: after a
// restart it knows none, whatever stands in Redis.
func (d *Driver) unchanged(ctx context.Context) (bool, error) {
	v, err := d.look(ctx, d.setup)
	if err != nil {
		return false, err
	}
	if _, ok := v.definition(); !ok || d.known != vendors.Current || v.record.setup == nil || v.disputed || v.proof() != d.proof {
		return false, nil
	}
	entries := 0
	for _, p := range d.ports {
		entries += len(p.have)
		for i := range p.have {
			if !maps.Equal(v.reports()[entryKey(p.name, &p.have[i])], entryRow(&p.have[i])) {
				return false, nil
			}
		}
	}
	if len(v.entries) != entries {
		return false, nil
	}
	tpid := tpidText(d.setup.TPID)
	for i := range d.setup.Ports {
		name := d.setup.Ports[i].Port
		away := v.away(name)
		if p := d.byName[name]; p != nil && p.away != away || away == "" && !sameTPID(v.carriers[v.carrierOf(name)].tpid, tpid) {
			return false, nil
		}
	}
	if same, err := d.counted(ctx); !same {
		return false, err
	}
	for range d.ports {
		d.asked = (d.asked + 1) % len(d.ports)
		p := d.ports[d.asked]
		if len(p.have) == 0 {
			continue
		}
		fields := entryRow(&p.have[0])
		c := &chain{port: p.name, ops: []rowOp{{entryKey(p.name, &p.have[0]), fields, fields}}}
		if err := d.run(ctx, []*chain{c}); err != nil {
			return false, err
		}
		var status *StatusError
		if c.err != nil && !errors.As(c.err, &status) {
			return false, c.err
		}
		return c.err == nil, nil
	}
	return true, nil
}
