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

// fieldText is a port's locator as its fields.
func fieldText(t fatal, f *Fleet, ref PortRef) string {
	t.Helper()
	d, ok := f.Device(ref.Device)
	if !ok {
		t.Fatalf("there is no device %s", ref.Device)
	}
	p, ok := d.Port(ref.Port)
	if !ok {
		t.Fatalf("there is no port %v", ref)
	}
	return f.Profile.Signals[quantize.MinABW].Locator.Text(f.Profile.Layout.LMBits(), p.LM[quantize.MinABW])
}

// fiveStage is a fabric of pods of leaves and spines, and cores that connect these.
func fiveStage(pods, leaves, spines, cores, hosts int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%sdevices:\n", fabricHead)
	fmt.Fprintf(&b, "  - name: leaf-[0-%d]-[0-%d]\n  - name: spine-[0-%d]-[0-%d]\n  - name: core-[0-%d]\n", pods-1, leaves-1, pods-1, spines-1, cores-1)
	b.WriteString("links: |\n")
	for p := range pods {
		for i := range leaves {
			for j := range hosts {
				fmt.Fprintf(&b, "  leaf-%d-%d:host%d - h-%d-%d-%d\n", p, i, j, p, i, j)
			}
			for j := range spines {
				fmt.Fprintf(&b, "  leaf-%d-%d:up%d - spine-%d-%d:down%d\n", p, i, j, p, j, i)
			}
		}
		for j := range spines {
			for k := range cores / spines {
				fmt.Fprintf(&b, "  spine-%d-%d:up%d - core-%d:down%d\n", p, j, k, j*(cores/spines)+k, p)
			}
		}
	}
	return b.String()
}

// derivedHead is a domain with a locator; the devices follow.
func derivedHead(locator string) string {
	return strings.Replace(fabricHead, "interval", "locator: "+locator+", interval", 1)
}

// TestDerivedFields reads fleets whose lm says nothing of some fields: what they are, and where it
// comes from.
func TestDerivedFields(t *testing.T) {
	const pair = "devices: [{name: a, ports: [{name: p1, peer: h1, speed: 25G}, {name: p2, peer: 'b:p2', speed: 100G}]}, {name: b, ports: [{name: p1, peer: h2, speed: 10G}, {name: p2, peer: 'a:p2', speed: 100G}]}]\n"
	const up = "devices: [{name: leaf, ports: [{name: p1, peer: h1, speed: 25G}, {name: p2, peer: 'spine:p2', speed: 100G}]}, {name: spine, ports: [{name: p2, peer: 'leaf:p2', speed: 100G}]}]\n"
	for _, row := range []struct {
		name, text string
		want       map[string]string // by port: the beginning of its fields
	}{
		{"two tiers", derivedHead("[{name: stage, bits: 2}, {name: orientation, bits: 2}, {name: port, bits: 3}]") + strings.TrimPrefix(closText(2, 2, 2), fabricHead), map[string]string{
			"leaf-0:host0": "stage=1,orientation=2,port=", "leaf-0:up1": "stage=1,orientation=1,port=", "spine-1:down0": "stage=2,orientation=2,port=",
		}},
		{"five stages", derivedHead("[{name: stage, bits: 3}, {name: orientation, bits: 2}, {name: port, bits: 2}]") + strings.TrimPrefix(fiveStage(2, 2, 2, 2, 1), fabricHead), map[string]string{
			"leaf-0-0:host0": "stage=1,orientation=2,", "leaf-1-1:up1": "stage=1,orientation=1,", "spine-0-1:down0": "stage=2,orientation=2,", "spine-1-0:up0": "stage=2,orientation=1,", "core-0:down1": "stage=3,orientation=2,",
		}},
		{"five stages with names", derivedHead("[{name: orientation, bits: 1, values: {uplink: 1, Downlink: 0}}, {name: port, bits: 6}]") + strings.TrimPrefix(fiveStage(2, 2, 2, 2, 1), fabricHead), map[string]string{
			"leaf-0-0:host0": "orientation=Downlink,", "leaf-1-1:up1": "orientation=uplink,", "spine-0-1:down0": "orientation=Downlink,", "spine-1-0:up0": "orientation=uplink,", "core-0:down1": "orientation=Downlink,",
		}},
		{"to the side", derivedHead("[{name: orientation, bits: 2}, {name: port, bits: 5}]") + pair, map[string]string{"a:p1": "orientation=2,", "a:p2": "orientation=3,", "b:p2": "orientation=3,"}},
		{"to the side with names", derivedHead("[{name: orientation, bits: 2, values: {down: 0, side-link: 2}}, {name: port, bits: 5}]") + pair, map[string]string{"a:p1": "orientation=down,", "b:p2": "orientation=side-link,"}},
		{"capacity", derivedHead("[{name: capacity, bits: 4}, {name: port, bits: 3}]") + pair, map[string]string{"a:p1": "capacity=7,", "a:p2": "capacity=10,", "b:p1": "capacity=6,"}},
		{"capacity of few bits", derivedHead("[{name: capacity, bits: 3}, {name: port, bits: 4}]") + strings.ReplaceAll(pair, "100G", "1G"), map[string]string{"a:p1": "capacity=7,", "a:p2": "capacity=3,"}},
		{"capacity with names", derivedHead("[{name: capacity, bits: 2, values: {s10G: 0, cap-25Gbps: 1, C100G: 2, other: 3}}, {name: port, bits: 5}]") + pair, map[string]string{"a:p1": "capacity=cap-25Gbps,", "a:p2": "capacity=C100G,", "b:p1": "capacity=s10G,"}},
		{"all derived, and shared", derivedHead("[{name: orientation, bits: 2}, {name: capacity, bits: 4}]") + "devices: [{name: a, port: {speed: 25G}, ports: [{name: 'p[1-9]', peer: 'h[1-9]'}]}]\n", map[string]string{"a:p1": "orientation=2,capacity=7", "a:p9": "orientation=2,capacity=7"}},
		{"given in every layer", derivedHead("[{name: capacity, bits: 4}, {name: stage, bits: 2}, {name: port, bits: 1}]") + "groups: {g: {port: {lm: {stage: 3}}}}\n" +
			strings.Replace(up, "{name: leaf,", "{name: leaf, groups: g, port: {lm: {abw: {capacity: 1}}},", 1), map[string]string{"leaf:p1": "capacity=1,stage=3,", "spine:p2": "capacity=10,stage=2,"}},
		{"a whole number is given", derivedHead("[{name: capacity, bits: 4}, {name: port, bits: 3}]") + strings.Replace(pair, "peer: h1,", "peer: h1, lm: 17,", 1), map[string]string{"a:p1": "capacity=2,port=1", "a:p2": "capacity=10,"}},
		{"not known", derivedHead("[{name: capacity, bits: 3}, {name: orientation, bits: 2}, {name: port, bits: 2}]") + "devices: [{name: a, ports: [{name: p1}, {name: p2, speed: 1G}, {name: p3, peer: h1}]}]\n", map[string]string{"a:p1": "capacity=0,orientation=0,", "a:p2": "capacity=3,orientation=0,", "a:p3": "capacity=0,orientation=2,"}},
		{"a device of another fleet", derivedHead("[{name: stage, bits: 2}, {name: orientation, bits: 2}, {name: port, bits: 3}]") + "devices: [{name: a, ports: [{name: p1, peer: 'spine:p7'}]}]\n", map[string]string{"a:p1": "stage=0,orientation=0,"}},
		{"devices of another fleet, and a host", derivedHead("[{name: stage, bits: 2}, {name: orientation, bits: 2}, {name: port, bits: 3}]") + "devices: [{name: a, ports: [{name: p1, peer: 'spine:p7'}, {name: p2, peer: h1}]}]\n", map[string]string{"a:p1": "stage=1,orientation=0,", "a:p2": "stage=1,orientation=2,"}},
		{"no way to a host", derivedHead("[{name: stage, bits: 2}, {name: orientation, bits: 2}, {name: port, bits: 3}]") + strings.Replace(up, ", peer: h1", "", 1), map[string]string{"leaf:p2": "stage=0,orientation=0,", "spine:p2": "stage=0,orientation=0,"}},
		{"only ports that update", derivedHead("[{name: stage, bits: 2}, {name: orientation, bits: 1, values: {down: 1}}, {name: port, bits: 3}]") + "devices: [{name: a, ports: [{name: p1, peer: h1}, {name: p2, action: strip}, {name: p3, action: passthrough, lm: {port: 3}}]}]\n", map[string]string{"a:p1": "stage=1,orientation=down,", "a:p2": "0 (reserved)", "a:p3": "0 (reserved)"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := parse(t, row.text)
			for port, want := range row.want {
				device, name, _ := strings.Cut(port, ":")
				if got := fieldText(t, f, PortRef{device, name}); !strings.HasPrefix(got, want) {
					t.Errorf("%s writes %q, want %q", port, got, want)
				}
			}
			roundTrip(t, f)
			for i := range f.Devices { // what an agent starts from
				view, err := Marshal(f.DeviceView(&f.Devices[i]))
				if err != nil {
					t.Fatal(err)
				}
				again, err := Parse("view.yaml", view)
				if err != nil {
					t.Fatal(err)
				}
				for j, p := range again.Devices[0].Ports {
					if p.LM[quantize.MinABW] != f.Devices[i].Ports[j].LM[quantize.MinABW] {
						t.Errorf("%s:%s writes %v, in the fleet of its agent %v", f.Devices[i].Name, p.Name, f.Devices[i].Ports[j].LM, p.LM)
					}
				}
			}
		})
	}
}

// TestDerivedOrigins says where the fields of a locator come from.
func TestDerivedOrigins(t *testing.T) {
	const text = "devices:\n  - {name: leaf, ports: [{name: p1, peer: h1, speed: 25G}, {name: p2, speed: 100G}, {name: p3, speed: 25G, lm: {port: 1}}]}\n  - {name: spine, ports: [{name: p1}]}\nlinks:\n  - leaf:p2 - spine:p1\n"
	for _, row := range []struct {
		locator, port string
		want          []string
	}{
		{"[{name: capacity, bits: 4}, {name: orientation, bits: 2}, {name: port, bits: 1}]", "leaf:p1", []string{
			"lm = derived from speed and direction, the rest allotted", "lm: capacity = derived from speed (fleet.yaml:5:54)", "lm: orientation = derived from direction (fleet.yaml:5:43)"}},
		{"[{name: capacity, bits: 4}, {name: orientation, bits: 2}, {name: port, bits: 1}]", "leaf:p2", []string{
			"lm = derived from speed and direction, the rest allotted", "lm: capacity = derived from speed (fleet.yaml:5:78)", "lm: orientation = derived from direction (fleet.yaml:8:5)"}},
		{"[{name: capacity, bits: 4}, {name: orientation, bits: 2}, {name: port, bits: 1}]", "leaf:p3", []string{
			"lm = device (fleet.yaml:5:112)", "lm: capacity = derived from speed (fleet.yaml:5:103)", "lm: orientation = not known"}},
		{"[{name: capacity, bits: 3}, {name: stage, bits: 2}, {name: orientation, bits: 2}]", "spine:p1", []string{
			"lm = derived from tier and direction", "lm: capacity = not known", "lm: orientation = derived from direction (fleet.yaml:8:5)", "lm: stage = derived from tier"}},
		{"[{name: capacity, bits: 3}, {name: port, bits: 2}]", "spine:p1", []string{"lm = allotted", "lm: capacity = not known"}},
	} {
		whole := derivedHead(row.locator) + text
		if strings.Contains(row.locator, "capacity, bits: 3") {
			whole = strings.NewReplacer("100G", "10G", ", lm: {port: 1}", "").Replace(whole)
		}
		f := parse(t, whole)
		device, port, _ := strings.Cut(row.port, ":")
		var got []string
		for key, o := range f.PortOrigins(PortRef{device, port}) {
			if strings.HasPrefix(key, "lm") {
				got = append(got, key+" = "+o.String())
			}
		}
		if slices.Sort(got); !slices.Equal(got, row.want) {
			t.Errorf("%s of %s: got\n%s\nwant\n%s", row.port, row.locator, strings.Join(got, "\n"), strings.Join(row.want, "\n"))
		}
	}
}

// TestUnknownFieldsAreWarned: a field without values is 0 where nothing is known, and that is said
// once for all ports.
func TestUnknownFieldsAreWarned(t *testing.T) {
	f := parse(t, derivedHead("[{name: capacity, bits: 3}, {name: stage, bits: 2}, {name: orientation, bits: 2}]")+
		"devices: [{name: a, ports: [{name: p1, speed: 1G}, {name: p2, peer: h1}, {name: 'p[3-9]', speed: 25G}]}, {name: b, port: {speed: 1G}, ports: [{name: p1}]}]\n")
	var got []string
	for _, w := range f.Warnings() {
		got = append(got, fmt.Sprintf("%d:%d: %s; %s", w.Line, w.Col, w.Msg, w.Hint))
	}
	want := []string{
		"4:36: device a, port p1: lm: the locator's field orientation is 0, not known: its peer is not in the file (and 8 more ports); write its cable under links, or lm: {orientation: NUMBER}",
		"4:59: device a, port p2: lm: the locator's field capacity is 0, not known: its speed is not in the file; write its speed, e.g. speed: 100G, or lm: {capacity: NUMBER}",
		"4:150: device b, port p1: lm: the locator's field stage is 0, not known: no way to a host is in the file; write the cables to the hosts under links, or lm: {stage: NUMBER}",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if f := parse(t, good); len(f.Warnings()) > 0 {
		t.Errorf("a file that gives all fields has %v", f.Warnings())
	}
}

// TestOneMistakeIsNoMissingField: what is wrong elsewhere is not missed in a derived field, too.
func TestOneMistakeIsNoMissingField(t *testing.T) {
	const locator = "[{name: orientation, bits: 2, values: {up: 1, down: 2}}, {name: capacity, bits: 2, values: {s25G: 1, s100G: 2}}, {name: port, bits: 3}]"
	const right = "devices:\n  - {name: leaf, ports: [{name: p1, peer: h1, speed: 25G}, {name: p2, speed: 100G}]}\n  - {name: spine, port: {speed: 100G}, ports: [{name: p1}]}\nhosts: [h1]\nlinks:\n  - leaf:p2 - spine:p1\n"
	parse(t, derivedHead(locator)+right)
	for _, change := range [][2]string{
		{"speed: 25G", "speed: 25"},
		{"{speed: 100G}", "{speed: 100}"},
		{"peer: h1", "peer: 'h1:'"},
		{"hosts: [h1]", "hosts: [h2]"},
		{"- leaf:p2 - spine:p1", "- leaf:p2 - spine:p7"},
		{"- leaf:p2 - spine:p1", "- leaf:p2 spine:p1"},
		{"{name: spine,", "{name: 'spi ne',"},
		{"bits: 2, values: {s25G", "bits: 22, values: {s25G"},
	} {
		_, err := Parse("fleet.yaml", []byte(derivedHead(locator)+strings.Replace(right, change[0], change[1], 1)))
		if change[1][0] == 'b' {
			_, err = Parse("fleet.yaml", []byte(strings.Replace(derivedHead(locator), change[0], change[1], 1)+right))
		}
		if err == nil || strings.Contains(err.Error(), "locator's field") {
			t.Errorf("%s: %v", change[1], err)
		}
	}
}

// TestDerivedFleet draws fabrics: the locator of each port says its speed, tier and direction, and
// what is left of the locator tells the ports of a device apart while there are enough values.
func TestDerivedFleet(t *testing.T) {
	speeds := []string{"1G", "10G", "25G", "100G"}
	draw(t, func(t *rapid.T) {
		tiers := rapid.IntRange(1, 4).Draw(t, "tiers")
		var names [][]string
		for tier := range tiers {
			var row []string
			for i := range rapid.IntRange(1, 3).Draw(t, "devices") {
				row = append(row, fmt.Sprintf("t%d-%d", tier+1, i))
			}
			names = append(names, row)
		}
		ports := make(map[string][]string) // of each device
		want := make(map[PortRef][3]string)
		cables := ""
		end := func(device string, tier int, direction string, speed int) string {
			name := fmt.Sprintf("p%d", len(ports[device]))
			ports[device] = append(ports[device], fmt.Sprintf("{name: %s, speed: %s}", name, speeds[speed]))
			want[PortRef{device, name}] = [3]string{speeds[speed], fmt.Sprint(tier + 1), direction}
			return device + ":" + name
		}
		cable := func(a string, ta int, b string, tb int, directions ...string) {
			speed := rapid.IntRange(0, len(speeds)-1).Draw(t, "speed")
			cables += fmt.Sprintf("  - %s - %s\n", end(a, ta, directions[0], speed), end(b, tb, directions[1], speed))
		}
		for tier, row := range names {
			for i, name := range row {
				switch {
				case tier == 0:
					for h := range rapid.IntRange(1, 3).Draw(t, "hosts") {
						cables += fmt.Sprintf("  - %s - h-%s-%d\n", end(name, 0, "down", rapid.IntRange(0, len(speeds)-1).Draw(t, "speed")), name, h)
					}
				default: // down to some, so that its tier is this one
					for _, below := range names[tier-1][:rapid.IntRange(1, len(names[tier-1])).Draw(t, "below")] {
						cable(name, tier, below, tier-1, "down", "up")
					}
				}
				if i > 0 && rapid.Bool().Draw(t, "side") {
					cable(name, tier, row[i-1], tier, "side", "side")
				}
			}
		}
		named := rapid.Bool().Draw(t, "named")
		locator := "[{name: capacity, bits: 4}, {name: stage, bits: 3}]"
		wide := "[{name: orientation, bits: 2}, {name: port, bits: 5}]"
		if named {
			locator = "[{name: capacity, bits: 2, values: {s1G: 3, s10G: 0, s25G: 1, s100G: 2}}, {name: stage, bits: 3}]"
			wide = "[{name: orientation, bits: 2, values: {up: 2, down: 0, side: 1}}, {name: port, bits: 5}]"
		}
		head := strings.NewReplacer("abw: {buckets: log-10G}", "abw: {buckets: log-10G, locator: "+locator+"}", "abwc: {buckets: log}", "abwc: {buckets: log, locator: "+wide+"}").Replace(fabricHead)
		text := head + "devices:\n"
		for _, row := range names {
			for _, name := range row {
				text += fmt.Sprintf("  - {name: %s, ports: [%s]}\n", name, strings.Join(ports[name], ", "))
			}
		}
		f, err := Parse("fleet.yaml", []byte(text+"links:\n"+cables))
		if err != nil {
			t.Fatalf("%v\n%s", err, text+"links:\n"+cables)
		}
		for i := range f.Devices {
			d := &f.Devices[i]
			used := make(map[uint16]bool)
			for j := range d.Ports {
				p, truth := &d.Ports[j], want[PortRef{d.Name, d.Ports[j].Name}]
				got := make(map[string]quantize.NamedValue)
				for _, sig := range []quantize.Signal{quantize.MinABW, quantize.MinABWC} {
					for _, v := range f.Profile.Signals[sig].Locator.Decode(f.Profile.Layout.LMBits(), p.LM[sig]) {
						got[v.Field] = v
					}
				}
				if used[p.LM[quantize.MinABWC]] || p.Action != vlanrules.Update {
					t.Fatalf("%s:%s writes %v as another port does", d.Name, p.Name, p.LM)
				}
				used[p.LM[quantize.MinABWC]] = true
				numbers := [3]string{map[string]string{"1G": "3", "10G": "6", "25G": "7", "100G": "10"}[truth[0]], truth[1], map[string]string{"up": "1", "down": "2", "side": "3"}[truth[2]]}
				decoded := [3]string{fmt.Sprint(got["capacity"].Value), fmt.Sprint(got["stage"].Value), fmt.Sprint(got["orientation"].Value)}
				if named {
					numbers = [3]string{"s" + truth[0], truth[1], truth[2]}
					decoded[0], decoded[2] = got["capacity"].Name, got["orientation"].Name
				}
				if decoded != numbers {
					t.Fatalf("%s:%s says %v, and is %v", d.Name, p.Name, decoded, numbers)
				}
			}
		}
		roundTrip(t, f)
	})
}

// TestDerivedLocatorsOnPaths wants ports of one path told apart by the bits that are left.
func TestDerivedLocatorsOnPaths(t *testing.T) {
	for _, locator := range []string{
		"[{name: orientation, bits: 1, values: {up: 0, down: 1}}, {name: port, bits: 6}]",
		"[{name: stage, bits: 2}, {name: port, bits: 5}]",
		"[{name: stage, bits: 2}, {name: orientation, bits: 2}, {name: port, bits: 3}]",
	} {
		f := parse(t, derivedHead(locator)+strings.TrimPrefix(fiveStage(4, 4, 4, 8, 8), fabricHead))
		if a := f.Ambiguity(quantize.MinABW); a.Consecutive != 0 || a.MostOpen > 4 {
			t.Errorf("%s: %+v", locator, a)
		}
		for _, path := range shortest(f, "h-0-0-0", "h-3-1-1") {
			seen := make(map[uint16]PortRef)
			for _, s := range path {
				if other, twice := seen[s.lm]; twice {
					t.Errorf("%s: %v and %v of one path both write %d", locator, other, s.ref, s.lm)
				}
				seen[s.lm] = s.ref
			}
		}
		// More ports than values: each value has its share of them.
		count := make(map[uint16]int)
		f = parse(t, derivedHead(locator)+strings.TrimPrefix(closText(2, 2, 90), fabricHead))
		d, _ := f.Device("leaf-0")
		for _, p := range d.Ports {
			count[p.LM[quantize.MinABW]]++
		}
		for lm, n := range count {
			if n > 30 {
				t.Errorf("%s: %d ports of one device write %d, others %v", locator, n, lm, count)
			}
		}
	}
}
