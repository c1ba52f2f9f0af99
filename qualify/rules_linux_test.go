package qualify_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/qualify"
	"github.com/csig-agent/csig/qualify/qualifytest"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/vendorstest/memory"
	"github.com/csig-agent/csig/vlanrules"
)

// labBench is a bench at a software switch with these faults.
func labBench(t testing.TB, faults memory.Faults, ports int) *qualify.Bench {
	t.Helper()
	b, _ := labOf(t, faults, ports)
	return b
}

func labOf(t testing.TB, faults memory.Faults, ports int) (*qualify.Bench, *qualifytest.Lab) {
	t.Helper()
	return labWith(t, memory.Config{Faults: faults}, ports)
}

func labWith(t testing.TB, cfg memory.Config, ports int) (*qualify.Bench, *qualifytest.Lab) {
	t.Helper()
	f, err := inventory.Parse("fleet.yaml", []byte(strings.Replace(fleetText, "NETNS", "/run/netns/none", 1)))
	if err != nil {
		t.Fatal(err)
	}
	cfg.TPID, cfg.Octets = f.Profile.TPID, 1<<32-100_000
	lab := qualifytest.NewLab(t, cfg, ports)
	b := &qualify.Bench{Device: f.Devices[0], Profile: &f.Profile, Policy: f.Policy, Driver: lab.Driver(), Means: qualify.Means{
		Reopen:   func(context.Context) (vendors.Driver, error) { return lab.Driver(), nil },
		Restart:  func(context.Context) error { lab.Restart(); return nil },
		Counters: lab.Counters("p1", "p2", "p3"),
		Every:    37,
	}}
	b.Ports = qualifytest.Cards(t, lab.Bench, "c", []string{"p1", "p2", "p3"}[:ports]...)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, lab
}

// absent are experiments that need what no test has at its switch: an ACL, a mirror, a LAG, a route, storm control,
// PFC, a slow port, a collector; a third port.
var absent = []string{"acl", "ecmp", "ecn", "flooding", "lag", "mirror", "pfc", "queue", "sflow", "storm"}

// found are the codes of what failed, by experiment; an experiment that was not tested is
// there with its name alone.
func found(r *qualify.Report) string {
	var out []string
	for i := range r.Results {
		res := &r.Results[i]
		for _, f := range res.Faults {
			out = append(out, res.ID+":"+f.Code)
		}
		if res.Outcome == qualify.NotTested && !slices.Contains(absent, res.ID) {
			out = append(out, res.ID)
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " ")
}

// atFaults wants these codes found at a switch with faults, and no other.
func atFaults(t *testing.T, ports int, faults memory.Faults, want string, experiments []qualify.Experiment) {
	t.Helper()
	report := run(t, labBench(t, faults, ports), qualify.Options{Experiments: experiments, Destructive: true})
	for i := range report.Results {
		res := &report.Results[i]
		t.Logf("%s: %s (%.2f s) %s %v", res.ID, res.Outcome, res.Took.Seconds(), res.Found, res.Faults)
	}
	if got := found(report); got != want {
		t.Errorf("found %s\nwant  %s", got, want)
	}
}

// TestLongFaults has a switch for each fault of rules and counters: it is found and named by
// these experiments, and by no other.
func TestLongFaults(t *testing.T) {
	for _, r := range []struct {
		name   string
		faults memory.Faults
		want   string
	}{
		{"healthy", memory.Faults{}, ""},
		{"match sees the bridging VLAN", memory.Faults{MatchesBridgingVLAN: true}, "entries hitless link-flap restart rewrite:not-rewritten rule-change rule-key:no-rewrite session-lost untagged"},
		{"ignores PCP", memory.Faults{IgnoresPCP: true}, "entries hitless link-flap restart rewrite:not-rewritten rewrite:rewritten-wrongly rewrite:wrong-value rule-change rule-key:wrong-key session-lost"},
		{"rewrite clears DEI", memory.Faults{RewriteClearsDEI: true}, "rewrite:dei-altered"},
		{"loses DEI", memory.Faults{LosesDEI: true}, "marks:marks-dei-altered"},
		{"remarks PCP", memory.Faults{RemarksPCP: true}, "marks:marks-pcp-altered positions:behind-1-altered positions:behind-2-altered tpid:tag-pcp-altered"},
		{"VID 4095 dropped", memory.Faults{DropsVIDs: []vlanrules.VIDRange{{First: 4095, Last: 4095}}}, "vids:vid-4095-lost"},
		{"reserved VIDs dropped", memory.Faults{DropsVIDs: []vlanrules.VIDRange{{First: 1002, Last: 1005}}}, "flooding:flooding-broadcast flooding:flooding-known flooding:flooding-multicast flooding:flooding-unknown vids:vid-1002-1005-lost"},
		{"bridges by VID", memory.Faults{BridgesByVID: true}, "bpdu-lldp bridging:bridging-follows-vid counters dscp entries flooding:flooding-broadcast flooding:flooding-known flooding:flooding-multicast flooding:flooding-unknown hitless latency learning:learning-follows-vid learning:learning-not-from-tagged link-flap marks:marks-lost mtu positions:behind-1-lost positions:behind-2-lost restart rewrite rule-change rule-key session-lost strip:strip-lost tpid:tag-lost untagged vids:vid-1002-1005-lost vids:vid-3968-4094-lost vids:vid-4095-lost vids:vid-ordinary-range-lost"},
		{"rules take VLANs", memory.Faults{RulesTakeVLANs: true}, "untagged:frame-without-tag-altered"},
		{"strips payload", memory.Faults{StripsPayload: true}, "strip:strip-altered"},
		{"not hitless", memory.Faults{Gap: 20 * time.Millisecond}, "hitless:change-not-hitless"},
		{"small table", memory.Faults{Table: 10}, "entries:table-smaller hitless rewrite rule-change"},
		{"acknowledges early", memory.Faults{AckEarly: 400 * time.Millisecond}, "restart rule-change:late-on-wire session-lost"},
		{"forgets at a link flap", memory.Faults{ForgetsOnLinkDown: true}, "link-flap:lost-by-link-flap"},
		{"a lease for ever", memory.Faults{LeaseForever: true}, "session-lost:no-fallback"},
		{"no fallback", memory.Faults{NoFallback: true}, "session-lost:wrong-fallback"},
		{"stale counters", memory.Faults{StaleCounters: 200 * time.Millisecond}, "counters:counters-stale"},
		{"learns by VID", memory.Faults{LearnsByVID: true}, "flooding:flooding-known learning:learning-follows-vid learning:learning-not-from-tagged"},
		{"small MTU", memory.Faults{TightMTU: true}, "mtu:mtu-tag"},
		{"reorders tags", memory.Faults{ReordersTags: true}, "positions:behind-1-altered positions:behind-2-altered"},
		{"tags the untagged", memory.Faults{TagsUntagged: true}, "counters:overhead-wrong counters:tag-not-counted dscp:dscp-differs dscp:ecn-differs learning mtu positions:before-1-altered strip:strip-altered tpid:wide-tag-altered vlans:untagged-altered"},
		{"counts no FCS", memory.Faults{CountsNoFCS: true}, "counters:overhead-wrong"},
		{"counts no tag", memory.Faults{CountsNoTag: true}, "counters:tag-not-counted"},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			atFaults(t, 3, r.faults, r.want, qualify.All())
		})
	}
}

// TestFaults is TestLongFaults with several faults in a switch, and without the experiments
// that have tests of their own.
func TestFaults(t *testing.T) {
	const tags, rules = "tpid marks ", "rule-key rewrite untagged strip rule-change hitless session-lost counters "
	for _, r := range []struct {
		name, ask string
		faults    memory.Faults
		want      string
	}{
		{"none", tags + rules + "link-flap entries restart", memory.Faults{}, ""},
		{"of rules", rules + "link-flap entries", memory.Faults{
			RewriteClearsDEI: true, RulesTakeVLANs: true, StripsPayload: true, Gap: 20 * time.Millisecond,
			Table: 20, ForgetsOnLinkDown: true, CountsNoTag: true,
		}, "counters:tag-not-counted entries:table-smaller hitless:change-not-hitless link-flap:lost-by-link-flap rewrite:dei-altered strip:strip-altered untagged:frame-without-tag-altered"},
		{"of tags", tags + "session-lost counters", memory.Faults{
			LosesDEI: true, NoFallback: true, StaleCounters: 150 * time.Millisecond,
		}, "counters:counters-stale marks:marks-dei-altered session-lost:wrong-fallback"},
		{"of one port's time", "rule-change", memory.Faults{RulesOf: "p1", AckEarly: 150 * time.Millisecond}, "rule-change:late-on-wire"},
		{"most frames lost", "rule-key rewrite", memory.Faults{PassesOneIn: 37}, "rewrite rule-key"},
		{"PCP remarked", "rewrite", memory.Faults{RemarksPCP: true}, ""},
		{"few frames lost", "rule-key rewrite untagged", memory.Faults{LosesOneIn: 90}, "untagged:random-loss"},
		{"few frames lost under way", "session-lost", memory.Faults{LosesOneIn: 50}, "session-lost"},
		{"few frames doubled under way", "session-lost", memory.Faults{DoublesOneIn: 50}, "session-lost"},
		{"of one port's key", "rule-key rewrite untagged", memory.Faults{RulesOf: "p1", MatchesBridgingVLAN: true}, "rewrite:not-rewritten rule-key:no-rewrite untagged"},
		{"of one port's end", "session-lost", memory.Faults{RulesOf: "p1", LeaseForever: true}, "session-lost:no-fallback"},
		{"of one port's rules", "rewrite untagged strip hitless session-lost link-flap", memory.Faults{
			RulesOf: "p1", RewriteClearsDEI: true, RulesTakeVLANs: true, StripsPayload: true, Gap: 20 * time.Millisecond, NoFallback: true, ForgetsOnLinkDown: true,
		}, "hitless:change-not-hitless link-flap:lost-by-link-flap rewrite:dei-altered session-lost:wrong-fallback strip:strip-altered untagged:frame-without-tag-altered"},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			atFaults(t, 2, r.faults, r.want, only(strings.Fields(r.ask)...))
		})
	}
	t.Run("counters of 32 bits", func(t *testing.T) { // which wrap in this experiment
		t.Parallel()
		atFaults(t, 2, memory.Faults{Counters32: true}, "counters:wraps-at-32-bits", only("counters"))
	})
}

// TestACLWithRules: an ACL that drops frames with the tag has to do so where rules take them, too.
func TestACLWithRules(t *testing.T) {
	for _, shadows := range []bool{false, true} {
		t.Run(fmt.Sprint(shadows), func(t *testing.T) {
			t.Parallel()
			b, _ := labWith(t, memory.Config{Denies: [6]byte{0x02, 0xc5, 0x53, 0xac, 0x10, 0x01}, Faults: memory.Faults{ShadowsACL: shadows}}, 2)
			res := run(t, b, qualify.Options{Experiments: only("acl")}).Result("acl")
			if want := map[bool]qualify.Outcome{false: qualify.Pass, true: qualify.Fail}[shadows]; res.Outcome != want || res.Has("acl-shadowed") != shadows || !shadows && !strings.HasSuffix(res.Found, "with csig's rules and without") {
				t.Errorf("%s: %s %v %v", res.Outcome, res.Found, res.Faults, res.Notes)
			}
		})
	}
}

// only are the experiments of these IDs.
func only(ids ...string) []qualify.Experiment {
	return slices.DeleteFunc(qualify.All(), func(e qualify.Experiment) bool { return !slices.Contains(ids, e.ID) })
}
