// Package kvtest has the store of controllers in memory, with its faults, and the test that every
// store passes.
package kvtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/csig-agent/csig/controller/owner/kv"
)

// Memory is the servers of a store. Waits for them are durable: they run in bubbles of testing/synctest.
type Memory struct {
	mu      sync.Mutex
	buckets map[string]*bucket
	subs    []*subscription
	inboxes int
	lag     time.Duration
}

// New returns servers without buckets.
func New() *Memory { return &Memory{buckets: map[string]*bucket{}} }

// bucket is one in memory.
type bucket struct {
	cfg      kv.Config
	epoch    uint64
	last     uint64 // revision
	entries  []kv.Entry
	all      []kv.Entry // those that are not kept any more, too
	watchers map[*queue[kv.Entry]]bool
}

// Remove removes a bucket, as only who administers the servers can.
func (m *Memory) Remove(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.buckets, name)
}

// Delete deletes a key, as another program may.
func (m *Memory) Delete(name, key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.buckets[name].add(kv.Entry{Key: key, Deleted: true})
}

// Lag has reads answered by a server that has not got what was written in this last time. Writes
// are not concerned.
func (m *Memory) Lag(by time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lag = by
}

// add adds an entry, and removes what the bucket keeps no longer. m.mu is held.
func (b *bucket) add(e kv.Entry) uint64 {
	b.last++
	e.Revision, e.Time, e.Value, e.Header = b.last, time.Now(), slices.Clone(e.Value), maps.Clone(e.Header)
	b.entries, b.all = append(b.entries, e), append(b.all, e)
	of := 0
	for i := len(b.entries) - 1; i >= 0 && b.cfg.History > 0; i-- {
		if b.entries[i].Key != e.Key {
			continue
		}
		if of++; of > b.cfg.History {
			b.entries = slices.Delete(b.entries, i, i+1)
		}
	}
	size := int64(0)
	for _, e := range b.entries {
		size += int64(len(e.Value))
	}
	for b.cfg.MaxBytes > 0 && size > b.cfg.MaxBytes {
		size -= int64(len(b.entries[0].Value))
		b.entries = b.entries[1:]
	}
	for w := range b.watchers {
		w.put(e)
	}
	return b.last
}

// find returns the first or the last of some entries that is of a key, and so. m.mu is held.
func find(in []kv.Entry, key string, newest bool, is func(*kv.Entry) bool) (kv.Entry, error) {
	found := kv.Entry{}
	for i := range in {
		if e := &in[i]; e.Key == key && is(e) && (newest || found.Revision == 0) {
			found = *e
		}
	}
	if found.Revision == 0 {
		return found, kv.ErrNotFound
	}
	found.Value = slices.Clone(found.Value)
	return found, nil
}

// Conn is a connection to the servers, and implements kv.Store.
type Conn struct {
	of   *Memory
	wait time.Duration // of a call whose context has no deadline

	mu       sync.Mutex
	closed   bool
	restored chan struct{} // nil while it is not cut
	lose     int           // answers of writes that do not arrive
	late     time.Duration // of what is watched
}

// ErrClosed is the error of a connection that was closed.
var ErrClosed = errors.New("the connection is closed")

// Connect returns a connection.
func (m *Memory) Connect(wait time.Duration) *Conn { return &Conn{of: m, wait: wait} }

// Close ends the connection, and its subscriptions.
func (c *Conn) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	for _, s := range c.of.subs {
		if s.by == c {
			s.queue.end()
		}
	}
	c.of.subs = slices.DeleteFunc(c.of.subs, func(s *subscription) bool { return s.by == c })
}

// Cut loses all that is sent over the connection until restore is called.
func (c *Conn) Cut() (restore func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	restored := make(chan struct{})
	c.restored = restored
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		close(restored)
		c.restored = nil
	}
}

// LoseAnswers loses the answers of the next so many writes, which arrive.
func (c *Conn) LoseAnswers(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lose = n
}

// LateWatch delays what watchers are told from now on.
func (c *Conn) LateWatch(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late = by
}

// request carries out a call at the servers, unless the connection is cut.
func (c *Conn) request(ctx context.Context, writes bool, do func() error) error {
	if _, ok := ctx.Deadline(); !ok {
		var done context.CancelFunc
		ctx, done = context.WithTimeout(ctx, c.wait)
		defer done()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	closed, cut, lost := c.closed, c.restored != nil, writes && c.lose > 0
	if lost {
		c.lose--
	}
	c.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case cut: // a request that was lost has no answer when the connection is restored, either
		<-ctx.Done()
		return ctx.Err()
	}
	c.of.mu.Lock()
	err := do()
	c.of.mu.Unlock()
	if lost {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

// view is a bucket as a connection has opened it.
type view struct {
	conn  *Conn
	cfg   kv.Config
	epoch uint64
}

// Open implements kv.Store.
func (c *Conn) Open(ctx context.Context, cfg kv.Config) (kv.Bucket, error) {
	v := &view{conn: c, cfg: cfg}
	err := c.request(ctx, false, func() error {
		b := c.of.buckets[cfg.Name]
		if b == nil {
			b = &bucket{cfg: cfg, epoch: cfg.Epoch, watchers: map[*queue[kv.Entry]]bool{}}
			if !cfg.Plain {
				b.last = rand.Uint64N(1 << 43)
			}
			c.of.buckets[cfg.Name] = b
		}
		v.epoch = b.epoch
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("the bucket %s: %w", cfg.Name, err)
	}
	return v, nil
}

func (v *view) Epoch() uint64 { return v.epoch }

// request carries out a call at the bucket.
func (v *view) request(ctx context.Context, writes bool, do func(*bucket) error) error {
	return v.conn.request(ctx, writes, func() error {
		b := v.conn.of.buckets[v.cfg.Name]
		if b == nil {
			return kv.ErrNoBucket
		}
		return do(b)
	})
}

func (v *view) read(ctx context.Context, key string, newest bool, from uint64) (e kv.Entry, err error) {
	err = v.request(ctx, false, func(b *bucket) (err error) {
		in, until := b.entries, time.Now().Add(-v.conn.of.lag)
		if v.conn.of.lag > 0 {
			in = b.all
		}
		e, err = find(in, key, newest, func(e *kv.Entry) bool { return e.Revision >= from && !e.Time.After(until) })
		return err
	})
	return e, err
}

func (v *view) Last(ctx context.Context, key string) (kv.Entry, error) {
	return v.read(ctx, key, true, 0)
}

func (v *view) Next(ctx context.Context, key string, from uint64) (kv.Entry, error) {
	return v.read(ctx, key, false, from)
}

func (v *view) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	return v.write(ctx, &kv.Entry{Key: key, Value: value}, func(*bucket) error { return nil })
}

func (v *view) Update(ctx context.Context, e kv.Entry, last uint64) (uint64, error) {
	return v.write(ctx, &e, func(b *bucket) error {
		is, _ := find(b.entries, e.Key, true, func(*kv.Entry) bool { return true })
		if is.Revision != last {
			return fmt.Errorf("%w: %d, not %d", kv.ErrStale, is.Revision, last)
		}
		return nil
	})
}

func (v *view) write(ctx context.Context, e *kv.Entry, may func(*bucket) error) (revision uint64, err error) {
	err = v.request(ctx, true, func(b *bucket) error {
		if b.cfg.MaxValue > 0 && len(e.Value) > b.cfg.MaxValue {
			return kv.ErrTooLong
		}
		if err := may(b); err != nil {
			return err
		}
		revision = b.add(*e)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return revision, nil
}

func (v *view) Keys(ctx context.Context) (keys []string, err error) {
	err = v.request(ctx, false, func(b *bucket) error {
		for _, e := range b.entries {
			keys = append(keys, e.Key)
		}
		return nil
	})
	slices.Sort(keys)
	return slices.Compact(keys), err
}

func (v *view) Watch(ctx context.Context, f func(kv.Entry)) error {
	q := newQueue[kv.Entry]()
	err := v.request(ctx, false, func(b *bucket) error {
		for i, e := range b.entries {
			if !slices.ContainsFunc(b.entries[i+1:], func(o kv.Entry) bool { return o.Key == e.Key }) {
				q.put(e)
			}
		}
		b.watchers[q] = true
		return nil
	})
	if err != nil {
		return err
	}
	defer func() {
		v.conn.of.mu.Lock()
		defer v.conn.of.mu.Unlock()
		for _, b := range v.conn.of.buckets {
			delete(b.watchers, q)
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-q.more:
		}
		for _, e := range q.take() {
			v.conn.mu.Lock()
			cut, late := v.conn.restored, v.conn.late
			v.conn.mu.Unlock()
			if cut != nil {
				select {
				case <-cut:
				case <-ctx.Done():
					return nil
				}
			}
			select {
			case <-time.After(time.Until(e.Time.Add(late))):
			case <-ctx.Done():
				return nil
			}
			f(e)
		}
	}
}

// queue is what waits for one reader.
type queue[T any] struct {
	mu    sync.Mutex
	list  []T
	ended bool
	more  chan struct{}
}

func newQueue[T any]() *queue[T] { return &queue[T]{more: make(chan struct{}, 1)} }

func (q *queue[T]) put(v T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return
	}
	q.list = append(q.list, v)
	select {
	case q.more <- struct{}{}:
	default:
	}
}

func (q *queue[T]) take() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list = nil
	return list
}

// end has the reader end.
func (q *queue[T]) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.ended, q.list = true, nil
		close(q.more)
	}
}
