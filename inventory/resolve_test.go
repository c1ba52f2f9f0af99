package inventory

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

func TestExpand(t *testing.T) {
	rows := []struct {
		text string
		want []string // nil: an error
	}{
		{"swp1", []string{"swp1"}},
		{"", []string{""}},
		{"swp[1-3]", []string{"swp1", "swp2", "swp3"}},
		{"swp[1,3,5-6]", []string{"swp1", "swp3", "swp5", "swp6"}},
		{"swp[08-10]", []string{"swp08", "swp09", "swp10"}},
		{"swp[9-11]", []string{"swp9", "swp10", "swp11"}},
		{"a[1-2]:b[1-2]c", []string{"a1:b1c", "a1:b2c", "a2:b1c", "a2:b2c"}},
		{"[0-1]", []string{"0", "1"}},
		{"[0]", []string{"0"}},
		{"a[1-4096]", nil},
		{"a[]", nil}, {"a[1-]", nil}, {"a[-1]", nil}, {"a[1", nil}, {"a1]", nil}, {"a[1]]", nil}, {"a[[1]]", nil}, {"a[x]", nil},
		{"a[3-1]", nil}, {"a[1,]", nil}, {"a[01-2]", nil}, {"a[0-4096]", nil}, {"a[1-64][1-65]", nil}, {"a[9999999999]", nil},
	}
	for _, row := range rows {
		got, err := expand(row.text)
		switch {
		case row.text == "a[1-4096]":
			if err != nil || len(got) != maxExpand {
				t.Errorf("%s: %d, %v", row.text, len(got), err)
			}
		case (err == nil) != (row.want != nil) || err == nil && !slices.Equal(got, row.want):
			t.Errorf("%s: got %q, %v, want %q", row.text, got, err, row.want)
		}
	}
}

// TestPrecedence gives a value in one layer after the other; each goes before
// those below it.
func TestPrecedence(t *testing.T) {
	// The layers from the built-in one up, each with what it adds to the file.
	text := func(layers int) string {
		part := func(n int, text string) string {
			if layers < n {
				return ""
			}
			return text
		}
		return `format: csig.fleet/v1
profile: {name: a, tpid: 0x9900, interval: 10s, signals: {abw: {buckets: log-10G}}}
` + part(1, "policy: {schedule: '@every 9s', estimator: {method: ewma, time_constant: 9s}}\n") + `
defaults:
  platform: linux
` + part(2, "  interval: 8s\n  schedule: '@every 8s'\n  estimator: {method: ewma, time_constant: 8s}\n  level: native\n  port: {speed: 8G, mtu: 8000, action: strip, lm: 80}\n") + `
groups:
  second:
    tags: b
` + part(3, "    interval: 7s\n    schedule: '@every 7s'\n    estimator: {method: ewma, time_constant: 7s}\n    level: software\n    port: {speed: 7G, mtu: 7000, action: passthrough, lm: 70}\n") +
			part(4, "    ports: [{name: swp1, speed: 6G, mtu: 6000, action: strip, lm: 60}]\n") + `
  first:
    tags: a
` + part(5, "    interval: 5s\n    schedule: '@every 5s'\n    estimator: {method: ewma, time_constant: 5s}\n    level: discard\n    port: {speed: 5G, mtu: 5000, action: passthrough, lm: 50}\n") + `
devices:
  - name: d
    groups: [first, second]
` + part(6, "    interval: 4s\n    schedule: '@every 4s'\n    estimator: {method: ewma, time_constant: 4s}\n    level: passthrough\n    port: {speed: 4G, mtu: 4000, action: strip, lm: 40}\n") +
			"    ports:\n      - {name: swp1" + part(7, ", speed: 3G, mtu: 3000, action: passthrough, lm: 30") + "}\n"
	}
	type row struct {
		interval, schedule, estimator, level, speed, mtu, action, lm string // layers
		seconds                                                      int
		support                                                      Support
		gig                                                          uint64
		does                                                         vlanrules.Action
	}
	const device, second, first = "device", "group second", "group first"
	rows := []row{
		{"profile", "built-in", "built-in", "built-in", "", "", "built-in", "allotted", 10, LevelAuto, 0, vlanrules.Update},
		{"profile", "policy", "policy", "built-in", "", "", "built-in", "allotted", 9, LevelAuto, 0, vlanrules.Update},
		{"defaults", "defaults", "defaults", "defaults", "defaults", "defaults", "defaults", "defaults", 8, LevelNative, 8, vlanrules.Strip},
		{second, second, second, second, second, second, second, second, 7, LevelSoftware, 7, vlanrules.Passthrough},
		{second, second, second, second, second, second, second, second, 7, LevelSoftware, 6, vlanrules.Strip},
		{first, first, first, first, first, first, first, first, 5, LevelDiscard, 5, vlanrules.Passthrough},
		{device, device, device, device, device, device, device, device, 4, LevelPassthrough, 4, vlanrules.Strip},
		{device, device, device, device, device, device, device, device, 4, LevelPassthrough, 3, vlanrules.Passthrough},
	}
	for n, want := range rows {
		f, err := Parse("fleet.yaml", []byte(text(n)))
		if err != nil {
			t.Fatalf("%d layers: %v\n%s", n, err, text(n))
		}
		d, p := &f.Devices[0], &f.Devices[0].Ports[0]
		od, op := f.DeviceOrigins("d"), f.PortOrigins(PortRef{"d", "swp1"})
		got := row{od["interval"].Layer, od["schedule"].Layer, od["estimator"].Layer, od["level"].Layer,
			op["speed"].Layer, op["mtu"].Layer, op["action"].Layer, op["lm"].Layer,
			int(d.Interval / time.Second), d.Level.Support, p.Speed / 1e9, p.Action}
		if n == 1 {
			got.seconds = int(d.Estimator.TimeConstant / time.Second) // the policy has no interval
		}
		if got != want {
			t.Errorf("%d layers: got %+v, want %+v", n, got, want)
		}
		if n >= 2 && (d.Estimator.TimeConstant != d.Interval || p.MTU != int(p.Speed/1e6) || p.LM[quantize.MinABW] != uint16(p.Speed/1e8)) {
			t.Errorf("%d layers: values of different layers: %+v", n, d)
		}
		if !slices.Equal(d.Tags, []string{"a", "b"}) || od["tags: a"].Layer != first || od["tags: b"].Layer != second {
			t.Errorf("tags %v, %v", d.Tags, od)
		}
	}
}

// TestOriginsPointIntoTheFiles wants each origin's place to hold a value, and the
// places of some to be exactly theirs.
func TestOriginsPointIntoTheFiles(t *testing.T) {
	f := loadParts(t)
	files := filesOf(parts)
	at := func(o Origin) string {
		lines := strings.Split(string(files[o.File].Data), "\n")
		if o.Line < 1 || o.Line > len(lines) || o.Col < 1 || o.Col > len(lines[o.Line-1]) {
			t.Fatalf("%v is not in the file", o)
		}
		return lines[o.Line-1][o.Col-1:]
	}
	d, p := f.DeviceOrigins("leaf-1"), f.PortOrigins(PortRef{"leaf-1", "swp49"})
	for what, row := range map[string]struct {
		got  Origin
		text string
	}{
		"platform": {d["platform"], "linux"}, "level": {d["level"], "software"}, "address": {d["address"], "192.0.2.11"},
		"ssh": {d["management: ssh"], "{user"}, "tag": {d["tags: tor"], "tor]"}, "interval": {d["interval"], "1s"},
		"speed": {p["speed"], "100G"}, "mtu": {p["mtu"], "9216"}, "lm": {p["lm"], "{stage: leaf}"}, "peer": {p["peer"], "leaf-1:swp[49-50]"},
	} {
		if !strings.HasPrefix(at(row.got), row.text) {
			t.Errorf("%s comes from %v, where there is %q", what, row.got, at(row.got))
		}
	}
	for i := range f.Devices {
		list := []map[string]Origin{f.DeviceOrigins(f.Devices[i].Name)}
		for _, p := range f.Devices[i].Ports {
			list = append(list, f.PortOrigins(PortRef{f.Devices[i].Name, p.Name}))
		}
		for _, one := range list {
			for key, o := range one {
				if o.Layer == "" {
					t.Errorf("%s: %s comes from nowhere", f.Devices[i].Name, key)
				}
				if o.File != "" {
					at(o)
				}
			}
		}
	}
	if f.DeviceOrigins("unknown") != nil || f.PortOrigins(PortRef{"leaf-1", "swp9"}) != nil {
		t.Error("there is an origin of nothing")
	}
}

// TestPortsInOrder lists the ports of groups in order, then the device's own.
func TestPortsInOrder(t *testing.T) {
	f := loadParts(t, leaf1, "  - {name: leaf-1, groups: [leaf, canary], address: 192.0.2.11, ports: [{name: own}, {name: swp2, mtu: 1500}, {name: mgmt, mtu: 900}]}\n",
		"canary: {", "canary: {ports: [{name: mgmt, action: strip}, {name: swp50, mtu: 1400}], ")
	d, _ := f.Device("leaf-1")
	var names []string
	for _, p := range d.Ports {
		names = append(names, p.Name)
	}
	if want := []string{"swp1", "swp2", "swp49", "swp50", "mgmt", "own"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	// The nearest layer that says something: also where a farther one lists the port.
	if d.Ports[1].MTU != 1500 || d.Ports[1].Speed != 25e9 || d.Ports[3].MTU != 1400 || d.Ports[3].Speed != 100e9 || d.Ports[4].MTU != 900 || d.Ports[4].Action != vlanrules.Strip {
		t.Errorf("got %+v", d.Ports)
	}
}

// TestIncludes reads files in every order the patterns can have: the same fleet.
func TestIncludes(t *testing.T) {
	want := loadParts(t)
	if files := want.Files(); !slices.Equal(files, []string{"fleet.yaml", "pods/a.yaml", "pods/b.yaml"}) {
		t.Errorf("files %v", files)
	}
	profile := parts[strings.Index(parts, "profile:"):strings.Index(parts, "defaults:")]
	for name, changes := range map[string][]string{
		"named":                   {"[pods/*.yaml]", "[pods/a.yaml, pods/b.yaml]"},
		"one text":                {"[pods/*.yaml]", "pods/?.yaml"},
		"named twice":             {"[pods/*.yaml]", "[pods/a.yaml, pods/*.yaml]"},
		"a pattern with itself":   {"[pods/*.yaml]", "['*.yaml', 'pods/*.yaml']"},
		"by one of them":          {"[pods/*.yaml]", "pods/a.yaml", "hosts:\n", "include: '*.yaml'\nhosts:\n"},
		"the profile is included": {profile, "", "-- pods/a.yaml --\n", "-- pods/0.yaml --\nformat: csig.fleet/v1\n" + profile + "-- pods/a.yaml --\n"},
		"the profile comes last":  {profile, "", "-- pods/b.yaml --\n", "-- pods/c.yaml --\nformat: csig.fleet/v1\n" + profile + "-- pods/b.yaml --\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := loadParts(t, changes...); !reflect.DeepEqual(plain(got), plain(want)) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
	reversed := loadParts(t, "[pods/*.yaml]", "[pods/b.yaml, pods/a.yaml]")
	if reversed.Devices[0].Name != "spine-1" {
		t.Errorf("the first device is %s", reversed.Devices[0].Name)
	}
}

// TestLinks gives the same cables in every form.
func TestLinks(t *testing.T) {
	block := parts[strings.Index(parts, "links: |\n"):strings.Index(parts, "-- pods/b.yaml")]
	want := loadParts(t)
	var spelled strings.Builder
	for _, l := range want.Links() {
		spelled.WriteString("  - \"" + l.A.String() + " - " + l.B.String() + "\"\n")
	}
	for name, text := range map[string]string{
		"a list":                "links:\n" + spelled.String(),
		"one a line":            "links: |\n" + strings.NewReplacer("  - \"", "  ", "\"", "").Replace(spelled.String()),
		"empty lines, comments": strings.ReplaceAll(block, "\n", "\n\n   # so\n") + "\n",
		"the other way round":   "links: |\n  gpu-[1-2] - leaf-1:swp[1-2]\n  web-1 - leaf-2:swp1\n  spine-[1-2]:swp1 - leaf-1:swp[49-50]\n  spine-[1-2]:swp2 - leaf-2:swp[49-50]\n",
		"in front of the rest":  block + "vlan_tpids: [0x8100, 0x88a8]\n",
	} {
		if got := loadParts(t, block, text); got.Hash() != want.Hash() {
			t.Errorf("%s: got %+v", name, got.Links())
		}
	}
	// Without lists of ports, cables make them.
	f := loadParts(t, "    ports: [{name: \"swp[1-2]\", speed: 100G}]\n", "")
	d, _ := f.Device("spine-1")
	if len(d.Ports) != 2 || d.Ports[0].Name != "swp1" || d.Ports[0].MTU != 9216 || f.PortOrigins(PortRef{"spine-1", "swp1"})["name"].Layer != "links" {
		t.Errorf("got %+v", d.Ports)
	}
	// Peers that both ends tell.
	both := parse(t, good)
	if got := both.Devices[0].Ports[0].Peer; got != (Peer{"s2", both.Devices[1].Ports[0].Name}) {
		t.Errorf("the peer is %s", got)
	}
	d, _ = want.Device("leaf-1")
	if h, ok := want.Host(d.Ports[0].Peer.Device); !ok || !h.CSIG {
		t.Errorf("the peer is %s", d.Ports[0].Peer)
	}
}

// ownOfAll has the keys of every platform.
func ownOfAll() map[string]PlatformKeys {
	out := make(map[string]PlatformKeys)
	for _, p := range platforms {
		if p.Key == "" {
			continue
		}
		out[p.Key] = reflect.New(reflect.TypeOf(p.Keys).Elem()).Interface().(PlatformKeys)
	}
	return out
}

// TestHash changes every value of a fleet, one at a time.
func TestHash(t *testing.T) {
	fresh := func() *Fleet {
		eight := uint8(8)
		s := Secret{Env: "A"}
		return &Fleet{
			Policy: Policy{Retired: []RetiredTPID{{0x9902, false}}, OnStale: Conservative, Schedule: "x", Estimator: Estimator{EWMA, 1}, Damping: Damping{1, 1000}}, VLANTPIDs: []uint16{0x8100},
			Hosts: []Host{{Name: "h", MTU: 1}}, Mesh: &Mesh{Key: s},
			Devices: []Device{{
				Name: "d", Platform: "p", Address: "a", Tags: []string{"t"}, Level: Level{LevelNative, "r", "0123456789ab"}, Facts: exampleFacts(),
				Management: Management{SSH: &SSH{Passphrase: s, Password: s, Sudo: &Sudo{Password: s}}, Daemon: &Daemon{}, Own: ownOfAll()}, Estimator: Estimator{EWMA, 1},
				Counters: Counters{Overhead: &eight, SNMP: &SNMP{Community: s, Auth: SNMPAuth{"sha", s}, Priv: SNMPPriv{"aes", s}}, GNMI: &GNMI{Password: s}},
				Ports:    []Port{{Name: "p", LM: map[quantize.Signal]uint16{quantize.MinABW: 1}}},
			}},
		}
	}
	want := fresh().Hash()
	if want != fresh().Hash() {
		t.Fatal("equal fleets have different hashes")
	}
	n := 0
	// walk visits every value that can be set and returns how many there are.
	var walk func(v reflect.Value, visit func(v reflect.Value))
	walk = func(v reflect.Value, visit func(v reflect.Value)) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Type().Field(i).IsExported() && v.Type().Field(i).Name != "Path" && v.Type() != reflect.TypeFor[quantize.Profile]() {
					walk(v.Field(i), visit)
				}
			}
		case reflect.Pointer:
			if !v.IsNil() {
				walk(v.Elem(), visit)
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i), visit)
			}
		case reflect.Map:
			own, _ := v.Interface().(map[string]PlatformKeys)
			for _, key := range slices.Sorted(maps.Keys(own)) {
				walk(reflect.ValueOf(own[key]).Elem(), visit)
			}
		default:
			visit(v)
		}
	}
	walk(reflect.ValueOf(fresh()), func(reflect.Value) { n++ })
	if n < 60 {
		t.Errorf("only %d values found", n)
	}
	for i := range n {
		f, k := fresh(), 0
		walk(reflect.ValueOf(f), func(v reflect.Value) {
			if k++; k != i+1 {
				return
			}
			switch v.Kind() {
			case reflect.String:
				v.SetString(v.String() + "z")
			case reflect.Bool:
				v.SetBool(!v.Bool())
			case reflect.Int, reflect.Int64:
				v.SetInt(v.Int() + 1)
			default:
				v.SetUint(v.Uint() + 1)
			}
		})
		if f.Hash() == want {
			t.Errorf("value %d of %d does not change the hash", i, n)
		}
	}
	f := fresh()
	f.Devices[0].Ports[0].LM[quantize.MinABW] = 2
	g := fresh()
	g.Devices[0].Tags = append(g.Devices[0].Tags, "u")
	if f.Hash() == want || g.Hash() == want {
		t.Error("a locator or a tag does not change the hash")
	}
}
