package vrp

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/qos"
)

// TestTrial: what is not confirmed in time the switch takes back.
func TestTrial(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, CloudEngine, nil)
		before := b.Running()
		start := func() string {
			t.Helper()
			token, err := b.driver.StartRevert(t.Context(), 90*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			b.setUp(t, b.p1)
			if !strings.Contains(b.Running(), "csig-") {
				t.Fatal("nothing was applied")
			}
			return token
		}
		other := Open(b.driver.cfg)
		defer other.Close()
		token := start()
		pending := (*vendors.PendingRevertError)(nil)
		if err := other.PendingRevert(t.Context()); !errors.As(err, &pending) || pending.Left <= 0 || pending.Left > 90*time.Second {
			t.Error(err)
		}
		if err := other.Apply(t.Context(), plain(b.p1, b.p2)); !errors.As(err, &pending) {
			t.Error(err)
		}
		time.Sleep(91 * time.Second)
		if b.Running() != before {
			t.Errorf("it was not taken back: %s", b.Running())
		}
		if err := b.driver.Confirm(t.Context(), token); !errors.Is(err, vendors.ErrReverted) {
			t.Error(err)
		}
		// Over another connection, in time.
		token = start()
		if err := other.Confirm(t.Context(), token); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if err := other.PendingRevert(t.Context()); err != nil || !strings.Contains(b.Running(), "csig-") {
			t.Error(err)
		}
		// A second start confirms the first.
		b.driver.Close()
		b.driver = other
		one := start()
		two := start()
		if err := b.driver.Confirm(t.Context(), two); err != nil || one == two {
			t.Error(err)
		}
		s := newBench(t, SSeries, nil)
		if _, err := s.driver.StartRevert(t.Context(), time.Minute); !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
		if err := s.driver.PendingRevert(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestCutOff: an Apply after which no new login comes is taken back by the switch.
func TestCutOff(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		dial, cut := (func(context.Context) (qos.Session, error))(nil), false
		b := newBench(t, CloudEngine, func(c *Config) {
			dial = c.Dial
			c.Dial = func(ctx context.Context) (qos.Session, error) {
				if cut {
					return nil, errors.New("no route to host")
				}
				return dial(ctx)
			}
		})
		before := b.Running()
		if _, err := b.driver.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
		cut = true
		if err := b.driver.Apply(t.Context(), plain(b.p1)); err == nil || !strings.Contains(err.Error(), "takes back within 2m0s: no route") {
			t.Error(err)
		}
		time.Sleep(applyWithin + time.Second)
		if b.Running() != before {
			t.Errorf("it was not taken back: %s", b.Running())
		}
		cut = false
		b.setUp(t, b.p1)
		time.Sleep(time.Hour)
		if !strings.Contains(b.Running(), "traffic policy csig-"+b.p1) {
			t.Error("what was confirmed is taken back")
		}
	})
}
