package kvtest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/controller/owner/kv"
)

// bubble runs a test on servers in memory, on virtual time.
func bubble(t *testing.T, f func(*testing.T, *Memory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, New()) })
}

// TestConform has the store in memory do what NATS does.
func TestConform(t *testing.T) {
	for name, test := range behaviours {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, m *Memory) {
				test(&Servers{
					Connect: func(*testing.T) (kv.Store, func()) { c := m.Connect(time.Second); return c, c.Close },
					Remove:  func(_ *testing.T, bucket string) { m.Remove(bucket) },
					Delete:  func(_ *testing.T, bucket, key string) { m.Delete(bucket, key) },
				}, t)
			})
		})
	}
}

// TestFaults has the store do what NATS does to controllers when a server or a connection fails.
func TestFaults(t *testing.T) {
	cfg := kv.Config{Name: "b", History: 1}
	for name, test := range map[string]func(*testing.T, *Memory, *Conn, kv.Bucket){
		"a lost answer": func(t *testing.T, m *Memory, c *Conn, b kv.Bucket) {
			c.LoseAnswers(1)
			if _, err := b.Put(t.Context(), "k", []byte("x")); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			e, err := b.Last(t.Context(), "k")
			wantEntry(t, "what arrived", "x", e.Revision, e, err)
		},
		"a lost connection": func(t *testing.T, m *Memory, c *Conn, b kv.Bucket) {
			restore := c.Cut()
			begin := time.Now()
			if _, err := b.Put(t.Context(), "k", []byte("x")); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
				t.Errorf("%v after %v", err, time.Since(begin))
			}
			restore()
			e, err := b.Last(t.Context(), "k")
			wantEntry(t, "what did not arrive", "-", 0, e, err)
		},
		"a server that lags": func(t *testing.T, m *Memory, c *Conn, b kv.Bucket) {
			first := put(t, b, "k", "old")
			time.Sleep(time.Minute)
			m.Lag(time.Second)
			second := put(t, b, "k", "new")
			e, err := b.Last(t.Context(), "k")
			wantEntry(t, "at once", "old", first, e, err)
			if _, err := b.Update(t.Context(), kv.Entry{Key: "k"}, first); !errors.Is(err, kv.ErrStale) {
				t.Error(err)
			}
			time.Sleep(time.Second)
			e, err = b.Last(t.Context(), "k")
			wantEntry(t, "later", "new", second, e, err)
		},
		"a late watch": func(t *testing.T, m *Memory, c *Conn, b kv.Bucket) {
			c.LateWatch(time.Minute)
			begin, ctx := time.Now(), t.Context()
			seen := make(chan time.Duration, 1)
			go func() { _ = b.Watch(ctx, func(kv.Entry) { seen <- time.Since(begin) }) }()
			put(t, b, "k", "x")
			if d := <-seen; d != time.Minute {
				t.Errorf("after %v", d)
			}
			restore := c.Cut()
			put(t, open(t, m.Connect(time.Second), cfg), "k", "y")
			time.Sleep(time.Hour)
			restore()
			if d := <-seen; d != time.Hour+time.Minute {
				t.Errorf("of a connection that was lost after %v", d)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, m *Memory) {
				c := m.Connect(time.Second)
				defer c.Close()
				test(t, m, c, open(t, c, cfg))
			})
		})
	}
}
