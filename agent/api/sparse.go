package api

import (
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// sparseLog passes on one line in an interval and counts the others: clients
// that fail to connect must not fill the log.
type sparseLog struct {
	log   *logrus.Entry
	every time.Duration

	mu      sync.Mutex
	waiting *time.Timer // for the end of the interval; nil: it is over
	more    int
	last    string
}

// Write takes one line.
func (s *sparseLog) Write(line []byte) (int, error) {
	text := untrusted.Text(strings.TrimSpace(string(line)), 300)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting != nil {
		s.more, s.last = s.more+1, text
		return len(line), nil
	}
	s.log.Warn(text)
	s.waiting = time.AfterFunc(s.every, s.flush)
	return len(line), nil
}

// flush ends an interval.
func (s *sparseLog) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = nil
	if s.more > 0 {
		s.log.WithField("more", s.more).Warn(s.last)
		s.more, s.waiting = 0, time.AfterFunc(s.every, s.flush)
	}
}

// stop ends what waits.
func (s *sparseLog) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting != nil {
		s.waiting.Stop()
	}
}
