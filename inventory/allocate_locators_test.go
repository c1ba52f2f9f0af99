package inventory

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

const fabricHead = `format: csig.fleet/v1
profile: {name: a, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-10G}, abwc: {buckets: log}}}
defaults: {platform: sonic}
`

// closText is a fabric of leaves and spines, each leaf with hosts.
func closText(leaves, spines, hosts int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%sdevices:\n", fabricHead)
	for i := range leaves {
		fmt.Fprintf(&b, "  - name: leaf-%d\n", i)
	}
	for i := range spines {
		fmt.Fprintf(&b, "  - name: spine-%d\n", i)
	}
	b.WriteString("links: |\n")
	for i := range leaves {
		for j := range spines {
			fmt.Fprintf(&b, "  leaf-%d:up%d - spine-%d:down%d\n", i, j, j, i)
		}
		for j := range hosts {
			fmt.Fprintf(&b, "  leaf-%d:host%d - h-%d-%d\n", i, j, i, j)
		}
	}
	return b.String()
}

// step is a port on a path.
type step struct {
	ref PortRef
	lm  uint16
}

// shortest lists every shortest path between two hosts, by plain search over
// the ports: the model that the allocation and Candidates are compared with.
func shortest(f *Fleet, from, to string) [][]step {
	var frontier [][]step // paths, each with where it has got to at its end
	extend := func(path []step, device string) [][]step {
		d, ok := f.Device(device)
		if !ok {
			return nil
		}
		var out [][]step
		for _, p := range d.Ports {
			if slices.ContainsFunc(path, func(s step) bool { return s.ref.Device == p.Peer.Device }) {
				continue
			}
			out = append(out, append(slices.Clone(path), step{PortRef{d.Name, p.Name}, p.LM[quantize.MinABW]}))
		}
		return out
	}
	arrives := func(path []step) string {
		last := path[len(path)-1].ref
		d, _ := f.Device(last.Device)
		p, _ := d.Port(last.Port)
		return p.Peer.Device
	}
	for i := range f.Devices {
		if slices.ContainsFunc(f.Devices[i].Ports, func(p Port) bool { return p.Peer.Device == from }) {
			frontier = append(frontier, extend(nil, f.Devices[i].Name)...)
		}
	}
	for range 12 {
		var done, next [][]step
		for _, path := range frontier {
			if arrives(path) == to {
				done = append(done, path)
			} else {
				next = append(next, extend(path, arrives(path))...)
			}
		}
		if len(done) > 0 {
			return done
		}
		frontier = next
	}
	return nil
}

// TestAllocationOnPaths wants every port of a path to have a locator of its own,
// where a fabric of that shape has enough.
func TestAllocationOnPaths(t *testing.T) {
	shapes := []struct{ leaves, spines, hosts int }{{2, 2, 2}, {4, 2, 8}, {16, 8, 16}, {3, 60, 40}}
	if shorter == 1 {
		shapes = append(shapes, []struct{ leaves, spines, hosts int }{{48, 8, 32}, {32, 32, 32}}...)
	}
	for _, shape := range shapes {
		f := parse(t, closText(shape.leaves, shape.spines, shape.hosts))
		for _, d := range f.Devices {
			seen := make(map[uint16]string)
			for _, p := range d.Ports {
				lm := p.LM[quantize.MinABW]
				if f.Profile.Layout.LMReserved(lm) != "" || p.LM[quantize.MinABWC] != lm {
					t.Fatalf("%v: %s:%s writes %v", shape, d.Name, p.Name, p.LM)
				}
				if seen[lm] != "" {
					t.Errorf("%v: %s:%s and %s both write %d", shape, d.Name, seen[lm], p.Name, lm)
				}
				seen[lm] = p.Name
			}
		}
		between := 0 // two ports between the same two hosts
		for _, pair := range [][2]string{{"h-0-0", "h-1-0"}, {fmt.Sprintf("h-%d-1", shape.leaves-1), "h-0-1"}} {
			all := make(map[uint16]PortRef)
			for _, path := range shortest(f, pair[0], pair[1]) {
				seen := make(map[uint16]PortRef)
				for _, s := range path {
					if other, twice := seen[s.lm]; twice {
						t.Errorf("%v: %v and %v of one path both write %d", shape, other, s.ref, s.lm)
					}
					seen[s.lm] = s.ref
					if other, twice := all[s.lm]; twice && other != s.ref {
						between++
					}
					all[s.lm] = s.ref
				}
			}
		}
		if shape.leaves+shape.spines+shape.hosts <= 64 && between > 0 {
			t.Errorf("%v: %d times two ports between the same hosts write the same", shape, between)
		}
		t.Logf("%v: %+v", shape, f.Ambiguity(quantize.MinABW))
	}
}

// TestSmallFleetsAreUnambiguous gives every port a name of its own while there
// are enough, whatever the shape: here a ring.
func TestSmallFleetsAreUnambiguous(t *testing.T) {
	for _, n := range []int{3, 10, 62} {
		text := fabricHead + "devices:\n"
		for i := range n {
			text += fmt.Sprintf("  - name: s%d\n", i)
		}
		text += "links:\n"
		for i := range n {
			text += fmt.Sprintf("  - s%d:east - s%d:west\n", i, (i+1)%n)
		}
		f := parse(t, text)
		if a := f.Ambiguity(quantize.MinABW); a.Alone != 2*n || a.Ports != 2*n || a.Consecutive != 0 {
			t.Errorf("%d in a ring: %+v", n, a)
		}
	}
}

// TestNeighboursDiffer has a full mesh, where no tiers help and there are more
// ports than names: those right behind each other still differ.
func TestNeighboursDiffer(t *testing.T) {
	const n = 20
	text := fabricHead + "devices:\n"
	for i := range n {
		text += fmt.Sprintf("  - name: s%d\n", i)
	}
	text += "links:\n"
	for i := range n {
		for j := range i {
			text += fmt.Sprintf("  - s%d:p%d - s%d:p%d\n", i, j, j, i)
		}
	}
	f := parse(t, text)
	if a := f.Ambiguity(quantize.MinABW); a.Ports != n*(n-1) || a.Consecutive != 0 {
		t.Errorf("got %+v", a)
	}
}

// TestAllocationRespectsWhatIsGiven draws fleets where some ports have a locator,
// or some fields of one: these stay, and the others keep out of their way.
func TestAllocationRespectsWhatIsGiven(t *testing.T) {
	draw(t, func(t *rapid.T) {
		layout := rapid.SampledFrom([]string{"draft-00", "uec"}).Draw(t, "layout")
		n := rapid.IntRange(1, 6).Draw(t, "devices")
		text := strings.Replace(fabricHead, "interval", "layout: "+layout+", locator: [{name: stage, bits: 2, values: {a: 0, b: 1, c: 2}}, {name: rest, bits: 4}], interval", 1) + "devices:\n"
		given := make(map[PortRef]string)
		for i := range n {
			stage := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "stage")
			text += fmt.Sprintf("  - name: s%d\n    port: {lm: {stage: %s}}\n    ports:\n", i, stage)
			ports := rapid.IntRange(1, 14).Draw(t, "ports")
			first := rapid.IntRange(1, 15-ports).Draw(t, "first")
			for j := range ports {
				ref := PortRef{fmt.Sprintf("s%d", i), fmt.Sprintf("p%d", j)}
				given[ref] = "stage=" + stage
				lm := ""
				if rapid.Bool().Draw(t, "given") {
					lm = fmt.Sprintf(", lm: {rest: %d}", first+j)
					given[ref] += fmt.Sprintf(",rest=%d", first+j)
				}
				text += fmt.Sprintf("      - {name: p%d%s}\n", j, lm)
			}
		}
		f, err := Parse("fleet.yaml", []byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		for i := range f.Devices {
			d := &f.Devices[i]
			seen := make(map[uint16]string)
			for j := range d.Ports {
				p := &d.Ports[j]
				lm := p.LM[quantize.MinABW]
				got := f.Profile.Signals[quantize.MinABW].Locator.Text(f.Profile.Layout.LMBits(), lm)
				if want := given[PortRef{d.Name, p.Name}]; got != want && !strings.HasPrefix(got, want+",") {
					t.Fatalf("%s:%s writes %q, given is %q", d.Name, p.Name, got, want)
				}
				if f.Profile.Layout.LMReserved(lm) != "" || seen[lm] != "" {
					t.Fatalf("%s:%s writes %d as %s does", d.Name, p.Name, lm, seen[lm])
				}
				seen[lm] = p.Name
			}
		}
	})
}

// TestSharedLocators reads devices whose ports share a locator: right where none is free
// for the values given, and then the fleet can be written and read again.
func TestSharedLocators(t *testing.T) {
	head := strings.Replace(fabricHead, "interval", "locator: [{name: stage, bits: 2, values: {a: 0, b: 1}}, {name: rest, bits: 2}], interval", 1)
	for _, c := range []struct{ ports, want string }{
		{"port: {lm: {stage: b, rest: 2}}, ports: [{name: 'p[1-9]'}]", "port p2: lm: 6 (stage=b,rest=2) is port p1's already"},
		{"port: {lm: {stage: b}}, ports: [{name: 'p[1-4]'}]", ""},
		{"port: {lm: {stage: b}}, ports: [{name: 'p[1-9]'}]", ""},
		{"port: {lm: {stage: b, rest: 1}}, ports: [{name: 'p[1-2]'}]", "port p2: lm: 5 (stage=b,rest=1) is port p1's already"},
		{"port: {lm: {stage: b}}, ports: [{name: p1, lm: {rest: 1}}, {name: p2, lm: {rest: 1}}, {name: 'p[3-9]'}]", "port p2: lm: 5 (stage=b,rest=1) is port p1's already"},
	} {
		f, err := Parse("fleet.yaml", []byte(head+"devices:\n  - {name: s1, "+c.ports+"}\n"))
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %s", c.ports, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.ports, err)
		} else if _, err := Marshal(f); err != nil {
			t.Errorf("%s: written: %v", c.ports, err)
		}
	}
}

// TestAllocationIsStable counts the ports that get another name when a fabric
// grows. The same files give the same names, in whatever order they are.
func TestAllocationIsStable(t *testing.T) {
	locators := func(f *Fleet) map[PortRef]uint16 {
		out := make(map[PortRef]uint16)
		for _, d := range f.Devices {
			for _, p := range d.Ports {
				out[PortRef{d.Name, p.Name}] = p.LM[quantize.MinABW]
			}
		}
		return out
	}
	// What docs/fleet.md says of new leaves.
	for _, row := range []struct{ leaves, spines, hosts, percent int }{{40, 8, 24, 2}, {20, 8, 32, 17}, {60, 8, 32, 17}, {80, 16, 32, 17}} {
		before := locators(parse(t, closText(row.leaves, row.spines, row.hosts)))
		after := locators(parse(t, closText(row.leaves+1, row.spines, row.hosts)))
		renamed := 0
		for ref, lm := range before {
			if after[ref] != lm {
				renamed++
			}
		}
		if renamed*100 > len(before)*row.percent {
			t.Errorf("%+v: a new leaf renames %d of %d ports", row, renamed, len(before))
		}
	}
	text := closText(40, 8, 24)
	before := locators(parse(t, text))
	head, links, _ := strings.Cut(text, "links: |\n")
	lines := strings.SplitAfter(strings.TrimSuffix(links, "\n"), "\n")
	lines[len(lines)-1] += "\n"
	slices.Reverse(lines)
	for ref, lm := range locators(parse(t, head+"links: |\n"+strings.Join(lines, ""))) {
		if before[ref] != lm {
			t.Errorf("%v is %d, in another order of the file %d", ref, before[ref], lm)
		}
	}
}

// TestCandidates compares with every shortest path of the model.
func TestCandidates(t *testing.T) {
	// With a link between two leaves, and a host at two of them.
	text := strings.Replace(closText(4, 3, 3), "devices:\n", "devices:\n  - {name: island, ports: [{name: beach, peer: sea}, {name: cliff}]}\n", 1)
	f := parse(t, text+"  leaf-0:side - leaf-2:side\n  leaf-1:twin - twin\n  leaf-3:twin - twin\n")
	for i := range f.Devices { // few locators, so that there is something to narrow
		for j := range f.Devices[i].Ports {
			f.Devices[i].Ports[j].LM = map[quantize.Signal]uint16{quantize.MinABW: uint16(1 + (i+j)%5)}
		}
	}
	f.Devices[6].Ports[1].Action = vlanrules.Passthrough
	paths := f.Paths()
	for _, pair := range [][2]string{{"h-0-0", "h-1-2"}, {"h-3-1", "h-0-0"}, {"h-0-0", "h-0-1"}, {"h-2-2", "h-3-0"}, {"h-0-0", "h-2-0"}, {"h-3-0", "twin"}, {"h-0-0", "twin"}, {"twin", "h-1-0"}} {
		passed := make(map[int]map[PortRef]bool)
		for _, path := range shortest(f, pair[0], pair[1]) {
			for hop, s := range path {
				if passed[hop] == nil {
					passed[hop] = make(map[PortRef]bool)
				}
				passed[hop][s.ref] = true
			}
		}
		hops, err := paths.Hops(pair[0], pair[1])
		if err != nil || len(hops) != len(passed) {
			t.Fatalf("%v: %v (%v), want %v", pair, hops, err, passed)
		}
		for hop, ports := range hops {
			if len(ports) != len(passed[hop]) || slices.ContainsFunc(ports, func(r PortRef) bool { return !passed[hop][r] }) {
				t.Errorf("%v, hop %d: got %v, want %v", pair, hop, ports, passed[hop])
			}
		}
		for lm := range uint16(7) {
			want := make(map[PortRef]bool)
			for _, path := range shortest(f, pair[0], pair[1]) {
				for _, s := range path {
					d, _ := f.Device(s.ref.Device)
					p, _ := d.Port(s.ref.Port)
					if s.lm == lm && p.Action == vlanrules.Update {
						want[s.ref] = true
					}
				}
			}
			got, err := f.Candidates(quantize.MinABW, lm, pair[0], pair[1])
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(want) || slices.ContainsFunc(got, func(r PortRef) bool { return !want[r] }) {
				t.Errorf("%v, lm %d: got %v, want %v", pair, lm, got, want)
			}
		}
	}
	for lm := range uint16(7) {
		all, err := f.Candidates(quantize.MinABW, lm, "", "")
		var writers []PortRef
		for _, d := range f.Devices {
			for _, p := range d.Ports {
				if p.LM[quantize.MinABW] == lm && lm != 0 && p.Action == vlanrules.Update {
					writers = append(writers, PortRef{d.Name, p.Name})
				}
			}
		}
		if err != nil || !slices.Equal(all, writers) {
			t.Errorf("lm %d: got %v, %v", lm, all, err)
		}
		from, err := f.Candidates(quantize.MinABW, lm, "h-0-0", "")
		if err != nil {
			t.Fatal(err)
		}
		to, err := f.Candidates(quantize.MinABW, lm, "", "h-1-2")
		if err != nil {
			t.Fatal(err)
		}
		both, _ := f.Candidates(quantize.MinABW, lm, "h-0-0", "h-1-2")
		for _, ref := range both {
			if !slices.Contains(from, ref) || !slices.Contains(to, ref) {
				t.Errorf("lm %d: %v is on the way from and to, but not on both", lm, ref)
			}
		}
		for _, ref := range to {
			if strings.HasPrefix(ref.Port, "host") && ref != (PortRef{"leaf-1", "host2"}) {
				t.Errorf("lm %d: %v is not on the way to h-1-2", lm, ref)
			}
		}
	}
	for _, pair := range [][2]string{{"h-9-9", ""}, {"", "h-9-9"}, {"h-0-0", "sea"}, {"island", "h-0-0"}, {"leaf-0", "island"}} {
		if _, err := f.Candidates(quantize.MinABW, 1, pair[0], pair[1]); err == nil {
			t.Errorf("%v have a path", pair)
		}
	}
}
