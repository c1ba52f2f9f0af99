package api

import (
	"log"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/vendors/untrusted"
)

// sparseLog passes on one line in an interval and counts the others: clients
// that fail to connect must not fill the log.
type sparseLog struct {
	log   *logrus.Entry
	every time.Duration

	mu      sync.Mutex
	waiting bool // for the end of the interval
	more    int
	last    string
}

func newSparseLog(l *logrus.Entry, every time.Duration) *log.Logger {
	return log.New(&sparseLog{log: l, every: every}, "", 0)
}

// Write takes one line.
func (s *sparseLog) Write(line []byte) (int, error) {
	text := untrusted.Text(strings.TrimSpace(string(line)), 300)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting {
		s.more, s.last = s.more+1, text
		return len(line), nil
	}
	s.waiting = true
	s.log.Warn(text)
	time.AfterFunc(s.every, s.flush)
	return len(line), nil
}

// flush ends an interval.
func (s *sparseLog) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting = s.more > 0; s.waiting {
		s.log.WithField("more", s.more).Warn(s.last)
		s.more = 0
		time.AfterFunc(s.every, s.flush)
	}
}
