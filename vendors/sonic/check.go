package sonic

import (
	"context"
	"errors"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonicdb"
)

// unchanged tells whether the rows and the TPIDs are as we left them, and
// orchagent still knows one of the rows: after a restart it knows none, whatever stands in Redis.
func (d *Driver) unchanged(ctx context.Context, res *vendors.UpdateResult) (bool, error) {
	db := sonicdb.Appl
	if d.proof {
		db = sonicdb.ApplState
	}
	cmds := [][]string{{db, "HGETALL", rows + definedTable}, {sonicdb.State, "HGETALL", recordKey}}
	var want [][]string
	for _, p := range d.ports {
		for i := range p.have {
			cmds = append(cmds, []string{db, "HGETALL", rows + entryKey(p.name, &p.have[i])})
			want = append(want, entryFields(&p.have[i]))
		}
	}
	list, err := d.hashes(ctx, cmds)
	if err != nil {
		return false, err
	}
	if _, ok := parseDefinition(list[0]); !ok || len(list[1]) == 0 {
		return false, nil
	}
	for i, w := range want {
		if !sameFields(list[i+2], w) {
			return false, nil
		}
	}
	v := &view{record: parseRecord(list[1])}
	if err := d.lookPorts(ctx, v, d.setup); err != nil {
		return false, err
	}
	tpid := tpidText(d.setup.TPID)
	for i := range d.setup.Ports {
		name := d.setup.Ports[i].Port
		away := v.away(name)
		if p := d.byName[name]; p != nil && p.away != away || away == "" && !sameTPID(v.carriers[v.carrierOf(name)].tpid, tpid) {
			return false, nil
		}
	}
	if keys, err := d.scan(ctx, db, rows+aclTable+":"); err != nil || len(keys) != len(want) {
		return false, err
	}
	for range d.ports {
		d.asked = (d.asked + 1) % len(d.ports)
		p := d.ports[d.asked]
		if len(p.have) == 0 {
			continue
		}
		c := &chain{port: p.name, ops: []rowOp{{entryKey(p.name, &p.have[0]), entryFields(&p.have[0])}}}
		if err := d.run(ctx, []*chain{c}); err != nil {
			return false, err
		}
		var status *StatusError
		if c.err != nil && !errors.As(c.err, &status) {
			return false, c.err
		}
		if c.err != nil {
			return false, d.confirmTable(ctx, res)
		}
		break
	}
	return true, nil
}

// confirmTable asks orchagent to define our table again. It refuses where it has
// it, since a definition cannot change; else it has just made it anew, and every
// row of an entry lies.
func (d *Driver) confirmTable(ctx context.Context, res *vendors.UpdateResult) error {
	seen, err := d.look(ctx)
	if err != nil {
		return err
	}
	def, ok := seen.definition()
	if !ok {
		return nil // sync makes it
	}
	c := &chain{ops: []rowOp{{definedTable, def.fields()}}}
	if err := d.run(ctx, []*chain{c}); err != nil || c.unknown {
		return errors.Join(err, c.err)
	}
	if c.err != nil {
		return nil
	}
	if d.known {
		noteRepairs(res, []vendors.Change{{Kind: vendors.Create, Detail: "the ACL table was gone: orchagent was started again"}})
	}
	gone := [][]string{{sonicdb.Appl, "EXISTS", rows + definedTable}}
	for _, key := range seen.entryKeys() {
		delete(d.told, key)
		gone = append(gone, []string{sonicdb.Appl, "DEL", rows + key}, []string{sonicdb.ApplState, "DEL", rows + key})
	}
	answers, err := d.db.Do(ctx, gone...)
	if err != nil {
		return err
	}
	return firstError(answers)
}

func sameFields(row map[string]string, fields []string) bool {
	if len(row) != len(fields)/2 {
		return false
	}
	for i := 0; i < len(fields); i += 2 {
		if v, ok := row[fields[i]]; !ok || v != fields[i+1] {
			return false
		}
	}
	return true
}
