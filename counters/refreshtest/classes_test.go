package refreshtest

import (
	"os"
	"strconv"
	"testing"

	"github.com/csig-agent/csig/quantize"
)

// bars is what each class is held to. Marked and outside are the shares of 1,000,000 windows, in per cent, that were marked and
// that were outside their error and not marked by what learned refreshes before; changes is a class of devices that go
// another way than they did, which no reading has shown until then.
var bars = map[string]struct {
	marked, outside float64
	changes         bool
	over            float64 // points above that, as far as it has been got
}{
	"live":                                                   {1.02, 0.00, false, 0},
	"live, and readings take a while":                        {42.30, 0.00, false, 1},
	"live, declared":                                         {0.00, 0.00, false, 0},
	"timer, slower than the readings":                        {23.01, 0.05, false, 0},
	"timer, late by up to 30 %":                              {40.79, 17.27, false, 0},
	"timer, documented":                                      {23.29, 9.89, false, 0},
	"timer, faster than the readings, documented":            {59.98, 0.00, false, 0},
	"timer, with the schedule's period":                      {50.38, 0.12, false, 0},
	"rows written one after the other":                       {38.19, 4.87, false, 0},
	"rows of SONiC: 1 s, written in 0.3 s, read each 100 ms": {45.05, 8.58, false, 0},
	"a cache for each port, filled by readings":              {22.09, 0.14, false, 0},
	"a timer of 3 s for each port, read each 250 ms":         {40.91, 3.23, false, 0},
	"a timer for each line card":                             {35.01, 7.14, false, 0},
	"filled by readings":                                     {21.71, 0.07, false, 0},
	"filled by readings, documented":                         {21.71, 0.07, false, 0},
	"documented, and all ports pause":                        {57.01, 1.24, false, 0},
	"configured, and all ports pause":                        {57.01, 1.24, false, 0},
	"timer, and the device pauses":                           {29.35, 6.91, false, 0},
	"timer, faster than the readings, and not documented":    {27.78, 32.10, false, 0},
	"each port in a way of its own":                          {20.41, 21.45, false, 0},
	"timer, that begins again at each refresh":               {34.86, 7.31, false, 0},
	"as net-snmp: each refresh 3 s after the one before, one of fifteen late, read each second": {21.44, 2.30, false, 0},
	"timer, now and then far too late":               {36.42, 1.16, true, 0},
	"timer, and then another one":                    {33.51, 0.32, true, 0},
	"live, and then filled by readings":              {14.09, 0.02, true, 0},
	"stamped by the device":                          {17.14, 0.02, false, 0},
	"stamped by the device, notifications late":      {47.71, 1.83, false, 0},
	"stamped in whole seconds":                       {34.31, 32.33, false, 0},
	"stamped by a clock that is wrong by up to 10 %": {24.79, 44.18, false, 0},
}

// TestClasses judges each class of devices: no window is of a wrong bucket and not marked, and no more are marked than
// were before, one point and those added that had to be.
func TestClasses(t *testing.T) { classes(t, 2_000) }

// TestLongClasses has more windows of each class: CSIG_WINDOWS=1000000 is how many in place of the few of CI, in which the shares
// say little.
func TestLongClasses(t *testing.T) {
	windows := 20_000
	if v := os.Getenv("CSIG_WINDOWS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			t.Fatalf("CSIG_WINDOWS=%s: want a number from 1", v)
		}
		windows = n
	}
	classes(t, windows)
}

func classes(t *testing.T, windows int) {
	table, err := quantize.Preset(quantize.MinABWC, "linear")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%-60s %9s %8s %8s %8s %8s %8s %8s %8s", "class", "windows", "per 100", "looks", "marked", "later", "other", "outside", "wrong")
	for _, c := range Classes() {
		bar, ok := bars[c.Name]
		if !ok {
			t.Errorf("%s has no bar", c.Name)
		}
		r := c.Judge(1, &table, windows)
		t.Logf("%-60s %9d %8.1f %8d %7.2f%% %7.2f%% %7.2f%% %8d %8d %s", c.Name, r.Windows, 100*float64(r.Windows)/float64(max(r.Readings, 1)), r.Looks, r.Share(r.Marked), r.Share(r.MarkedLater), r.Share(r.Other), r.Outside, r.Wrong, r.Example)
		switch most := bar.marked + bar.outside + bar.over + 1; {
		case r.Windows < windows, c.Live && r.Outside > 0, !bar.changes && r.Wrong > 0, windows >= 20_000 && r.Share(r.Wrong) > 0.3: // of few windows one change is more
			t.Errorf("%s: %+v", c.Name, r)
		case windows >= 1_000_000 && r.Share(r.Marked) > most:
			t.Errorf("%s: %.2f %% are marked, at most %.2f %% may be", c.Name, r.Share(r.Marked), most)
		}
	}
}
