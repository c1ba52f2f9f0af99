package process

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/sirupsen/logrus"
)

// Service is how the service manager that started the program learns of it (sd_notify(3));
// where there is none, nothing is sent.
type Service struct {
	log  *logrus.Entry
	done chan struct{} // nil: not ready yet
}

// NewService returns the service of a program that starts.
func NewService(log *logrus.Entry) *Service { return &Service{log: log} }

// statusEvery is how often the text for people is brought up to date.
const statusEvery = 10 * time.Second

func (s *Service) send(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.WithError(err).Debug("the service manager is not reached")
	}
}

// Ready says that the start is over. From then on the watchdog is fed while alive says so, and
// line is the program's state in a few words, until ctx ends.
func (s *Service) Ready(ctx context.Context, alive func() bool, line func() string) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		s.log.WithError(err).Warn("the service manager's watchdog is not fed")
	}
	every := statusEvery
	if limit > 0 {
		every = min(every, limit/3)
	}
	last := line()
	s.send(daemon.SdNotifyReady + "\nSTATUS=" + last)
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		fed := true
		for {
			select {
			case <-ctx.Done():
				s.send(daemon.SdNotifyStopping)
				return
			case <-ticks.C:
			}
			if now := line(); now != last {
				last = now
				s.send("STATUS=" + now)
			}
			switch lives := alive(); {
			case limit == 0:
			case lives:
				s.send(daemon.SdNotifyWatchdog)
				fed = true
			case fed:
				s.log.Error("no progress: the service manager's watchdog is no longer fed")
				fed = false
			}
		}
	}()
}

// Reloading says that files are read again, until done is called.
func (s *Service) Reloading() (done func()) {
	s.send(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	return func() { s.send(daemon.SdNotifyReady) }
}

// Close waits until the service manager was told that the program ends, where ctx has ended.
func (s *Service) Close() {
	if s.done != nil {
		<-s.done
	}
}
