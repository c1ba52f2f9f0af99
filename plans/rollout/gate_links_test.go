package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
)

// wires are the links of s1 to s2, at ports b, and to s3, at c and b.
type wires struct {
	mu     sync.Mutex
	frames map[inventory.PortRef]chan vendors.LinkFrame
	loses  func(from inventory.PortRef, f vendors.LinkFrame) bool // nil: nothing
	cannot map[string]bool                                        // these devices take part in no probe
	notYet map[string]bool                                        // these have no configuration
	sends  func(from inventory.PortRef)                           // called for each frame; nil: not called
	opened int
	open   int // now
	most   int // at once
}

var theWires = map[inventory.PortRef]inventory.PortRef{
	{Device: "s1", Port: "b"}: {Device: "s2", Port: "b"}, {Device: "s2", Port: "b"}: {Device: "s1", Port: "b"},
	{Device: "s1", Port: "c"}: {Device: "s3", Port: "b"}, {Device: "s3", Port: "b"}: {Device: "s1", Port: "c"},
}

// wiredGate is a Health over the plan of threeStages, and the links it tries.
func wiredGate(t *testing.T) (*Health, *wires) {
	t.Helper()
	g := pathGate(t, nil)
	g.Paths = nil
	g.Fleet.Hosts[0].CSIG, g.Fleet.Hosts[0].MTU = true, 1504
	g.Fleet.Devices[0].Ports = append(g.Fleet.Devices[0].Ports, inventory.Port{Name: "c", Peer: inventory.Peer{Device: "s3", Port: "b"}})
	g.Fleet.Devices[2].Ports = append(g.Fleet.Devices[2].Ports, inventory.Port{Name: "b", Peer: inventory.Peer{Device: "s1", Port: "c"}})
	for i := range g.Plan.Devices {
		g.Plan.Devices[i].Via = "a test"
	}
	w := &wires{frames: map[inventory.PortRef]chan vendors.LinkFrame{}, cannot: map[string]bool{}, notYet: map[string]bool{}}
	plain := g.Open
	g.Open = func(ctx context.Context, name string) (Target, error) {
		d, err := plain(ctx, name)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.opened++
		w.open++
		w.most = max(w.most, w.open)
		if e := (onWires{d.(*device), w}); w.cannot[name] {
			return e, nil
		}
		return probing{onWires{d.(*device), w}}, nil
	}
	return g, w
}

// onWires is a device whose targets are onWires, probing one that can try links.
type (
	onWires struct {
		*device
		w *wires
	}
	probing struct{ onWires }
)

func (d onWires) Close() error {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	d.w.open--
	return nil
}

func (d probing) ready() error {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if d.w.notYet[d.name] {
		return fmt.Errorf("%s waits: %w", d.name, vendors.ErrNotYet)
	}
	return nil
}

func (d probing) ListenLink(_ context.Context, port string) (vendors.LinkListener, error) {
	at := inventory.PortRef{Device: d.name, Port: port}
	frames := make(chan vendors.LinkFrame, 2*linkTries)
	d.w.mu.Lock()
	d.w.frames[at] = frames
	d.w.mu.Unlock()
	return ear{frames}, d.ready()
}

func (d probing) SendLink(_ context.Context, port string, f vendors.LinkFrame) error {
	if err := d.ready(); err != nil {
		return err
	}
	from := inventory.PortRef{Device: d.name, Port: port}
	if d.w.sends != nil {
		d.w.sends(from)
	}
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if d.w.loses == nil || !d.w.loses(from, f) {
		d.w.frames[theWires[from]] <- f
	}
	return nil
}

type ear struct{ frames chan vendors.LinkFrame }

func (e ear) Next(ctx context.Context) (vendors.LinkFrame, error) {
	select {
	case f := <-e.frames:
		return f, nil
	case <-ctx.Done():
		return vendors.LinkFrame{}, ctx.Err()
	}
}

func (e ear) Close() error { return nil }

// What the gate finds of the links of s1, in each direction by itself.
func TestLinkGate(t *testing.T) {
	from := func(device, port string) inventory.PortRef { return inventory.PortRef{Device: device, Port: port} }
	for name, tc := range map[string]struct {
		wave   string
		before func(w *wires)
		after  func(w *wires)
		want   string // links both ways, what was not probed
		err    string
	}{
		"both ways": {want: "2"},
		"an end that cannot": {before: func(w *wires) { w.cannot["s3"] = true },
			want: "1 [{s1:c - s3:b s3 cannot send test frames: it is driven through a test}]"},
		"the other end cannot": {before: func(w *wires) { w.cannot["s1"] = true },
			want: "0 [{s1:b - s2:b s1 cannot send test frames: it is driven through a test} {s1:c - s3:b s1 cannot send test frames: it is driven through a test}]"},
		"dead one way before": {before: func(w *wires) {
			w.loses = func(at inventory.PortRef, _ vendors.LinkFrame) bool { return at == from("s3", "b") }
		}, want: "1 [{s3:b to s1:c no frame of any kind gets from s3:b to s1:c, and none did before the wave}]"},
		"cut by the wave": {after: func(w *wires) {
			w.loses = func(at inventory.PortRef, _ vendors.LinkFrame) bool { return at == from("s3", "b") }
		}, err: "link s3:b to s1:c: a frame of 1518 bytes with its tag does not get through, nor does any other, while one did before the wave"},
		"too long one way": {after: func(w *wires) {
			w.loses = func(at inventory.PortRef, f vendors.LinkFrame) bool { return at == from("s1", "c") && f.Size > 1514 }
		}, err: "link s1:c to s3:b: a frame of 1518 bytes with its tag 99000ffe does not get through, a short one with a tag does"},
		"set up by the wave":     {before: func(w *wires) { w.notYet["s3"] = true }, after: func(w *wires) { w.notYet["s3"] = false }, want: "2"},
		"set up by a later wave": {before: func(w *wires) { w.notYet["s3"] = true }, want: "1"},
		"set up by none": {wave: "open/all", before: func(w *wires) { w.notYet["s2"] = true },
			want: "1 [{s1:b - s2:b s2 waits: it is not set up for test frames yet}]"},
		"set up by the wave, and dead": {before: func(w *wires) { w.notYet["s3"] = true }, after: func(w *wires) {
			w.notYet["s3"] = false
			w.loses = func(at inventory.PortRef, _ vendors.LinkFrame) bool { return at == from("s1", "c") }
		}, want: "1 [{s1:c to s3:b no frame of any kind gets from s1:c to s3:b, and it could not be tested before the wave}]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // what is lost takes its time
				g, w := wiredGate(t)
				g.Parallel = 2
				if tc.before != nil {
					tc.before(w)
				}
				if err := g.linksBefore(t.Context(), []string{"s1"}); err != nil {
					t.Fatal(err)
				}
				if tc.after != nil {
					tc.after(w)
				}
				wave := tc.wave
				if wave == "" {
					wave = "fence/all"
				}
				var j Judgement
				err := g.linksAfter(t.Context(), wave, []string{"s1"}, &j)
				switch {
				case tc.err != "":
					if err == nil || !strings.Contains(err.Error(), tc.err) {
						t.Errorf("got %v, want %q", err, tc.err)
					}
				case err != nil:
					t.Error(err)
				default:
					got := fmt.Sprint(j.Links)
					if len(j.NotProbed) > 0 {
						got += fmt.Sprintf(" %v", j.NotProbed)
					}
					if got != tc.want {
						t.Errorf("got  %s\nwant %s", got, tc.want)
					}
				}
				var again Judgement
				if err := g.linksAfter(t.Context(), wave, []string{"s1"}, &again); err == nil && len(again.NotProbed) > 0 {
					t.Errorf("it is said again: %v", again.NotProbed)
				}
				if w.open != 0 {
					t.Errorf("%d are still open", w.open)
				}
			})
		})
	}
}

// Links are tried side by side, as many as may be, and devices that were opened
// for one serve the next.
func TestLinksSideBySide(t *testing.T) {
	for parallel, want := range map[int]int{1: 1, 2: 2, 8: 2} {
		synctest.Test(t, func(t *testing.T) {
			g, w := wiredGate(t)
			g.Parallel = parallel
			var mu sync.Mutex
			busy := map[string]bool{}
			most := 0
			w.sends = func(at inventory.PortRef) {
				link := cable{at, theWires[at]}.String()
				mu.Lock()
				if busy[link] {
					t.Errorf("both directions of %s at once", link)
				}
				busy[link] = true
				most = max(most, len(busy))
				mu.Unlock()
				time.Sleep(time.Millisecond) // in the bubble: until all who can have come
				mu.Lock()
				delete(busy, link)
				mu.Unlock()
			}
			if err := g.linksBefore(t.Context(), []string{"s1"}); err != nil {
				t.Fatal(err)
			}
			if most != want {
				t.Errorf("%d in parallel: %d links at once, want %d", parallel, most, want)
			}
			if parallel == 1 && w.opened != 3 {
				t.Errorf("%d devices opened, want each of three once", w.opened)
			}
			if w.most > 2*parallel+1 {
				t.Errorf("%d in parallel: %d open at once", parallel, w.most)
			}
		})
	}
}

// A run that is ended reports why, at once.
func TestLinksInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, w := wiredGate(t)
		w.loses = func(inventory.PortRef, vendors.LinkFrame) bool { return true }
		why := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(linkWait/2, func() { cancel(why) })
		began := time.Now()
		if err := g.linksBefore(ctx, []string{"s1"}); !errors.Is(err, why) || time.Since(began) > linkWait {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		if len(g.links.dead) > 0 {
			t.Errorf("links are taken for dead: %v", g.links.dead)
		}
	})
}

// The devices of later waves.
func TestAfter(t *testing.T) {
	p, _ := threeStages(t)
	for wave, want := range map[string][]string{"fence/all": {"s1", "s2", "s3"}, "ready/rest": {"s1", "s3"}, "open/all": nil} {
		var got []string
		for s := range p.StepsAfter(wave) {
			got = append(got, s.Device)
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("after %s: %v, want %v", wave, got, want)
		}
	}
}
