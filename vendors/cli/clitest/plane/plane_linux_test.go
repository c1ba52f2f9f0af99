package plane

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/csig-agent/csig/fabric"
)

func TestMain(m *testing.M) { fabric.Tests(m, nil) }

const outer, inner = 0x8100, 0x9900

func tagged(vids ...uint16) (stack []Tag) {
	for i, vid := range vids {
		stack = append(stack, Tag{[]uint16{outer, inner}[i], vid})
	}
	return stack
}

// either runs a test with a data plane of three ports in the kernel, and with one in memory.
func either(t *testing.T, test func(t *testing.T, h Hardware)) {
	t.Run("kernel", func(t *testing.T) { test(t, New(t, 3)) })
	t.Run("memory", func(t *testing.T) { test(t, &Memory{}) })
}

func TestPlane(t *testing.T) { either(t, testPlane) }

func testPlane(t *testing.T, p Hardware) {
	one := Any()
	one.Inner, one.InnerPCP, one.SetInner = []Range{{100, 200}, {300, 300}}, 1, 7
	two := Any()
	two.Inner, two.SetInner = []Range{{100, 400}}, 8
	three := Any()
	three.Outer, three.SetOuter = []Range{{5, 5}}, 6
	ports := []Port{{Outer: outer, Inner: inner}, {Outer: outer, Inner: inner, Rules: []Rule{one, two, three}}, {Outer: outer, Inner: inner}}
	program := func(want string) {
		t.Helper()
		if in, err := p.Program(ports); err != nil || fmt.Sprint(in) != want {
			t.Fatalf("%v, %v", in, err)
		}
	}
	frames := [][]Tag{
		nil, tagged(5), tagged(4095), tagged(1, 0x3000|150), tagged(1, 150), tagged(1, 0x2000|300), tagged(5, 50), tagged(1, 4095), tagged(1, 0x3fff), {{inner, 150}}, {{0x88a8, 5}},
	}
	look := func(name, want string, vanish func([]Tag) bool) {
		t.Helper()
		if got := fmt.Sprintf("%04x", p.Exchange(t, 2, frames, vanish)); got != want {
			t.Errorf("%s: %s\nwant %s", name, got, want)
		}
		if got := fmt.Sprintf("%04x", p.Exchange(t, 3, frames[3:4], nil)); got != "[[{8100 0001} {9900 3096}]]" {
			t.Errorf("%s: a port without rules: %s", name, got)
		}
	}
	program("[0 3 0]")
	look("healthy", "[[] [{8100 0006}] [{8100 0fff}] [{8100 0001} {9900 3007}] [{8100 0001} {9900 0008}] [{8100 0001} {9900 2007}] [{8100 0006} {9900 0032}] [{8100 0001} {9900 0fff}] [{8100 0001} {9900 3fff}] [{9900 0096}] [{88a8 0005}]]", nil)
	p.Set(Faults{Entries: 7, Drop4095: true, LoseDEI: true})
	program("[0 1 0]")
	look("faults", "[[] [{8100 0005}] [] [{8100 0001} {9900 2007}] [{8100 0001} {9900 0096}] [{8100 0001} {9900 2007}] [{8100 0005} {9900 0032}] [] [] [{9900 0096}] [{88a8 0005}]]",
		func(s []Tag) bool { return len(s) > 0 && s[len(s)-1].TCI&0xfff == 0xfff })
	// A change that is not hitless is seen.
	seen := ""
	p.Set(Faults{Gap: time.Millisecond, In: func() {
		seen = fmt.Sprintf("%04x", p.Exchange(t, 2, frames[1:2], nil))
	}})
	program("[0 3 0]")
	if seen != "[[{8100 0005}]]" {
		t.Errorf("in the gap %s", seen)
	}
}

// TestMemory: what is computed of a frame is what the kernel does with it, for all 65,536 values
// of a tag, alone and behind another, with rules and faults of every kind.
func TestMemory(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	vids := func() (list []Range) {
		for range rng.IntN(3) {
			a, b := uint16(rng.IntN(4096)), uint16(rng.IntN(4096))
			list = append(list, Range{min(a, b), max(a, b)})
		}
		return list
	}
	maybe := func(n int) int { return max(-1, rng.IntN(2*n)-n) }
	port := func() Port {
		p := Port{Outer: outer, Inner: inner, Trunk: rng.IntN(4) == 0}
		for range 8 {
			r := Rule{Outer: vids(), Inner: vids(), OuterPCP: maybe(8), InnerPCP: maybe(8), SetOuter: maybe(4096), SetInner: maybe(4096), Drop: rng.IntN(8) == 0}
			if rng.IntN(4) == 0 {
				r.TPID, r.SetTPID = 0x9100, 0x88a8
			}
			if rng.IntN(2) == 0 { // as most have it: of one tag
				r.Inner, r.InnerPCP, r.SetInner = nil, -1, -1
			}
			p.Rules = append(p.Rules, r)
		}
		return p
	}
	kernel, memory := New(t, 2), &Memory{}
	var stacks [][]Tag
	for tci := range 1 << 16 {
		stack := []Tag{{outer, uint16(tci)}}
		switch rng.IntN(4) {
		case 0:
			stack = []Tag{{outer, uint16(rng.IntN(1 << 16))}, {inner, uint16(tci)}}
		case 1:
			stack = append(stack, Tag{inner, uint16(rng.IntN(1 << 16))})
		case 2:
			stack[0].TPID = []uint16{0x9100, 0x88a8, inner}[rng.IntN(3)]
		}
		stacks = append(stacks, stack)
	}
	faults := []Faults{{}, {Drop4095: true}, {LoseDEI: true}, {BridgeByVID: true}, {MatchBridging: true}, {Entries: 200}}
	for i, f := range faults { // a part of the tags with each
		ports := []Port{port(), port()}
		var in [2][]int
		var err [2]error
		for j, h := range []Hardware{kernel, memory} {
			h.Set(f)
			in[j], err[j] = h.Program(ports)
		}
		if err[0] != nil || err[1] != nil || fmt.Sprint(in[0]) != fmt.Sprint(in[1]) {
			t.Fatalf("%+v: %v, %v", f, in, err)
		}
		from, to := i*len(stacks)/len(faults), (i+1)*len(stacks)/len(faults)
		want := memory.Exchange(t, 2, stacks[from:to], func([]Tag) bool { return true })
		got := kernel.Exchange(t, 2, stacks[from:to], func(s []Tag) bool {
			p, f := memory.now(2)
			return p.leaves(&f, s, 0) == nil
		})
		for k := range got {
			if !slices.Equal(got[k], want[k]) || (got[k] == nil) != (want[k] == nil) {
				t.Fatalf("%+v, %+v: %04x leaves as %04x, and in memory as %04x", f, ports[1], stacks[from+k], got[k], want[k])
			}
		}
	}
}
