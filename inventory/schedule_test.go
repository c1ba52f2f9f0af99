package inventory

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestEveryNext(t *testing.T) {
	rows := []struct {
		name      string
		period    time.Duration
		now, want string
	}{
		{"between", 100 * time.Millisecond, "2026-01-01T00:00:00.123Z", "2026-01-01T00:00:00.2Z"},
		{"on an instant", 100 * time.Millisecond, "2026-01-01T00:00:00.2Z", "2026-01-01T00:00:00.3Z"},
		{"just before", time.Millisecond, "2026-01-01T00:00:00.000999999Z", "2026-01-01T00:00:00.001Z"},
		// 1,767,225,600 s after the epoch is a multiple of 7 s; it is none since
		// the year 1, from which time.Truncate counts.
		{"counted from the epoch", 7 * time.Second, "2026-01-01T00:00:01Z", "2026-01-01T00:00:07Z"},
		{"before the epoch", 7 * time.Second, "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z"},
		{"on one before the epoch", 7 * time.Second, "1969-12-31T23:59:53Z", "1970-01-01T00:00:00Z"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			now, err := time.Parse(time.RFC3339Nano, row.now)
			if err != nil {
				t.Fatal(err)
			}
			if got := Every(row.period).Next(now).Format(time.RFC3339Nano); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

// TestEveryAligned checks against big numbers' division that an instant is the
// first multiple of the period after now.
func TestEveryAligned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		period := time.Duration(rapid.Int64Range(int64(MinPeriod), int64(time.Hour)).Draw(t, "period"))
		now := time.Unix(0, rapid.Int64Range(0, 4e18).Draw(t, "now"))
		next := Every(period).Next(now)
		if next.UnixNano()%int64(period) != 0 {
			t.Fatalf("%d is not a multiple of %d", next.UnixNano(), period)
		}
		if d := next.Sub(now); d <= 0 || d > period {
			t.Fatalf("%s after now", d)
		}
	})
}

// TestEveryInCron runs a period that cron's own @every rounds to a second, in
// a bubble whose clock starts at an instant of its own.
func TestEveryInCron(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(37 * time.Millisecond) // the bubble's clock, to be off any multiple
		s, err := ParseSchedule("@every 250ms")
		if err != nil {
			t.Fatal(err)
		}
		c := cron.New()
		runs := make(chan time.Time, 100)
		c.Schedule(s, cron.FuncJob(func() { runs <- time.Now() }))
		c.Start()
		time.Sleep(1100 * time.Millisecond)
		<-c.Stop().Done()
		close(runs)
		if len(runs) != 4 {
			t.Errorf("%d runs in 1.1 s", len(runs))
		}
		for run := range runs {
			if run.UnixNano()%int64(250*time.Millisecond) != 0 {
				t.Errorf("the run at %s is not aligned", run)
			}
		}
	})
}

func TestParseSchedule(t *testing.T) {
	const day = 24 * time.Hour
	rows := []struct {
		text string
		gap  time.Duration // 0: refused
		err  string
	}{
		{"@every 1ms", time.Millisecond, ""},
		{"@every 100ms", 100 * time.Millisecond, ""},
		{"@every 1.5s", 1500 * time.Millisecond, ""},
		{"@every  2s", 2 * time.Second, ""},
		{"@every 999us", 0, "shortest period is 1ms"},
		{"@every 0s", 0, "shortest period"},
		{"@every -1s", 0, "shortest period"},
		{"@every soon", 0, "not a duration"},
		{"* * * * *", time.Minute, ""},
		{"*/5 * * * *", 5 * time.Minute, ""},
		{"0-58 * * * *", 2 * time.Minute, ""},
		{"*/7 * * * *", 7 * time.Minute, ""},
		{"0 * * * *", time.Hour, ""},
		{"@hourly", time.Hour, ""},
		{"@daily", day, ""},
		{"@weekly", 7 * day, ""},
		{"0 9-17 * * *", 16 * time.Hour, ""},
		{"0 12 * * mon-fri", 3 * day, ""},
		{"0 0 1,15 * *", 17 * day, ""},
		{"0 0 1 * *", 31 * day, ""},
		{"* * * 1-11 *", 31*day + time.Minute, ""},
		{"0 0 29 2 *", 8*365*day + day, ""},
		{"0 0 13 * fri", 7 * day, ""},
		{"CRON_TZ=UTC 0 0 * * *", day, ""},
		{"TZ=UTC", 0, "followed by no schedule"},
		{"TZ=Nowhere/Town * * * * *", 0, "bad location"},
		{"0 0 30 2 *", 0, "never comes due"},
		{"", 0, "empty"},
		{" ", 0, "empty"},
		{"* * * *", 0, "5 to 6 fields"},
		{"60 * * * *", 0, "above maximum"},
		{"* * * * * * *", 0, "5 to 6 fields"},
		{"* * * * * *", time.Second, ""},
		{"*/10 * * * * *", 10 * time.Second, ""},
		{"*/25 * * * * *", 25 * time.Second, ""},
		{"5,20 * * * * *", 45 * time.Second, ""},
		{"*/10 * 8-17 * * 1-5", 62*time.Hour + 10*time.Second, ""},
		{"61 * * * * *", 0, "above maximum"},
		{"@reboot", 0, "unrecognized"},
		{"@every", 0, "unrecognized"},
	}
	for _, row := range rows {
		t.Run(row.text, func(t *testing.T) {
			s, err := ParseSchedule(row.text)
			if row.err != "" {
				if err == nil || !strings.Contains(err.Error(), row.err) {
					t.Errorf("got %v, want an error with %q", err, row.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if gap := LongestGap(s); gap != row.gap {
				t.Errorf("longest gap %s, want %s", gap, row.gap)
			}
		})
	}
}

// TestLongGapIsTheLongest walks schedules instant by instant, as cron does, and compares
// the longest gap seen in a leap year and the next.
func TestLongGapIsTheLongest(t *testing.T) {
	field := func(values ...string) *rapid.Generator[string] { return rapid.SampledFrom(values) }
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join([]string{
			field("", "0", "*/30", "7,12").Draw(t, "second"),
			field("0", "17", "*/30", "5,50", "59").Draw(t, "minute"),
			field("*", "0", "*/6", "9-17", "3,23").Draw(t, "hour"),
			field("*", "1", "1-7", "*/10", "31", "15,28").Draw(t, "day"),
			field("*", "1-11", "*/3", "feb,mar").Draw(t, "month"),
			field("*", "mon", "mon-fri", "sat,sun").Draw(t, "weekday"),
		}, " ")
		s, err := ParseSchedule("CRON_TZ=UTC " + strings.TrimSpace(text))
		if err != nil {
			t.Fatal(err)
		}
		want, all := LongestGap(s), gapsOf(s)
		var seen time.Duration
		from := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
		// Gaps of weekdays in a rare month can be years: those are for the
		// table above, here it is enough that none is longer than said.
		for at, end := s.Next(from), from.AddDate(2, 0, 0); !at.IsZero() && at.Before(end); {
			next := s.Next(at)
			if next.IsZero() {
				break
			}
			seen = max(seen, next.Sub(at))
			if !all[next.Sub(at)] {
				t.Fatalf("%s: saw a gap of %s, which gapsOf lacks", text, next.Sub(at))
			}
			at = next
		}
		if seen > want {
			t.Fatalf("%s: saw a gap of %s, LongestGap says %s", text, seen, want)
		}
		if want <= 31*24*time.Hour && seen != want {
			t.Fatalf("%s: LongestGap says %s, the longest seen in two years is %s", text, want, seen)
		}
	})
}

func TestPeriodLeavesOutPauses(t *testing.T) {
	for _, tc := range []struct {
		schedule string
		interval time.Duration
		want     time.Duration
	}{
		{"@every 100ms", time.Second, 100 * time.Millisecond},
		{"@every 10s", time.Second, 10 * time.Second}, // refused: see TestMistakes
		{"*/10 * * * * *", time.Minute, 10 * time.Second},
		{"*/10 * 8-17 * * 1-5", 10 * time.Second, 10 * time.Second},
		{"0,20 * 8-17 * * *", time.Minute, 40 * time.Second},
		{"0,20 * 8-17 * * *", 30 * time.Second, 20 * time.Second},
		{"CRON_TZ=UTC */5 9-17 * * *", 5 * time.Minute, 5 * time.Minute},
		{"at night", time.Second, 0},
	} {
		d := Device{Schedule: tc.schedule, Interval: tc.interval}
		if got := d.Period(); got != tc.want {
			t.Errorf("%s, Δt %v: %v, want %v", tc.schedule, tc.interval, got, tc.want)
		}
	}
}
