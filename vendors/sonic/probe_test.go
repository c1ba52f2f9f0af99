package sonic

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestNotOurs: csig does not write where no process reads, nor beside another writer.
func TestNotOurs(t *testing.T) {
	t.Parallel()
	s := setupOf(quantize.Draft00, "Ethernet0")
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
	t.Run("two that take rows", func(t *testing.T) {
		l := newLab(t, sonictest.R202405, "Ethernet0")
		c, err := redis.Dial("unix", l.sw.Redis.Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ps := redis.PubSubConn{Conn: c}
		if err := ps.Subscribe(channelOf(0)); err != nil {
			t.Fatal(err)
		}
		ps.Receive()
		var perm *vendors.PermanentError
		if err := l.Apply(t.Context(), s); !errors.As(err, &perm) || !strings.Contains(err.Error(), "from each other") {
			t.Errorf("%v", err)
		}
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
	t.Run("its own, of which Redis does not know yet that it has ended", func(t *testing.T) {
		l := newLab(t, sonictest.R202405, "Ethernet0")
		l.apply(s)
		l.Driver.hangUp()
		c, err := redis.Dial("unix", l.sw.Redis.Socket) // stands for that one
		if err != nil {
			t.Fatal(err)
		}
		ps := redis.PubSubConn{Conn: c}
		if err := ps.Subscribe(responses); err != nil {
			t.Fatal(err)
		}
		ps.Receive()
		time.AfterFunc(10*lingerPause, func() { c.Close() })
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestProbe: what the switch says of itself.
func TestProbe(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202311, "Ethernet0")
	r := l.sw.Redis
	r.Do(2, "HSET", "CRM:ACL_STATS:EGRESS:SWITCH", "crm_stats_acl_table_available", "3")
	r.Do(4, "HSET", "FLEX_COUNTER_TABLE|PORT", "POLL_INTERVAL", "1000")
	r.Do(4, "HSET", "DEVICE_METADATA|localhost", "hwsku", "ACS-X", "platform", "x86_64-x")
	r.Do(4, "HSET", "FEATURE|p4rt", "state", "enabled")
	r.Do(0, "HSET", "P4RT_TABLE:ACL_TABLE_DEFINITION_TABLE:ACL_OTHER", "stage", "EGRESS", "priority", "7")
	r.Do(0, "HSET", "P4RT_TABLE:ACL_TABLE_DEFINITION_TABLE:ACL_IN", "stage", "INGRESS", "priority", "8")
	f, err := l.Probe(t.Context())
	notes := strings.Join(f.Notes, "\n")
	if err != nil || f.Update.Level != vlanrules.Degraded || !strings.Contains(notes, "3 more ACL tables") || !strings.Contains(notes, "ACS-X") || !strings.Contains(notes, "1000 ms") || !strings.Contains(notes, "the p4rt feature is enabled") ||
		!strings.Contains(notes, "ACL_OTHER at egress, with priority 7") || strings.Contains(notes, "ACL_IN") || f.Identity != (vendors.Identity{Model: "ACS-X"}) {
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
		"0x7000000000602": {"SAI_ACL_TABLE_ATTR_ACL_STAGE", "SAI_ACL_STAGE_INGRESS", "SAI_ACL_TABLE_ATTR_FIELD_OUT_PORT", "true", "SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_ID", "true", "SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_PRI", "true"},
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

// TestHinders: what CONFIG_DB has of ports and csig's TPID breaks is said of each
// port, and that answers of orchagent say nothing where syncd does not wait.
func TestHinders(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202405, "Ethernet0", "Ethernet4", "Ethernet8", "Ethernet12")
	r := l.sw.Redis
	if f, err := l.Probe(t.Context()); err != nil || len(f.PortIssues) != 0 {
		t.Errorf("%+v, %v", f.PortIssues, err)
	}
	l.sw.Join("PortChannel7", "Ethernet8", "Ethernet12")
	for key, row := range map[string][2]string{
		"VLAN_MEMBER|Vlan100|Ethernet0":           {"tagging_mode", "tagged"},
		"VLAN_MEMBER|Vlan101|Ethernet0":           {"tagging_mode", "tagged"},
		"VLAN_MEMBER|Vlan5|PortChannel7":          {"tagging_mode", "untagged"},
		"VLAN_SUB_INTERFACE|Eth4.10":              {"vlan", "10"},
		"VLAN_SUB_INTERFACE|Eth4.10|192.0.2.1/31": {"NULL", "NULL"},
		"VLAN_SUB_INTERFACE|Ethernet4.11":         {"admin_status", "up"},
		"VLAN_SUB_INTERFACE|Po7.20":               {"vlan", "20"},
		"PORT_QOS_MAP|Ethernet4":                  {"dot1p_to_tc_map", "AZURE"},
		"PORT_QOS_MAP|Ethernet12":                 {"dscp_to_tc_map", "AZURE"},
		"PORT_QOS_MAP|global":                     {"dscp_to_tc_map", "AZURE"},
	} {
		r.Do(4, "HSET", key, row[0], row[1])
	}
	f, err := l.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, h := range f.PortIssues {
		got = append(got, h.Port+" "+h.Level.String()+" "+h.Reason)
	}
	for _, want := range []string{
		"Ethernet0 refused CONFIG_DB has the port tagged in Vlan100",
		"Ethernet4 refused CONFIG_DB has sub-interfaces of the port (Eth4.10, Ethernet4.11),",
		"Ethernet8 refused CONFIG_DB has sub-interfaces of PortChannel7 (Po7.20),",
		"Ethernet12 refused CONFIG_DB has sub-interfaces of PortChannel7 (Po7.20),",
		"Ethernet8 degraded CONFIG_DB has PortChannel7 untagged in Vlan5:",
		"Ethernet12 degraded CONFIG_DB has PortChannel7 untagged in Vlan5:",
		"Ethernet4 degraded CONFIG_DB PORT_QOS_MAP gives the port dot1p_to_tc_map AZURE:",
	} {
		if !slices.ContainsFunc(got, func(h string) bool { return strings.HasPrefix(h, want) }) {
			t.Errorf("nothing says %q", want)
		}
	}
	if len(got) != 7 {
		t.Errorf("%q", got)
	}
	for mode, refused := range map[string]bool{"enable": false, "disable": true} {
		r.Do(4, "HSET", "DEVICE_METADATA|localhost", "synchronous_mode", mode)
		if f, err := l.Probe(t.Context()); err != nil || (f.Update.Level == vlanrules.Refused) != refused || refused && !strings.Contains(f.Update.Reason, "synchronous_mode") {
			t.Errorf("%s: %+v, %v", mode, f.Update, err)
		}
	}
}

// TestNotOursAtOnce: another program that begins to wait for answers while csig does is
// seen, too.
func TestNotOursAtOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202311, "Ethernet0")
	_ = l.Driver.Close()
	dials := 0
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials++; dials == 2 { // the one that is to subscribe
			c, err := redis.Dial("unix", l.sw.Redis.Socket)
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { _ = c.Close() })
			ps := redis.PubSubConn{Conn: c}
			if err := ps.Subscribe(responses); err != nil {
				return nil, err
			}
			ps.Receive()
		}
		return sonictest.Dial(ctx, network, address)
	}
	d := Open(Config{Redis: sonicdb.New(sonicdb.Options{Dial: dial, File: l.sw.Redis.File, ReadFile: func(_ context.Context, path string) ([]byte, error) { return os.ReadFile(path) }})})
	defer d.Close()
	var perm *vendors.PermanentError
	if err := d.Apply(t.Context(), setupOf(quantize.Draft00, "Ethernet0")); !errors.As(err, &perm) || !strings.Contains(err.Error(), "p4rt_app") || dials != 2 {
		t.Errorf("%v after %d connections", err, dials)
	}
	l.clean()
}

// TestWrongRedis: an error of the way to the switch's Redis says what to do.
func TestWrongRedis(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202311, "Ethernet0")
	_ = l.Driver.Close()
	text, err := os.ReadFile(l.sw.Redis.File)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "map.json")
	observe := func(number, socket string) error {
		t.Helper()
		re := regexp.MustCompile(`("APPL_DB": *\{[^}]*"id": *)0`)
		if !re.Match(text) {
			t.Fatalf("%s", text)
		}
		if err := os.WriteFile(file, re.ReplaceAll(text, []byte("${1}"+number)), 0o600); err != nil {
			t.Fatal(err)
		}
		d := Open(Config{Redis: sonicdb.New(sonicdb.Options{Dial: sonictest.Dial, File: file, Socket: socket, ReadFile: func(_ context.Context, path string) ([]byte, error) { return os.ReadFile(path) }})})
		defer d.Close()
		_, err := d.Probe(t.Context())
		return err
	}
	for name, tc := range map[string]struct {
		number, socket string
		want           []string
	}{
		"an empty database":   {"9", "", []string{"P4RT_TABLE_CHANNEL@9", file, "that database is empty"}},
		"a database too many": {"99", "", []string{"APPL_DB is database 99", file}},
		"a socket not there":  {"0", filepath.Join(t.TempDir(), "none.sock"), []string{"database container running", "management: redis"}},
	} {
		err := observe(tc.number, tc.socket)
		for _, want := range tc.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
	l.sw.Redis.Do(0, "CONFIG", "SET", "requirepass", "secret")
	if err := observe("0", ""); err == nil || !strings.Contains(err.Error(), "management: redis: password") {
		t.Errorf("%v", err)
	}
}

// TestHungRedis: what does not answer was not reached, and is not asked once more by
// csig off.
func TestHungRedis(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "redis.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	d := Open(Config{Redis: sonicdb.New(sonicdb.Options{Dial: sonictest.Dial, Socket: ln.Addr().String(), Connect: 100*time.Millisecond - sonicdb.Timeout})})
	defer d.Close()
	var op *net.OpError
	if _, err := d.Observe(t.Context()); !errors.As(err, &op) || !strings.Contains(err.Error(), "no answer for 100ms") {
		t.Errorf("%v", err)
	}
}

// TestHealth reads losses and MTUs.
func TestHealth(t *testing.T) {
	t.Parallel()
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
