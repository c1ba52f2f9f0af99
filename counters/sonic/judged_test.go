package sonic

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/counters/refreshtest"
)

// flexCounter writes rows of true counters as syncd does, one after the other each second, until ctx ends.
type flexCounter struct {
	db    *memory
	takes time.Duration // from the first row to the last
	truth []*refreshtest.Known
}

func (f *flexCounter) port(i int) string { return fmt.Sprintf("Ethernet%d", 4*i) }

func (f *flexCounter) write(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for next := time.Now(); ; next = next.Add(time.Second) {
		for i, k := range f.truth {
			timer.Reset(time.Until(next.Add(f.takes * time.Duration(i) / time.Duration(len(f.truth)))))
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			octets, frames := k.Counters(time.Now())
			f.db.put(countersDB, fmt.Sprintf("COUNTERS:oid:0x%d", i+1), fields[0], octets, fields[1], frames, fields[2], 0)
		}
	}
}

// TestJudged reads a switch whose rows are written each second, whether CONFIG_DB says so or not: no load is
// further off than is said of it. CSIG_JUDGED=1h is how long, on virtual time.
func TestJudged(t *testing.T) { synctest.Test(t, testJudged) }

func testJudged(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), refreshtest.Long(t, time.Minute))
	defer stop()
	var judged []*refreshtest.Real
	for n, test := range []struct {
		name  string
		poll  string // POLL_INTERVAL
		takes time.Duration
		every []time.Duration
	}{
		{"POLL_INTERVAL 1000", "1000", 5 * time.Millisecond, []time.Duration{time.Second, 1500 * time.Millisecond}},
		{"no POLL_INTERVAL", "", 5 * time.Millisecond, []time.Duration{time.Second, 1500 * time.Millisecond}},
		{"rows in 0.3 s", "1000", 300 * time.Millisecond, []time.Duration{100 * time.Millisecond, time.Second, 1500 * time.Millisecond}},
	} {
		db := &memory{takes: time.Millisecond}
		if test.poll != "" {
			db.put(configDB, "FLEX_COUNTER_TABLE|PORT", "POLL_INTERVAL", test.poll, "FLEX_COUNTER_STATUS", "enable")
		}
		f := &flexCounter{db: db, takes: test.takes, truth: refreshtest.KnownLoads(uint64(n), time.Now())}
		var ports []string
		var truth []refreshtest.Truth
		for i, k := range f.truth {
			db.put(countersDB, "COUNTERS_PORT_NAME_MAP", f.port(i), fmt.Sprintf("oid:0x%d", i+1))
			db.put(countersDB, fmt.Sprintf("COUNTERS:oid:0x%d", i+1), fields[0], 0, fields[1], 0, fields[2], 0)
			db.put(applDB, "PORT_TABLE:"+f.port(i), "oper_status", "up", "speed", 1000)
			ports, truth = append(ports, f.port(i)), append(truth, k)
		}
		go f.write(ctx)
		for _, every := range test.every {
			src, err := New(Config{Ports: ports, Redis: db})
			if err != nil {
				t.Fatal(err)
			}
			judged = append(judged, &refreshtest.Real{Name: fmt.Sprintf("%s, each %v", test.name, every), Source: src, Every: every, Speed: refreshtest.Speed, Ports: ports, Truth: truth})
		}
	}
	refreshtest.Begin(ctx, t, judged)()
}
