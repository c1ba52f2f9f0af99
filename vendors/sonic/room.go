package sonic

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonicdb"
)

const asicTables = "ASIC_STATE:SAI_OBJECT_TYPE_ACL_TABLE:"

// room takes into the facts how many entries our table can have, once it is
// there: those it has and those that CRM says are free, which it shares with
// whatever else is in that part of the TCAM. ASIC_DB knows the table by its object
// alone; ours is the one at egress with exactly our fields. CRM's numbers are up
// to its polling interval old, 5 minutes unless set (sonic-swss
// orchagent/crmorch.cpp, getCrmAclTableKey).
func (d *Driver) room(ctx context.Context, f *vendors.Facts) error {
	keys, err := d.scan(ctx, sonicdb.ASIC, asicTables)
	if err != nil {
		return err
	}
	cmds := make([][]string, len(keys))
	for i, k := range keys {
		cmds[i] = []string{sonicdb.ASIC, "HGETALL", k}
	}
	list, err := d.hashes(ctx, cmds)
	if err != nil {
		return err
	}
	var crm [][]string
	for i, k := range keys {
		if ourTable(list[i]) {
			crm = append(crm, []string{sonicdb.Counters, "HGETALL", "CRM:ACL_TABLE_STATS:" + strings.TrimPrefix(k, asicTables+"oid:")})
		}
	}
	if len(crm) != 1 {
		return nil // it is not there, or another application's looks the same
	}
	stats, err := d.hashes(ctx, crm)
	if err != nil {
		return err
	}
	used, err1 := strconv.Atoi(stats[0]["crm_stats_acl_entry_used"])
	free, err2 := strconv.Atoi(stats[0]["crm_stats_acl_entry_available"])
	if err1 != nil || err2 != nil || used < 0 || free < 0 {
		return nil // CRM has not polled yet
	}
	f.Rules.Entries, f.Rules.Shared = used+free, true
	f.Notes = append(f.Notes, fmt.Sprintf("the ASIC has room for %d more entries in csig's table, which has %d (%s)", free, used, crm[0][2]))
	return nil
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
