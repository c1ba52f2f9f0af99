package plane

import "testing"

// TestFrameLength: frames are dropped from one byte too many on, whatever tags they have.
func TestFrameLength(t *testing.T) { either(t, testFrameLength) }

func testFrameLength(t *testing.T, p Hardware) {
	if _, err := p.Program([]Port{{Outer: outer, Inner: inner}, {Outer: outer, Inner: inner, Longest: 1600}}); err != nil {
		t.Fatal(err)
	}
	for _, stack := range [][]Tag{nil, tagged(5), tagged(5, 6), {{inner, 7}}, {{0x88a8, 5}}} {
		for length, want := range map[int]bool{100: true, 1600: true, 1601: false, 1604: false} {
			if got := p.Passes(t, 2, stack, length); got != want {
				t.Errorf("%04x, %d bytes: passes %v", stack, length, got)
			}
		}
	}
}
