package sonic

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
)

// counted puts a port's counters where syncd does.
func counted(r *sonictest.Redis, port, oid string, values ...any) {
	r.Do(2, "HSET", "COUNTERS_PORT_NAME_MAP", port, oid)
	r.Do(2, "HSET", append([]any{"COUNTERS:" + oid}, values...)...)
}

func statusOf(r *sonictest.Redis, port, oper, speed string) {
	r.Do(0, "HSET", "PORT_TABLE:"+port, "oper_status", oper, "speed", speed)
}

// counting counts round trips.
type counting struct {
	*sonicdb.Client
	calls int
}

func (c *counting) Do(ctx context.Context, commands ...[]string) ([]any, error) {
	c.calls++
	return c.Client.Do(ctx, commands...)
}

func open(t *testing.T, r *sonictest.Redis, ports ...string) (*Source, *counting) {
	t.Helper()
	db := &counting{Client: sonicdb.New(sonicdb.Options{Dial: sonictest.Dial, File: r.File,
		ReadFile: func(_ context.Context, path string) ([]byte, error) { return os.ReadFile(path) }})}
	cfg := Config{Redis: db}
	cfg.Ports = ports
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, db
}

func read(t *testing.T, s *Source) []counters.Sample {
	t.Helper()
	list, err := s.Read(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestRead(t *testing.T) {
	r := sonictest.StartRedis(t)
	r.Do(4, "HSET", "FLEX_COUNTER_TABLE|PORT", "POLL_INTERVAL", "250", "FLEX_COUNTER_STATUS", "enable")
	counted(r, "Ethernet0", "oid:0x1000000000001", "SAI_PORT_STAT_IF_OUT_OCTETS", "18446744073709551615", "SAI_PORT_STAT_IF_OUT_UCAST_PKTS", 1000, "SAI_PORT_STAT_IF_OUT_NON_UCAST_PKTS", 7)
	counted(r, "Ethernet4", "oid:0x1000000000002", "SAI_PORT_STAT_IF_OUT_OCTETS", 5, "SAI_PORT_STAT_IF_OUT_UCAST_PKTS", 1, "SAI_PORT_STAT_IF_OUT_MULTICAST_PKTS", 2, "SAI_PORT_STAT_IF_OUT_BROADCAST_PKTS", 3)
	counted(r, "Ethernet8", "oid:0x1000000000003", "SAI_PORT_STAT_IF_OUT_OCTETS", 9)
	counted(r, "Ethernet12", "oid:0x1000000000004", "SAI_PORT_STAT_IF_OUT_UCAST_PKTS", 9)
	counted(r, "Ethernet16", "oid:0x1000000000005", "SAI_PORT_STAT_IF_OUT_OCTETS", "many")
	counted(r, "Ethernet20", "oid:0x1000000000006", "SAI_PORT_STAT_IF_OUT_OCTETS", 1)
	for _, p := range []string{"Ethernet0", "Ethernet8", "Ethernet12", "Ethernet16"} {
		statusOf(r, p, "up", "100000")
	}
	statusOf(r, "Ethernet4", "down", "25000")
	s, db := open(t, r, "Ethernet0", "Ethernet4", "Ethernet8", "Ethernet12", "Ethernet16", "Ethernet20", "Ethernet24")
	read(t, s)
	db.calls = 0
	list := read(t, s)
	if db.calls != 1 {
		t.Errorf("%d round trips for a reading", db.calls)
	}
	if list[0].Cache != 250*time.Millisecond {
		t.Errorf("poll interval %v", list[0].Cache)
	}
	a, b, c := list[0], list[1], list[2]
	if a.Err != nil || a.Octets != 1<<64-1 || a.Packets != 1007 || !a.Up || a.Speed != 100e9 || a.Overhead != 20 || a.Bits != 64 || a.Live || a.At.IsZero() || a.Degraded != "" {
		t.Errorf("%+v", a)
	}
	if b.Err != nil || b.Octets != 5 || b.Packets != 6 || b.Up || b.Speed != 25e9 {
		t.Errorf("%+v", b)
	}
	if c.Err != nil || c.Octets != 9 || c.Degraded == "" {
		t.Errorf("%+v", c)
	}
	for i, want := range []string{"has no SAI_PORT_STAT_IF_OUT_OCTETS", `"many" is no count`, "no oper_status", ErrNoPort.Error()} {
		if got := list[3+i]; got.Err == nil || !strings.Contains(got.Err.Error(), want) || got.Octets != 0 {
			t.Errorf("%s: %v, want %q", got.Port, got.Err, want)
		}
	}
	if !errors.Is(list[6].Err, ErrNoPort) {
		t.Error(list[6].Err)
	}
	r.Do(4, "HSET", "FLEX_COUNTER_TABLE|PORT", "FLEX_COUNTER_STATUS", "disable")
	if list = read(t, s); list[0].Err == nil || !strings.Contains(list[0].Err.Error(), "counterpoll") {
		t.Errorf("disabled: %v", list[0].Err)
	}
}

// The speed is the one that the link has: STATE_DB's, where orchagent has asked the ASIC for it, as
// `show interfaces status` has it; APPL_DB's is what is configured on the switch.
func TestSpeedIsTheLinks(t *testing.T) {
	r := sonictest.StartRedis(t)
	for _, test := range []struct {
		name, oper, configured, operational string
		want                                uint64
	}{
		{"negotiated down", "up", "1000", "100", 100e6},
		{"negotiated up", "up", "10000", "25000", 25e9},
		{"the same", "up", "100000", "100000", 100e9},
		{"the ASIC was not asked", "up", "100000", "", 100e9},
		{"the ASIC does not say", "up", "100000", "N/A", 100e9},
		{"the ASIC says zero", "up", "100000", "0", 100e9},
		{"of the link before it went down", "down", "100000", "100", 100e9},
		{"neither", "up", "", "", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, db := range []int{0, 2, 6} {
				r.Do(db, "FLUSHDB")
			}
			counted(r, "Ethernet0", "oid:0x1", "SAI_PORT_STAT_IF_OUT_OCTETS", 1000, "SAI_PORT_STAT_IF_OUT_UCAST_PKTS", 1, "SAI_PORT_STAT_IF_OUT_NON_UCAST_PKTS", 0)
			statusOf(r, "Ethernet0", test.oper, test.configured)
			if test.operational != "" {
				r.Do(6, "HSET", "PORT_TABLE|Ethernet0", "state", "ok", "speed", test.operational)
			}
			s, db := open(t, r, "Ethernet0")
			read(t, s)
			db.calls = 0
			if got := read(t, s)[0]; got.Err != nil || got.Speed != test.want {
				t.Errorf("speed %d, %v; want %d", got.Speed, got.Err, test.want)
			}
			if db.calls != 1 {
				t.Errorf("%d round trips for a reading", db.calls)
			}
		})
	}
}

// An aggregate is as fast as its members that are up, and of unknown speed where one of theirs is.
func TestAggregateSpeed(t *testing.T) {
	r := sonictest.StartRedis(t)
	for i, p := range []string{"Ethernet0", "Ethernet4"} {
		counted(r, p, fmt.Sprintf("oid:0x%d", i+1), "SAI_PORT_STAT_IF_OUT_OCTETS", 1, "SAI_PORT_STAT_IF_OUT_UCAST_PKTS", 1, "SAI_PORT_STAT_IF_OUT_NON_UCAST_PKTS", 0)
		statusOf(r, p, "up", "10000")
		r.Do(0, "HSET", "LAG_MEMBER_TABLE:PortChannel1:"+p, "status", "enabled")
	}
	s, _ := open(t, r, "PortChannel1")
	speed := func(what string, want uint64) {
		t.Helper()
		if got := read(t, s)[0]; got.Err != nil || got.Speed != want {
			t.Errorf("%s: speed %d, %v; want %d", what, got.Speed, got.Err, want)
		}
	}
	speed("both up", 20e9)
	r.Do(6, "HSET", "PORT_TABLE|Ethernet4", "speed", "1000")
	speed("one negotiated down", 11e9)
	statusOf(r, "Ethernet4", "down", "10000")
	speed("one down", 10e9)
	statusOf(r, "Ethernet4", "up", "")
	r.Do(6, "DEL", "PORT_TABLE|Ethernet4")
	speed("one of unknown speed", 0)
}

// TestObjects: orchagent gives ports other objects when it starts, and then their
// counters are others, too.
func TestObjects(t *testing.T) {
	r := sonictest.StartRedis(t)
	counted(r, "Ethernet0", "oid:0x1", "SAI_PORT_STAT_IF_OUT_OCTETS", 1000, "SAI_PORT_STAT_IF_OUT_UCAST_PKTS", 1, "SAI_PORT_STAT_IF_OUT_NON_UCAST_PKTS", 0)
	statusOf(r, "Ethernet0", "up", "100000")
	s, _ := open(t, r, "Ethernet0")
	before := read(t, s)[0]
	if before.Cache != time.Second { // CONFIG_DB does not say
		t.Errorf("poll interval %v", before.Cache)
	}
	r.Do(2, "FLUSHDB")
	if gone := read(t, s)[0]; !errors.Is(gone.Err, ErrNoPort) {
		t.Errorf("%+v", gone)
	}
	counted(r, "Ethernet0", "oid:0x2", "SAI_PORT_STAT_IF_OUT_OCTETS", 7, "SAI_PORT_STAT_IF_OUT_UCAST_PKTS", 1, "SAI_PORT_STAT_IF_OUT_NON_UCAST_PKTS", 0)
	after := read(t, s)[0]
	if after.Err != nil || after.Octets != 7 || after.Epoch == before.Epoch {
		t.Errorf("%+v after %+v", after, before)
	}
}

// TestRedisRestart: the reading that notices it fails, and the next one works.
func TestRedisRestart(t *testing.T) {
	r := sonictest.StartRedis(t)
	statusOf(r, "Ethernet0", "up", "100000")
	counted(r, "Ethernet0", "oid:0x1", "SAI_PORT_STAT_IF_OUT_OCTETS", 1000)
	s, _ := open(t, r, "Ethernet0")
	read(t, s)
	r.Stop()
	if list, err := s.Read(t.Context(), nil); err == nil || len(list) > 0 {
		t.Errorf("%v, %v from nothing", list, err)
	}
	r.Start()
	if got := read(t, s)[0]; !errors.Is(got.Err, ErrNoPort) {
		t.Errorf("%+v", got)
	}
	statusOf(r, "Ethernet0", "up", "100000")
	counted(r, "Ethernet0", "oid:0x1", "SAI_PORT_STAT_IF_OUT_OCTETS", 1000)
	if got := read(t, s)[0]; got.Err != nil || got.Octets != 1000 {
		t.Errorf("%+v", got)
	}
}

func TestMembers(t *testing.T) {
	r := sonictest.StartRedis(t)
	for _, k := range []string{"PortChannel1:Ethernet4", "PortChannel1:Ethernet0", "PortChannel2:Ethernet8"} {
		r.Do(0, "HSET", "LAG_MEMBER_TABLE:"+k, "status", "enabled")
	}
	s, _ := open(t, r, "Ethernet0")
	got, err := s.Members(t.Context())
	if err != nil || len(got) != 2 || !slices.Equal(got["PortChannel1"], []string{"Ethernet0", "Ethernet4"}) || !slices.Equal(got["PortChannel2"], []string{"Ethernet8"}) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestAggregate: an aggregate that is named is the sum of its members, and says
// that this hides a full one; with other members it begins again.
func TestAggregate(t *testing.T) {
	r := sonictest.StartRedis(t)
	for i, p := range []string{"Ethernet0", "Ethernet4", "Ethernet8"} {
		counted(r, p, fmt.Sprintf("oid:0x%d", i+1), "SAI_PORT_STAT_IF_OUT_OCTETS", 1000*(i+1), "SAI_PORT_STAT_IF_OUT_UCAST_PKTS", 10*(i+1), "SAI_PORT_STAT_IF_OUT_NON_UCAST_PKTS", 0)
		statusOf(r, p, "up", "100000")
	}
	s, db := open(t, r, "PortChannel1", "Ethernet4", "PortChannel2")
	list := read(t, s)
	if list[0].Err == nil || !strings.Contains(list[0].Err.Error(), "it has no members") || list[1].Octets != 2000 {
		t.Errorf("%+v", list)
	}
	for _, m := range []string{"Ethernet0", "Ethernet4"} {
		r.Do(0, "HSET", "LAG_MEMBER_TABLE:PortChannel1:"+m, "status", "enabled")
	}
	s.asked = s.asked.Add(-recheckMembers)
	read(t, s) // it learns the new ones' objects
	db.calls = 0
	list = read(t, s)
	sum := list[0]
	if sum.Err != nil || sum.Octets != 3000 || sum.Packets != 30 || sum.Speed != 200e9 || !sum.Up || sum.Bits != 64 || sum.Overhead != 20 || !strings.Contains(sum.Degraded, "name the members") {
		t.Errorf("%+v", sum)
	}
	if list[1].Err != nil || list[1].Port != "Ethernet4" || list[1].Octets != 2000 || list[1].Degraded != "" || list[2].Err == nil {
		t.Errorf("%+v", list[1:])
	}
	if db.calls != 1 {
		t.Errorf("%d round trips for a reading", db.calls)
	}
	statusOf(r, "Ethernet4", "down", "100000") // what it has left
	if got := read(t, s)[0]; got.Speed != 100e9 || !got.Up || got.Epoch != sum.Epoch {
		t.Errorf("%+v", got)
	}
	statusOf(r, "Ethernet0", "down", "100000")
	if got := read(t, s)[0]; got.Up {
		t.Errorf("%+v", got)
	}
	r.Do(0, "DEL", "LAG_MEMBER_TABLE:PortChannel1:Ethernet4")
	r.Do(0, "HSET", "LAG_MEMBER_TABLE:PortChannel1:Ethernet8", "status", "enabled")
	s.asked = s.asked.Add(-recheckMembers)
	read(t, s)
	if got := read(t, s)[0]; got.Err != nil || got.Octets != 4000 || got.Epoch == sum.Epoch {
		t.Errorf("%+v after %+v", got, sum)
	}
	r.Do(2, "HDEL", "COUNTERS:oid:0x3", "SAI_PORT_STAT_IF_OUT_OCTETS")
	if got := read(t, s)[0]; got.Err == nil || !strings.Contains(got.Err.Error(), "of its members, port Ethernet8") {
		t.Errorf("%+v", got)
	}

	only, _ := open(t, r, "PortChannel2")
	if got := read(t, only); len(got) != 1 || got[0].Err == nil {
		t.Errorf("%+v", got)
	}
}

func TestConfig(t *testing.T) {
	for _, ports := range [][]string{nil, {"a|b"}} {
		if _, err := New(Config{Ports: ports}); err == nil {
			t.Errorf("%v is taken", ports)
		}
	}
}
