package plane

import (
	"fmt"
	"testing"
	"time"

	"github.com/csig-agent/csig/integration/fabric"
)

func TestMain(m *testing.M) { fabric.Tests(m, nil) }

const outer, inner = 0x8100, 0x9900

func tagged(vids ...uint16) (stack []Tag) {
	for i, vid := range vids {
		stack = append(stack, Tag{[]uint16{outer, inner}[i], vid})
	}
	return stack
}

func TestPlane(t *testing.T) {
	p := New(t, 3)
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
