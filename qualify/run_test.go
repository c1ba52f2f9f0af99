package qualify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// wire is a card whose frames another one receives.
type wire struct {
	to     *wire
	frames chan []byte
	closed chan struct{}
	once   sync.Once
	drops  uint64
	change func(frame []byte) []byte // on the way; nil: nothing
	late   time.Duration             // what comes after a pause is received so much later
}

// cable is two cards and the cable between them.
func cable() (a, b *wire) {
	a = &wire{frames: make(chan []byte, 4096), closed: make(chan struct{})}
	b = &wire{frames: make(chan []byte, 4096), closed: make(chan struct{}), to: a}
	a.to = b
	return a, b
}

func (w *wire) Send(frame []byte) error {
	frame = append([]byte(nil), frame...)
	if w.change != nil {
		if frame = w.change(frame); frame == nil {
			return nil
		}
	}
	w.to.frames <- frame
	return nil
}

func (w *wire) Receive() ([]byte, time.Time, error) {
	pause := len(w.frames) == 0
	select {
	case f := <-w.frames:
		if pause {
			time.Sleep(w.late)
		}
		return f, time.Now(), nil
	case <-w.closed:
		return nil, time.Time{}, net.ErrClosed
	}
}

func (w *wire) Drops() (uint64, error) {
	n := w.drops
	w.drops = 0
	return n, nil
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

// cabled is a bench at a cable.
func cabled(t *testing.T) (*Bench, *wire) {
	t.Helper()
	one, two := cable()
	b := &Bench{
		Ports:   []*Port{Cabled("p1", "c1", MAC{2, 1}, 1600, one), Cabled("p2", "c2", MAC{2, 2}, 1600, two)},
		Profile: &quantize.Profile{TPID: 0x9900}, Settle: time.Millisecond, NoWay: "it is a cable",
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, one
}

func options(t *testing.T, list ...Experiment) Options {
	t.Helper()
	return Options{Experiments: list, Folder: filepath.Join(t.TempDir(), "out"), Quiet: 10 * time.Millisecond, Start: time.Second, Version: "test"}
}

// sends is an experiment that sends one frame.
var sends = Experiment{ID: "sends", Title: "?", Run: func(ctx context.Context, t *Trial) error {
	seen, err := t.Exchange(ctx, 0, []Frame{{To: 1, Tags: VLAN(0x9900, 5)}})
	if err != nil {
		return err
	}
	if fate := seen[0].Fate(); fate != "" {
		t.Fault("sends-"+kindOf(fate), "the frame %s", fate)
	}
	return nil
}}

// TestOutcomes: what an experiment ends as.
func TestOutcomes(t *testing.T) {
	tagged := func(f []byte) bool { return f[12] == 0x99 }
	for _, tc := range []struct {
		name    string
		run     func(context.Context, *Trial) error // nil: of sends
		needs   Needs
		change  func(frame []byte) []byte
		drops   uint64
		outcome Outcome
		found   string
	}{
		{name: "untouched", outcome: Pass},
		{name: "lost", outcome: Fail, found: "did not arrive", change: func(f []byte) []byte {
			if tagged(f) {
				return nil
			}
			return f
		}},
		{name: "altered", outcome: Fail, found: "at byte 14, 000588b6 became 00040102", change: func(f []byte) []byte {
			if tagged(f) {
				f[15]--
				f[16], f[17] = 1, 2
			}
			return f
		}},
		{name: "the bench loses frames", drops: 7, outcome: NotTested, found: "lost 7 frames"},
		{name: "no control", run: func(context.Context, *Trial) error { return nil }, outcome: NotTested, found: "no negative control"},
		{name: "one control", run: func(_ context.Context, t *Trial) error { return t.Negative("it notices", true, "") }, outcome: NotTested, found: "no positive control"},
		{name: "a control that does not hold", run: func(_ context.Context, t *Trial) error {
			t.Fault("x", "seen meanwhile")
			return t.Positive("it sees", false, "it is %s", "blind")
		}, outcome: NotTested, found: "it sees: it is blind"},
		{name: "an error", run: func(context.Context, *Trial) error { return errors.New("no memory") }, outcome: NotTested, found: "the bench failed: no memory"},
		{name: "a panic", run: func(context.Context, *Trial) error { panic("mistake") }, outcome: NotTested, found: "mistake"},
		{name: "three ports", needs: Needs{Ports: 3}, outcome: NotTested, found: "3 cabled ports"},
		{name: "destructive", needs: Needs{Destructive: true}, outcome: NotTested, found: "--destructive"},
		{name: "no driver", needs: Needs{Driver: true}, outcome: NotTested, found: "it is a cable"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, one := cabled(t)
				e := sends
				e.Needs = tc.needs
				if tc.run != nil {
					e.Run = tc.run
				}
				o := options(t, e)
				o.Progress = func(_, _ int, r *Result) {
					if r.ID == "" {
						return // the start is not over
					}
					b.mu.Lock()
					defer b.mu.Unlock()
					one.change = func(f []byte) []byte {
						if tagged(f) {
							one.drops += tc.drops
						}
						if tc.change != nil {
							return tc.change(f)
						}
						return f
					}
				}
				r, err := Run(t.Context(), b, o)
				if err != nil {
					t.Fatal(err)
				}
				got := r.Result("sends")
				if got.Outcome != tc.outcome || !strings.Contains(got.Found, tc.found) {
					t.Errorf("%s: %s; want %s: … %s …", got.Outcome, got.Found, tc.outcome, tc.found)
				}
				if got.Outcome == NotTested && len(got.Faults) > 0 {
					t.Errorf("not tested, with faults: %v", got.Faults)
				}
			})
		})
	}
}

// TestForeignTraffic: ports that other traffic reaches are left alone, unless that is
// allowed. What neighbours send each other does not count.
func TestForeignTraffic(t *testing.T) {
	frame := func(dst, src MAC, etherType ...byte) []byte {
		return append(append(append(dst[:], src[:]...), etherType...), make([]byte, 50)...)
	}
	host := MAC{0x00, 0x11, 0x22, 0x33, 0x44, 0x55}
	for _, tc := range []struct {
		name    string
		frame   []byte
		foreign bool
	}{
		{"a host's", frame(MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, host, 8, 6), true},
		{"LLDP", frame(MAC{0x01, 0x80, 0xc2, 0, 0, 0x0e}, host, 0x88, 0xcc), false},
		{"STP", frame(MAC{0x01, 0x80, 0xc2, 0, 0, 0}, host, 0, 0x26), false},
		{"CDP", frame(MAC{0x01, 0x00, 0x0c, 0xcc, 0xcc, 0xcc}, host, 0, 0x26), false},
		{"of a card of the bench", frame(MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, MAC{2, 1}, 8, 0), false},
		{"of an earlier run", frame(MAC{2, 0xc5, 0x51, 1, 1, 1}, MAC{2, 0xc5, 0x51, 1, 1, 2}, 0x88, 0xb6), false},
	} {
		for _, allowed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, allowed %v", tc.name, allowed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b, one := cabled(t)
					if err := one.Send(tc.frame); err != nil {
						t.Fatal(err)
					}
					o := options(t, sends)
					o.AllowForeign = allowed
					_, err := Run(t.Context(), b, o)
					if refused := err != nil && strings.Contains(err.Error(), "not isolated"); refused != (tc.foreign && !allowed) {
						t.Errorf("%v", err)
					}
					if _, e := Load(filepath.Join(o.Folder, reportJSON)); (e == nil) != (err == nil) {
						t.Errorf("a report: %v, with the error %v", e, err)
					}
				})
			})
		}
	}
}

// TestResume: a run that is interrupted keeps what it has and undoes the rest; Resume
// continues it, for the same switch alone.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := cabled(t)
		first, second := sends, sends
		first.ID, second.ID = "first", "second"
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("stopped by the test")
		run, ran := second.Run, 0
		second.Run = func(ctx context.Context, t *Trial) error {
			if ran++; ran == 1 {
				cancel(stop)
			}
			return run(ctx, t)
		}
		o := options(t, first, second)
		o.About = About{Device: "sw1", Version: "1"}
		if _, err := Run(ctx, b, o); !errors.Is(err, stop) {
			t.Fatalf("%v, want %v", err, stop)
		}
		before, err := Load(filepath.Join(o.Folder, reportJSON))
		if err != nil || before.Complete || len(before.Results) != 1 || before.Results[0].ID != "first" {
			t.Fatalf("%+v, %v", before, err)
		}
		again, other := o, o
		again.Resume, other.Resume = true, true
		other.About.Version = "2"
		for name, o := range map[string]Options{"no --resume": o, "another version": other} {
			b, _ := cabled(t)
			if _, err := Run(t.Context(), b, o); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		b, _ = cabled(t)
		r, err := Run(t.Context(), b, again)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Complete || len(r.Results) != 2 || r.Count(Pass) != 2 || !r.Results[0].Began.Equal(before.Results[0].Began) {
			t.Errorf("%+v", r)
		}
		again.Folder = filepath.Join(t.TempDir(), "nothing")
		b, _ = cabled(t)
		if _, err := Run(t.Context(), b, again); err == nil {
			t.Error("a run was resumed that never began")
		}
	})
}

// TestStartsAgain: a run that did not come to an experiment is no obstacle to the next.
func TestStartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, one := cabled(t)
		one.change = func([]byte) []byte { return nil }
		o := options(t, sends)
		o.Start = 50 * time.Millisecond
		if _, err := Run(t.Context(), b, o); err == nil || !strings.Contains(err.Error(), "did not arrive") {
			t.Fatalf("without a cable: %v", err)
		}
		b, _ = cabled(t)
		if r, err := Run(t.Context(), b, o); err != nil || r.Count(Pass) != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestCalibration: what the cards do themselves is no fault of the switch.
func TestCalibration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lossy := func(f []byte) []byte {
			if f[12] == 0x99 {
				return nil
			}
			return f
		}
		b, one := cabled(t)
		one.change = lossy
		o := options(t, sends)
		o.IsCable = true
		if _, err := Run(t.Context(), b, o); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(o.Folder, reportJSON)
		b, one = cabled(t)
		one.change = lossy
		o = options(t, sends)
		var err error
		if o.Calibration, err = LoadCalibration(path, b.Ports); err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), b, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Result("sends"); got.Outcome != NotTested || !strings.Contains(got.Found, "cards do the same") {
			t.Errorf("%s: %s", got.Outcome, got.Found)
		}
		b, _ = cabled(t)
		b.Ports[0].Own[5] = 7
		if _, err := LoadCalibration(path, b.Ports); err == nil || !strings.Contains(err.Error(), "other cards") {
			t.Errorf("other cards: %v", err)
		}
		if _, err := LoadCalibration(filepath.Join(o.Folder, reportJSON), b.Ports); err == nil {
			t.Error("a switch's report was taken for a calibration")
		}
	})
}

// TestFacts: what results amount to is a facts file that fleet files include.
func TestFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, one := cabled(t)
		one.change = func(f []byte) []byte {
			if f[12] == 0x99 && f[14]&0x0f == 0x0f && f[15] == 0xff { // VID 4095
				return nil
			}
			return f
		}
		list := Forwarding()[:3]
		o := options(t, list...)
		o.About = About{Device: "sw1", Platform: "linux", Model: "X-1 \x1b[31m\n", Version: "7.4", ASIC: "chip"}
		r, err := Run(t.Context(), b, o)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(o.Folder, factsFile))
		if err != nil {
			t.Fatalf("%v; %s", err, r.NoFacts)
		}
		all, err := inventory.ParseFacts(factsFile, text)
		if err != nil {
			t.Fatal(err)
		}
		f := all["linux-x-1-x1b-31m-7-4"]
		if f == nil || f.Version != "7.4" || f.ASIC != "chip" || f.Passthrough == nil || !*f.Passthrough || f.DroppedVIDs == nil || fmt.Sprint(*f.DroppedVIDs) != "[4095]" || f.Reasons["dropped_vids"] == "" || f.Loses == nil || len(*f.Loses) != 0 {
			t.Errorf("%s", text)
		}
	})
}

// TestMissingFacts: what is to be given for a facts file.
func TestMissingFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			about About
			want  string
		}{
			{About{Device: "sw1", Platform: "linux"}, "no facts file: the model and the version of sw1 are not known: give --model and --version"},
			{About{Device: "sw1", Platform: "linux", Model: "X-1"}, "no facts file: the version of sw1 is not known: give --version"},
			{About{Device: "sw1", Platform: "linux", Model: "X-1", Version: "7"}, ""},
		} {
			b, _ := cabled(t)
			o := options(t, sends)
			o.About = tc.about
			r, err := Run(t.Context(), b, o)
			if err != nil || r.NoFacts != tc.want {
				t.Errorf("%q, %v; want %q", r.NoFacts, err, tc.want)
			}
			if _, err := os.Stat(filepath.Join(o.Folder, factsFile)); (err == nil) != (tc.want == "") {
				t.Errorf("%+v: the facts file: %v", tc.about, err)
			}
		}
	})
}
