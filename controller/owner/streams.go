package owner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/csig-agent/csig/controller/owner/kv"
)

// What controllers tell each other, and other programs, with a subject for each device: the last
// status of its agent, in memory, and what happened, on the disk.
const (
	statuses    = "csig_status"
	events      = "csig_events"
	eventsLimit = 64 << 20  // bytes; the oldest go first
	statusLimit = 900 << 10 // bytes of one: NATS takes messages of a megabyte
)

// EventFormat names the shape of Event.
const EventFormat = "csig.event/v1"

// Event is something that happened to a device.
type Event struct {
	Format     string    `json:"format"`
	Time       time.Time `json:"time"` // by the controller's clock
	Controller string    `json:"controller"`
	Device     string    `json:"device"`
	Port       string    `json:"port,omitempty"` // "": the whole device
	What       string    `json:"what"`           // "owner", "data_plane", "state" of a port, or "waiting"
	From       string    `json:"from"`
	To         string    `json:"to"`
	Reason     string    `json:"reason,omitempty"`
}

var (
	statusBucket = kv.Config{Name: statuses, Description: "the last status of each device (csig)", Plain: true, Memory: true, History: 1}
	eventBucket  = kv.Config{Name: events, Description: "what happened to each device (csig)", Plain: true, MaxBytes: eventsLimit}
)

// publish adds a value of a device to a bucket, which it creates where it is missing.
func (s *Store) publish(ctx context.Context, to kv.Config, device string, text []byte) error {
	s.mu.Lock()
	b := s.opened[to.Name]
	s.mu.Unlock()
	if b != nil {
		if _, err := b.Put(ctx, key(device), text); !errors.Is(err, kv.ErrNoBucket) {
			return err
		}
	}
	b, err := s.kv.Open(ctx, to)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.opened[to.Name] = b
	s.mu.Unlock()
	_, err = b.Put(ctx, key(device), text)
	return err
}

// PublishStatus makes a status the device's last one. Only its owner calls it.
func (s *Store) PublishStatus(ctx context.Context, device string, status []byte) error {
	if len(status) > statusLimit {
		return fmt.Errorf("the status of %s has %d bytes: at most %d are published", device, len(status), statusLimit)
	}
	return s.publish(ctx, statusBucket, device, status)
}

// Status is the device's last status, nothing where none was published.
func (s *Store) Status(ctx context.Context, device string) (status []byte, err error) {
	b, err := s.kv.Open(ctx, statusBucket)
	if err != nil {
		return nil, err
	}
	e, err := b.Last(ctx, key(device))
	if errors.Is(err, kv.ErrNotFound) {
		return nil, nil
	}
	return e.Value, err
}

// PublishEvent adds an event of a device.
func (s *Store) PublishEvent(ctx context.Context, e Event) error {
	e.Format, e.Controller = EventFormat, s.cfg.Name
	text, err := json.Marshal(&e)
	if err != nil {
		return err
	}
	return s.publish(ctx, eventBucket, e.Device, text)
}
