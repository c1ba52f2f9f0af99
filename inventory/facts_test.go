package inventory

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func ptr[T any](v T) *T { return &v }

// drawFacts fills each key of an entry, or leaves it out.
func drawFacts(t *rapid.T) *Facts {
	line := rapid.StringMatching(`[!-~]([ -~]{0,20}[!-~])?`)
	f := &Facts{Name: rapid.SampledFrom([]string{"x", "7", "true"}).Draw(t, "facts"), Platform: "linux", Date: "2026-11-22", TPIDs: []uint16{0x9900, 0x88a8}}
	v := reflect.ValueOf(f).Elem()
	for _, k := range keysOf[Facts]().keys {
		field := v.FieldByIndex(k.index)
		if k.doc == "" {
			t.Fatalf("%s has no documentation", k.name)
		}
		if !field.IsZero() || !k.need && rapid.Bool().Draw(t, k.name+" absent") {
			continue
		}
		switch to := field.Addr().Interface().(type) {
		case *string:
			if *to = line.Draw(t, k.name); k.name == "layout" {
				*to = "uec"
			}
		case **bool:
			*to = ptr(rapid.Bool().Draw(t, k.name))
		case **int:
			*to = ptr(64 + rapid.IntRange(0, 1000).Draw(t, k.name))
			switch k.name {
			case "tags_in_front":
				*to = ptr(rapid.IntRange(0, 1).Draw(t, k.name))
			case "tags_in_front_fail":
				*to = ptr(rapid.IntRange(2, 3).Draw(t, k.name))
			}
		case **uint8:
			*to = ptr(rapid.Uint8Range(0, 64).Draw(t, k.name))
		case **time.Duration:
			*to = ptr(time.Duration(rapid.IntRange(1, 1e9).Draw(t, k.name)))
		case **[]string:
			words := []string{"PCP", "DEI", "VID"}
			if k.name == "signals" {
				words = []string{"abw", "pd", "nqd"}
			}
			*to = ptr(rapid.SliceOfNDistinct(rapid.SampledFrom(words), 0, 3, rapid.ID).Draw(t, k.name))
		case **[]VIDRange:
			*to = ptr(rapid.SampledFrom([][]VIDRange{{}, {{0, 0}, {4095, 4095}}, {{1, 4094}}}).Draw(t, k.name))
		case *FactReasons:
		default:
			t.Fatalf("%s: no value for a %T", k.name, to)
		}
	}
	if f.Lease != nil && !*f.Lease {
		f.FallbackAfter = nil
	}
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"hitless", "passthrough", "loses"}), 0, 3, rapid.ID).Draw(t, "reasons") {
		if k := keysOf[Facts]().key(key); !v.FieldByIndex(k.index).IsZero() {
			if f.Reasons == nil {
				f.Reasons = FactReasons{}
			}
			f.Reasons[key] = line.Draw(t, "reason")
		}
	}
	return f
}

// Facts files are read as they are written, each key of them.
func TestMarshalFacts(t *testing.T) {
	draw(t, func(t *rapid.T) {
		one := drawFacts(t)
		two := *one
		two.Name = "y"
		text, err := MarshalFacts(&two, one)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseFacts("facts", text)
		if want := map[string]*Facts{"y": &two, one.Name: one}; err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\n%s", err, text)
		}
	})
	one := exampleFacts()
	other := *one
	other.Date = "2026-11-23"
	if text, err := MarshalFacts(one, &other); err == nil {
		t.Errorf("two entries of one name were written:\n%s", text)
	}
	if other.Name, other.Version = "other", ""; true {
		if text, err := MarshalFacts(one, &other); err == nil || !strings.Contains(err.Error(), "version") {
			t.Errorf("an entry without a version: %v\n%s", err, text)
		}
	}
}

// exampleFacts is what examples/facts/example-32x.yaml has, of a switch that does not
// exist.
func exampleFacts() *Facts {
	return &Facts{
		Name: "example-32x", Platform: "sonic", Model: "Example 32X", ASIC: "Example ASIC", Version: "SONiC.202511", ConfigHash: "9f2c41d07b5e", Date: "2026-11-22", CSIG: "dev",
		TPIDs:       []uint16{0x88a8},
		Passthrough: ptr(true), TagsInFront: ptr(1), TagsInFrontFail: ptr(2), MaxFrame: ptr(9236), Loses: &[]string{"DEI"}, TriedVIDs: &[]VIDRange{{0, 4095}}, DroppedVIDs: &[]VIDRange{{0, 0}, {4095, 4095}},
		Independent: ptr(true), Learning: ptr(true), Flooding: ptr(true), VLANsUnchanged: ptr(true), LLDP: ptr(true), ECN: ptr(false), Queue: ptr(true), Hash: &[]string{"MAC"},
		LatencyAdded: ptr(40 * time.Nanosecond), Layout: "draft-00", Signals: ptr([]string{"abw", "abwc"}), SeesWireVID: ptr(true), UpdateExact: ptr(true), Hitless: ptr(true), Strip: ptr(true), Entries: ptr(256),
		RuleChange: ptr(12 * time.Millisecond), AckToWire: ptr(35 * time.Millisecond), Lease: ptr(false), SurvivesReboot: ptr(false), SurvivesFlap: ptr(true),
		CounterRefresh: ptr(time.Second), CounterOverhead: ptr(uint8(20)),
		Reasons: FactReasons{
			"loses":        "DEI 1 became 0 in 4096 of 4096 frames",
			"dropped_vids": "0 of 100 frames with these VIDs arrived",
		},
	}
}

// TestFactsExample: the example is what the writer writes.
func TestFactsExample(t *testing.T) {
	const path = "../examples/facts/example-32x.yaml"
	text, err := MarshalFacts(exampleFacts())
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if file, err := os.ReadFile(path); err != nil || string(file) != string(text) {
		t.Errorf("%s is not what the writer writes (%v): go test ./inventory -run TestFactsExample -update", path, err)
	}
	f, err := Load("../examples/qualified.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if d := &f.Devices[0]; !reflect.DeepEqual(d.Facts, exampleFacts()) || f.DeviceView(d).Devices[0].Facts != d.Facts || f.Devices[1].Facts != d.Facts {
		t.Errorf("the devices of examples/qualified.yaml have not the facts that it includes: %+v", d.Facts)
	}
}

// Each key counts in a fleet's hash; experimental is no part of an agent's configuration.
func TestHashOfFacts(t *testing.T) {
	f := parse(t, good)
	base := exampleFacts()
	f.Devices[0].Facts = base
	seen := map[string]string{f.Hash(): "all"}
	note := func(what string) {
		if other, twice := seen[f.Hash()]; twice {
			t.Errorf("the hash is the same with %s and with %s", what, other)
		}
		seen[f.Hash()] = what
	}
	for _, k := range keysOf[Facts]().keys {
		one := *base
		field := reflect.ValueOf(&one).Elem().FieldByIndex(k.index)
		if field.IsZero() {
			continue
		}
		field.SetZero()
		f.Devices[0].Facts = &one
		note("no " + k.name)
	}
	f.Devices[0].Facts = nil
	note("none")
	view := f.DeviceView(&f.Devices[0]).Hash()
	f.Devices[0].Experimental = true
	note("experimental")
	if f.DeviceView(&f.Devices[0]).Hash() != view {
		t.Error("experimental is a part of the configuration of an agent, which does not ask for it")
	}
}

// What updates may cost, and that nothing withdraws them, concerns the agent, and so is a
// part of its configuration.
func TestUpdatesAndLease(t *testing.T) {
	f := parse(t, mistaken(t, []string{"devices:\n  - name: s1", "defaults: {lease: none}\ngroups: {g: {updates: cli}}\ndevices:\n  - name: s1\n    groups: g"}))
	s1, s2 := &f.Devices[0], &f.Devices[1]
	if s1.Updates != UpdatesCLI || s1.Lease != LeaseNone || s2.Updates != "" || s2.Lease != LeaseNone {
		t.Errorf("got %q %q and %q %q", s1.Updates, s1.Lease, s2.Updates, s2.Lease)
	}
	if from := f.DeviceOrigins("s1"); from["updates"].Layer != "group g" || from["lease"].Layer != "defaults" {
		t.Errorf("from %v", from)
	}
	seen := map[string]bool{}
	for _, one := range []Device{*s1, {Updates: UpdatesCLI}, {Lease: LeaseNone}, {}} {
		s1.Updates, s1.Lease = one.Updates, one.Lease
		seen[f.Hash()], seen[f.DeviceView(s1).Hash()] = true, true
	}
	if len(seen) != 8 {
		t.Errorf("%d hashes of 4 fleets and their views", len(seen))
	}
}

// Facts of another platform are a warning, where the device names them.
func TestFactsOfAnotherPlatform(t *testing.T) {
	f := parse(t, mistaken(t, []string{
		"devices:\n  - name: s1", "facts: {a: {platform: ovs, model: M, version: V, date: 2026-11-22, tpids: [0x9900]}}\ndevices:\n  - name: s1\n    facts: a",
	}))
	w := f.Warnings()
	if len(w) != 1 || !strings.Contains(w[0].Error(), "facts a are not used: they are of platform ovs, and it is linux") {
		t.Fatalf("warnings: %v", w)
	}
	if at := f.DeviceOrigins("s1")["facts"]; !strings.Contains(w[0].Error(), fmt.Sprintf(":%d:%d:", at.Line, at.Col)) {
		t.Errorf("%v has no position %d:%d", w[0], at.Line, at.Col)
	}
}

// Groups and the defaults give devices their facts; what no device has is a warning.
func TestFactsOfGroups(t *testing.T) {
	const entry = "{platform: linux, model: M, version: V, date: 2026-11-22, tpids: [0x9900]}"
	f := parse(t, mistaken(t, []string{
		"devices:\n  - name: s1", "facts: {a: " + entry + ", b: " + entry + ", c: " + entry + "}\ndefaults: {facts: a, experimental: true}\ngroups: {g: {facts: b, experimental: false}}\ndevices:\n  - name: s1\n    groups: g",
	}))
	s1, s2 := &f.Devices[0], &f.Devices[1]
	if s1.Facts.Name != "b" || s1.Experimental || s2.Facts.Name != "a" || !s2.Experimental {
		t.Errorf("got %v %v and %v %v", s1.Facts, s1.Experimental, s2.Facts, s2.Experimental)
	}
	if w := f.Warnings(); len(w) != 1 || !strings.Contains(w[0].Error(), "facts c: no device has them") {
		t.Errorf("warnings: %v", w)
	}
	if from := f.DeviceOrigins("s1"); from["facts"].Layer != "group g" || from["experimental"].Layer != "group g" {
		t.Errorf("from %v", from)
	}
}
