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

func newLink(t testing.TB, capacity uint64) link {
	t.Helper()
	l := link{capacity: capacity}
	for i, name := range []string{"log-100M", "linear"} {
		b, err := quantize.Preset(signals[i], name)
		if err != nil {
			t.Fatal(err)
		}
		l.buckets[i] = b
	}
	return l
}

func TestValues(t *testing.T) {
	l := newLink(t, 100_000_000)
	if v := l.values(3_000_000, 100*time.Millisecond); v.load != 30_000_000 || v.abw != 70_000_000 || v.abwc != 700_000 {
		t.Errorf("%+v, want 30 Mbit/s of 100 Mbit/s", v)
	}
	if v := l.values(1, 3*time.Second); v.load != 1 {
		t.Errorf("%+v, want a load that is rounded up, as csig's", v)
	}
	if v := l.values(12_000_000, 100*time.Millisecond); v.abw != 0 || v.s[0] != 0 || v.s[1] != 0 {
		t.Errorf("an overloaded link has bandwidth left: %+v", v)
	}
}

// row are the buckets of windows that end at 0, 100, 200 … ms.
type row []uint8

func (r row) possible(at span) (out choices) {
	last := int(time.Duration(at.to-t0.UnixNano()) / (100 * time.Millisecond))
	for i := last; i >= last-1; i-- {
		if i < 0 {
			return nil
		}
		out.add([len(signals)]uint8{r[i], r[i]})
	}
	return out
}

func passingAt(ms, hops int) []span {
	out := make([]span, hops)
	for i := range out {
		out[i] = span{at(ms).UnixNano(), at(ms).UnixNano()}
	}
	return out
}

// buckets are hops of given buckets.
func buckets(rows ...[]uint8) []past {
	out := make([]past, 0, len(rows))
	for _, r := range rows {
		out = append(out, row(r))
	}
	return out
}

func TestJudge(t *testing.T) {
	steady := buckets([]uint8{9, 9, 9}, []uint8{4, 4, 4}, []uint8{4, 4, 4})
	moving := buckets([]uint8{9, 3, 3}, []uint8{7, 7, 5}, []uint8{20, 20, 20})
	idle := buckets([]uint8{31, 31, 31}, []uint8{31, 31, 31})
	for _, tt := range []struct {
		name string
		hops []past
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
			if got := judge(tt.hops, passingAt(tt.ms, len(tt.hops)), 0, 31, tt.s, tt.hop); got != tt.want {
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
		v := judge(buckets(rows...), passingAt(250, n), 0, 31, s, hop)
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
		tr := newLink(t, capacity)
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
