// Package owner shares devices among controllers: who drives a device is a key of a NATS
// JetStream key-value bucket. Consensus is NATS's; every decision is a compare-and-set, and
// no clock is compared with another machine's.
package owner

import (
	"context"
	crypto "crypto/rand"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/controller/owner/kv"
	"github.com/csig-agent/csig/protocol/cli"
)

// bucket has a key for each device; stream is what it is in JetStream.
const (
	bucket = "csig_owners"
	stream = "KV_" + bucket
)

// Config is what a controller needs for sharing.
type Config struct {
	Name string // of the controller, as others see it
	// Term is how long a key must stay as it is until another controller takes the device,
	// on that one's own clock. Where the device's owner has a longer one, that holds.
	Term time.Duration
	// Replicas of a bucket that this controller creates: 1, or 3 in a cluster of as many.
	Replicas int
	// Epoch is the highest that this machine has seen, kept by SawEpoch: a stream that is
	// created again gets a higher one, whatever the clock says.
	Epoch    uint64
	SawEpoch func(uint64) error
	Log      *logrus.Entry
}

// MinTerm is the shortest Config.Term: an owner writes its key four times in it.
const MinTerm = time.Second

// margin is how long before its term ends an owner stops writing to its device: a delay
// between its look at the clock and the write, and clocks that do not run equally fast.
func margin(term time.Duration) time.Duration { return term / 5 }

// Store is the bucket, as one controller uses it.
type Store struct {
	cfg     Config
	kv      kv.Store
	session string // of this process: a controller that starts again is another owner
	owned   atomic.Int32

	mu      sync.Mutex
	seen    map[string]sighting
	changed chan struct{} // closed at the next sighting that another controller gives up a device
	known   uint64        // the highest epoch
	trouble error         // why NATS did not answer last; nil: it did
	cursors map[string]cursor
	opened  map[string]kv.Bucket // of publish, by their names
}

// sighting is what a key was when this controller saw it last, and since when.
type sighting struct {
	revision uint64 // 0: there is none
	free     bool
	owner    string
	logins   []string // at the device, of its owners
	since    time.Time

	unsettled bool          // as in record
	term      time.Duration // of its owner, as in record
}

// record is a key's value.
type record struct {
	Owner   string    `json:"owner"` // "": the device is given up
	Session string    `json:"session"`
	At      time.Time `json:"at"` // for people
	Logins  []string  `json:"logins,omitempty"`

	// Term is its owner's, which may be longer than a taker's.
	Term time.Duration `json:"term_ns"`

	Unsettled bool `json:"unsettled,omitempty"` // of one that is given up: its owner's writes may be on their way
}

// Open returns the store of a connection to NATS. It creates nothing yet.
func Open(nc *nats.Conn, cfg Config) (*Store, error) {
	on, err := newNATSStore(nc, Wait(cfg.Term), cfg.Replicas)
	if err != nil {
		return nil, err
	}
	return OpenOn(on, cfg)
}

// Wait is how long a store with this term waits for an answer.
func Wait(term time.Duration) time.Duration { return term / 6 }

// OpenOn is Open on a connection to another store.
func OpenOn(on kv.Store, cfg Config) (*Store, error) {
	if cfg.Term < MinTerm {
		return nil, fmt.Errorf("a term of %v: it takes at least %v", cfg.Term, MinTerm)
	}
	return &Store{cfg: cfg, kv: on, session: crypto.Text(), seen: map[string]sighting{}, changed: make(chan struct{}), known: cfg.Epoch, cursors: map[string]cursor{}, opened: map[string]kv.Bucket{}}, nil
}

// Name is this controller's.
func (s *Store) Name() string { return s.cfg.Name }

// Watch follows the keys until ctx ends. Nothing is decided by what it sees: it saves
// compare-and-sets that could not succeed.
func (s *Store) Watch(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.follow(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Log.WithError(err).Warn("the owners of devices cannot be followed")
		}
		pause(ctx, s.cfg.Term/8)
	}
}

func (s *Store) follow(ctx context.Context) error {
	b, err := s.bucket(ctx)
	if s.note(err); err != nil {
		return err
	}
	return b.Watch(ctx, func(e kv.Entry) {
		s.note(nil)
		s.saw(e)
	})
}

// saw takes a key as it is now; without a revision it is not there.
func (s *Store) saw(e kv.Entry) sighting {
	now := sighting{revision: e.Revision, since: time.Now(), logins: []string{cli.UnknownLogin}} // of a key that was lost
	r := parse(e)
	now.free, now.owner = r.Owner == "" && r.Session != "", r.Owner
	if r.Session != "" { // else it is no record of ours
		now.logins, now.unsettled, now.term = r.Logins, r.Unsettled, r.Term
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, ok := s.seen[e.Key]; ok && was.revision == now.revision {
		return was
	}
	s.seen[e.Key] = now
	if now.free {
		close(s.changed)
		s.changed = make(chan struct{})
	}
	return now
}

// last is the sighting of a key, and a channel that is closed when a device is given up.
func (s *Store) last(key string) (sighting, bool, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.seen[key]
	return at, ok, s.changed
}

// recordLimit bounds a value, in bytes.
const recordLimit = 4096

// parse reads a value; what is no record of ours, or deleted, has no owner that is known.
func parse(e kv.Entry) (r record) {
	if e.Deleted || len(e.Value) > recordLimit || json.Unmarshal(e.Value, &r) != nil {
		return record{}
	}
	return r
}

// bucket opens the bucket, and creates one that is missing. It has an epoch.
func (s *Store) bucket(ctx context.Context) (kv.Bucket, error) {
	s.mu.Lock()
	next := max(s.known+1, hours())
	s.mu.Unlock()
	b, err := s.kv.Open(ctx, kv.Config{Name: bucket, Description: "who drives which device (csig)", History: 1, MaxValue: recordLimit, Epoch: next})
	if err != nil {
		return nil, err
	}
	e := b.Epoch()
	if e == 0 || e >= 1<<(64-revisionBits) {
		return nil, fmt.Errorf("the stream %s was not created by csig: it has no metadata %s: remove it, or give csig an account of its own", stream, epoch)
	}
	s.mu.Lock()
	higher := e > s.known
	s.known = max(s.known, e)
	s.mu.Unlock()
	if higher && s.cfg.SawEpoch != nil {
		return b, s.cfg.SawEpoch(e)
	}
	return b, nil
}

// hours is the first epoch that a controller without a memory thinks of, until the year 2145;
// a clock that is wilder is not asked.
func hours() uint64 {
	h := time.Since(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).Hours()
	if h < 1 || h >= 1<<(64-revisionBits)-1 {
		return 1
	}
	return uint64(h)
}

// key is a device's: what a key may not have of a name is written as =XX.
func key(device string) string {
	var b strings.Builder
	for _, c := range []byte(device) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02x", c)
		}
	}
	return b.String()
}

// name is what key made a key of.
func name(key string) string {
	text, err := url.PathUnescape(strings.ReplaceAll(strings.ReplaceAll(key, "%", "%25"), "=", "%"))
	if err != nil {
		return key
	}
	return text
}

// note keeps why NATS does not answer, nil where it has.
func (s *Store) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = err
}

// Trouble is why NATS did not answer when it was asked for an owner last; nil: it did.
func (s *Store) Trouble() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trouble
}

// Owner is who drives a device, as this controller saw it last; "" for none.
func (s *Store) Owner(device string) string {
	at, _, _ := s.last(key(device))
	return at.owner
}

// pause waits, a little more or less than d; false when ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d*3/4 + rand.N(d/2+1)):
		return true
	}
}
