package owner

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/controller/owner/kv"
	"github.com/csig-agent/csig/controller/owner/kv/kvtest"
	"github.com/csig-agent/csig/protocol/cli"
)

const term = 2 * MinTerm

func quiet() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return logrus.NewEntry(l)
}

// bubble runs a test on a store in memory, on virtual time, with two controllers.
func bubble(t *testing.T, f func(t *testing.T, m *memory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * tunnelTake) }) // what still waits for an answer ends
		m := &memory{Memory: kvtest.New()}
		m.a, m.c1 = m.opened(t, "c1")
		m.b, m.c2 = m.opened(t, "c2")
		f(t, m)
	})
}

// memory is a store in memory, and those who use it.
type memory struct {
	*kvtest.Memory
	a, b   *Store       // of the controllers c1 and c2
	c1, c2 *kvtest.Conn // theirs
}

// opened is a controller's store with a connection of its own.
func (m *memory) opened(t *testing.T, name string, change ...func(*Config)) (*Store, *kvtest.Conn) {
	t.Helper()
	c := m.Connect(Wait(term))
	t.Cleanup(c.Close)
	return opened(t, c, name, change...), c
}

// opened is a controller's store, which follows the keys.
func opened(t *testing.T, on kv.Store, name string, change ...func(*Config)) *Store {
	t.Helper()
	cfg := Config{Name: name, Term: term, Log: quiet()}
	for _, c := range change {
		c(&cfg)
	}
	s, err := OpenOn(on, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var w sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	w.Go(func() { s.Watch(ctx) })
	t.Cleanup(func() { stop(); w.Wait() })
	return s
}

// own waits until a controller owns leaf1, which it renews until the test ends, or stop is called.
func own(t *testing.T, s *Store) (*Lease, context.Context) {
	t.Helper()
	l, ctx, err := s.Own(t.Context(), "leaf1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.stop(); <-l.ended })
	return l, ctx
}

// owners opens the bucket of owners.
func owners(t *testing.T, s *Store) kv.Bucket {
	t.Helper()
	b, err := s.bucket(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTakeOver: a device whose owner is cut off is another's a term later, and not while the
// first may still write; what the first learns is that it is not the owner.
func TestTakeOver(t *testing.T) {
	for how, cut := range map[string]func(*kvtest.Conn){
		"its connection ends":    (*kvtest.Conn).Close,
		"its connection is lost": func(c *kvtest.Conn) { c.Cut() },
	} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T, m *memory) {
				la, actx := own(t, m.a)
				took := make(chan *Lease)
				go func() {
					l, _ := own(t, m.b)
					if err := la.MayWrite(); !errors.Is(err, ErrNotOwner) {
						t.Errorf("beside the next owner the one before may write: %v", err)
					}
					took <- l
				}()
				select { // it stays the owner while it renews
				case <-took:
					t.Fatal("a device with an owner was taken")
				case <-actx.Done():
					t.Fatal("the owner lost the device: ", context.Cause(actx))
				case <-time.After(20 * term):
				}
				if got := m.b.Owner("leaf1"); got != "c1" {
					t.Errorf("the owner is %q", got)
				}
				cut(m.c1)
				start := time.Now()
				lb := <-took
				if d := time.Since(start); d > term+term/2 {
					t.Errorf("taken after %v", d)
				}
				<-actx.Done()
				if err := context.Cause(actx); !errors.Is(err, ErrNotOwner) {
					t.Errorf("the owner before: %v", err)
				}
				if lb.Token.Epoch != la.Token.Epoch || lb.Token.Revision <= la.Token.Revision {
					t.Errorf("the token %v after %v", lb.Token, la.Token)
				}
			})
		})
	}
}

// TestEnding: while a controller ends, it owns its devices until it has given them up.
func TestEnding(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		ctx, stop := context.WithCancel(t.Context())
		l, octx, err := m.a.Own(ctx, "leaf1")
		if err != nil {
			t.Fatal(err)
		}
		stop()
		<-octx.Done()
		took := make(chan struct{})
		go func() { own(t, m.b); close(took) }()
		select {
		case <-took:
			t.Error("the device is taken from one that ends")
		case <-time.After(20 * term):
		}
		if err := l.MayWrite(); err != nil {
			t.Error(err)
		}
		if err := l.Close(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		<-took
	})
}

// TestGivenUp: what is given up is another's at once, though it waits long for one that is silent;
// and not much later where it sees that late.
func TestGivenUp(t *testing.T) {
	for _, late := range []time.Duration{0, time.Hour} {
		bubble(t, func(t *testing.T, m *memory) {
			const long = 30 * time.Second
			la, actx := own(t, m.a)
			b, c := m.opened(t, "c3", func(c *Config) { c.Term = long })
			c.LateWatch(late)
			took := make(chan *Lease)
			go func() {
				l, _ := own(t, b)
				took <- l
			}()
			synctest.Wait()
			if err := la.Close(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			lb := <-took
			if d := time.Since(start); late == 0 && d > time.Second || d > 2*long || !lb.GivenUp {
				t.Errorf("taken after %v, given up: %t", d, lb.GivenUp)
			}
			if la.MayWrite() == nil || actx.Err() == nil || lb.MayWrite() != nil {
				t.Errorf("may write: %v, then %v", la.MayWrite(), lb.MayWrite())
			}
		})
	}
}

// TestStreamAgain: a stream that was lost has a higher epoch when it is created again, though
// the clock was set back; the owner before loses the device, and no other takes it within a term.
func TestStreamAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{Memory: kvtest.New()}
		future := hours() + 1000
		var saved uint64
		a, _ := m.opened(t, "c1", func(c *Config) { c.Epoch = future; c.SawEpoch = func(e uint64) error { saved = e; return nil } })
		la, actx := own(t, a)
		if la.Token.Epoch != future+1 || saved != future+1 {
			t.Fatalf("the first epoch is %d, %d is kept; want %d", la.Token.Epoch, saved, future+1)
		}
		m.Remove(bucket)
		gone := time.Now()
		b, _ := m.opened(t, "c2", func(c *Config) { c.Epoch = saved })
		lb, _ := own(t, b)
		if d := time.Since(gone); d < term {
			t.Errorf("taken %v after the stream was gone", d)
		}
		if err := la.MayWrite(); err == nil || lb.Token.Epoch <= la.Token.Epoch {
			t.Errorf("the token %v after %v; the owner before may write: %v", lb.Token, la.Token, err)
		}
		<-actx.Done()
	})
}

// TestForeignStream: a stream that csig did not create, or with an epoch that has no room in a token,
// has no owners.
func TestForeignStream(t *testing.T) {
	for _, epoch := range []uint64{0, 1 << (64 - revisionBits), math.MaxUint64} {
		bubble(t, func(t *testing.T, m *memory) {
			synctest.Wait()
			m.Remove(bucket)
			if _, err := m.c1.Open(t.Context(), kv.Config{Name: bucket, History: 1, Epoch: epoch}); err != nil {
				t.Fatal(err)
			}
			if _, err := m.a.look(t.Context(), "leaf1"); err == nil {
				t.Errorf("an epoch of %d counts", epoch)
			}
		})
	}
}

// TestRevisionsOfAnotherStream: what was seen of a key in a stream that was created again since
// takes nothing in the new one, whose keys were written in the same order.
func TestRevisionsOfAnotherStream(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		k := key("sw1")
		var seen sighting
		for i := range 2 {
			none, err := m.a.look(t.Context(), k)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = m.a.take(t.Context(), k, none); err != nil {
				t.Fatal(err)
			}
			if i > 0 {
				break
			}
			if seen, err = m.b.look(t.Context(), k); err != nil {
				t.Fatal(err)
			}
			m.Remove(bucket)
		}
		if _, err := m.b.take(t.Context(), k, seen); !isStale(err) {
			t.Errorf("with revision %d of the stream before: %v", seen.revision, err)
		}
	})
}

// TestUnsettled: what may be on its way from an owner that gives up is told the next one, with
// the logins that it knows of.
func TestUnsettled(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		l, _ := own(t, m.a)
		if err := l.Keep(t.Context(), []string{"vty 0"}); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		next, _ := own(t, m.b)
		if next.GivenUp || !slices.Equal(next.Open(), []string{"vty 0"}) {
			t.Errorf("given up: %t, logins %q", next.GivenUp, next.Open())
		}
	})
}

// TestAnotherTerm: a taker with a shorter term than the owner's waits for the owner's.
func TestAnotherTerm(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		b, _ := m.opened(t, "c3", func(c *Config) { c.Term = MinTerm })
		l, _ := own(t, m.a)
		l.stop() // as if stopped
		own(t, b)
		if err := l.MayWrite(); err == nil {
			t.Error("beside the next owner the one before may write")
		}
	})
}

// TestLostAnswer: a renewal that arrived and whose answer did not is no loss.
func TestLostAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		_, ctx := own(t, m.a)
		for range 10 {
			m.c1.LoseAnswers(1)
			select {
			case <-ctx.Done():
				t.Fatalf("lost: %v", context.Cause(ctx))
			case <-time.After(2 * term):
			}
		}
	})
}

// TestTouched: a key that another process writes or deletes ends the ownership; what is no
// record of csig's counts as an owner until a term has passed.
func TestTouched(t *testing.T) {
	for name, touch := range map[string]func(*testing.T, *memory){
		"deleted": func(_ *testing.T, m *memory) { m.Delete(bucket, "leaf1") },
		"garbage": func(t *testing.T, m *memory) {
			if _, err := owners(t, m.a).Put(t.Context(), "leaf1", []byte("\x1b[2J{")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, m *memory) {
				_, actx := own(t, m.a)
				touch(t, m)
				at := time.Now()
				<-actx.Done()
				own(t, m.b)
				if d := time.Since(at); d < term {
					t.Errorf("taken after %v", d)
				}
			})
		})
	}
}

// TestOneTakes: of two controllers that have seen a device's key as it is, silent or not there
// at all, one takes it.
func TestOneTakes(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		k := key("sw1")
		for _, what := range []string{"a key that is not there", "a silent one"} {
			var seen [2]sighting
			for i, s := range []*Store{m.a, m.b} {
				var err error
				if seen[i], err = s.look(t.Context(), k); err != nil {
					t.Fatal(err)
				}
			}
			first, err := m.a.take(t.Context(), k, seen[0])
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if _, err := m.b.take(t.Context(), k, seen[1]); !isStale(err) {
				t.Errorf("%s: the second one takes it, too: %v", what, err)
			}
			if at, err := m.b.look(t.Context(), k); err != nil || at.owner != "c1" || at.revision != first.revision {
				t.Errorf("%s: %+v, %v; want c1 with revision %d", what, at, err, first.revision)
			}
		}
	})
}

// TestLoginsOfALostKey: what a key that is gone said of logins is unknown; what it says is kept
// until an owner replaces it.
func TestLoginsOfALostKey(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		l, _ := own(t, m.a)
		if got := l.Open(); !slices.Equal(got, []string{cli.UnknownLogin}) {
			t.Errorf("of a key that was not there: %q", got)
		}
		if err := l.Keep(t.Context(), []string{"vty 0"}); err != nil {
			t.Fatal(err)
		}
		l.stop() // as if killed
		next, _ := own(t, m.b)
		if got := next.Open(); !slices.Equal(got, []string{"vty 0"}) {
			t.Errorf("of the owner before: %q", got)
		}
		if err := next.Keep(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := next.Close(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if l, _ = own(t, m.a); !l.GivenUp || len(l.Open()) > 0 {
			t.Errorf("given up: %t, %q", l.GivenUp, l.Open())
		}
	})
}

// TestClock: the clock of owners goes on with that of package time.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, slept := sinceBoot(), asleep()
		time.Sleep(time.Hour)
		// What the machine was suspended is real, and known to a millisecond.
		if d := sinceBoot() - before - (asleep() - slept); (d - time.Hour).Abs() > 10*time.Millisecond {
			t.Errorf("%v in an hour", d)
		}
	})
}

func TestKey(t *testing.T) {
	for name, want := range map[string]string{"leaf1": "leaf1", "a.b": "a=2eb", "dc1/leaf=1": "dc1=2fleaf=3d1", ">*": "=3e=2a"} {
		if got := key(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
