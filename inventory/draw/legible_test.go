package draw

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
)

// forty has 40 switches and 416 ports, with two links between some.
func forty(t *testing.T) *inventory.Fleet {
	t.Helper()
	var b strings.Builder
	b.WriteString("format: csig.fleet/v1\nprofile: {name: a, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-400G}}}\ndefaults: {platform: sonic}\ndevices:\n")
	b.WriteString("  - name: \"dc1-pod-leaf-[1-32]\"\n  - {name: \"dc1-pod-spine-[1-8]\", level: software}\nlinks: |\n")
	for i := 1; i <= 32; i++ {
		fmt.Fprintf(&b, "  dc1-pod-leaf-%d:swp[1-2] - h-%d-[1-2]\n", i, i)
		for s := range 5 {
			fmt.Fprintf(&b, "  dc1-pod-leaf-%d:up%d - dc1-pod-spine-%d:swp%d\n", i, s, (i-1)%2*4+s%4+1, i+s/4*40)
		}
	}
	f, err := inventory.Parse("forty.yaml", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestLabelsFit wants every name whole in its box, the boxes apart, and the ends of the links
// of a box apart.
func TestLabelsFit(t *testing.T) {
	for name, f := range map[string]*inventory.Fleet{"forty": forty(t), "large": large(t), "example": example(t)} {
		p := newPicture(f)
		width, _, box := p.place()
		for i := range p.nodes {
			a := &p.nodes[i]
			if need := letter * float64(len([]rune(a.label))); need > box[a.tier] {
				t.Errorf("%s: %s is %.0f wide in a box of %.0f", name, a.label, need, box[a.tier])
			}
			if a.x-box[a.tier]/2 < 0 || a.x+box[a.tier]/2 > width {
				t.Errorf("%s: %s is cut at the side", name, a.label)
			}
			for j := range i {
				if b := &p.nodes[j]; math.Abs(a.y-b.y) < boxHeight && math.Abs(a.x-b.x) < (box[a.tier]+box[b.tier])/2 {
					t.Errorf("%s: %s and %s cover each other", name, a.label, b.label)
				}
			}
		}
		at := map[[2]int]int{}
		for i, line := range p.fan(box) {
			for _, end := range [][2]float64{{line[0], line[1]}, {line[2], line[3]}} {
				key := [2]int{int(math.Round(end[0] * 100)), int(end[1])}
				if other, there := at[key]; there {
					t.Errorf("%s: links %d and %d end at one place", name, i, other)
				}
				at[key] = i
			}
		}
	}
}

// TestShapes wants actions and levels told apart without their colours, and parallel links counted.
func TestShapes(t *testing.T) {
	shapes := map[string]bool{}
	for action, color := range actionColours {
		var b bytes.Buffer
		dot(&b, 10, 10, 3, action)
		shapes[strings.ReplaceAll(b.String(), color, "")] = true
	}
	borders := map[string]bool{}
	for level := range levelColours {
		borders[levelBorders[level]] = true
	}
	if len(shapes) != len(actionColours) || len(borders) != len(levelColours) {
		t.Errorf("%d shapes of %d actions, %d borders of %d levels", len(shapes), len(actionColours), len(borders), len(levelColours))
	}
	var out bytes.Buffer
	if err := SVG(&out, forty(t)); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), ">×2</text>"); n != 32 {
		t.Errorf("%d counts of parallel links, want 32", n)
	}
}
