package controller

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/controller/owner"
	"github.com/csig-agent/csig/vendors"
)

const (
	reportEvery = 2 * time.Second  // how often a device's status is looked at
	reportLimit = time.Second      // how long the last event may take
	reportLate  = 10 * time.Second // how old a published one gets, where nothing happens
)

// reporter publishes what the agent of an owned device says, and what has happened since it said
// so last. What NATS does not take is lost: it is no part of driving the device.
type reporter struct {
	store  *owner.Store
	device string
	log    *logrus.Entry
	said   string // of NATS's refusals
}

// during publishes while run does, and that the device has an owner for as long.
func (r *reporter) during(ctx context.Context, status func() *api.Status, run func() error) error {
	rctx, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		r.tell(rctx, owner.Event{What: "owner", To: r.store.Name()})
		r.follow(rctx, status)
	})
	err := run()
	stop()
	done.Wait()
	end := owner.Event{What: "owner", From: r.store.Name()}
	if err != nil {
		end.Reason = err.Error()
	}
	ectx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportLimit)
	defer cancel()
	r.tell(ectx, end)
	return err
}

// follow looks at the status again and again, until ctx ends.
func (r *reporter) follow(ctx context.Context, status func() *api.Status) {
	var was *api.Status
	var published time.Time
	for {
		is := status()
		happened := api.Changes(was, is)
		for _, c := range happened {
			r.tell(ctx, owner.Event{Port: c.Port, What: c.What, From: c.From, To: c.To, Reason: c.Reason})
		}
		if now := time.Now(); len(happened) > 0 || now.Sub(published) >= reportLate {
			text, err := json.Marshal(is)
			if err == nil {
				err = r.store.PublishStatus(ctx, r.device, text)
			}
			r.complain(ctx, err)
			published = now
		}
		was = is
		if vendors.Wait(ctx, reportEvery) != nil {
			return
		}
	}
}

// tell publishes an event.
func (r *reporter) tell(ctx context.Context, e owner.Event) {
	e.Device, e.Time = r.device, time.Now().UTC()
	r.complain(ctx, r.store.PublishEvent(ctx, e))
}

// complain logs an error, once while it stays the same.
func (r *reporter) complain(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil && err.Error() != r.said {
		r.said = err.Error()
		r.log.WithError(err).Warn("status and events are not published")
	}
}
