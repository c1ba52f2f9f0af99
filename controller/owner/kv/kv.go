// Package kv is the interface between controllers and the store that they share: buckets, whose keys
// have values with revisions, and messages. controller/owner implements it over NATS, kvtest in memory.
package kv

import (
	"context"
	"errors"
	"time"
)

// Errors of a store. Others are those of its connection.
var (
	ErrNotFound = errors.New("no such entry")
	ErrStale    = errors.New("the key has another revision")       // of a compare-and-set
	ErrNoBucket = errors.New("no such bucket answers")             // it was removed, or has no leader
	ErrNoReader = errors.New("nobody subscribes to this subject")  // of a request
	ErrTooLong  = errors.New("longer than a value of this bucket") // of a value
)

// Config describes a bucket, and how Open creates it where it is missing.
type Config struct {
	Name, Description string

	History  int   // how many values of a key are kept; 0: all
	MaxValue int   // bytes of a value; 0: no bound of the bucket's own
	MaxBytes int64 // of all values; the oldest go first; 0: no bound

	Plain  bool   // its subjects are NAME.KEY, for other programs to read; there is no Watch
	Memory bool   // it need not outlive its servers
	Keep   bool   // of a plain one: no single value may be deleted, as in all others
	Epoch  uint64 // of a bucket that is created; 0: none
}

// Entry is a value of a key.
type Entry struct {
	Key      string
	Revision uint64 // each write to the bucket has a higher one; 0: there is no entry
	Time     time.Time
	Value    []byte
	Header   map[string]string
	Deleted  bool // the key was deleted: there is no value
}

// Store is one connection to the servers. The connection bounds the time of a call whose context
// has no deadline.
type Store interface {
	// Open opens a bucket, and creates one that is missing.
	Open(ctx context.Context, cfg Config) (Bucket, error)

	// Inbox returns a subject for this connection alone.
	Inbox() string
	// Subscribe calls f with each message to a subject, one after the other; "*" is any token of one.
	Subscribe(subject string, f func(Message)) (stop func() error, err error)
	// Flush returns when the servers know what was subscribed to, or after a time.
	Flush(limit time.Duration) error
	Publish(Message) error
	// Request publishes a message and returns the answer to it.
	Request(ctx context.Context, subject string, data []byte) (Message, error)
}

// Message is what is published to a subject.
type Message struct {
	Subject string
	Data    []byte
	Header  map[string]string
	Reply   string // the subject of the answer; "": none is wanted
}

// Bucket is one that was opened. Where it is removed and created again, the new one has the same
// name, and no revision of the old one.
type Bucket interface {
	// Epoch returns Config.Epoch of the connection that created the bucket; 0: it has none.
	Epoch() uint64

	// Last returns the newest entry of a key, deleted or not, as the server that answers knows it;
	// another server may know a newer one. Next returns the first entry from a revision on.
	Last(ctx context.Context, key string) (Entry, error)
	Next(ctx context.Context, key string, from uint64) (Entry, error)

	// Put adds an entry, whatever the key's last one is.
	Put(ctx context.Context, key string, value []byte) (revision uint64, err error)
	// Update adds an entry where the last one of its key, deleted or not, has this revision, and
	// else returns ErrStale; 0: the key has no entry.
	Update(ctx context.Context, e Entry, last uint64) (revision uint64, err error)

	// Keys returns the keys that have an entry.
	Keys(ctx context.Context) ([]string, error)

	// Watch calls f with the last entry of each key, and then with each new one, until ctx ends.
	Watch(ctx context.Context, f func(Entry)) error
}
