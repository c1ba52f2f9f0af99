package sonic

import (
	"errors"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestNotOurs: csig does not write where nobody reads, nor beside another writer.
func TestNotOurs(t *testing.T) {
	s := setupOf(quantize.Draft00, "Ethernet0")
	t.Run("ZeroMQ", func(t *testing.T) {
		l := newLab(t, sonictest.R202605, "Ethernet0")
		var perm *vendors.PermanentError
		if err := l.Apply(t.Context(), s); !errors.As(err, &perm) || !strings.Contains(err.Error(), "ZeroMQ") {
			t.Errorf("%v", err)
		}
		f, err := l.Probe(t.Context())
		if err != nil || f.Update.Level != vlanrules.Refused || !strings.Contains(f.Update.Reason, "202605") {
			t.Errorf("%+v, %v", f.Update, err)
		}
		l.clean()
		if got := l.sw.Redis.Hash(4, "PORT|Ethernet0")["tpid"]; got != "" {
			t.Errorf("TPID %q", got)
		}
	})
	t.Run("p4rt_app", func(t *testing.T) {
		l := newLab(t, sonictest.R202311, "Ethernet0")
		c, err := redis.Dial("unix", l.sw.Redis.Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ps := redis.PubSubConn{Conn: c}
		if err := ps.Subscribe(responses); err != nil {
			t.Fatal(err)
		}
		ps.Receive()
		var perm *vendors.PermanentError
		if err := l.Apply(t.Context(), s); !errors.As(err, &perm) || !strings.Contains(err.Error(), "p4rt_app") {
			t.Errorf("%v", err)
		}
		l.clean()
	})
	t.Run("two of csig", func(t *testing.T) {
		l := newLab(t, sonictest.R202311, "Ethernet0")
		l.apply(s)
		other := Open(Config{Redis: clientOf(l.sw.Redis)})
		defer other.Close()
		if err := other.Apply(t.Context(), s); err == nil || !strings.Contains(err.Error(), "another csig") {
			t.Errorf("%v", err)
		}
		if have, err := other.Observe(t.Context()); err != nil || have.TPID != s.TPID { // looking is free
			t.Errorf("%+v, %v", have, err)
		}
		if f, err := other.Probe(t.Context()); err != nil || f.Update.Level == vlanrules.Refused {
			t.Errorf("%+v, %v", f.Update, err)
		}
	})
}

// TestProbe: what the switch says of itself.
func TestProbe(t *testing.T) {
	l := newLab(t, sonictest.R202311, "Ethernet0")
	r := l.sw.Redis
	r.Do(2, "HSET", "CRM:ACL_STATS:EGRESS:SWITCH", "crm_stats_acl_table_available", "3")
	r.Do(4, "HSET", "FLEX_COUNTER_TABLE|PORT", "POLL_INTERVAL", "1000")
	r.Do(4, "HSET", "DEVICE_METADATA|localhost", "hwsku", "ACS-X", "platform", "x86_64-x")
	r.Do(0, "HSET", "P4RT_TABLE:ACL_TABLE_DEFINITION_TABLE:ACL_OTHER", "stage", "EGRESS", "priority", "7")
	r.Do(0, "HSET", "P4RT_TABLE:ACL_TABLE_DEFINITION_TABLE:ACL_IN", "stage", "INGRESS", "priority", "8")
	f, err := l.Probe(t.Context())
	notes := strings.Join(f.Notes, "\n")
	if err != nil || f.Update.Level != vlanrules.Degraded || !strings.Contains(notes, "3 more ACL tables") || !strings.Contains(notes, "ACS-X") || !strings.Contains(notes, "1000 ms") ||
		!strings.Contains(notes, "ACL_OTHER at egress, with priority 7") || strings.Contains(notes, "ACL_IN") {
		t.Errorf("%+v, %v", f, err)
	}
	r.Do(2, "HSET", "CRM:ACL_STATS:EGRESS:SWITCH", "crm_stats_acl_table_available", "0")
	if f, err = l.Probe(t.Context()); err != nil || f.Update.Level != vlanrules.Refused || !strings.Contains(f.Update.Reason, "no room for another ACL table") {
		t.Errorf("%+v, %v", f.Update, err)
	}
	l.apply(setupOf(quantize.Draft00, "Ethernet0"))
	if f, err = l.Probe(t.Context()); err != nil || f.Update.Level == vlanrules.Refused {
		t.Errorf("with our own table: %+v, %v", f.Update, err)
	}
	// What ASIC_DB and CRM have of our table, beside another at egress.
	for oid, fields := range map[string][]any{
		"0x7000000000601": {"SAI_ACL_TABLE_ATTR_ACL_STAGE", "SAI_ACL_STAGE_EGRESS", "SAI_ACL_TABLE_ATTR_FIELD_OUT_PORT", "true", "SAI_ACL_TABLE_ATTR_FIELD_DSCP", "true", "SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_ID", "true"},
	} {
		r.Do(1, "HSET", append([]any{asicTables + "oid:" + oid}, fields...)...)
	}
	if f, err = l.Probe(t.Context()); err != nil || f.Rules.Entries != 0 {
		t.Errorf("before CRM has polled: %+v, %v", f.Rules, err)
	}
	r.Do(2, "HSET", "CRM:ACL_TABLE_STATS:"+strings.TrimPrefix(l.tableObject(), "oid:"), "crm_stats_acl_entry_used", 15, "crm_stats_acl_entry_available", 497)
	if f, err = l.Probe(t.Context()); err != nil || f.Rules.Entries != 512 || !f.Rules.Shared {
		t.Errorf("%+v, %v", f.Rules, err)
	}
	r.Do(6, "HSET", "SWITCH_CAPABILITY|switch", "PORT_TPID_CAPABLE", "false")
	if f, err = l.Probe(t.Context()); err != nil || f.Update.Level != vlanrules.Refused || !strings.Contains(f.Update.Reason, "PORT_TPID_CAPABLE") {
		t.Errorf("%+v, %v", f.Update, err)
	}
	l.sw.Stop()
	_ = l.Driver.Close()
	l.open()
	if _, err := l.Probe(t.Context()); !errors.Is(err, ErrSilent) {
		t.Errorf("without orchagent: %v", err)
	}
}

// TestHealth reads losses and MTUs.
func TestHealth(t *testing.T) {
	l := newLab(t, sonictest.R202311, "Ethernet0", "Ethernet4")
	r := l.sw.Redis
	r.Do(2, "HSET", "COUNTERS_PORT_NAME_MAP", "Ethernet0", "oid:0x1", "Ethernet4", "oid:0x2")
	r.Do(2, "HSET", "COUNTERS:oid:0x1", "SAI_PORT_STAT_IF_IN_ERRORS", 1, "SAI_PORT_STAT_IF_OUT_ERRORS", 2, "SAI_PORT_STAT_IF_IN_DISCARDS", 4, "SAI_PORT_STAT_IF_OUT_DISCARDS", 8)
	h, err := l.Health(t.Context())
	if err != nil || len(h) != 2 || h[0] != (vendors.PortHealth{Port: "Ethernet0", Errors: 3, Discards: 12}) || h[1] != (vendors.PortHealth{Port: "Ethernet4"}) {
		t.Errorf("%+v, %v", h, err)
	}
	if err := l.SetMTU(t.Context(), "Ethernet0", 9216); err != nil {
		t.Error(err)
	}
	mtus, err := l.MTUs(t.Context())
	if err != nil || len(mtus) != 2 || mtus["Ethernet0"] != 9216 || mtus["Ethernet4"] != 9100 {
		t.Errorf("%v, %v", mtus, err)
	}
	for port, mtu := range map[string]int{"Ethernet0": 9217, "Ethernet8": 9000} {
		if err := l.SetMTU(t.Context(), port, mtu); err == nil {
			t.Errorf("%s takes an MTU of %d", port, mtu)
		}
	}
	l.sw.Join("PortChannel7", "Ethernet0") // it has the aggregate's from then on
	r.Do(4, "HSET", "PORTCHANNEL|PortChannel7", "mtu", "1500")
	if mtus, err = l.MTUs(t.Context()); err != nil || mtus["Ethernet0"] != 1500 || mtus["Ethernet4"] != 9100 {
		t.Errorf("%v, %v", mtus, err)
	}
	if err := l.SetMTU(t.Context(), "Ethernet0", 9000); err == nil || !strings.Contains(err.Error(), "member of PortChannel7") {
		t.Errorf("%v", err)
	}
	if len(r.Keys(4, "PORT|Ethernet8")) > 0 {
		t.Error("a port was made")
	}
}
