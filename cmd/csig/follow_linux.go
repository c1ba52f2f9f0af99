package main

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
)

// fleetFile is the fleet file of a daemon on a host, which may change.
type fleetFile[T any] struct {
	path string
	what string                                             // goes on as it was where a file is bad
	of   func(context.Context, *inventory.Fleet) (T, error) // what the daemon takes of it

	log       *logrus.Entry
	wish      <-chan struct{} // has something in it when a user wants the file read again
	reloading func() (done func())
	watch     inventory.Watch

	mu   sync.Mutex
	last *api.Reload
}

// load reads the file.
func (f *fleetFile[T]) load(ctx context.Context) (out T, err error) {
	fleet, err := inventory.Load(f.path)
	f.watch.Note(f.path, fleet, err)
	if err != nil {
		return out, err
	}
	return f.of(ctx, fleet)
}

// fleetFileLook is how often a daemon looks whether its fleet file has changed.
const fleetFileLook = time.Second

// follow has put take the file when it has changed, and when a user wants that, until ctx ends.
func (f *fleetFile[T]) follow(ctx context.Context, put func(T) error) {
	ticks := time.NewTicker(fleetFileLook)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			if f.watch.Changed() {
				f.reload(ctx, put)
			}
		case <-f.wish:
			done := f.reloading()
			f.reload(ctx, put)
			done()
		}
	}
}

// reload has put take the file. One that is bad changes nothing.
func (f *fleetFile[T]) reload(ctx context.Context, put func(T) error) {
	log, last := f.log.WithField("fleet", f.path), &api.Reload{Time: time.Now(), File: f.path}
	read, err := f.load(ctx)
	if err == nil {
		err = put(read)
	}
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		last.Error = inventory.Mistakes(err)
		log.WithField("error", last.Error).Error("fleet file not reloaded: " + f.what + " stays as it is")
	default:
		log.Info("fleet file reloaded")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = last
}

// reloaded is how the file was last read again, nil where it was not.
func (f *fleetFile[T]) reloaded() *api.Reload {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}
