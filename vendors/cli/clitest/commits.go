package clitest

import "time"

// Commits is a configuration that changes by commits, some of which are on trial: without a
// confirmation in time the configuration from before is in force again. It is for one goroutine
// at a time.
type Commits[C any] struct {
	running C
	before  C // of the trial
	until   time.Time
	trial   bool
	count   int
}

// Running is the configuration in force.
func (c *Commits[C]) Running() C {
	if c.trial && !time.Now().Before(c.until) {
		c.running, c.trial = c.before, false
		c.count++
	}
	return c.running
}

// Commit puts a configuration in force, and confirms one that is on trial.
func (c *Commits[C]) Commit(candidate C) {
	c.Running()
	c.running, c.trial = candidate, false
	c.count++
}

// Try puts a configuration in force for a while.
func (c *Commits[C]) Try(candidate C, within time.Duration) {
	if running := c.Running(); !c.trial {
		c.before = running
	}
	c.running, c.until, c.trial = candidate, time.Now().Add(within), true
	c.count++
}

// Undo puts what was in force before the trial in force again, at once.
func (c *Commits[C]) Undo() {
	if c.Trial() {
		c.running, c.trial = c.before, false
		c.count++
	}
}

// Trial reports whether a configuration waits for its confirmation.
func (c *Commits[C]) Trial() bool {
	c.Running()
	return c.trial
}

// Count is how often the configuration in force changed.
func (c *Commits[C]) Count() int { return c.count }
