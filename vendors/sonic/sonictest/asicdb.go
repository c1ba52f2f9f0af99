package sonictest

import (
	"fmt"
	"strconv"

	"github.com/gomodule/redigo/redis"
)

// asicDB is what syncd keeps in ASIC_DB of what SAI was given, for what csig looks
// at there.
type asicDB struct {
	do    func(db int, command string, args ...any) (any, error)
	next  uint64
	bound bool // P4Orch's groups are there
}

const (
	aclTables  = "ASIC_STATE:SAI_OBJECT_TYPE_ACL_TABLE:"
	aclEntries = "ASIC_STATE:SAI_OBJECT_TYPE_ACL_ENTRY:"
	aclGroups  = "ASIC_STATE:SAI_OBJECT_TYPE_ACL_TABLE_GROUP:"
	theSwitch  = "ASIC_STATE:SAI_OBJECT_TYPE_SWITCH:oid:0x21000000000000"
)

// create writes an object, and returns its number.
func (d *asicDB) create(prefix string, fields ...any) (oid string) {
	d.next++
	oid = fmt.Sprintf("oid:0x%x", 0x7000000000000|d.next)
	_, _ = d.do(1, "HSET", append([]any{prefix + oid}, fields...)...)
	return oid
}

func (d *asicDB) remove(key string) {
	_, _ = d.do(1, "DEL", key)
}

// bind binds an object to the whole switch at egress.
func (d *asicDB) bind(oid string) {
	_, _ = d.do(1, "HSET", theSwitch, "SAI_SWITCH_ATTR_EGRESS_ACL", oid)
}

// groups are what P4Orch makes before its first table (orchagent/switchorch.cpp,
// initAclGroupsBindToSwitch); that at egress is all that is looked at.
func (d *asicDB) groups() {
	if !d.bound {
		d.bound = true
		d.bind(d.create(aclGroups, "SAI_ACL_TABLE_GROUP_ATTR_ACL_STAGE", "SAI_ACL_STAGE_EGRESS"))
	}
}

// Watchdog binds an ACL table of its own to the whole switch at egress, as the PFC
// watchdog does on some ASICs (orchagent/switchorch.cpp, bindAclTableToSwitch), or
// unbinds it.
func (s *Switch) Watchdog(bind bool) {
	s.asic.mu.Lock()
	defer s.asic.mu.Unlock()
	if !bind {
		s.asic.db.bind("oid:0x0")
		return
	}
	s.asic.db.bind(s.asic.db.create(aclTables, "SAI_ACL_TABLE_ATTR_ACL_STAGE", "SAI_ACL_STAGE_EGRESS", "SAI_ACL_TABLE_ATTR_FIELD_TC", "true"))
}

// table writes an ACL table as P4Orch makes it (orchagent/p4orch/acl_table_manager.cpp,
// getTableSaiAttrs).
func (d *asicDB) table(t *table) {
	d.groups()
	t.oid = d.create(aclTables, "SAI_ACL_TABLE_ATTR_ACL_STAGE", "SAI_ACL_STAGE_EGRESS", "SAI_ACL_TABLE_ATTR_SIZE", strconv.Itoa(t.size),
		"SAI_ACL_TABLE_ATTR_ACL_ACTION_TYPE_LIST", "1:SAI_ACL_ACTION_TYPE_COUNTER",
		"SAI_ACL_TABLE_ATTR_FIELD_OUT_PORT", "true", "SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_ID", "true", "SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_PRI", "true")
}

// entry writes an ACL entry; nothing of it but the table is looked at.
func (d *asicDB) entry(t *table, e *entry) {
	e.oid = d.create(aclEntries, "SAI_ACL_ENTRY_ATTR_TABLE_ID", t.oid, "SAI_ACL_ENTRY_ATTR_PRIORITY", strconv.Itoa(int(e.priority)))
}

// forget takes all tables and entries out.
func (a *asic) forget() {
	for _, t := range a.tables {
		for _, e := range t.entries {
			a.db.remove(aclEntries + e.oid)
		}
		a.db.remove(aclTables + t.oid)
	}
	a.db.bound = false
	a.tables, a.entries = map[string]*table{}, 0
}

// WarmRestart is that of orchagent, as for an upgrade of the swss container: no
// database is flushed, and orchagent takes in the rows that are there. Those of
// entries it refuses, since their table is made after it has looked whose they are
// (orchagent/p4orch/p4orch.cpp, doTask; orch.cpp, bake); what of the ASIC it did
// not ask for again, syncd removes.
func (s *Switch) WarmRestart() {
	s.t.Helper()
	s.Stop()
	s.Forget()
	s.Redis.Do(6, "HINCRBY", "WARM_RESTART_TABLE|orchagent", "restore_count", 1)
	for _, key := range s.Redis.Keys(0, "P4RT_TABLE:"+definitions+"*") {
		var words []string
		for f, v := range s.Redis.Hash(0, key) {
			words = append(words, f, v)
		}
		if status, why := s.process(key[len("P4RT_TABLE:"):], words); status != success {
			s.t.Errorf("%s: %s %s", key, status, why)
		}
	}
	s.Start()
}

// portObject is the key of a port in ASIC_DB.
func (s *Switch) portObject(port string) string {
	oid, _ := redis.String(s.Redis.do(2, "HGET", "COUNTERS_PORT_NAME_MAP", port))
	return "ASIC_STATE:SAI_OBJECT_TYPE_PORT:" + oid
}
