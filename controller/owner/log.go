package owner

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// A NATS server logs a line and more for each connection that fails, and any host that reaches
// its port can make some: in each time of logWindow it has logLines, and then one that counts
// the others.
const (
	logWindow = 10 * time.Second
	logLines  = 30
)

// natsLog is the server's log, in ours; what it notices of itself is for debugging.
type natsLog struct {
	out   *logrus.Entry
	fatal atomic.Pointer[error] // why the server does not start

	mu      sync.Mutex
	since   time.Time // of the window
	lines   int
	dropped int
}

func newNATSLog(out *logrus.Entry) *natsLog { return &natsLog{out: out} }

// auditLevel is that of a line about who was refused.
const auditLevel = logrus.WarnLevel

// duplicate is what the server says of a peer that has its own name.
const duplicate = "Remote server has a duplicate name"

// line writes one line where there is room for it.
func (l *natsLog) line(level logrus.Level, f string, v []any) {
	if !l.out.Logger.IsLevelEnabled(level) {
		return
	}
	text := fmt.Sprintf(f, v...)
	if text = untrusted.Text(text, 500); strings.Contains(text, duplicate) {
		text += ": two controllers of one name: give each a --name of its own, and start this one again"
	}
	l.mu.Lock()
	now, dropped := time.Now(), 0
	if now.Sub(l.since) >= logWindow {
		dropped = l.dropped
		l.since, l.lines, l.dropped = now, 0, 0
	}
	l.lines++
	room := l.lines <= logLines
	if !room {
		l.dropped++
	}
	l.mu.Unlock()
	if dropped > 0 {
		l.out.Warnf("%d more lines of the NATS server were left out", dropped)
	}
	if room {
		l.out.Log(level, text)
	}
}

// said writes what the server says, unless there is a line of csig's own about it.
func (l *natsLog) said(level logrus.Level, f string, v []any) {
	if text := fmt.Sprintf(f, v...); !strings.Contains(text, errUnlisted.Error()) {
		l.line(level, f, v)
	}
}

func (l *natsLog) Noticef(f string, v ...any) { l.said(logrus.DebugLevel, f, v) }
func (l *natsLog) Debugf(f string, v ...any)  { l.said(logrus.DebugLevel, f, v) }
func (l *natsLog) Tracef(f string, v ...any)  { l.said(logrus.TraceLevel, f, v) }
func (l *natsLog) Warnf(f string, v ...any)   { l.said(logrus.WarnLevel, f, v) }
func (l *natsLog) Errorf(f string, v ...any)  { l.said(logrus.ErrorLevel, f, v) }

// Fatalf is an error that keeps the server from starting.
func (l *natsLog) Fatalf(f string, v ...any) {
	err := errors.New(untrusted.Text(fmt.Sprintf(f, v...), 500))
	l.fatal.CompareAndSwap(nil, &err)
	l.line(logrus.ErrorLevel, f, v)
}
