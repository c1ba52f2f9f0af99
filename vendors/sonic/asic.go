package sonic

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/csig-agent/csig/vendors/sonic/sonicdb"
)

// What ASIC_DB has is what SAI was given: syncd writes an object there when SAI has
// it, by its number alone (sonic-sairedis lib/sairediscommon.h, ASIC_STATE_TABLE).
const (
	asicACLs    = "ASIC_STATE:SAI_OBJECT_TYPE_ACL_"
	asicTables  = asicACLs + "TABLE:"
	asicEntries = asicACLs + "ENTRY:"
)

// recount is how often csig counts the entries that the ASIC has of its table: for
// that Redis looks at every key of ASIC_DB, routes and all.
const recount = 30 * time.Second

// asicView is what ASIC_DB has of our table.
type asicView struct {
	table   string // its object; "" where it is not there, or another application's looks the same
	entries int
}

// lookASIC reads what SAI was given.
func (d *Driver) lookASIC(ctx context.Context) (asicView, error) {
	var v asicView
	keys, err := d.scan(ctx, sonicdb.ASIC, asicACLs)
	if err != nil {
		return v, err
	}
	var ask [][]string
	for _, k := range keys {
		if strings.HasPrefix(k, asicTables) || strings.HasPrefix(k, asicEntries) {
			ask = append(ask, []string{sonicdb.ASIC, "HGETALL", k})
		}
	}
	list, err := d.hashes(ctx, ask)
	if err != nil {
		return v, err
	}
	ours, of := 0, map[string]int{}
	for i, row := range list {
		if object, ok := strings.CutPrefix(ask[i][2], asicTables); !ok {
			of[row["SAI_ACL_ENTRY_ATTR_TABLE_ID"]]++
		} else if ourTable(row) {
			v.table = object
			ours++
		}
	}
	if v.entries = of[v.table]; ours != 1 {
		return asicView{}, nil
	}
	return v, nil
}

// counted tells whether the ASIC has as many entries as orchagent has answered. An
// entry is asked about by setting it, which makes it where it is not there: of the
// others that tells nothing. After all was asked for anew it has to be so. Objects
// come to ASIC_DB a little after the answers.
func (d *Driver) counted(ctx context.Context, entries int) (bool, error) {
	now := d.cfg.Now()
	if !d.short && now.Sub(d.recounted) < recount {
		return true, nil
	}
	var v asicView
	for i := 0; ; i++ {
		var err error
		if v, err = d.lookASIC(ctx); err != nil {
			return false, err
		}
		if v.table == "" || v.entries == entries {
			d.short, d.recounted = false, now
			return true, nil
		}
		if i == int(d.settle/calmPause) {
			break
		}
		if err := wait(ctx, calmPause); err != nil {
			return false, err
		}
	}
	if d.short {
		return false, fmt.Errorf("ASIC_DB has %d entries of csig's ACL table (%s), and orchagent answers that it has %d, asked for each of them: what the ASIC does is not known; see the log of swss and syncd", v.entries, v.table, entries)
	}
	d.short = true
	return false, nil
}

// ourTable tells whether a table of ASIC_DB is at egress and matches our fields
// and no other.
func ourTable(row map[string]string) bool {
	fields := 0
	for name, value := range row {
		if strings.HasPrefix(name, "SAI_ACL_TABLE_ATTR_FIELD_") && value == "true" {
			fields++
		}
	}
	return fields == 3 && row["SAI_ACL_TABLE_ATTR_ACL_STAGE"] == "SAI_ACL_STAGE_EGRESS" &&
		row["SAI_ACL_TABLE_ATTR_FIELD_OUT_PORT"] == "true" && row["SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_ID"] == "true" && row["SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_PRI"] == "true"
}
