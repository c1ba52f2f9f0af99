package agent

import "github.com/sirupsen/logrus"

// cronLog hands the scheduler's messages to the agent's log.
type cronLog struct{ a *Agent }

func (l cronLog) Info(string, ...any) {} // every wake-up: of no interest

func (l cronLog) Error(err error, msg string, kv ...any) {
	l.a.log.WithError(err).WithField("detail", kv).Error("cycle panicked: " + msg)
	l.a.mu.Lock()
	defer l.a.mu.Unlock()
	l.a.cycle.failed++
	l.a.cycle.err = err.Error()
}

// skipCounter hears from cron.SkipIfStillRunning only, whose one message is
// that a tick came while the cycle before still ran.
type skipCounter struct{ a *Agent }

func (s skipCounter) Info(string, ...any) {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	s.a.cycle.skipped++
	if n := s.a.cycle.skipped; n&(n-1) == 0 { // 1, 2, 4, 8 …: tell, but do not flood
		s.a.log.WithFields(logrus.Fields{"skipped": n}).Warn("a cycle takes longer than the schedule allows; lengthen the schedule")
	}
}

func (skipCounter) Error(error, string, ...any) {}
