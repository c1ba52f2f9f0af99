package draw

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
)

func example(t *testing.T) *inventory.Fleet {
	t.Helper()
	f, err := inventory.Load("../../examples/fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// large has 200 devices in three tiers with 8 hosts a leaf.
func large(t *testing.T) *inventory.Fleet {
	t.Helper()
	var b strings.Builder
	b.WriteString("format: csig.fleet/v1\nprofile: {name: a, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log}}}\ndefaults: {platform: sonic}\ndevices:\n")
	b.WriteString("  - name: \"leaf-[1-150]\"\n  - {name: \"spine-[1-32]\", level: software}\n  - {name: \"core-[1-18]\", level: native}\nlinks: |\n")
	for i := 1; i <= 150; i++ {
		fmt.Fprintf(&b, "  leaf-%d:swp[1-8] - h-%d-[1-8]\n", i, i)
		for s := range 4 {
			fmt.Fprintf(&b, "  leaf-%d:up%d - spine-%d:swp%d\n", i, s, (i-1)/19*4+s+1, (i-1)%19)
		}
	}
	for s := 1; s <= 32; s++ {
		fmt.Fprintf(&b, "  spine-%d:up[1-18] - core-[1-18]:swp%d\n", s, s)
	}
	f, err := inventory.Parse("large.yaml", []byte(strings.Replace(b.String(), "buckets: log}", "buckets: log-400G}", 1)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestSVG wants well-formed XML with every device once, and all in the picture.
func TestSVG(t *testing.T) {
	for name, f := range map[string]*inventory.Fleet{"example": example(t), "large": large(t)} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := SVG(&out, f); err != nil {
				t.Fatal(err)
			}
			dec := xml.NewDecoder(bytes.NewReader(out.Bytes()))
			var texts []string
			var width, height float64
			for {
				token, err := dec.Token()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				switch token := token.(type) {
				case xml.CharData:
					texts = append(texts, string(token))
				case xml.StartElement:
					for _, a := range token.Attr {
						var v float64
						switch a.Name.Local {
						case "viewBox":
							_, _ = fmt.Sscanf(a.Value, "0 0 %f %f", &width, &height)
						case "x", "cx", "x1", "x2":
							if _, err := fmt.Sscan(a.Value, &v); err == nil && (v < 0 || v > width) {
								t.Errorf("%s at x %s is outside of %.0f", token.Name.Local, a.Value, width)
							}
						case "y", "cy", "y1", "y2":
							if _, err := fmt.Sscan(a.Value, &v); err == nil && (v < 0 || v > height) {
								t.Errorf("%s at y %s is outside of %.0f", token.Name.Local, a.Value, height)
							}
						}
					}
				}
			}
			for _, d := range f.Devices {
				if n := len(slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s != d.Name })); n != 1 {
					t.Errorf("%s is there %d times", d.Name, n)
				}
			}
		})
	}
}

// TestTiers wants boxes of one tier side by side without covering each other,
// and each tier above the one below.
func TestTiers(t *testing.T) {
	p := newPicture(large(t))
	_, _, box := p.place()
	for i := range p.nodes {
		for j := range i {
			a, b := &p.nodes[i], &p.nodes[j]
			dx, dy := a.x-b.x, a.y-b.y
			if dx < 0 {
				dx = -dx
			}
			if dy < 0 {
				dy = -dy
			}
			if a.tier == b.tier && dy < boxHeight && dx < box[a.tier] {
				t.Fatalf("%s and %s cover each other", a.name, b.name)
			}
			if a.tier > b.tier && a.y >= b.y {
				t.Fatalf("%s is not above %s", a.name, b.name)
			}
		}
	}
}

// TestDOT wants every device and link, and the actions that are not update.
func TestDOT(t *testing.T) {
	var out bytes.Buffer
	if err := DOT(&out, example(t)); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{`label="leaf-4\ndiscard"`, `headlabel="strip"`, `taillabel="passthrough"`, `label="gpu-1"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if n := strings.Count(text, " -- "); n != 24 {
		t.Errorf("%d links, want 24", n)
	}
}

// TestOddFleets draws what has no hosts, no links or nothing at all.
func TestOddFleets(t *testing.T) {
	for _, rest := range []string{"", "devices: [{name: a, ports: [{name: b}]}]\n", "devices: [{name: a}, {name: b}]\nlinks: ['a:1 - b:1', 'a:2 - b:2']\n"} {
		f, err := inventory.Parse("<odd>.yaml", []byte("format: csig.fleet/v1\nprofile: {name: a, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-1G}}}\ndefaults: {platform: sonic}\n"+rest))
		if err != nil {
			t.Fatal(err)
		}
		var svg, dot bytes.Buffer
		if err := errors.Join(SVG(&svg, f), DOT(&dot, f)); err != nil {
			t.Error(err)
		}
		if strings.Contains(svg.String(), "<odd>") || strings.Contains(svg.String(), "NaN") {
			t.Errorf("got %s", svg.String())
		}
	}
}
