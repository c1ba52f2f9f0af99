package demo

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/csig-agent/csig/quantize"
)

var t0 = time.Unix(1_700_000_000, 0)

func at(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }

func newTruth(t testing.TB, capacity uint64) *truth {
	t.Helper()
	tr := &truth{capacity: capacity}
	for i, name := range []string{"log-100M", "linear"} {
		b, err := quantize.Preset(signals[i], name)
		if err != nil {
			t.Fatal(err)
		}
		tr.buckets[i] = b
	}
	return tr
}

func TestWindowFromReadings(t *testing.T) {
	tr := newTruth(t, 100_000_000)
	tr.add(reading{at: at(0), bits: 1000}, reading{at: at(100), bits: 1000 + 3_000_000}) // 30 Mbit/s
	w := tr.windows[0]
	if w.load != 30_000_000 || w.abw != 70_000_000 || w.abwc != 700_000 || !w.end.Equal(at(100)) {
		t.Errorf("window %+v, want 30 Mbit/s of 100 Mbit/s until 100 ms", w)
	}
	tr.add(reading{at: at(100), bits: 0}, reading{at: at(200), bits: 12_000_000}) // more than the capacity
	if w := tr.windows[1]; w.abw != 0 || w.s[0] != 0 || w.s[1] != 0 {
		t.Errorf("an overloaded link has bandwidth left: %+v", w)
	}
}

func TestInterpolation(t *testing.T) {
	got := interpolate(reading{at: at(90), bits: 900}, reading{at: at(110), bits: 1100}, at(100))
	if got.bits != 1000 || !got.at.Equal(at(100)) || got.gap != 20*time.Millisecond {
		t.Errorf("%+v, want 1000 bits at 100 ms, from readings 20 ms apart", got)
	}
}

// TestVagueWindows: a window whose end the judge slept through is no truth, nor
// is the next one, which begins there.
func TestVagueWindows(t *testing.T) {
	tr := newTruth(t, 100_000_000)
	tr.maxGap = 20 * time.Millisecond
	for i, gap := range []int{0, 20, 20, 21, 20, 20, 20} {
		r := reading{at: at(100 * i), bits: uint64(i) * 3_000_000, gap: time.Duration(gap) * time.Millisecond}
		if i > 0 {
			tr.add(reading{at: at(100 * (i - 1)), bits: uint64(i-1) * 3_000_000, gap: time.Duration([]int{0, 20, 20, 21, 20, 20, 20}[i-1]) * time.Millisecond}, r)
		}
	}
	for _, tt := range []struct {
		ms    int
		known bool
	}{{150, false}, {250, true}, {350, false}, {450, false}, {550, false}, {650, true}} {
		v := judge([]*truth{tr}, []time.Time{at(tt.ms)}, 0, 31, tr.windows[0].s[0], 0)
		if v.known != tt.known || v.exact != tt.known {
			t.Errorf("at %d ms: %+v, want known and exact %v", tt.ms, v, tt.known)
		}
	}
}

// hops of given buckets: windows end at 0, 100, 200 … ms.
func buckets(rows ...[]uint8) []*truth {
	out := make([]*truth, 0, len(rows))
	for _, row := range rows {
		tr := new(truth)
		for i, s := range row {
			tr.windows = append(tr.windows, window{end: at(100 * i), s: [len(signals)]uint8{s, s}})
		}
		out = append(out, tr)
	}
	return out
}

func TestJudge(t *testing.T) {
	steady := buckets([]uint8{9, 9, 9}, []uint8{4, 4, 4}, []uint8{4, 4, 4})
	moving := buckets([]uint8{9, 3, 3}, []uint8{7, 7, 5}, []uint8{20, 20, 20})
	idle := buckets([]uint8{31, 31, 31}, []uint8{31, 31, 31})
	for _, tt := range []struct {
		name string
		hops []*truth
		ms   int // of passage
		s    uint8
		hop  int
		want verdict
	}{
		{"exact, the tie belongs to the first hop", steady, 250, 4, 1, verdict{true, 4, 1, true, true}},
		{"the later of two equal hops did not write", steady, 250, 4, 2, verdict{true, 4, 1, true, false}},
		{"one too good", steady, 250, 5, 1, verdict{true, 4, 1, false, true}},
		{"one too bad", steady, 250, 3, 1, verdict{true, 4, 1, false, true}},
		{"one too bad at a hop with the same", steady, 250, 3, 2, verdict{true, 4, 1, false, true}},
		{"two too bad", steady, 250, 2, 1, verdict{true, 4, 1, false, false}},
		{"one too bad, of a hop that had another", steady, 250, 3, 0, verdict{true, 4, 1, false, false}},
		{"the S of one hop with the locator of another", steady, 250, 4, 0, verdict{true, 4, 1, true, false}},
		{"one too bad, of no hop", steady, 250, 3, -1, verdict{true, 4, 1, false, false}},
		{"a stale tag is no saturated link", steady, 250, 0, -2, verdict{true, 4, 1, false, false}},
		{"the newer window", moving, 150, 3, 0, verdict{true, 3, 0, true, true}},
		{"the older window", moving, 150, 7, 1, verdict{true, 7, 1, true, true}},
		{"a window that is not complete yet", moving, 199, 5, 1, verdict{true, 3, 0, false, false}},
		{"neither", moving, 150, 9, 0, verdict{true, 3, 0, false, false}},
		{"no hop wrote", idle, 250, 31, -1, verdict{true, 31, -1, true, true}},
		{"possibly no hop wrote", idle, 250, 31, 0, verdict{true, 31, -1, true, false}},
		{"before two windows", steady, 50, 4, 1, verdict{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			through := make([]time.Time, len(tt.hops))
			for i := range through {
				through[i] = at(tt.ms)
			}
			if got := judge(tt.hops, through, 0, 31, tt.s, tt.hop); got != tt.want {
				t.Errorf("judge: %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestJudgeAcceptsExactlyWhatSwitchesDo sends a tag through switches that each
// use one of their last two windows: the judge must call it exact, and must
// call a tag exact only when some such choice gives it.
func TestJudgeAcceptsExactlyWhatSwitchesDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "hops")
		rows := make([][]uint8, n)
		for i := range rows {
			rows[i] = rapid.SliceOfN(rapid.Uint8Range(0, 31), 3, 3).Draw(t, "row")
		}
		through := make([]time.Time, n)
		for i := range through {
			through[i] = at(250)
		}
		type result struct {
			s   uint8
			hop int
		}
		reachable := map[result]bool{}
		var walk func(i int, r result)
		walk = func(i int, r result) {
			if i == n {
				reachable[r] = true
				return
			}
			for _, b := range rows[i][1:] {
				if b < r.s {
					walk(i+1, result{b, i})
				} else {
					walk(i+1, r)
				}
			}
		}
		walk(0, result{31, -1})
		s := rapid.Uint8Range(0, 31).Draw(t, "s")
		hop := rapid.IntRange(-1, n-1).Draw(t, "hop")
		exact := false
		for r := range reachable {
			exact = exact || r.s == s
		}
		v := judge(buckets(rows...), through, 0, 31, s, hop)
		locator := reachable[result{s, hop}]
		if !exact && hop >= 0 && v.s <= s+1 && s <= v.s+1 {
			for _, b := range rows[hop][1:] {
				locator = locator || b <= s+1 && s <= b+1
			}
		}
		if !v.known || v.exact != exact || v.locator != locator {
			t.Fatalf("the judge returns %+v for S=%d by hop %d; the switches can make %v", v, s, hop, reachable)
		}
	})
}

func TestMidBucketIsFarFromEdges(t *testing.T) {
	for _, capacity := range []uint64{50_000_000, 80_000_000, 100_000_000} {
		tr := newTruth(t, capacity)
		for util := uint64(100_000); util <= 900_000; util += 50_000 {
			load := midBucket(capacity, util, tr.buckets)
			if load > capacity || load < capacity/100 {
				t.Errorf("capacity %d, %d ppm: load %d", capacity, util, load)
			}
			abw := capacity - load
			low, high := tr.buckets[0].Range(tr.buckets[0].Bucket(abw))
			if margin := min(abw-low, high-abw); margin < capacity/1000 {
				t.Errorf("capacity %d, %d ppm: %d bit/s left is only %d bit/s from an edge", capacity, util, abw, margin)
			}
		}
	}
}

func TestPercentile(t *testing.T) {
	ages := make([]time.Duration, 0, 100)
	for i := 100; i >= 1; i-- {
		ages = append(ages, time.Duration(i)*time.Millisecond)
	}
	if p50, p99 := percentile(ages, 0.5), percentile(ages, 0.99); p50 != 50*time.Millisecond || p99 != 99*time.Millisecond {
		t.Errorf("p50 %v p99 %v of 1…100", p50, p99)
	}
	if percentile(nil, 0.5) != 0 {
		t.Error("percentile of nothing")
	}
}

func TestSummaryAddsUp(t *testing.T) {
	for _, tt := range []struct {
		name      string
		probe     Probe
		locatorOK bool
		want      Summary
		wrong     int
	}{
		{"exact", Probe{S: 4, TruthS: 4, Exact: true}, true, Summary{Exact: 1, WithinOne: 1}, 0},
		{"exact, the wrong locator", Probe{S: 4, TruthS: 4, Exact: true}, false, Summary{Exact: 1, WithinOne: 1, WrongLocator: 1}, 0},
		{"one too good", Probe{S: 5, TruthS: 4}, true, Summary{WithinOne: 1}, 1},
		{"one too bad", Probe{S: 3, TruthS: 4}, true, Summary{WithinOne: 1}, 1},
		{"two too good", Probe{S: 6, TruthS: 4}, true, Summary{}, 1},
		{"two too bad", Probe{S: 2, TruthS: 4}, true, Summary{}, 1},
		{"worlds apart", Probe{S: 31, TruthS: 0}, false, Summary{WrongLocator: 1}, 1},
		{"settling", Probe{S: 9, TruthS: 4, Settling: true}, false, Summary{Settling: 1}, 0},
		{"without a truth", Probe{S: 0, TruthS: 0, Unjudged: true}, false, Summary{Unjudged: 1}, 0},
		{"settling, without a truth", Probe{Settling: true, Unjudged: true}, false, Summary{Settling: 1}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s Summary
			s.add(&tt.probe, tt.locatorOK)
			if !reflect.DeepEqual(s, tt.want) {
				t.Errorf("summary %+v, want %+v", s, tt.want)
			}
			if s.Probes = 1; s.Wrong() != tt.wrong {
				t.Errorf("%d wrong, want %d", s.Wrong(), tt.wrong)
			}
			if s.Probes, s.Lost = 3, 2; s.Wrong() != tt.wrong {
				t.Errorf("%d wrong with two more lost, want %d", s.Wrong(), tt.wrong)
			}
		})
	}
}

func TestDrain(t *testing.T) {
	for _, tt := range []struct {
		name           string
		capacity, load uint64
		want           time.Duration
	}{
		{"half full: as long as the burst", 100, 50, 5 * time.Millisecond},
		{"nearly full", 100, 90, 45 * time.Millisecond},
		{"hardly used", 100, 10, 555 * time.Microsecond},
		{"full for ever", 100, 100, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := drain(tt.capacity, tt.load, 5*time.Millisecond); got.Truncate(time.Microsecond) != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}
