package inventory

import (
	"path/filepath"
	"reflect"
	"testing"
)

// TestOwnOfExamples has an agent started from its own part of each example: it can
// be written and read again, and the agent finds its data plane by it.
func TestOwnOfExamples(t *testing.T) {
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
			text, err := Marshal(f.Own(d))
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
			if !reflect.DeepEqual(got.OVS, d.Management.OVS) || !reflect.DeepEqual(got.Redis, d.Management.Redis) {
				t.Errorf("%s: management is %+v, want %+v", d.Name, got, d.Management)
			}
			if got.OVS != nil {
				bridges++
			}
		}
	}
	if bridges == 0 {
		t.Error("no example has a bridge")
	}
}
