package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// MinPeriod is the shortest "@every" period, and so the shortest Δt.
const MinPeriod = time.Millisecond

// DefaultDriftCheck is the schedule of Policy.DriftCheck where the fleet file has none.
const DefaultDriftCheck = "@every 1h"

// MinDriftCheck is the shortest time between two checks that a fleet file may ask for: each
// opens connections of its own.
const MinDriftCheck = time.Minute

// Check refuses to look for drift all the time.
func (p *Policy) Check(m Mapping) {
	if s, err := ParseSchedule(p.DriftCheck); err == nil && LongestGap(s) < MinDriftCheck {
		m.Wrong("drift_check", `e.g. "@every 15m", or "30 2 * * *"`, "drift_check: %s is too often: want a minute between two checks, or more", p.DriftCheck)
	}
}

// Every is a schedule with a fixed period. Its instants are the multiples of
// the period since the Unix epoch, so that devices with synchronised clocks
// sample together, whenever their agents started.
type Every time.Duration

// Next returns the first multiple of the period after t, in t's location. It
// carries no monotonic reading: when the clock is stepped, the schedule
// follows.
func (e Every) Next(t time.Time) time.Time {
	period := int64(e)
	since := t.UnixNano() % period
	if since < 0 { // before the epoch
		since += period
	}
	return time.Unix(0, t.UnixNano()-since+period).In(t.Location())
}

var withSeconds = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// ParseSchedule reads a schedule: "@every D" with a period D from 1 ms
// ("@every 100ms", an Every), or what robfig/cron takes: five fields, or six of which the first
// is the second, descriptors, an optional leading CRON_TZ=. A schedule that never
// comes due is an error.
func ParseSchedule(text string) (cron.Schedule, error) {
	if rest, ok := strings.CutPrefix(text, "@every "); ok {
		period, err := time.ParseDuration(strings.TrimSpace(rest))
		if err != nil {
			return nil, fmt.Errorf("schedule %q: %q is not a duration, e.g. 100ms or 5s", text, strings.TrimSpace(rest))
		}
		if period < MinPeriod {
			return nil, fmt.Errorf("schedule %q: the shortest period is %s", text, MinPeriod)
		}
		return Every(period), nil
	}
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("the schedule is empty")
	}
	// The library slices up to the space behind the zone without looking
	// whether there is one.
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		if _, _, ok := strings.Cut(text, " "); !ok {
			return nil, fmt.Errorf("schedule %q: the time zone is followed by no schedule", text)
		}
	}
	s, err := withSeconds.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", text, err)
	}
	if LongestGap(s) <= 0 {
		return nil, fmt.Errorf("schedule %q never comes due", text)
	}
	return s, nil
}

// LongestGap returns the longest time between two consecutive instants of a
// schedule made by ParseSchedule, 0 for one that never comes due. It counts
// days of 24 hours: a clock change may make one gap an hour longer.
func LongestGap(s cron.Schedule) time.Duration {
	var longest time.Duration
	for gap := range gapsOf(s) {
		longest = max(longest, gap)
	}
	return longest
}

// Period is the longest time between two samples of a device, but for those in which its schedule pauses: a gap
// longer than Δt, as of working hours. It is the shortest gap where all are longer, and 0 for a schedule that ParseSchedule refuses.
func (d *Device) Period() time.Duration {
	s, err := ParseSchedule(d.Schedule)
	if err != nil {
		return 0
	}
	var within, shortest time.Duration
	for gap := range gapsOf(s) {
		if shortest == 0 || gap < shortest {
			shortest = gap
		}
		if gap <= d.Interval {
			within = max(within, gap)
		}
	}
	return cmp.Or(within, shortest)
}

// gapsOf are the times between two consecutive instants of a schedule.
func gapsOf(s cron.Schedule) map[time.Duration]bool {
	switch s := s.(type) {
	case Every:
		return map[time.Duration]bool{time.Duration(s): true}
	case cron.ConstantDelaySchedule:
		return map[time.Duration]bool{s.Delay: true}
	case *cron.SpecSchedule:
		return specGaps(s)
	}
	return nil
}

// specGaps works from the days: within a due minute the seconds repeat, and within a due day the minutes, so
// one of each is enough, and the rest are the runs of days that are not due.
func specGaps(s *cron.SpecSchedule) map[time.Duration]bool {
	gaps := map[time.Duration]bool{}
	var seconds, minutes run
	for second := range 60 {
		if s.Second&(1<<second) != 0 {
			seconds.due(time.Duration(second)*time.Second, 0, gaps)
		}
	}
	for minute := range 24 * 60 {
		if s.Hour&(1<<(minute/60)) != 0 && s.Minute&(1<<(minute%60)) != 0 {
			minutes.due(time.Duration(minute)*time.Minute, seconds.length(), gaps)
		}
	}
	const day = 24 * time.Hour
	// 28 years hold every combination of date and weekday; 8 more hold the gap
	// of a missing leap day (2096 to 2104) in between.
	from := time.Date(2088, 1, 1, 0, 0, 0, 0, time.UTC)
	var days run
	for n := range 36 * 366 {
		if dueOn(s, from.AddDate(0, 0, n)) {
			days.due(time.Duration(n)*day, minutes.length()+seconds.length(), gaps)
		}
	}
	if !days.any || !minutes.any || !seconds.any {
		return nil
	}
	return gaps
}

// run is a row of instants.
type run struct {
	any         bool
	first, last time.Duration
}

// due adds the next instant, and what is between the one before and it; each takes so long itself.
func (r *run) due(at, long time.Duration, gaps map[time.Duration]bool) {
	if !r.any {
		r.any, r.first = true, at
	} else {
		gaps[at-r.last-long] = true
	}
	r.last = at
}

// length is from the first to the last one.
func (r *run) length() time.Duration { return r.last - r.first }

// dueOn reports whether a schedule is due on a day. Cron joins day of month and
// day of week by "or", unless one of them is a star.
func dueOn(s *cron.SpecSchedule, day time.Time) bool {
	const star = 1 << 63
	if s.Month&(1<<uint(day.Month())) == 0 {
		return false
	}
	dom := s.Dom&(1<<uint(day.Day())) != 0
	dow := s.Dow&(1<<uint(day.Weekday())) != 0
	if s.Dom&star != 0 || s.Dow&star != 0 {
		return dom && dow
	}
	return dom || dow
}
