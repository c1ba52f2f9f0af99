package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestMain(m *testing.M) {
	if child() {
		return
	}
	os.Exit(m.Run())
}

// TestLongMerges has the receiver merge tagged frames as it merges others, with csig at both ends, and not where each has another tag.
// What it takes of the processor is not judged beside other tests.
func TestLongMerges(t *testing.T) {
	csig := filepath.Join(t.TempDir(), "csig")
	if out, err := exec.Command("go", "build", "-o", csig, "github.com/csig-agent/csig/cmd/csig").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	runs, err := measure(csig, 1, 100<<20)
	if err != nil {
		t.Fatal(err)
	}
	for arm, name := range arms {
		o := runs[arm][0]
		t.Logf("%s: %+v", name, o)
		merges := o.batch > 0.8*runs[untagged][0].batch
		if merges == (arm == tagsDiffer) || o.cpu[0] <= 0 || o.cpu[1] <= 0 {
			t.Errorf("%s: %+v; untagged %+v", name, o, runs[untagged][0])
		}
	}
}
