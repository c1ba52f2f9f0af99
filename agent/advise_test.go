package agent

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/vlanrules"
)

// TestAdvice: a longer schedule is advised after a long cycle that completed, and not where a
// cycle waited for a device that is away: then its error is all that is logged.
func TestAdvice(t *testing.T) {
	for name, device := range map[string]error{"slow": nil, "away": errors.New("connection lost")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, drv, block := &script{device: device}, &recorder{}, make(chan struct{})
				src.block.Store(&block)
				var out bytes.Buffer
				logger := logrus.New()
				logger.SetOutput(&out)
				cfg := testConfig(t, src, drv)
				cfg.Log = logrus.NewEntry(logger)
				a, err := New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				if err := a.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				stop := run(t, a)
				time.Sleep(2*interval + interval/2)
				synctest.Wait()
				if strings.Contains(out.String(), "lengthen") {
					t.Error("advice comes before the cycle has ended")
				}
				close(block)
				time.Sleep(interval)
				if err := stop(); err != nil {
					t.Error(err)
				}
				if n := strings.Count(out.String(), "lengthen the schedule"); (n == 1) != (device == nil) {
					t.Errorf("advised %d times:\n%s", n, out.String())
				}
			})
		})
	}
}

// stopping is a schedule whose process can be stopped for a minute at a tick. It goes on shortly
// before another tick.
type stopping struct {
	cron.Schedule
	stop atomic.Bool
	woke atomic.Int64 // when it went on
}

func (s *stopping) Next(t time.Time) time.Time {
	caller, _, _, _ := runtime.Caller(1) // cycles ask for the next tick's time, too
	if strings.HasSuffix(runtime.FuncForPC(caller).Name(), ".keepSchedule") && s.stop.Swap(false) {
		time.Sleep(time.Minute)
		s.woke.Store(time.Now().UnixNano())
	} else if late := t.UnixNano() - s.woke.Load(); late >= 0 && late <= int64(interval) {
		return t.Add(20 * time.Millisecond)
	}
	return s.Schedule.Next(t)
}

// TestNoAdviceWhenStopped: a tick comes right after a process was stopped, while the first cycle
// after that still runs. A longer schedule would not help.
func TestNoAdviceWhenStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv, block := &script{}, &recorder{}, make(chan struct{})
		var out bytes.Buffer
		logger := logrus.New()
		logger.SetOutput(&out)
		cfg := testConfig(t, src, drv)
		cfg.Log = logrus.NewEntry(logger)
		a, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		schedule := &stopping{Schedule: a.schedule}
		a.schedule = schedule
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop := run(t, a)
		time.Sleep(2*interval + interval/2)
		schedule.stop.Store(true)
		time.Sleep(interval)
		src.block.Store(&block)
		time.Sleep(time.Minute + 80*time.Millisecond)
		if a.Status().Cycle.Skipped == 0 {
			t.Error("no tick came while the cycle ran")
		}
		close(block)
		src.block.Store(nil)
		time.Sleep(interval)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if strings.Contains(out.String(), "lengthen") {
			t.Error(out.String())
		}
	})
}

// TestWithheld: while cycles complete, the reason for an ended lease is that of the port, or
// of another one that has no value.
func TestWithheld(t *testing.T) {
	a := &Agent{ports: make([]port, 3)}
	for i := range a.ports {
		a.ports[i].cfg.Name, a.ports[i].cfg.Action = "p"+string(rune('1'+i)), vlanrules.Update
	}
	a.ports[0].cfg.Action, a.ports[0].reason = vlanrules.Strip, "strips"
	if got := a.withheld(&a.ports[1]); got != "" {
		t.Errorf("%q", got)
	}
	a.ports[2].reason = "no counter moves"
	for i, want := range []string{1: "port p3: no counter moves", 2: "no counter moves"} {
		if got := a.withheld(&a.ports[i]); i > 0 && got != want {
			t.Errorf("port %d: %q, want %q", i, got, want)
		}
	}
}
