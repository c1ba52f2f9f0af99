package sonic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors/sonic/sonictest"
)

// memory is the databases of a switch in memory: hashes, as far as a Source asks for them. An
// answer takes a while.
type memory struct {
	takes time.Duration

	mu     sync.Mutex
	hashes map[string]map[string]string // by database and key
}

// put sets fields of a hash, as HSET does.
func (m *memory) put(db, key string, values ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hashes == nil {
		m.hashes = map[string]map[string]string{}
	}
	h := m.hashes[db+" "+key]
	if h == nil {
		h = map[string]string{}
		m.hashes[db+" "+key] = h
	}
	for i := 0; i < len(values); i += 2 {
		h[fmt.Sprint(values[i])] = fmt.Sprint(values[i+1])
	}
}

func (m *memory) Do(_ context.Context, commands ...[]string) (answers []any, err error) {
	time.Sleep(m.takes / 2)
	defer time.Sleep(m.takes / 2)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range commands {
		if c[1] != "HMGET" {
			return nil, fmt.Errorf("%s: %w", c[1], errors.ErrUnsupported)
		}
		var list []any
		for _, field := range c[3:] {
			if v, have := m.hashes[c[0]+" "+c[2]][field]; have {
				list = append(list, []byte(v))
			} else {
				list = append(list, nil)
			}
		}
		answers = append(answers, list)
	}
	return answers, nil
}

func (m *memory) Scan(_ context.Context, db, prefix string) (keys []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at := range maps.Keys(m.hashes) {
		if key, ours := strings.CutPrefix(at, db+" "); ours && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

func (m *memory) Close() error { return nil }

// TestMemoryAsRedis asks the databases in memory the same as a real Redis.
func TestMemoryAsRedis(t *testing.T) {
	r := sonictest.StartRedis(t)
	_, real := open(t, r, "Ethernet0")
	m := &memory{}
	for _, h := range []struct {
		db, key string
		values  []any
	}{
		{countersDB, "COUNTERS_PORT_NAME_MAP", []any{"Ethernet0", "oid:0x1"}},
		{countersDB, "COUNTERS:oid:0x1", []any{"SAI_PORT_STAT_IF_OUT_OCTETS", uint64(1<<64 - 1), "SAI_PORT_STAT_IF_OUT_UCAST_PKTS", ""}},
		{applDB, "LAG_MEMBER_TABLE:PortChannel1:Ethernet0", []any{"status", "enabled"}},
		{applDB, "LAG_MEMBER_TABLE:PortChannel1:Ethernet4", []any{"status", "enabled"}},
		{applDB, "LAG_TABLE:PortChannel1", []any{"oper_status", "up"}},
	} {
		n := map[string]int{applDB: 0, countersDB: 2}[h.db]
		r.Do(n, "HSET", append([]any{h.key}, h.values...)...)
		m.put(h.db, h.key, h.values...)
	}
	ask := func(db interface {
		Do(ctx context.Context, commands ...[]string) ([]any, error)
		Scan(ctx context.Context, db, prefix string) ([]string, error)
	}) string {
		answers, err := db.Do(t.Context(),
			[]string{countersDB, "HMGET", "COUNTERS_PORT_NAME_MAP", "Ethernet0", "Ethernet4"},
			append([]string{countersDB, "HMGET", "COUNTERS:oid:0x1"}, fields...),
			[]string{countersDB, "HMGET", "COUNTERS:oid:0x2", "x"},
			[]string{configDB, "HMGET", "FLEX_COUNTER_TABLE|PORT", "POLL_INTERVAL", "FLEX_COUNTER_STATUS"})
		if err != nil {
			t.Fatal(err)
		}
		keys, err := db.Scan(t.Context(), applDB, "LAG_MEMBER_TABLE:")
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(keys)
		return fmt.Sprintf("%#v %q", answers, keys)
	}
	if got, want := ask(m), ask(real); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
