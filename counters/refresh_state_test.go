package counters

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// states lists what the estimator of each port says, reading by reading.
func states(b *box, times []float64) (out [][]State, r *Refresh) {
	r = watch(b, times, RefreshConfig{}, func(i int, _ float64, est []Estimate) {
		if i < len(out) {
			return // a reading between two others
		}
		row := make([]State, len(est))
		for i := range est {
			row[i] = est[i].State
		}
		out = append(out, row)
	})
	return out, r
}

func column(rows [][]State, i int) []State {
	var out []State
	for _, r := range rows {
		out = append(out, r[i])
	}
	return out
}

// until sends rate frames/s up to a time, then stops.
func until(rate, end float64) func(float64) uint64 {
	return func(at float64) uint64 { return uint64(rate * min(at, end)) }
}

func TestLiveSourceIsLeftAlone(t *testing.T) {
	bursts := func(at float64) uint64 { // on for 3 s of each ten
		whole := float64(int64(at / 10))
		return uint64(10_000 * (3*whole + min(at-10*whole, 3)))
	}
	b := &box{frames: []func(float64) uint64{steady(50_000), steady(0), until(30_000, 4), bursts}, shown: onRead}
	times := jittered(every(0.1, 1000), 0.01)
	plain := make([]*Estimator, len(b.frames))
	for i := range plain {
		plain[i] = NewEstimator(EstimatorConfig{})
	}
	r := watch(b, times, RefreshConfig{}, func(i int, at float64, est []Estimate) {
		for j, s := range b.read(at, nil) {
			want := plain[j].Update(s)
			if i < 650 {
				continue // it takes a minute to believe that of a port that has never moved
			}
			got := est[j]
			if want.Bits == 0 { // it may have stood still since some time ago
				got.Start, got.End = want.Start, want.End
			}
			if got != want {
				t.Fatalf("reading %d, port %d: %+v, want %+v", i, j, got, want)
			}
		}
	})
	if st := r.Status(); st.Kind != RefreshLive || st.Period < 90*time.Millisecond || st.Period > 110*time.Millisecond {
		t.Errorf("%+v", st)
	}
}

func TestSourceThatKnowsToBeLiveIsLeftAloneFromTheStart(t *testing.T) {
	r := NewRefresh(RefreshConfig{})
	s := at(0, 0, 0)
	s.Live = true
	for range 100 {
		s.At = s.At.Add(time.Second) // nothing moves at all
		got := []Sample{s}
		if r.Observe(got); got[0] != s {
			t.Fatalf("%+v", got[0])
		}
	}
	// Idle for a minute, and no doubt about it.
	want := RefreshStatus{Kind: RefreshLive, Period: time.Second, Refreshes: 100, Last: s.At}
	if st := r.Status(); st != want {
		t.Errorf("%+v, want %+v", st, want)
	}
	// A port that is not live ends that: now there is something to learn.
	s.Live, s.At = false, s.At.Add(time.Second)
	r.Observe([]Sample{s})
	if st := r.Status(); st.Kind != RefreshUnknown {
		t.Errorf("%+v", st)
	}
}

func TestIntervalNote(t *testing.T) {
	const s = time.Second
	tests := []struct {
		name     string
		status   RefreshStatus
		interval time.Duration
		achieved time.Duration
		want     string // in the note; "" for none
	}{
		{"nothing known", RefreshStatus{}, s, 0, ""},
		{"live", RefreshStatus{Kind: RefreshLive, Period: 3 * s}, s, s, ""},
		{"refreshed as often", RefreshStatus{Kind: RefreshTimer, Period: s}, s, s, ""},
		{"refreshed less often", RefreshStatus{Kind: RefreshTimer, Period: 5 * s}, s, 5 * s, "news only every 5s: make the device's interval at least that"},
		{"a multiple", RefreshStatus{Kind: RefreshTimer, Period: 5 * s}, 10 * s, 10 * s, ""},
		{"no multiple", RefreshStatus{Kind: RefreshTimer, Period: 3 * s}, 5 * s, 6 * s, "windows of 6s: make the device's interval a multiple"},
		{"no multiple, and shorter", RefreshStatus{Kind: RefreshTimer, Period: 3 * s}, 4 * s, 3 * s, "windows of 3s: make the device's interval a multiple"},
		{"within what is known of it", RefreshStatus{Kind: RefreshTimer, Period: 1200 * time.Millisecond, PeriodError: 150 * time.Millisecond}, s, 1200 * time.Millisecond, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.status.Achieved(tt.interval); got != tt.achieved {
				t.Errorf("achieved Δt %v, want %v", got, tt.achieved)
			}
			if got := tt.status.IntervalNote(tt.interval); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("%q, want %q in it", got, tt.want)
			}
		})
	}
}

func TestIdlePortOnARefreshingSource(t *testing.T) {
	b := &box{frames: []func(float64) uint64{steady(50_000), steady(0), until(50_000, 62)}, shown: onTimer(5, 0.5)}
	stopped := 0
	_ = watch(b, every(1, 101), RefreshConfig{}, func(i int, at float64, est []Estimate) {
		if i < 20 {
			return
		}
		idle, ended := &est[1], &est[2]
		if idle.State == OK && (idle.Load() != 0 || idle.ABW != gbps) {
			t.Fatalf("at %v: idle port: %+v", at, idle)
		}
		if ended.State == OK && ended.Load() == 0 {
			if stopped++; at < 65 {
				t.Errorf("at %v: said to be idle before the last frames were shown", at)
			}
		}
	})
	if stopped < 6 {
		t.Errorf("the port that stopped was idle at %d refreshes", stopped)
	}
}

// A device whose counters stand still is never said to have free bandwidth.
func TestBusyDeviceThatFreezes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		shown func(float64) float64
		gap   float64
	}{
		{"timer", onTimer(5, 0.5), 1},
		{"on demand", ttl(3), 1},
		{"live", onRead, 1},
		{"live, fast", onRead, 0.01},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const end = 50.0
			stopped := func(at float64) float64 { return tt.shown(min(at, end*tt.gap)) }
			b := &box{frames: []func(float64) uint64{steady(50_000), steady(20_000)}, shown: stopped}
			rows, r := states(b, every(tt.gap, 130))
			for i, row := range rows {
				if i > 60 && row[0].Valid() {
					t.Fatalf("reading %d: %v", i, row[0])
				}
			}
			if last := rows[len(rows)-1]; last[0] != Stale || last[1] != Stale || !r.Status().Stuck {
				t.Errorf("%v, %+v", last, r.Status())
			}
		})
	}
}

func TestDeviceComesBackFromAFreeze(t *testing.T) {
	shown := onTimer(5, 0.5)
	b := &box{frames: []func(float64) uint64{steady(50_000)}, shown: func(at float64) float64 {
		if at > 50 && at < 95.4 {
			return shown(50)
		}
		return shown(at)
	}}
	valid := 0
	watch(b, every(1, 200), RefreshConfig{}, func(_ int, at float64, est []Estimate) {
		e := &est[0]
		if at < 95.4 || e.State != OK {
			return
		}
		valid++
		want := uint64(50_000 * 8 * 1024)
		if lo, hi := e.LoadRange(); lo > want || hi < want {
			t.Errorf("at %v: Δt %v ±%v, load %d in [%d, %d], want %d", at, e.End.Sub(e.Start), e.Error, e.Load(), lo, hi, want)
		}
	})
	if valid < 20 {
		t.Errorf("%d estimates", valid)
	}
}

func TestSilentDeviceIsNeitherIdleNorRefreshing(t *testing.T) {
	b := &box{frames: []func(float64) uint64{steady(0), steady(0)}, shown: onRead}
	rows, _ := states(b, every(1, 100))
	got := column(rows, 0)
	if got[0] != First || slices.ContainsFunc(got[1:61], func(s State) bool { return s != NotRefreshed }) || slices.ContainsFunc(got[62:], func(s State) bool { return s != Stale }) {
		t.Errorf("%v", got)
	}
}

// Nearly silent is not silent: a few frames now and then show that the source
// lives, and in between nothing can have been missed that matters.
func TestNearlySilentDeviceIsIdle(t *testing.T) {
	b := &box{frames: []func(float64) uint64{steady(0.1), steady(0)}, shown: onRead}
	rows, _ := states(b, every(1, 200))
	for i, s := range column(rows, 1) {
		if i > 21 && s != First && s != OK && s != NotRefreshed {
			t.Errorf("reading %d: %v", i, s)
		}
	}
	if n := len(slices.DeleteFunc(column(rows, 1), func(s State) bool { return s != OK })); n < 15 {
		t.Errorf("%d of 200 readings are valid", n)
	}
}

func TestClockSteps(t *testing.T) {
	for _, tt := range []struct {
		name  string
		step  time.Duration
		local bool // the source says what our clock said, too
	}{
		{"device clock set forward an hour", time.Hour, true},
		{"device clock set back an hour", -time.Hour, true},
		{"our clock set back an hour", -time.Hour, false},
		{"device clock set forward by 2 s", 2 * time.Second, true},
	} {
		for _, cache := range []struct {
			name  string
			shown func(float64) float64
		}{{"live", onRead}, {"timer", onTimer(5, 0.4)}} {
			t.Run(tt.name+"/"+cache.name, func(t *testing.T) {
				b := &box{frames: []func(float64) uint64{steady(50_000)}, shown: cache.shown}
				r, e := NewRefresh(RefreshConfig{}), NewEstimator(EstimatorConfig{})
				valid := 0
				for i, sec := range every(1, 200) {
					s := b.read(sec, nil)
					if tt.local {
						s[0].Local = s[0].At
					}
					if i >= 100 {
						s[0].At = s[0].At.Add(tt.step)
					}
					r.Observe(s)
					est := e.Update(s[0])
					if est.State != OK {
						continue
					}
					if i >= 100 {
						valid++
					}
					want := uint64(50_000 * 8 * 1024)
					if lo, hi := est.LoadRange(); lo > want || hi < want {
						t.Fatalf("reading %d: load %d in [%d, %d], want %d (Δt %v ±%v)", i, est.Load(), lo, hi, want, est.End.Sub(est.Start), est.Error)
					}
				}
				if valid < 15 {
					t.Errorf("only %d estimates after the step", valid)
				}
			})
		}
	}
}

// Rows of the agent's table that are copied while it is read show up a reading
// later; line cards on timers of their own show up at any time.
func TestPortsThatRefreshApart(t *testing.T) {
	busy := []func(float64) uint64{steady(50_000), steady(40_000), steady(30_000)}
	for _, tt := range []struct {
		name string
		from float64
		per  []func(float64) float64
	}{
		{"partial update", 0, []func(float64) float64{onTimer(5, 0.95), onTimer(5, 1.05), onTimer(5, 1.05)}},
		{"line cards", 40, []func(float64) float64{onTimer(5, 0.5), onTimer(5, 2.5), onTimer(5, 3.5)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &box{frames: busy, shown: onRead, per: tt.per}
			watch(b, every(1, 200), RefreshConfig{}, func(_ int, at float64, est []Estimate) {
				for i, want := range []uint64{50_000 * 8192, 40_000 * 8192, 30_000 * 8192} {
					if e := &est[i]; e.State == OK && at >= tt.from {
						if lo, hi := e.LoadRange(); lo > want || hi < want {
							t.Fatalf("at %v, port %d: Δt %v ±%v, load %d in [%d, %d], want %d", at, i, e.End.Sub(e.Start), e.Error, e.Load(), lo, hi, want)
						}
					}
				}
			})
		})
	}
}

// One port of a live device behind a cache of its own is found out by what it
// would have had to send.
func TestOnePortBehindACache(t *testing.T) {
	b := &box{
		frames: []func(float64) uint64{steady(50_000), steady(50_000)}, shown: onRead,
		per: []func(float64) float64{nil, onTimer(5, 0.5)},
	}
	zero := 0
	watch(b, every(0.1, 600), RefreshConfig{}, func(_ int, at float64, est []Estimate) {
		if e := &est[1]; e.State == OK && e.Load() == 0 {
			if zero++; at > 11 {
				t.Fatalf("at %v the cached port is said to be idle", at)
			}
		}
	})
	t.Logf("%d wrong readings before it was found out", zero)
}

// A port whose own cache stops to refresh is held, and stale after MaxPeriod; the others
// are read as before.
func TestPortWhoseOwnCacheFreezes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		shown func(float64) float64
		gap   float64
	}{{"of a live device", onRead, 0.1}} {
		t.Run(tt.name, func(t *testing.T) {
			const freeze = 102.0 // its last refresh is at 97.5 s
			own := onTimer(5, 2.5)
			b := &box{
				frames: []func(float64) uint64{steady(50_000), steady(50_000)}, shown: tt.shown,
				per: []func(float64) float64{nil, func(at float64) float64 { return own(min(at, freeze)) }},
			}
			stale := 0.0
			other := 0
			watch(b, every(tt.gap, int(200/tt.gap)), RefreshConfig{}, func(_ int, at float64, est []Estimate) {
				if at < freeze {
					return
				}
				switch e := &est[1]; {
				case e.State == Stale && stale == 0:
					stale = at
				case e.State == OK && at > freeze+3*tt.gap, e.State != Stale && stale > 0:
					t.Fatalf("at %v: %v, load %d", at, e.State, e.Load())
				}
				if est[0].State == OK && est[0].Load() > 400_000_000 {
					other++
				}
			})
			if stale < 97+60 || stale > 98+60+5 || other < 15 {
				t.Errorf("stale from %v s on, a minute after 97.5 s; %d windows of the other port", stale, other)
			}
		})
	}
}

// A port of a cache of its own that hardly sends is idle: nothing that matters can be in
// the cache.
func TestPortOfItsOwnCacheThatHardlySends(t *testing.T) {
	own := onTimer(5, 2.5)
	b := &box{
		frames: []func(float64) uint64{steady(50_000), func(at float64) uint64 { return until(50_000, 60)(at) + until(0.1, 1e9)(at) }},
		shown:  onRead, per: []func(float64) float64{nil, own},
	}
	idle := 0
	watch(b, every(0.1, 2000), RefreshConfig{}, func(_ int, at float64, est []Estimate) {
		switch e := &est[1]; {
		case at < 100:
		case e.State == OK && e.Load() < 1_000_000:
			idle++
		case e.State != NotRefreshed:
			t.Fatalf("at %v: %v, load %d", at, e.State, e.Load())
		}
	})
	if idle < 10 {
		t.Errorf("idle at %d of 1000 readings", idle)
	}
}

func TestNewPortOnACachedSource(t *testing.T) {
	shown := onTimer(5, 0.5)
	b := &box{frames: []func(float64) uint64{steady(50_000), steady(50_000)}, shown: shown}
	r, e := NewRefresh(RefreshConfig{}), NewEstimator(EstimatorConfig{})
	var before []State
	for i, sec := range every(1, 120) {
		s := b.read(sec, nil)
		if i >= 50 && i < 63 {
			s[1].Up = false
		}
		if i >= 90 {
			s[1].Epoch = 2
		}
		r.Observe(s)
		est := e.Update(s[1])
		before = append(before, est.State)
		if est.State == OK {
			want := uint64(50_000 * 8192)
			if lo, hi := est.LoadRange(); lo > want || hi < want {
				t.Fatalf("reading %d: %d in [%d, %d], want %d", i, est.Load(), lo, hi, want)
			}
		}
	}
	if before[55] != Down || before[63] != First || before[90] != Discontinuity || !slices.Contains(before[91:97], OK) {
		t.Errorf("%v", before)
	}
}

func TestRefreshAllocatesNothing(t *testing.T) {
	for _, tt := range []struct {
		name  string
		shown func(float64) float64
	}{{"live", onRead}, {"timer", onTimer(0.5, 0.03)}, {"on demand", ttl(0.25)}} {
		b := &box{frames: []func(float64) uint64{steady(50_000), steady(0)}, shown: tt.shown}
		r, sec, buf := NewRefresh(RefreshConfig{}), 0.0, b.read(0, nil)
		step := func() {
			sec += 0.1
			buf = b.read(sec, buf)
			r.Observe(buf)
		}
		base := testing.AllocsPerRun(1000, func() { sec += 0.1; buf = b.read(sec, buf) })
		for range 2000 {
			step()
		}
		if n := testing.AllocsPerRun(2000, step) - base; n != 0 {
			t.Errorf("%s: %v allocations a reading", tt.name, n)
		}
	}
}

func BenchmarkRefresh512(b *testing.B) {
	for _, tt := range []struct {
		name string
		each int // readings to a refresh
		live bool
	}{{"known-live", 1, true}, {"live", 1, false}, {"cached-5", 5, false}} {
		b.Run(tt.name, func(b *testing.B) {
			samples := make([]Sample, 512)
			for i := range samples {
				samples[i] = at(0, 0, 0)
				samples[i].Live = tt.live
			}
			r := NewRefresh(RefreshConfig{})
			now, octets := epoch0, uint64(0)
			n := 0
			cycle := func(gap time.Duration) {
				now = now.Add(gap)
				if n++; n%tt.each == 0 {
					octets += uint64(gap / 1000) // 1000 frames in a second
				}
				for i := range samples {
					s := &samples[i]
					s.At, s.Octets, s.Packets, s.Fresh = now, octets, octets/1000, Current
				}
				r.Observe(samples)
			}
			for range 500 {
				cycle(time.Second)
			}
			if tt.each == 1 { // that it is current shows in readings shortly after one another
				for range 2 * proven {
					cycle(quickWithin)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				cycle(time.Second)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/512, "ns/port")
		})
	}
}
