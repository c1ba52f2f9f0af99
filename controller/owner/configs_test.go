package owner

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"
)

// read is a device's configuration in force, as the next owner will find it.
func read(t *testing.T, s *Store, device string) ([]byte, error) {
	t.Helper()
	b, err := s.configs(t.Context())
	if err != nil {
		return nil, err
	}
	e, err := b.Last(t.Context(), "current."+key(device))
	if err != nil {
		return nil, err
	}
	var epoch, revision, which uint64
	if _, err := fmt.Sscanf(string(e.Value), "%d.%d\n%d", &epoch, &revision, &which); err != nil {
		return nil, err
	}
	e, err = b.Next(t.Context(), key(device), which)
	return e.Value, err
}

// TestKept: who changes a device is not its configuration; the next owner finds both, and the
// configurations of before, also where the server that answers knows less than others for a moment.
func TestKept(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		ctx := t.Context()
		l, _ := own(t, m.a)
		if text, err := l.Lock(ctx); err != nil || len(text) > 0 {
			t.Errorf("%q, %v", text, err)
		}
		if err := l.KeepLock(ctx, []byte("ann")); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Config(ctx); !errors.Is(err, ErrNoConfig) {
			t.Errorf("its configuration: %v", err)
		}
		if at, err := l.Applied(ctx); err != nil || !at.IsZero() {
			t.Errorf("applied at %v, %v", at, err)
		}
		if all, err := l.Configs(ctx); err != nil || len(all) > 0 {
			t.Errorf("%q, %v", all, err)
		}
		for i := range kept + 9 { // more than the history has
			if err := l.KeepConfig(ctx, []byte("configuration "+strconv.Itoa(i))); err != nil {
				t.Fatal(err)
			}
		}
		at := time.Now()
		time.Sleep(time.Minute)
		if err := l.KeepConfig(ctx, make([]byte, configLimit+1)); err == nil {
			t.Error("a long configuration is kept")
		}
		m.Lag(cellTries * cellPause / 2)
		if err := l.KeepLock(ctx, []byte("bob")); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(ctx, false); err != nil {
			t.Fatal(err)
		}
		next, _ := own(t, m.b)
		if text, err := next.Lock(ctx); err != nil || string(text) != "bob" {
			t.Errorf("%q, %v", text, err)
		}
		if text, err := next.Config(ctx); err != nil || string(text) != "configuration "+strconv.Itoa(kept+8) {
			t.Errorf("%q, %v", text, err)
		}
		if got, err := next.Applied(ctx); err != nil || !got.Equal(at) {
			t.Errorf("applied at %v, %v; want %v", got, err, at)
		}
		m.Lag(0)
		all, err := next.Configs(ctx)
		if err != nil || len(all) != kept || string(all[0]) != "configuration "+strconv.Itoa(kept+8) || string(all[kept-1]) != "configuration 9" {
			t.Errorf("%d configurations, %v: %q", len(all), err, all)
		}
	})
}

// TestFormerOwnerKeeps: what an owner that was stopped sends to the store when another has the
// device counts for no one, though it looked at its clock before; an answer that was lost is no loss.
func TestFormerOwnerKeeps(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		ctx := t.Context()
		former, _ := own(t, m.a)
		if err := former.KeepConfig(ctx, []byte("first")); err != nil {
			t.Fatal(err)
		}
		if err := former.KeepLock(ctx, []byte("ann")); err != nil {
			t.Fatal(err)
		}
		former.stop() // as if stopped
		next, _ := own(t, m.b)
		for what, read := range map[string]func() ([]byte, error){"first": func() ([]byte, error) { return next.Config(ctx) }, "ann": func() ([]byte, error) { return next.Lock(ctx) }} {
			if text, err := read(); err != nil || string(text) != what {
				t.Fatalf("%q, %v", text, err)
			}
		}
		former.mu.Lock()
		former.until = sinceBoot() + term // it looked at its clock when that was so, and was stopped then
		former.mu.Unlock()
		if err := former.KeepConfig(ctx, []byte("late")); !errors.Is(err, ErrNotOwner) {
			t.Errorf("a configuration of the owner before: %v", err)
		}
		if err := former.KeepLock(ctx, []byte("bob")); !errors.Is(err, ErrNotOwner) {
			t.Errorf("a lock of the owner before: %v", err)
		}
		if text, err := read(t, m.b, "leaf1"); err != nil || string(text) != "first" {
			t.Errorf("in force: %q, %v", text, err)
		}

		b, err := m.b.configs(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Put(ctx, next.operator.key, append(next.by(), "arrived"...)); err != nil {
			t.Fatal(err)
		}
		if err := next.KeepLock(ctx, []byte("ann again")); err != nil {
			t.Errorf("after an answer that was lost: %v", err)
		}
		m.c2.LoseAnswers(1)
		if err := next.KeepLock(ctx, []byte("bob")); err == nil {
			t.Error("an answer that is lost is no error")
		}
		if err := next.KeepLock(ctx, []byte("bob")); err != nil {
			t.Errorf("after it: %v", err)
		}
		if err := next.KeepConfig(ctx, []byte("second")); err != nil {
			t.Error(err)
		}
		if text, err := read(t, m.b, "leaf1"); err != nil || string(text) != "second" {
			t.Errorf("in force: %q, %v", text, err)
		}
	})
}
