package sonic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/vendors"
)

// What ASIC_DB has is what SAI was given: syncd writes an object there when SAI has
// it, by its number alone (sonic-sairedis lib/sairediscommon.h, ASIC_STATE_TABLE).
const (
	asicObjects = "ASIC_STATE:SAI_OBJECT_TYPE_"
	asicTables  = asicObjects + "ACL_TABLE:"
	asicEntries = asicObjects + "ACL_ENTRY:"
	asicSwitch  = asicObjects + "SWITCH:"
	asicPorts   = asicObjects + "PORT:"
)

// recount is how often csig counts the entries that the ASIC has of its table: for
// that Redis looks at every key of ASIC_DB, routes and all.
const recount = 30 * time.Second

// asicState is what the last count found the ASIC to have.
type asicState uint8

const (
	asicAgrees asicState = iota // as many entries as orchagent answers, in a table that is bound
	asicShort                   // other entries: orchagent is asked for all of them again
	asicBroken                  // that has not helped, or the table is not bound
)

// asicView is what ASIC_DB has of our table.
type asicView struct {
	table   string // its object; "" where it is not there, or another application's looks the same
	entries int
	egress  string // what is bound to the whole switch at egress
	direct  bool   // and that is a table, and no group of P4Orch's
	none    bool   // no entry is in any table that may be ours
}

// grouped reports whether P4Orch has bound its groups to the whole switch.
func (v *asicView) grouped() bool { return v.egress != "" && v.egress != noObject && !v.direct }

// noObject is SAI's SAI_NULL_OBJECT_ID.
const noObject = "oid:0x0"

// unbound says why no frame meets our table, which P4Orch's group of the whole switch
// has: SAI_SWITCH_ATTR_EGRESS_ACL holds one object. "" where that is the group.
func (v *asicView) unbound() string {
	switch {
	case v.direct:
		return fmt.Sprintf("another application's ACL table (%s) is bound to the whole switch at egress (ASIC_DB SAI_SWITCH_ATTR_EGRESS_ACL), as the PFC watchdog binds its own on some ASICs, and there is place for one object", v.egress)
	case v.egress == noObject:
		return "nothing is bound to the switch at egress any more (ASIC_DB SAI_SWITCH_ATTR_EGRESS_ACL)"
	}
	return ""
}

// lookASIC reads what SAI was given.
func (d *Driver) lookASIC(ctx context.Context) (asicView, error) {
	var v asicView
	keys, err := d.db.Scan(ctx, sonicdb.ASIC, asicObjects+"[AS][CW]") // ACL_…, SWITCH
	if err != nil {
		return v, err
	}
	keys = slices.DeleteFunc(keys, func(k string) bool {
		return !strings.HasPrefix(k, asicTables) && !strings.HasPrefix(k, asicEntries) && !strings.HasPrefix(k, asicSwitch)
	})
	list, err := d.hashes(ctx, at(sonicdb.ASIC, keys)...)
	if err != nil {
		return v, err
	}
	v.none = true
	of, mine := map[string]int{}, []string{}
	for i, key := range keys {
		fields := list[i]
		object, table := strings.CutPrefix(key, asicTables)
		switch {
		case strings.HasPrefix(key, asicSwitch):
			v.egress = fields["SAI_SWITCH_ATTR_EGRESS_ACL"]
		case strings.HasPrefix(key, asicEntries):
			of[fields["SAI_ACL_ENTRY_ATTR_TABLE_ID"]]++
		case table && ourTable(fields):
			v.table = object
			mine = append(mine, object)
		}
	}
	for _, table := range mine {
		v.none = v.none && of[table] == 0
	}
	v.direct = slices.Contains(keys, asicTables+v.egress)
	if v.entries = of[v.table]; len(mine) != 1 {
		v.table, v.entries = "", 0
	}
	return v, nil
}

// counted reports whether our table is bound, and the ASIC has as many entries as orchagent has answered. An
// entry is asked about by setting it, which makes it where it is not there: for
// the others that gives no information. After all was asked for again it has to be so. Objects
// come to ASIC_DB a little after the answers.
func (d *Driver) counted(ctx context.Context) (bool, error) {
	entries := 0
	for _, p := range d.ports {
		entries += len(p.have)
	}
	now := time.Now()
	if d.asic == asicAgrees && now.Sub(d.recounted) < recount {
		return true, nil
	}
	var v asicView
	for i := 0; ; i++ {
		var err error
		if v, err = d.lookASIC(ctx); err != nil {
			return false, err
		}
		if why := v.unbound(); why != "" {
			return false, d.breaks(errors.New(why + ": tags pass unchanged"))
		}
		if v.table == "" || v.entries == entries {
			d.asic, d.broken, d.recounted = asicAgrees, nil, now
			return true, nil
		}
		if i == int(d.settle/stablePause) {
			break
		}
		if err := vendors.Wait(ctx, stablePause); err != nil {
			return false, err
		}
	}
	if d.asic != asicAgrees {
		return false, d.breaks(fmt.Errorf("ASIC_DB has %d entries of csig's ACL table (%s), and orchagent answers that it has %d, asked for each of them: what the ASIC does is not known; see the log of swss and syncd", v.entries, v.table, entries))
	}
	d.asic = asicShort
	return false, nil
}

// breaks notes that the ASIC does not do what orchagent answers: every cycle says so
// until it does, which is looked at every 10 s.
func (d *Driver) breaks(err error) error {
	d.asic, d.broken, d.checked = asicBroken, err, time.Now()
	return err
}

// ourTable reports whether a table of ASIC_DB is at egress and matches our fields
// and no other.
func ourTable(fields row) bool {
	matched := 0
	for name, value := range fields {
		if strings.HasPrefix(name, "SAI_ACL_TABLE_ATTR_FIELD_") && value == "true" {
			matched++
		}
	}
	return matched == 3 && fields["SAI_ACL_TABLE_ATTR_ACL_STAGE"] == "SAI_ACL_STAGE_EGRESS" &&
		fields["SAI_ACL_TABLE_ATTR_FIELD_OUT_PORT"] == "true" && fields["SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_ID"] == "true" && fields["SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_PRI"] == "true"
}
