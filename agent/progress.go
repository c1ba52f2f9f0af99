package agent

import (
	"sync/atomic"
	"time"
)

// How long the daemon may take to the next sign of life. A lease has long ended by then: this
// is for the service manager, which starts a process again that hangs.
const (
	idleLimit   = 15 * time.Second // between cycles, or looks while it waits
	readLimit   = 15 * time.Second // a cycle's, beside what the device may take to write
	changeUntil = 5 * time.Minute  // the loop's, behind changes of configuration
)

// progress is until when the next sign of life has time.
type progress struct {
	began time.Time // its monotonic reading is what counts
	until atomic.Int64
}

func newProgress() *progress {
	p := &progress{began: time.Now()}
	p.expect(idleLimit)
	return p
}

// expect is a sign of life, and has the next one come within so long.
func (p *progress) expect(within time.Duration) {
	p.until.Store(int64(time.Since(p.began) + within))
}

// made reports whether the next sign of life still has time.
func (p *progress) made() bool { return int64(time.Since(p.began)) < p.until.Load() }

// Alive reports whether the daemon makes progress: its loop turns and its cycles end, well or
// badly, or it changes its configuration, or waits for one. Safe for concurrent use.
func (d *Daemon) Alive() bool {
	r := d.current()
	return d.turns.made() && (r == nil || r.agent.turns.made() || d.changes.made())
}
