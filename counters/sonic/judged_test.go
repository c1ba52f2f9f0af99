package sonic

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/csig-agent/csig/counters/refreshtest"
	"github.com/csig-agent/csig/vendors/sonic/sonicdb"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
)

// flexCounter writes rows of true counters as syncd does, one after the other each second, until ctx ends.
type flexCounter struct {
	redis *sonictest.Redis
	takes time.Duration // from the first row to the last
	truth []*refreshtest.Known

	mu   sync.Mutex
	late []lateRow
}

// lateRow is one whose counters became older than POLL_INTERVAL and an eighth, since the machine held the writer up.
type lateRow struct {
	port     int
	from, to time.Time
}

// broken reports whether a row had been late in the last seconds.
func (f *flexCounter) broken(port int, at time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.late, func(l lateRow) bool {
		return l.port == port && at.After(l.from) && at.Before(l.to.Add(5*time.Second))
	})
}

func (f *flexCounter) port(i int) string { return fmt.Sprintf("Ethernet%d", 4*i) }

func (f *flexCounter) write(ctx context.Context) error {
	const every = time.Second
	timer := time.NewTimer(0)
	defer timer.Stop()
	before := make([]time.Time, len(f.truth))
	for next := time.Now(); ; next = next.Add(every) {
		for i, k := range f.truth {
			timer.Reset(time.Until(next.Add(f.takes * time.Duration(i) / time.Duration(len(f.truth)))))
			select {
			case <-ctx.Done():
				return nil
			case <-timer.C:
			}
			at := time.Now()
			octets, frames := k.Counters(at)
			if err := f.redis.Try(2, "HSET", fmt.Sprintf("COUNTERS:oid:0x%d", i+1), "SAI_PORT_STAT_IF_OUT_OCTETS", octets, "SAI_PORT_STAT_IF_OUT_UCAST_PKTS", frames, "SAI_PORT_STAT_IF_OUT_NON_UCAST_PKTS", 0); err != nil {
				return err
			}
			if last, now := before[i], time.Now(); !last.IsZero() && now.Sub(last) > every+every/8 {
				f.mu.Lock()
				f.late = append(f.late, lateRow{i, last.Add(every), now})
				f.mu.Unlock()
			}
			before[i] = at
		}
	}
}

// TestLongJudged reads a real Redis whose rows are written each second, whether CONFIG_DB says so or not: no load is
// further off than is said of it. CSIG_JUDGED=150s is how long.
func TestLongJudged(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), refreshtest.Long(t))
	defer stop()
	var all sync.WaitGroup
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
		r := sonictest.StartRedis(t)
		if test.poll != "" {
			r.Do(4, "HSET", "FLEX_COUNTER_TABLE|PORT", "POLL_INTERVAL", test.poll, "FLEX_COUNTER_STATUS", "enable")
		}
		f := &flexCounter{redis: r, takes: test.takes, truth: refreshtest.KnownLoads(uint64(n), time.Now())}
		var ports []string
		var truth []refreshtest.Truth
		for i, k := range f.truth {
			counted(r, f.port(i), fmt.Sprintf("oid:0x%d", i+1), "SAI_PORT_STAT_IF_OUT_OCTETS", 0, "SAI_PORT_STAT_IF_OUT_UCAST_PKTS", 0, "SAI_PORT_STAT_IF_OUT_NON_UCAST_PKTS", 0)
			statusOf(r, f.port(i), "up", "1000")
			ports, truth = append(ports, f.port(i)), append(truth, k)
		}
		all.Go(func() {
			if err := f.write(ctx); err != nil {
				t.Error(err)
			}
		})
		for _, every := range test.every {
			src, err := New(Config{Ports: ports, Redis: sonicdb.New(sonicdb.Options{Dial: sonictest.Dial, File: r.File,
				ReadFile: func(_ context.Context, path string) ([]byte, error) { return os.ReadFile(path) }})})
			if err != nil {
				t.Fatal(err)
			}
			defer src.Close()
			judged = append(judged, &refreshtest.Real{Name: fmt.Sprintf("%s, each %v", test.name, every), Source: src, Every: every, Speed: refreshtest.Speed, Ports: ports, Truth: truth, Broken: f.broken})
		}
	}
	check := refreshtest.Begin(ctx, t, judged)
	all.Wait()
	check()
}
