package snmp

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gosnmp/gosnmp"
)

// within is a context like a slot of the poller's: cancelled, with a deadline as the cause.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	timer := time.AfterFunc(d, func() { cancel(context.DeadlineExceeded) })
	t.Cleanup(func() { timer.Stop(); cancel(nil) })
	return ctx
}

func TestTriesFitTheReading(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name            string
		timeout, within time.Duration
		retries         int
		want            time.Duration
	}{
		{"nothing said", 0, 0, 0, 2 * time.Second},
		{"each second", 0, time.Second, 0, 300 * time.Millisecond},
		{"each second, one try", 0, time.Second, -1, 900 * time.Millisecond},
		{"each minute", 0, time.Minute, 0, 2 * time.Second},
		{"ten times a second", 0, 100 * time.Millisecond, 0, shortestTry},
		{"as the file says", time.Second, time.Second, 0, time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Config{Address: "192.0.2.1", Community: "c", Ports: []string{"swp1"}, Timeout: tt.timeout, Within: tt.within, Retries: tt.retries}.withDefaults()
			if err != nil || c.Timeout != tt.want {
				t.Errorf("%v, %v; want %v", c.Timeout, err, tt.want)
			}
		})
	}
}

// 15 % of the datagrams are lost: with the defaults, and a second for a reading, no
// reading is.
func TestLossWithinAShortSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		cfg := a.config(a.many(3)...)
		cfg.Timeout, cfg.Retries, cfg.Within = 0, 0, time.Second
		s := open(t, cfg)
		rng, lost := rand.New(rand.NewPCG(1, 2)), 0
		a.with(func() {
			a.send = func(_ int, _ *gosnmp.SnmpPacket, msg []byte) [][]byte {
				if rng.Float64() < 0.15 {
					lost++
					return nil
				}
				return [][]byte{msg}
			}
		})
		for i := range 40 {
			list, err := s.Read(within(t, time.Second), nil)
			if err != nil || len(list) != 3 {
				t.Fatalf("reading %d: %d samples, %v", i, len(list), err)
			}
		}
		a.with(func() {
			if lost < 4 {
				t.Errorf("only %d datagrams were lost", lost)
			}
		})
	})
}

// A deadline that comes before the end of the tries is still an agent that does not
// answer, with what to do about it.
func TestDeadlineBeforeTheLastTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		a.with(func() { a.send = func(int, *gosnmp.SnmpPacket, []byte) [][]byte { return nil } })
		cfg := a.config(a.many(1)...)
		cfg.Timeout = time.Minute
		_, err := open(t, cfg).Read(within(t, 50*time.Millisecond), nil)
		if !errors.Is(err, ErrNoAnswer) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "community") || strings.Contains(err.Error(), "context") {
			t.Errorf("%v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := open(t, cfg).Read(ctx, nil); !errors.Is(err, context.Canceled) || errors.Is(err, ErrNoAnswer) {
			t.Errorf("our own end: %v", err)
		}
	})
}

func TestAdviceOnAddresses(t *testing.T) {
	t.Parallel()
	cfg := Config{Address: "127.0.0.1", Port: 1, Community: "c", Ports: []string{"swp1"}, Timeout: time.Hour} // the kernel reports it at once
	if _, err := open(t, cfg).Read(t.Context(), nil); !errors.Is(err, ErrNoAnswer) || !strings.Contains(err.Error(), "refused") || !strings.Contains(err.Error(), "nothing listens") || strings.Contains(err.Error(), "community") {
		t.Errorf("closed port: %v", err)
	}
	cfg.Address = "no-such-device.invalid"
	if _, err := open(t, cfg).Read(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "correct the device's address") {
		t.Errorf("name that does not resolve: %v", err)
	}
}
