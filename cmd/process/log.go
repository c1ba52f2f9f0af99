package process

import (
	"fmt"
	"os"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// LogOptions is the flags of a daemon's log.
type LogOptions struct{ level, format string }

// Flags defines the flags.
func (o *LogOptions) Flags(f *pflag.FlagSet) {
	f.StringVar(&o.level, "log-level", "info", "error, warn, info or debug")
	f.StringVar(&o.format, "log-format", "text", "text or json")
}

// Open returns the log of a daemon, on standard error, which never holds up who writes to
// it. end writes what still waits, and reports whether its reader took it.
func (o *LogOptions) Open() (log *logrus.Entry, end func() bool, err error) {
	logger, err := newLog(o.level, o.format)
	if err != nil {
		return nil, nil, err
	}
	lines := newLogQueue(os.Stderr, func(dropped int) []byte { return droppedLines(logger, dropped) })
	logger.SetOutput(lines)
	return logrus.NewEntry(logger), lines.close, nil
}

func newLog(level, format string) (*logrus.Logger, error) {
	log := logrus.New()
	lvl, err := logrus.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("--log-level %q: want error, warn, info or debug", level)
	}
	log.SetLevel(lvl)
	switch format {
	case "json":
		log.SetFormatter(&logrus.JSONFormatter{TimestampFormat: time.RFC3339Nano})
	case "text":
		tty := term.IsTerminal(int(os.Stderr.Fd())) // the logger does not see it behind a logQueue
		log.SetFormatter(&logrus.TextFormatter{ForceColors: tty, FullTimestamp: true, TimestampFormat: "2006-01-02T15:04:05.000Z07:00"})
	default:
		return nil, fmt.Errorf("--log-format %q: want text or json", format)
	}
	return log, nil
}

// droppedLines is the line in place of those that were not read in time.
func droppedLines(log *logrus.Logger, n int) []byte {
	e := log.WithField("dropped", n)
	e.Time, e.Level, e.Message = time.Now(), logrus.WarnLevel, "lines of the log were dropped: no reader"
	line, err := log.Formatter.Format(e)
	if err != nil { // it is text and a number
		return fmt.Appendf(nil, "csig: %d lines of the log were dropped: %v\n", n, err)
	}
	return line
}
