package qualify_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/qualify"
	"github.com/csig-agent/csig/vendors/vendorstest/memory"
	"github.com/csig-agent/csig/vlanrules"
)

// softBench is labBench without a driver.
func softBench(t testing.TB, faults memory.Faults, ports int) *qualify.Bench {
	t.Helper()
	b := labBench(t, faults, ports)
	b.Driver, b.NoWay, b.Patience = nil, "the test has none", time.Second
	return b
}

// TestForwardingFaults: each fault is found and named, by the experiments that look for it,
// and a healthy switch has none.
func TestForwardingFaults(t *testing.T) {
	for _, tc := range []struct {
		name   string
		faults memory.Faults
		ports  int
		only   []string // experiments; none: all
		want   []string // codes; none: healthy
	}{
		{"healthy", memory.Faults{}, 3, nil, nil},
		{"bridging follows the VID", memory.Faults{BridgesByVID: true}, 3, []string{"bridging", "learning"}, []string{"bridging-follows-vid", "learning-follows-vid"}},
		{"learning follows the VID", memory.Faults{LearnsByVID: true}, 3, []string{"learning", "flooding"}, []string{"learning-follows-vid", "learning-not-from-tagged", "flooding-known"}},
		{"VID 4095 is dropped", memory.Faults{DropsVIDs: []vlanrules.VIDRange{{First: 4095, Last: 4095}}}, 2, []string{"vids"}, []string{"vid-4095-lost"}},
		{"VIDs that are reserved are dropped", memory.Faults{DropsVIDs: []vlanrules.VIDRange{{First: 0, Last: 0}, {First: 1002, Last: 1005}, {First: 3968, Last: 4094}}}, 2, []string{"vids"}, []string{"vid-0-lost", "vid-1002-1005-lost", "vid-3968-4094-lost"}},
		{"DEI is lost", memory.Faults{LosesDEI: true}, 2, []string{"tpid", "marks"}, []string{"marks-dei-altered"}},
		{"PCP is remarked", memory.Faults{RemarksPCP: true}, 2, []string{"tpid", "marks"}, []string{"tag-pcp-altered", "marks-pcp-altered"}},
		{"the tag takes payload", memory.Faults{TightMTU: true}, 2, []string{"mtu"}, []string{"mtu-tag"}},
		{"tags change places", memory.Faults{ReordersTags: true}, 2, []string{"positions"}, []string{"behind-1-altered", "behind-2-altered"}},
		{"untagged frames get a tag", memory.Faults{TagsUntagged: true}, 2, []string{"vlans"}, []string{"untagged-altered"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			list := slices.DeleteFunc(qualify.Forwarding(), func(e qualify.Experiment) bool { return tc.only != nil && !slices.Contains(tc.only, e.ID) })
			r := run(t, softBench(t, tc.faults, tc.ports), qualify.Options{Experiments: list})
			var got []string
			for i := range r.Results {
				for _, f := range r.Results[i].Faults {
					got = append(got, f.Code)
				}
			}
			for _, code := range tc.want {
				if !slices.Contains(got, code) {
					t.Errorf("not found: %s", code)
				}
			}
			if tc.faults.LosesDEI {
				if res := r.Result("tpid"); res.Outcome != qualify.Pass || !strings.Contains(res.Found, "without their DEI") {
					t.Errorf("a DEI that is lost reads as a fault of the TPID: %s %s", res.Outcome, res.Found)
				}
				r.Switch.Model, r.Switch.Version = "X-1", "1"
				f, err := r.Facts(list)
				if err != nil || f.Passthrough == nil || !*f.Passthrough || f.Loses == nil || !slices.Equal(*f.Loses, []string{"DEI"}) {
					t.Errorf("%+v, %v", f, err)
				}
			}
			if tc.want == nil && len(got) > 0 || t.Failed() {
				t.Errorf("faults found: %s\n%s", strings.Join(got, ", "), text(t, r))
			}
		})
	}
}
