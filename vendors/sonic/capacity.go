package sonic

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/vendors"
)

// capacity adds to the facts how many entries our table can have, once it exists:
// those it has and those that CRM reports free, which it shares with whatever else is
// in that part of the TCAM. ASIC_DB knows the table by its object
// alone; ours is the one at egress with exactly our fields. CRM's numbers are up
// to its polling interval old, 5 minutes unless set (sonic-swss
// orchagent/crmorch.cpp, getCrmAclTableKey).
func (d *Driver) capacity(ctx context.Context, f *vendors.Facts) error {
	v, err := d.lookASIC(ctx)
	if err != nil || v.table == "" {
		return err // it is not there, or another application's looks the same
	}
	key := "CRM:ACL_TABLE_STATS:" + strings.TrimPrefix(v.table, "oid:")
	stats, err := d.hashes(ctx, [2]string{sonicdb.Counters, key})
	if err != nil {
		return err
	}
	used, err1 := strconv.Atoi(stats[0]["crm_stats_acl_entry_used"])
	free, err2 := strconv.Atoi(stats[0]["crm_stats_acl_entry_available"])
	if err1 != nil || err2 != nil || used < 0 || free < 0 {
		return nil // CRM has not polled yet
	}
	f.Rules.Entries, f.Rules.Shared = used+free, true
	f.Notes = append(f.Notes, fmt.Sprintf("the ASIC has room for %d more entries in csig's table, which has %d (%s)", free, used, key))
	return nil
}
