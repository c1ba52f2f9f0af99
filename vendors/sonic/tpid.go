package sonic

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonicdb"
)

// portsOf are the ports whose errors an error has.
func portsOf(err error) (ports []string) {
	vendors.EachPort(err, func(port string, _ error) { ports = append(ports, port) })
	return ports
}

// setTPIDs records the setup and gives ports the TPID, each noted with what it
// had before anything of it changes.
func (d *Driver) setTPIDs(ctx context.Context, seen *view) error {
	want := tpidText(d.setup.TPID)
	before := map[string]string{}
	wanted := map[string]bool{}
	var change [][]string
	for _, p := range d.setup.Ports {
		at := seen.ports[p.Port]
		wanted[p.Port] = at.lag == ""
		if at.away() != "" {
			continue
		}
		if _, noted := seen.record.before[p.Port]; !noted && !sameTPID(at.tpid, want) {
			before[p.Port] = at.tpid
		}
		if !sameTPID(at.tpid, want) {
			change = append(change, tpidCommand(p.Port, want))
		}
	}
	cmds, err := recordCommands(d.setup, before)
	if err != nil {
		return err
	}
	cmds = append(cmds, change...)
	for _, p := range sortedKeys(seen.record.before) {
		if !wanted[p] {
			cmds = append(cmds, seen.restore(p)...)
		}
	}
	answers, err := d.db.Do(ctx, cmds...)
	if err == nil {
		err = firstError(answers)
	}
	if err != nil || len(change) == 0 {
		return err
	}
	return d.portmgrd(ctx, change)
}

// portmgrd waits until ports' TPIDs have come through portmgrd to orchagent.
func (d *Driver) portmgrd(ctx context.Context, changes [][]string) error {
	var ask [][]string
	for _, c := range changes {
		ask = append(ask, []string{sonicdb.Appl, "HGETALL", "PORT_TABLE:" + strings.TrimPrefix(c[2], portKey(""))})
	}
	for end := d.cfg.Now().Add(d.cfg.Patience); ; {
		list, err := d.hashes(ctx, ask)
		if err != nil {
			return err
		}
		var late []error
		for i, row := range list {
			if !sameTPID(row["tpid"], changes[i][4]) {
				late = append(late, &vendors.PortError{Port: strings.TrimPrefix(changes[i][2], portKey("")),
					Err: fmt.Errorf("its TPID is in CONFIG_DB, and has not come to APPL_DB for %v: is portmgrd running?", d.cfg.Patience)})
			}
		}
		if len(late) == 0 || !d.cfg.Now().Before(end) {
			return errors.Join(late...)
		}
		if err := wait(ctx, portmgrdPause); err != nil {
			return err
		}
	}
}

// portmgrdPause is between two looks whether portmgrd has done its work; it says
// nothing when it has.
const portmgrdPause = 10 * time.Millisecond
