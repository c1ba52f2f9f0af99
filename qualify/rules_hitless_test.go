package qualify

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// rewriter is a device whose second port writes what it was given last.
type rewriter struct {
	device
	mu      sync.Mutex
	intents []vlanrules.Intent
	updates int // so far
}

func (d *rewriter) Update(_ context.Context, updates []vendors.PortUpdate, lease time.Duration) (vendors.UpdateResult, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.updates++
	d.intents = updates[0].Intents
	return vendors.UpdateResult{Leased: true, Lease: lease}, nil
}

// TestHitlessByChance: frames that are lost or altered by chance are no fault of a change, and
// those that are so with each change are.
func TestHitlessByChance(t *testing.T) { hitlessByChance(t) }

func TestLongHitlessByChance(t *testing.T) { hitlessByChance(t) }

func hitlessByChance(t *testing.T) {
	type one struct{ updates, tagged int }
	once := func(d *rewriter, l *one) bool { // after some changes, whenever the next frame comes
		l.tagged++
		if d.updates < 20 {
			l.tagged = 0
		}
		return l.tagged == 1
	}
	for _, tc := range []struct {
		name    string
		lost    func(d *rewriter, last *one) bool
		altered bool
		want    Outcome
		found   string
	}{
		{"healthy", func(*rewriter, *one) bool { return false }, false, Pass, ""},
		{"one frame in all", once, false, NotTested, "too few to tell from chance"},
		{"one frame in all is altered", once, true, NotTested, "too few to tell from chance"},
		{"one frame in forty", func(d *rewriter, l *one) bool { l.tagged++; return l.tagged%40 == 0 }, false, NotTested, "while nothing changes, too"},
		{"one frame of each change", func(d *rewriter, l *one) bool {
			first := d.updates != l.updates
			l.updates = d.updates
			return first
		}, false, Fail, "is lost while its rules change"},
	} {
		if tc.name == "one frame in all" && !vendorstest.Long(t) {
			continue // one that is altered takes the same way
		}
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, out := cabled(t)
				d, last := &rewriter{}, one{}
				b.Driver = d
				tpid := []byte{byte(b.Profile.TPID >> 8), byte(b.Profile.TPID)}
				out.change = func(frame []byte) []byte {
					if !bytes.Equal(frame[12:14], tpid) {
						return frame
					}
					d.mu.Lock()
					defer d.mu.Unlock()
					lost := tc.lost(d, &last)
					last.updates = d.updates
					switch {
					case lost && !tc.altered:
						return nil
					case lost:
						frame[len(frame)-1] ^= 1
					}
					binary.BigEndian.PutUint16(frame[14:], compared(binary.BigEndian.Uint16(frame[14:]), quantize.Layout(0), d.intents))
					return frame
				}
				e := sends
				e.Run = func(ctx context.Context, tr *Trial) error {
					setup := tr.Setup(vlanrules.Update)
					setup.Signals = []quantize.Signal{quantize.MinABW}
					if _, err := tr.write(ctx, &setup, step(0), heldFor, 1); err != nil {
						return err
					}
					w := watched{}
					if err := w.changes(ctx, tr, &setup, 1, probes(&setup)); err != nil {
						return err
					}
					return sends.Run(ctx, tr)
				}
				r, err := Run(t.Context(), b, options(t, e))
				if err != nil {
					t.Fatal(err)
				}
				if got := r.Results[0]; got.Outcome != tc.want || !strings.Contains(got.Found, tc.found) {
					t.Errorf("%s: %s, want %s: %s", got.Outcome, got.Found, tc.want, tc.found)
				}
			})
		})
	}
}

// TestAsInUse: hitless is tried with the delay that rule-change has measured, and what comes
// after it without.
func TestAsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := cabled(t)
		b.Driver = &rewriter{}
		var waited []time.Duration
		b.Waits = func(d time.Duration) { waited = append(waited, d) }
		b.Reopen = func(context.Context) (vendors.Driver, error) { return &rewriter{}, nil }
		measures, uses := sends, sends
		measures.ID, uses.ID = "rule-change", "uses"
		measures.Run = func(ctx context.Context, tr *Trial) error {
			tr.Measured("ack_to_wire_max_ms", 41.2)
			return sends.Run(ctx, tr)
		}
		uses.Run = func(ctx context.Context, tr *Trial) error {
			back, err := tr.asInUse(ctx)
			if err != nil {
				return err
			}
			waited = append(waited, -1)
			return errors.Join(sends.Run(ctx, tr), back())
		}
		r, err := Run(t.Context(), b, options(t, measures, uses))
		if want := []time.Duration{42 * time.Millisecond, -1, 0}; err != nil || r.Count(Pass) != 2 || !slices.Equal(waited, want) {
			t.Errorf("%v: waits %v, want %v: %+v", err, waited, want, r)
		}
	})
}

// TestHitlessGap: how long tags pass untouched while a change is under way is a part of the fault.
func TestHitlessGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const gap = 30 * time.Millisecond
		b, out := cabled(t)
		d := &slowWriter{takes: gap}
		b.Driver = d
		out.change = func(frame []byte) []byte {
			d.mu.Lock()
			defer d.mu.Unlock()
			if !d.away {
				binary.BigEndian.PutUint16(frame[14:], compared(binary.BigEndian.Uint16(frame[14:]), quantize.Layout(0), d.intents))
			}
			return frame
		}
		e := sends
		e.Run = func(ctx context.Context, tr *Trial) error {
			setup := tr.Setup(vlanrules.Update)
			setup.Signals = []quantize.Signal{quantize.MinABW}
			if _, err := tr.write(ctx, &setup, step(0), heldFor, 1); err != nil {
				return err
			}
			w := watched{}
			if err := w.changes(ctx, tr, &setup, 1, probes(&setup)); err != nil {
				return err
			}
			if w.wrong < gap-gap/10 {
				t.Errorf("%v, the gaps were %v and more", w.wrong, gap)
			}
			return sends.Run(ctx, tr)
		}
		r, err := Run(t.Context(), b, options(t, e))
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Results[0]; got.Outcome != Fail || !strings.Contains(got.Faults[0].Text, "were wrong or missing for up to ") {
			t.Errorf("%s: %s %v", got.Outcome, got.Found, got.Faults)
		}
	})
}

// slowWriter has no rules while it takes up new ones.
type slowWriter struct {
	rewriter
	takes time.Duration
	away  bool
}

func (d *slowWriter) Update(ctx context.Context, updates []vendors.PortUpdate, lease time.Duration) (vendors.UpdateResult, error) {
	d.mu.Lock()
	d.away = true
	d.mu.Unlock()
	if err := vendors.Wait(ctx, d.takes); err != nil {
		return vendors.UpdateResult{}, err
	}
	res, err := d.rewriter.Update(ctx, updates, lease)
	d.mu.Lock()
	d.away = false
	d.mu.Unlock()
	return res, err
}
