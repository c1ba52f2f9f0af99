package qualify

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// TestLateness: what is not seen in the gap between two frames counts as late.
func TestLateness(t *testing.T) {
	setup := vendors.Setup{TPID: 0x9900, Signals: []quantize.Signal{quantize.MinABW}}
	start := time.Now()
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Millisecond) }
	old, now := local{5, 11}, local{20, 12}
	tci := probes(&setup)[0]
	frame := func(left int, intents []vlanrules.Intent) Seen {
		f := Seen{Frame: Frame{To: 1, Tags: VLAN(0x9900, tci)}, Sent: make([]byte, 64), Left: at(left)}
		copy(f.Sent[12:], f.Tags)
		got := append([]byte(nil), f.Sent...)
		binary.BigEndian.PutUint16(got[14:], compared(tci, setup.Layout, intents))
		f.Where = []Arrival{{Port: 1, At: f.Left, Bytes: got}}
		return f
	}
	o, n := old.intents(&setup), now.intents(&setup)
	missing := frame(12, n)
	missing.Where = nil
	c := changed{local: now, began: at(8), acked: at(10)}
	for _, tc := range []struct {
		name        string
		frames      []Seen
		late, bound int
	}{
		{"a gap behind the answer", []Seen{frame(9, o), frame(33, n), frame(34, n)}, 0, 23},
		{"old frames behind it", []Seen{frame(9, o), frame(11, o), frame(14, o), frame(20, n)}, 4, 10},
		{"new before old", []Seen{frame(11, n), frame(12, o), frame(15, n), frame(16, n)}, 2, 5},
		{"a lost frame shows nothing", []Seen{missing, frame(13, n)}, 0, 3},
		{"no frame behind it", []Seen{frame(7, o), frame(10, o)}, 0, 0},
		{"no new one", []Seen{frame(11, o)}, 1, 0},
	} {
		late, bound := lateness(tc.frames, &setup, old, c)
		if late != time.Duration(tc.late)*time.Millisecond || bound != time.Duration(tc.bound)*time.Millisecond {
			t.Errorf("%s: %v, at most %v, want %d and %d ms", tc.name, late, bound, tc.late, tc.bound)
		}
	}
	for _, tc := range []struct {
		name   string
		frames []Seen
		gap    int
		ok     bool
	}{
		{"dense", []Seen{frame(6, o), frame(7, o), frame(9, o), frame(10, n), frame(40, n)}, 2, true},
		{"none for long", []Seen{frame(7, o), frame(33, n)}, 26, true},
		{"none before", []Seen{frame(9, o), frame(10, n)}, 1, false},
		{"none after", []Seen{frame(7, o), frame(9, o)}, 2, false},
		{"none", nil, 0, false},
	} {
		gap, ok := gapDuring(tc.frames, c)
		if ok != tc.ok || ok && gap != time.Duration(tc.gap)*time.Millisecond {
			t.Errorf("%s: %v, %v, want %d ms, %v", tc.name, gap, ok, tc.gap, tc.ok)
		}
	}
}

// TestFallbackStates: single frames that are lost or doubled decide nothing, and one that
// arrives with another tag does.
func TestFallbackStates(t *testing.T) {
	many := func(s state, n int, more ...state) (out []state) {
		for range n {
			out = append(out, s)
		}
		return append(out, more...)
	}
	stray := append(many(writes, 5, losesAll), many(writes, 5)...)
	if n := lastWritten(stray); n != 10 {
		t.Errorf("after a lost frame the last written is %d, want 10", n)
	}
	if n := lastWritten(many(fallsBack, 9)); n != -1 {
		t.Errorf("of none the last written is %d", n)
	}
	for _, tc := range []struct {
		states  []state
		doubled bool // those that are elseWrong
		want    state
		at      int
	}{
		{many(fallsBack, 100, losesAll, elseWrong, losesAll), true, "", 0},
		{many(fallsBack, 100, elseWrong, fallsBack), false, elseWrong, 100},
		{many(fallsBack, 50, many(untouched, 10)...), false, untouched, 50}, // of one signal of six
		{many(fallsBack, 7, append([]state{untouched}, many(fallsBack, 900)...)...), false, untouched, 7},
		{many(losesAll, 9), false, losesAll, 2},
		{nil, false, "", 0},
	} {
		var frames []*Seen
		for _, st := range tc.states {
			f := &Seen{Frame: Frame{To: 1}}
			if st != losesAll {
				f.Where = append(f.Where, Arrival{Port: 1})
			}
			if st == elseWrong && tc.doubled {
				f.Where = append(f.Where, f.Where[0])
			}
			frames = append(frames, f)
		}
		if at, got := odd(frames, tc.states); got != tc.want || at != tc.at {
			t.Errorf("%v: odd is %q at %d, want %q at %d", tc.states, got, at, tc.want, tc.at)
		}
	}
}

// TestAttempts: of a machine that was held up for all of patience something is still asked several times.
func TestAttempts(t *testing.T) {
	a := attempts{until: time.Now().Add(-time.Minute)}
	made := 1
	for !a.over() {
		made++
	}
	if a.until = time.Now().Add(time.Minute); made != fewest || a.over() {
		t.Errorf("over after %d of %d, and within patience: %v", made, fewest, a.over())
	}
}
