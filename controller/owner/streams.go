package owner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
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

// stream opens a stream, and creates one that is missing.
func (s *Store) stream(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	cfg.Subjects, cfg.Replicas = []string{cfg.Name + ".*"}, s.cfg.Replicas
	st, err := s.js.Stream(ctx, cfg.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		cctx, done := context.WithTimeout(ctx, createLimit)
		st, err = s.js.CreateStream(cctx, cfg)
		done()
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another controller was first
			st, err = s.js.Stream(ctx, cfg.Name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the stream %s: %w", cfg.Name, err)
	}
	return st, nil
}

// publish adds a message of a device to a stream, which it creates where it is missing.
func (s *Store) publish(ctx context.Context, to jetstream.StreamConfig, device string, text []byte) error {
	_, err := s.js.Publish(ctx, to.Name+"."+key(device), text, jetstream.WithRetryAttempts(0))
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		if _, err = s.stream(ctx, to); err == nil {
			_, err = s.js.Publish(ctx, to.Name+"."+key(device), text)
		}
	}
	return err
}

var (
	statusStream = jetstream.StreamConfig{Name: statuses, Description: "the last status of each device (csig)", Storage: jetstream.MemoryStorage, MaxMsgsPerSubject: 1}
	eventStream  = jetstream.StreamConfig{Name: events, Description: "what happened to each device (csig)", Storage: jetstream.FileStorage, MaxBytes: eventsLimit}
)

// PublishStatus makes a status the device's last one. Only its owner calls it.
func (s *Store) PublishStatus(ctx context.Context, device string, status []byte) error {
	if len(status) > statusLimit {
		return fmt.Errorf("the status of %s has %d bytes: at most %d are published", device, len(status), statusLimit)
	}
	return s.publish(ctx, statusStream, device, status)
}

// Status is the device's last status, nothing where none was published.
func (s *Store) Status(ctx context.Context, device string) (status []byte, err error) {
	st, err := s.stream(ctx, statusStream)
	if err != nil {
		return nil, err
	}
	m, err := st.GetLastMsgForSubject(ctx, statuses+"."+key(device))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return m.Data, nil
}

// PublishEvent adds an event of a device.
func (s *Store) PublishEvent(ctx context.Context, e Event) error {
	e.Format, e.Controller = EventFormat, s.cfg.Name
	text, err := json.Marshal(&e)
	if err != nil {
		return err
	}
	return s.publish(ctx, eventStream, e.Device, text)
}
