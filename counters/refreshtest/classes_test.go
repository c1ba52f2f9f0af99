package refreshtest

import (
	"os"
	"strconv"
	"testing"

	"github.com/csig-agent/csig/quantize"
)

// TestLiveSourcesAreNeverWrong prints what csig says of each class of devices: no window of a live source is wrong.
// CSIG_WINDOWS=100000 is how many windows each class has, in place of the few of CI.
func TestLiveSourcesAreNeverWrong(t *testing.T) {
	windows := 2000
	if v := os.Getenv("CSIG_WINDOWS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			t.Fatalf("CSIG_WINDOWS=%s: want a number from 1", v)
		}
		windows = n
	}
	table, err := quantize.Preset(quantize.MinABWC, "linear")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%-60s %9s %8s %8s %8s %8s", "class", "windows", "per 100", "marked", "outside", "wrong")
	for _, c := range Classes() {
		r := c.Judge(1, &table, windows)
		t.Logf("%-60s %9d %8.1f %7.2f%% %8d %8d %s", c.Name, r.Windows, 100*float64(r.Windows)/float64(max(r.Readings, 1)), r.Share(r.Marked), r.Outside, r.Wrong, r.Example)
		if r.Windows < windows || c.Live && r.Outside+r.Wrong > 0 {
			t.Errorf("%s: %+v", c.Name, r)
		}
	}
}
