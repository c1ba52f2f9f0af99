package kvtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/csig-agent/csig/controller/owner/kv"
)

// Servers are those of a store that Conform tries.
type Servers struct {
	Connect func(*testing.T) (on kv.Store, end func())
	Remove  func(t *testing.T, bucket string)      // removes a bucket, as who administers the servers can
	Delete  func(t *testing.T, bucket, key string) // deletes a key, as another program may
}

// patience is how long Conform waits for what has to come.
const patience = 30 * time.Second

// behaviours are those that controller/owner needs of a store.
var behaviours = map[string]func(*Servers, *testing.T){
	"compare and set": (*Servers).compareAndSet,
	"values kept":     (*Servers).valuesKept,
	"made again":      (*Servers).madeAgain,
	"deleted":         (*Servers).deleted,
	"plain":           (*Servers).plain,
	"watch":           (*Servers).watch,
	"messages":        (*Servers).messages,
	"lost connection": (*Servers).lostConnection,
}

// Conform is the test that each store passes.
func Conform(t *testing.T, s Servers) {
	for name, test := range behaviours {
		t.Run(name, func(t *testing.T) { test(&s, t) })
	}
}

func (s *Servers) connect(t *testing.T) kv.Store {
	on, end := s.Connect(t)
	t.Cleanup(end)
	return on
}

func open(t *testing.T, on kv.Store, cfg kv.Config) kv.Bucket {
	t.Helper()
	b, err := on.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func put(t *testing.T, b kv.Bucket, key, value string) uint64 {
	t.Helper()
	revision, err := b.Put(t.Context(), key, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// wantEntry checks an entry; value "-" is one that is not there.
func wantEntry(t *testing.T, what, value string, revision uint64, e kv.Entry, err error) {
	t.Helper()
	if value == "-" {
		if !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("%s: %+v, %v; want none", what, e, err)
		}
		return
	}
	if err != nil || string(e.Value) != value || e.Revision != revision || e.Time.IsZero() || e.Deleted {
		t.Errorf("%s: %+v (%q), %v; want %q with revision %d", what, e, e.Value, err, value, revision)
	}
}

// compareAndSet wants one of those that write at one revision to succeed, over connections of their own.
func (s *Servers) compareAndSet(t *testing.T) {
	one, two := s.connect(t), s.connect(t)
	cfg := kv.Config{Name: "cas", History: 1, MaxValue: 100, Epoch: 7}
	a := open(t, one, cfg)
	cfg.Epoch = 9
	b := open(t, two, cfg) // which is there: its epoch stays
	if a.Epoch() != 7 || b.Epoch() != 7 {
		t.Errorf("the epochs are %d and %d, want those of the first", a.Epoch(), b.Epoch())
	}
	e, err := a.Last(t.Context(), "leaf1")
	wantEntry(t, "before", "-", 0, e, err)
	first, err := a.Update(t.Context(), kv.Entry{Key: "leaf1", Value: []byte("a")}, 0)
	if err != nil || first == 0 {
		t.Fatalf("the first: %d, %v", first, err)
	}
	if _, err := b.Update(t.Context(), kv.Entry{Key: "leaf1", Value: []byte("b")}, 0); !errors.Is(err, kv.ErrStale) {
		t.Errorf("at a key that is there as if it were not: %v", err)
	}
	other, err := b.Update(t.Context(), kv.Entry{Key: "leaf2", Value: []byte("b")}, 0)
	if err != nil || other <= first {
		t.Errorf("another key: %d, %v; want more than %d", other, err, first)
	}
	second, err := b.Update(t.Context(), kv.Entry{Key: "leaf1", Value: []byte("b")}, first)
	if err != nil || second <= other {
		t.Errorf("the second: %d, %v; want more than %d", second, err, other)
	}
	if _, err := a.Update(t.Context(), kv.Entry{Key: "leaf1", Value: []byte("c")}, first); !errors.Is(err, kv.ErrStale) {
		t.Errorf("at a revision of before: %v", err)
	}
	if _, err := a.Put(t.Context(), "leaf1", make([]byte, 1000)); !errors.Is(err, kv.ErrTooLong) {
		t.Errorf("a long value: %v", err)
	}
	e, err = a.Last(t.Context(), "leaf1")
	wantEntry(t, "at the end", "b", second, e, err)

	won := make(chan error, 8)
	for i := range cap(won) {
		go func() {
			_, err := []kv.Bucket{a, b}[i%2].Update(context.WithoutCancel(t.Context()), kv.Entry{Key: "leaf1", Value: []byte("x")}, second)
			won <- err
		}()
	}
	winners := 0
	for range cap(won) {
		if err := <-won; err == nil {
			winners++
		} else if !errors.Is(err, kv.ErrStale) {
			t.Error(err)
		}
	}
	if winners != 1 {
		t.Errorf("%d of those that wrote at one revision succeeded", winners)
	}
}

// valuesKept wants as many values of a key as are asked for, in their order, by their revisions.
func (s *Servers) valuesKept(t *testing.T) {
	b := open(t, s.connect(t), kv.Config{Name: "kept", History: 3})
	var revisions []uint64
	for i := range 5 {
		put(t, b, "other", "x")
		revisions = append(revisions, put(t, b, "leaf1", fmt.Sprint(i)))
	}
	from := uint64(0)
	for i := 2; i < 5; i++ {
		e, err := b.Next(t.Context(), "leaf1", from)
		wantEntry(t, "the next", fmt.Sprint(i), revisions[i], e, err)
		from = e.Revision + 1
	}
	e, err := b.Next(t.Context(), "leaf1", from)
	wantEntry(t, "after the last", "-", 0, e, err)
	e, err = b.Next(t.Context(), "leaf1", revisions[3])
	wantEntry(t, "from one on", "3", revisions[3], e, err)
}

// madeAgain wants a bucket that was removed to be no longer there, and another one when it is opened
// again, with an epoch of its own, whose revisions are none of before.
func (s *Servers) madeAgain(t *testing.T) {
	on := s.connect(t)
	before := open(t, on, kv.Config{Name: "again", History: 1, Epoch: 7})
	seen := put(t, before, "leaf1", "a")
	s.Remove(t, "again")
	if _, err := before.Put(t.Context(), "leaf1", []byte("b")); !errors.Is(err, kv.ErrNoBucket) {
		t.Errorf("a write to a bucket that is gone: %v", err)
	}
	after := open(t, s.connect(t), kv.Config{Name: "again", History: 1, Epoch: 8})
	if after.Epoch() != 8 {
		t.Errorf("the epoch is %d", after.Epoch())
	}
	e, err := after.Last(t.Context(), "leaf1")
	wantEntry(t, "in the new bucket", "-", 0, e, err)
	put(t, after, "leaf1", "c")
	if _, err := before.Update(t.Context(), kv.Entry{Key: "leaf1", Value: []byte("d")}, seen); !errors.Is(err, kv.ErrStale) {
		t.Errorf("at a revision of the bucket before: %v", err)
	}
}

// deleted wants a key that another program deleted to be there without a value, until it is written.
func (s *Servers) deleted(t *testing.T) {
	b := open(t, s.connect(t), kv.Config{Name: "deleted", History: 1})
	last := put(t, b, "leaf1", "a")
	s.Delete(t, "deleted", "leaf1")
	e, err := b.Last(t.Context(), "leaf1")
	if err != nil || !e.Deleted || e.Revision <= last || len(e.Value) > 0 {
		t.Fatalf("%+v, %v", e, err)
	}
	for revision, stale := range map[uint64]bool{0: true, last: true} {
		if _, err := b.Update(t.Context(), kv.Entry{Key: "leaf1"}, revision); errors.Is(err, kv.ErrStale) != stale {
			t.Errorf("at revision %d: %v", revision, err)
		}
	}
	revision, err := b.Update(t.Context(), kv.Entry{Key: "leaf1", Value: []byte("b")}, e.Revision)
	if err != nil {
		t.Fatal(err)
	}
	e, err = b.Last(t.Context(), "leaf1")
	wantEntry(t, "written again", "b", revision, e, err)
}

// plain wants a plain bucket to keep headers, and to know its keys; one that has no bound keeps everything.
func (s *Servers) plain(t *testing.T) {
	b := open(t, s.connect(t), kv.Config{Name: "csig_test", Plain: true, MaxBytes: 1 << 20, Keep: true})
	if keys, err := b.Keys(t.Context()); err != nil || len(keys) > 0 || b.Epoch() != 0 {
		t.Errorf("%q, %v, epoch %d", keys, err, b.Epoch())
	}
	first, err := b.Update(t.Context(), kv.Entry{Key: "one", Value: []byte("1"), Header: map[string]string{"Csig-End": "1"}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	put(t, b, "two", "2")
	put(t, b, "one", "3")
	e, err := b.Next(t.Context(), "one", 1)
	wantEntry(t, "the first", "1", first, e, err)
	if e.Header["Csig-End"] != "1" || e.Key != "one" {
		t.Errorf("%+v", e)
	}
	if keys, err := b.Keys(t.Context()); err != nil || !slices.Equal(keys, []string{"one", "two"}) {
		t.Errorf("%q, %v", keys, err)
	}
	memory := open(t, s.connect(t), kv.Config{Name: "csig_last", Plain: true, Memory: true, History: 1})
	put(t, memory, "one", "1")
	last := put(t, memory, "one", "2")
	e, err = memory.Next(t.Context(), "one", 1)
	wantEntry(t, "the only one", "2", last, e, err)
}

// watch wants one that begins late to see the last value of each key, and then what follows.
func (s *Servers) watch(t *testing.T) {
	on := s.connect(t)
	b := open(t, on, kv.Config{Name: "watch", History: 1})
	put(t, b, "leaf1", "old")
	put(t, b, "leaf2", "a")
	put(t, b, "leaf1", "new")
	ctx, stop := context.WithCancel(t.Context())
	seen, ended := make(chan kv.Entry, 100), make(chan error, 1)
	go func() { ended <- b.Watch(ctx, func(e kv.Entry) { seen <- e }) }()
	next := func(want string, deleted bool) {
		t.Helper()
		select {
		case e := <-seen:
			if got := e.Key + " " + string(e.Value); got != want || e.Deleted != deleted || e.Revision == 0 {
				t.Errorf("%s (%+v), want %s", got, e, want)
			}
		case <-time.After(patience):
			t.Fatalf("%s does not come", want)
		}
	}
	next("leaf2 a", false)
	next("leaf1 new", false)
	put(t, open(t, s.connect(t), kv.Config{Name: "watch", History: 1}), "leaf2", "b")
	next("leaf2 b", false)
	s.Delete(t, "watch", "leaf1")
	next("leaf1 ", true)
	stop()
	if err := <-ended; err != nil {
		t.Errorf("its end: %v", err)
	}
}

// messages wants requests to be answered, and to fail where nobody does.
func (s *Servers) messages(t *testing.T) {
	asks, answers := s.connect(t), s.connect(t)
	ctx, done := context.WithTimeout(t.Context(), patience)
	defer done()
	if _, err := asks.Request(ctx, "csig_device.leaf1.c2", nil); !errors.Is(err, kv.ErrNoReader) {
		t.Errorf("nobody listens: %v", err)
	}
	got := make(chan kv.Message, 1000)
	stop, err := answers.Subscribe("csig_device.leaf1.*", func(m kv.Message) {
		if m.Reply != "" {
			if err := answers.Publish(kv.Message{Subject: m.Reply, Data: append([]byte("to "), m.Data...)}); err != nil {
				t.Error(err)
			}
		}
		got <- m
	})
	if err == nil {
		err = answers.Flush(patience)
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := asks.Request(ctx, "csig_device.leaf1.c2", []byte("me"))
	if err != nil || string(m.Data) != "to me" {
		t.Errorf("%q, %v", m.Data, err)
	}
	if m := <-got; m.Subject != "csig_device.leaf1.c2" {
		t.Errorf("asked at %q", m.Subject)
	}
	for _, elsewhere := range []string{"csig_device.leaf2.c2", "csig_device.leaf1", "csig_device.leaf1.c2.x"} {
		if _, err := asks.Request(ctx, elsewhere, nil); !errors.Is(err, kv.ErrNoReader) {
			t.Errorf("nobody listens at %s: %v", elsewhere, err)
		}
	}
	for i := range 100 { // in their order
		if err := asks.Publish(kv.Message{Subject: "csig_device.leaf1.c2", Data: []byte{byte(i)}, Header: map[string]string{"Csig-End": "1"}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		if m := <-got; m.Data[0] != byte(i) || m.Header["Csig-End"] != "1" || m.Reply != "" {
			t.Fatalf("message %d: %+v", i, m)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := answers.Flush(patience); err != nil {
		t.Fatal(err)
	}
	if _, err := asks.Request(ctx, "csig_device.leaf1.c2", nil); !errors.Is(err, kv.ErrNoReader) {
		t.Errorf("nobody listens any more: %v", err)
	}
	inbox := asks.Inbox()
	if other := asks.Inbox(); other == inbox {
		t.Errorf("two inboxes are %s", inbox)
	}
	silent, err := answers.Subscribe(inbox, func(kv.Message) {})
	if err == nil {
		err = answers.Flush(patience)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent() }()
	short, done := context.WithTimeout(ctx, 10*time.Millisecond)
	defer done()
	if _, err := asks.Request(short, inbox, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody answers: %v", err)
	}
}

// lostConnection wants every call to fail where the connection has ended, and what subscribed over
// it to be gone.
func (s *Servers) lostConnection(t *testing.T) {
	on, end := s.Connect(t)
	b := open(t, on, kv.Config{Name: "lost", History: 1})
	put(t, b, "leaf1", "a")
	if _, err := on.Subscribe("csig_device.lost.*", func(kv.Message) {}); err != nil {
		t.Fatal(err)
	}
	if err := on.Flush(patience); err != nil {
		t.Fatal(err)
	}
	end()
	_, opening := on.Open(t.Context(), kv.Config{Name: "lost", History: 1})
	_, last := b.Last(t.Context(), "leaf1")
	_, putting := b.Put(t.Context(), "leaf1", nil)
	_, updating := b.Update(t.Context(), kv.Entry{Key: "leaf1"}, 0)
	_, subscribing := on.Subscribe("x", func(kv.Message) {})
	_, asking := on.Request(t.Context(), "x", nil)
	for what, err := range map[string]error{"open": opening, "last": last, "put": putting, "update": updating, "subscribe": subscribing, "request": asking, "publish": on.Publish(kv.Message{Subject: "x"})} {
		if err == nil || errors.Is(err, kv.ErrNotFound) || errors.Is(err, kv.ErrStale) || errors.Is(err, kv.ErrNoBucket) || errors.Is(err, kv.ErrNoReader) {
			t.Errorf("%s over a connection that has ended: %v", what, err)
		}
	}
	other := s.connect(t)
	ctx, done := context.WithTimeout(t.Context(), patience)
	defer done()
	for err := error(nil); !errors.Is(err, kv.ErrNoReader); { // the servers notice; what was asked before they do has no answer
		ask, end := context.WithTimeout(ctx, patience/100)
		_, err = other.Request(ask, "csig_device.lost.x", nil)
		end()
		if ctx.Err() != nil {
			t.Fatalf("its subscription is there still: %v", err)
		}
	}
	e, err := open(t, other, kv.Config{Name: "lost", History: 1}).Last(t.Context(), "leaf1")
	if err != nil || string(e.Value) != "a" {
		t.Errorf("what it wrote: %q, %v", e.Value, err)
	}
}
