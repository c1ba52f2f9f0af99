package process

import (
	"io"
	"sync"
	"time"
)

const (
	// logWaits is how many bytes of log lines wait for a reader that is slow.
	logWaits = 64 << 10
	// lastWords is how long the end of the agent waits for such a reader.
	lastWords = time.Second
)

// logQueue writes lines to w from a goroutine of its own, so that who logs is
// never held up: a pipe that is open and is not read would stop
// the agent's cycles, and its lease would run out. Where more waits than
// logWaits, the oldest lines are dropped, and a line in their place has their number.
type logQueue struct {
	w    io.Writer
	note func(dropped int) []byte // the line about those that were dropped

	mu      sync.Mutex
	more    sync.Cond // there is a line, or it is closed
	lines   [][]byte
	size    int // bytes of lines
	dropped int // just before lines
	closed  bool
	done    chan struct{} // all that could be written is
}

func newLogQueue(w io.Writer, note func(dropped int) []byte) *logQueue {
	q := &logQueue{w: w, note: note, done: make(chan struct{})}
	q.more.L = &q.mu
	go q.run()
	return q
}

// Write takes one line. It does not wait and does not fail.
func (q *logQueue) Write(line []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines, q.size = append(q.lines, append([]byte(nil), line...)), q.size+len(line)
	for q.size > logWaits && len(q.lines) > 1 {
		q.take()
		q.dropped++
	}
	q.more.Signal()
	return len(line), nil
}

// take removes the oldest line.
func (q *logQueue) take() (line []byte) {
	line, q.lines[0] = q.lines[0], nil
	q.lines, q.size = q.lines[1:], q.size-len(line)
	return line
}

func (q *logQueue) run() {
	defer close(q.done)
	for {
		q.mu.Lock()
		for len(q.lines) == 0 && !q.closed {
			q.more.Wait()
		}
		if len(q.lines) == 0 {
			q.mu.Unlock()
			return
		}
		dropped := q.dropped
		q.dropped = 0
		var line []byte
		if dropped == 0 { // else more may go while the note is written
			line = q.take()
		}
		q.mu.Unlock()
		if dropped > 0 {
			line = q.note(dropped)
		}
		_, _ = q.w.Write(line) // there is no other place to report it
	}
}

// close writes what waits. It reports whether that came to an end within
// lastWords, which a reader that is gone does not keep it from. What is logged
// after it is lost.
func (q *logQueue) close() bool {
	q.mu.Lock()
	q.closed = true
	q.more.Signal()
	q.mu.Unlock()
	select {
	case <-q.done:
		return true
	case <-time.After(lastWords):
		return false
	}
}
