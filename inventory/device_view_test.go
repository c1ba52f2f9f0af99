package inventory

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestDeviceViewOfExamples has an agent started from its own part of each example: it can
// be written and read again, and the agent finds its data plane by it.
func TestDeviceViewOfExamples(t *testing.T) {
	files, err := filepath.Glob("../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	bridges := 0
	for _, file := range files {
		f, err := Load(file)
		if err != nil {
			t.Error(err)
			continue
		}
		for i := range f.Devices {
			d := &f.Devices[i]
			text, err := Marshal(f.DeviceView(d))
			if err != nil {
				t.Errorf("%s: %v", d.Name, err)
				continue
			}
			again, err := Parse(file, text)
			if err != nil {
				t.Errorf("%s: %v\n%s", d.Name, err, text)
				continue
			}
			got := &again.Devices[0].Management
			if !reflect.DeepEqual(got.Own, d.Management.Own) {
				t.Errorf("%s: management is %+v, want %+v", d.Name, got, d.Management)
			}
			if got.Own["ovs"] != nil {
				bridges++
			}
		}
	}
	if bridges == 0 {
		t.Error("no example has a bridge")
	}
}

// TestDeviceViewWithoutTheRest: what only concerns the rest of the fleet is no change of
// a device's own part.
func TestDeviceViewWithoutTheRest(t *testing.T) {
	own := func(change ...string) string {
		f, err := Parse("fleet.yaml", []byte(strings.NewReplacer(change...).Replace(good)))
		if err != nil {
			t.Fatal(err)
		}
		d, there := f.Device("s1")
		if !there {
			t.Fatal("there is no s1")
		}
		return f.DeviceView(d).Hash()
	}
	plain := own()
	for change, with := range map[string][]string{
		"an MTU":   {"{name: swp3,", "{name: swp3, mtu: 9216,"},
		"a peer":   {", peer: h1}", ", peer: h2}"},
		"tags":     {"    local: true", "    local: true\n    level: native"},
		"a remark": {"devices:", "# a remark\ndevices:"},
	} {
		if own(with...) != plain {
			t.Errorf("%s is a change", change)
		}
	}
	if own("port: 1}, peer: \"s2:swp1\"", "port: 2}, peer: \"s2:swp1\"") == plain {
		t.Error("another locator is no change")
	}
}

// TestStripRetired says where tags of retired TPIDs end: at the edge unless the
// file says otherwise, and at a strip port with all others anyway.
func TestStripRetired(t *testing.T) {
	for _, tc := range []struct {
		name, retired, port string
		want                bool
	}{
		{"a host", "0x9902", "swp2, lm: 18, peer: h1", true},
		{"no peer", "0x9902", "swp2, lm: 18", true},
		{"a device's port", "0x9902", `swp2, lm: 18, peer: "s2:swp2"`, false},
		{"given at a host", "0x9902", "swp2, lm: 18, peer: h1, strip_retired: false", false},
		{"given at a device", "0x9902", `swp2, lm: 18, peer: "s2:swp2", strip_retired: true`, true},
		{"given at a strip port", "0x9902", "swp2, action: strip, peer: h1, strip_retired: true", false},
		{"nothing is retired", "", "swp2, lm: 18, peer: h1", false},
	} {
		text := strings.NewReplacer("swp2, speed: 10G, action: strip, peer: h1", tc.port, "  layout:", "  retired_tpids: ["+tc.retired+"]\n  layout:").Replace(good)
		if strings.Contains(tc.port, "s2:swp2") {
			text += `      - {name: swp2, lm: 19, peer: "s1:swp2"}` + "\n"
		}
		f, err := Parse("fleet.yaml", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if p := f.Devices[0].Ports[1]; p.Name != "swp2" || p.StripRetired != tc.want {
			t.Errorf("%s: %v at %s", tc.name, p.StripRetired, p.Name)
		}
	}
}
