package ovs

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// TestChangeUnderTraffic changes buckets while frames pass: each leaves with the
// value of before or of after, and soon all with that of after.
func TestChangeUnderTraffic(t *testing.T) {
	t.Parallel()
	const changes = 60
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	rng := rand.New(rand.NewPCG(3, 4))
	// The S that frames carry when they arrive, and which they ask.
	sent := []uint8{31, 20, 9}
	intents := func(b uint8, lm uint16) []vlanrules.Intent {
		return []vlanrules.Intent{bucket(quantize.MinABW, b, lm), bucket(quantize.MinABWC, 31-b, lm)}
	}
	value := func(sig int, b uint8, lm uint16, sent uint8) tag {
		if sig == 1 {
			b = 31 - b
		}
		if b < sent {
			return tag{tpidCSIG, uint16(sig)<<13 | uint16(b)<<7 | lm}
		}
		return tag{tpidCSIG, uint16(sig)<<13 | uint16(sent)<<7 | 126}
	}
	before, lmBefore := uint8(31), uint16(1)
	update(t, s.driver, time.Minute, vendors.PortUpdate{Port: "swp1", Intents: intents(before, lmBefore)})
	s.settle()
	var slowest time.Duration
	seen := 0
	for range changes {
		after, lmAfter := uint8(rng.IntN(32)), uint16(1+rng.IntN(100))
		done := make(chan error, 1)
		go func() {
			_, err := s.driver.Update(t.Context(), []vendors.PortUpdate{{Port: "swp1", Intents: intents(after, lmAfter)}}, time.Minute)
			done <- err
		}()
		start, committed := time.Now(), false
		// Until nothing but new values has been seen for a round of all frames.
		for settled := false; !settled; {
			settled = true
			for _, own := range sent {
				for sig := range 2 {
					s.in.Send(frame(1, tag{tpidCSIG, uint16(sig)<<13 | uint16(own)<<7 | 126}))
					got := s.out.Receive(soon)
					old, now := frame(1, value(sig, before, lmBefore, own)), frame(1, value(sig, after, lmAfter, own))
					switch seen++; {
					case bytes.Equal(got, now):
					case bytes.Equal(got, old):
						settled = false
					default:
						t.Fatalf("a frame leaves as %x, neither %x nor %x", got, old, now)
					}
				}
			}
			if time.Since(start) > soon {
				t.Fatalf("frames keep the old value for %v", soon)
			}
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
				committed = true
			default:
			}
			if committed && time.Since(start) > 100*time.Millisecond {
				// As an agent's next cycle does.
				update(t, s.driver, time.Minute, vendors.PortUpdate{Port: "swp1", Intents: intents(after, lmAfter)})
			}
			settled = settled && committed
		}
		slowest = max(slowest, time.Since(start))
		before, lmBefore = after, lmAfter
	}
	t.Logf("%d changes, %d frames, the slowest change was through after %v", changes, seen, slowest.Round(time.Millisecond))
}
