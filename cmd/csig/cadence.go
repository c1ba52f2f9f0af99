package main

import (
	"context"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// cadence is when a source is read: once in each period, and between two of these when that tells something of its
// refreshes (counters.Refresh.Look).
type cadence struct {
	every time.Duration
	next  time.Time // of the schedule; zero before the first
	look  time.Time // between; zero for none
}

// wait waits until the next reading is due, and returns whether it is one of the schedule.
func (c *cadence) wait(ctx context.Context) (scheduled bool, err error) {
	if c.next.IsZero() {
		c.next = time.Now()
	}
	due := c.look
	if scheduled = due.IsZero() || !due.Before(c.next); scheduled {
		due = c.next
	}
	c.look = time.Time{}
	if err := vendors.Wait(ctx, time.Until(due)); err != nil {
		return scheduled, err
	}
	if scheduled {
		for c.next = due.Add(c.every); c.next.Before(time.Now()); { // those are missed
			c.next = c.next.Add(c.every)
		}
	}
	return scheduled, nil
}
