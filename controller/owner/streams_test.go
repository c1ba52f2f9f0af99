package owner

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestStreams: the last status of a device is for every controller, and what happened stays in order.
func TestStreams(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		a, b := m.a, m.b
		ctx := t.Context()
		if text, err := b.Status(ctx, "leaf 1"); err != nil || text != nil {
			t.Errorf("before the first: %q, %v", text, err)
		}
		for _, text := range []string{"one", "two"} {
			if err := a.PublishStatus(ctx, "leaf 1", []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		if text, err := b.Status(ctx, "leaf 1"); err != nil || string(text) != "two" {
			t.Errorf("%q, %v", text, err)
		}
		if text, err := b.Status(ctx, "leaf 2"); err != nil || text != nil {
			t.Errorf("of another device: %q, %v", text, err)
		}
		if err := a.PublishStatus(ctx, "leaf 1", make([]byte, statusLimit+1)); err == nil || !strings.Contains(err.Error(), "at most") {
			t.Errorf("a long one: %v", err)
		}
		for _, to := range []string{"live", "stale"} {
			if err := a.PublishEvent(ctx, Event{Time: time.Unix(1, 0).UTC(), Device: "leaf 1", Port: "p1", What: "state", To: to}); err != nil {
				t.Fatal(err)
			}
		}
		all, err := b.kv.Open(ctx, eventBucket)
		if err != nil {
			t.Fatal(err)
		}
		for i, to := range []string{"live", "stale"} {
			m, err := all.Next(ctx, "leaf=201", uint64(i+1))
			if err != nil {
				t.Fatal(err)
			}
			var e Event
			want := Event{EventFormat, time.Unix(1, 0).UTC(), "c1", "leaf 1", "p1", "state", "", to, ""}
			if err := json.Unmarshal(m.Value, &e); err != nil || e != want {
				t.Errorf("%s, want %+v (%v)", m.Value, want, err)
			}
		}
	})
}
