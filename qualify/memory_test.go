package qualify_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/qualify"
	"github.com/csig-agent/csig/qualify/qualifytest"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vendors/vendorstest/memory"
	"github.com/csig-agent/csig/vlanrules"
)

// fleetText is the tests' fleet file.
const fleetText = `format: csig.fleet/v1
profile:
  name: lab
  tpid: 0x9900
  wide_tpid: 0x9901
  interval: 100ms
  signals:
    abw:  {buckets: log-10G, quantum: 1Mbit/s}
    abwc: {buckets: log, quantum: 1ppm}
devices:
  - name: sw1
    platform: linux
    management: {netns: NETNS}
    ports:
      - {name: swp1, speed: 10G, lm: 1}
      - {name: swp2, speed: 10G, lm: 2}
`

func fleet(t testing.TB) *inventory.Fleet {
	t.Helper()
	f, err := inventory.Parse("fleet.yaml", []byte(strings.Replace(fleetText, "NETNS", "/run/netns/none", 1)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func text(t testing.TB, r *qualify.Report) string {
	t.Helper()
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Error(err)
	}
	return text.String()
}

func run(t testing.TB, b *qualify.Bench, o qualify.Options) *qualify.Report {
	t.Helper()
	if o.Folder == "" {
		o.Folder = filepath.Join(t.TempDir(), "out")
	}
	o.Quiet, b.Settle = 20*time.Millisecond, 3*time.Millisecond
	r, err := qualify.Run(context.Background(), b, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// labBench is a bench at a switch in memory with these faults.
func labBench(t testing.TB, faults memory.Faults, ports int) *qualify.Bench {
	t.Helper()
	cfg := memory.Config{Faults: faults, VLANs: 4000}
	if faults.BridgesByVID { // which shows where VLANs are not configured
		cfg.VLANs = 999
	}
	return labWith(t, cfg, ports)
}

func labWith(t testing.TB, cfg memory.Config, ports int) *qualify.Bench {
	t.Helper()
	cfg.TPID, cfg.Octets, cfg.Takes = 0x9900, 1<<32-100_000, time.Millisecond
	s := memory.New(cfg)
	return benchAt(t, s, qualifytest.MemoryCards(s, ports))
}

// benchAt is a bench at such a switch, with cards in memory or real ones.
func benchAt(t testing.TB, s *memory.Switch, ports []*qualify.Port) *qualify.Bench {
	t.Helper()
	f := fleet(t)
	b := &qualify.Bench{Ports: ports, Device: f.Devices[0], Profile: &f.Profile, Policy: f.Policy, Driver: s.Driver(), Means: qualify.Means{
		Reopen:   func(context.Context) (vendors.Driver, error) { return s.Driver(), nil },
		Restart:  func(context.Context) error { s.Restart(); return nil },
		Counters: s.Counters("p1", "p2", "p3"),
		Every:    map[bool]int{true: 149, false: 397}[vendorstest.Long(t)],
	}}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
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

// faulty are switches with faults: what is found there, and by no other experiment. With all
// of them at three ports, or with those that ask has, at two.
var faulty = []struct {
	name, ask string
	faults    memory.Faults
	want      string // as found has it
}{
	{"healthy", "", memory.Faults{}, ""},
	{"match sees the bridging VLAN", "", memory.Faults{MatchesBridgingVLAN: true}, "entries hitless link-flap restart rewrite:not-rewritten rule-change rule-key:no-rewrite session-lost untagged"},
	{"ignores PCP", "", memory.Faults{IgnoresPCP: true}, "entries hitless link-flap restart rewrite:not-rewritten rewrite:rewritten-wrongly rewrite:wrong-value rule-change rule-key:wrong-key session-lost"},
	{"rewrite clears DEI", "", memory.Faults{RewriteClearsDEI: true}, "rewrite:dei-altered"},
	{"loses DEI", "", memory.Faults{LosesDEI: true}, "marks:marks-dei-altered"},
	{"remarks PCP", "", memory.Faults{RemarksPCP: true}, "marks:marks-pcp-altered positions:behind-1-altered positions:behind-2-altered tpid:tag-pcp-altered"},
	{"VID 4095 dropped", "", memory.Faults{DropsVIDs: []vlanrules.VIDRange{{First: 4095, Last: 4095}}}, "vids:vid-4095-lost"},
	{"reserved VIDs dropped", "", memory.Faults{DropsVIDs: []vlanrules.VIDRange{{First: 0, Last: 0}, {First: 1002, Last: 1005}, {First: 3968, Last: 4094}}}, "flooding:flooding-broadcast flooding:flooding-known flooding:flooding-multicast flooding:flooding-unknown vids:vid-0-lost vids:vid-1002-1005-lost vids:vid-3968-4094-lost"},
	{"bridges by VID", "", memory.Faults{BridgesByVID: true}, "bpdu-lldp bridging:bridging-follows-vid counters dscp entries flooding:flooding-broadcast flooding:flooding-known flooding:flooding-multicast flooding:flooding-unknown hitless latency learning:learning-follows-vid learning:learning-not-from-tagged link-flap marks:marks-lost mtu positions:behind-1-lost positions:behind-2-lost restart rewrite rule-change rule-key session-lost strip:strip-lost tpid:tag-lost untagged vids:vid-1002-1005-lost vids:vid-3968-4094-lost vids:vid-4095-lost vids:vid-ordinary-range-lost"},
	{"rules take VLANs", "", memory.Faults{RulesTakeVLANs: true}, "untagged:frame-without-tag-altered"},
	{"strips payload", "", memory.Faults{StripsPayload: true}, "strip:strip-altered"},
	{"not hitless", "", memory.Faults{Gap: 20 * time.Millisecond}, "hitless:change-not-hitless"},
	{"small table", "", memory.Faults{Table: 10}, "entries:table-smaller hitless rewrite rule-change"},
	{"acknowledges early", "", memory.Faults{AckEarly: 400 * time.Millisecond}, "restart rule-change:late-on-wire session-lost"},
	{"forgets at a link flap", "", memory.Faults{ForgetsOnLinkDown: true}, "link-flap:lost-by-link-flap"},
	{"a lease for ever", "", memory.Faults{LeaseForever: true}, "session-lost:no-fallback"},
	{"no fallback", "", memory.Faults{NoFallback: true}, "session-lost:wrong-fallback"},
	{"stale counters", "", memory.Faults{StaleCounters: 200 * time.Millisecond}, "counters:counters-stale"},
	{"learns by VID", "", memory.Faults{LearnsByVID: true}, "flooding:flooding-known learning:learning-follows-vid learning:learning-not-from-tagged"},
	{"small MTU", "", memory.Faults{TightMTU: true}, "mtu:mtu-tag"},
	{"reorders tags", "", memory.Faults{ReordersTags: true}, "positions:behind-1-altered positions:behind-2-altered"},
	{"tags the untagged", "", memory.Faults{TagsUntagged: true}, "counters:overhead-wrong counters:tag-not-counted dscp:dscp-differs dscp:ecn-differs learning mtu positions:before-1-altered strip:strip-altered tpid:wide-tag-altered vlans:untagged-altered"},
	{"counts no FCS", "", memory.Faults{CountsNoFCS: true}, "counters:overhead-wrong"},
	{"counts no tag", "", memory.Faults{CountsNoTag: true}, "counters:tag-not-counted"},

	// Several faults in one switch, and some of one port alone.
	{"of rules", "rule-key rewrite untagged strip rule-change hitless session-lost counters link-flap entries", memory.Faults{
		RewriteClearsDEI: true, RulesTakeVLANs: true, StripsPayload: true, Gap: 20 * time.Millisecond,
		Table: 20, ForgetsOnLinkDown: true, CountsNoTag: true,
	}, "counters:tag-not-counted entries:table-smaller hitless:change-not-hitless link-flap:lost-by-link-flap rewrite:dei-altered strip:strip-altered untagged:frame-without-tag-altered"},
	{"of tags", "tpid marks session-lost counters", memory.Faults{
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
	{"counters of 32 bits", "counters", memory.Faults{Counters32: true}, "counters:wraps-at-32-bits"}, // which wrap in this experiment
}

// often are faults that a switch of several has, too, and what another one of one kind shows: TestLongFaults has them
// alone.
var often = []string{
	"rewrite clears DEI", "loses DEI", "VID 4095 dropped", "rules take VLANs", "strips payload", "not hitless", "small table",
	"acknowledges early", "forgets at a link flap", "a lease for ever", "no fallback", "stale counters", "counts no tag",
	"of one port's rules",
}

// judged has a bench judge each of these switches in memory: by all experiments, or by those that
// are to find something, one that cannot, and one that is quick.
func judged(t *testing.T, all bool) {
	for _, r := range faulty {
		switch {
		case all && r.ask != "" && !slices.Contains(often, r.name):
			continue // TestFaults has all that it asks
		case !all && r.ask == "" && (r.faults.LearnsByVID || r.faults.MatchesBridgingVLAN):
			continue // found by many experiments, the first by what all before it have sent: TestLongFaults
		case !all && slices.Contains(often, r.name):
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			ports, list, want := 3, qualify.All(), r.want
			switch {
			case r.ask != "":
				ports, list = 2, only(strings.Fields(r.ask)...)
			case !all && r.want == "":
				list = only("tpid", "vids", "rewrite", "untagged", "rule-change", "session-lost", "counters", "link-flap", "restart")
			case !all:
				ids, wants, cannot := []string{"tpid"}, []string(nil), false
				for _, w := range strings.Fields(r.want) {
					id, _, fault := strings.Cut(w, ":")
					if !fault && cannot {
						continue
					}
					cannot = cannot || !fault
					ids, wants = append(ids, id), append(wants, w)
				}
				list, want = only(ids...), strings.Join(wants, " ")
			}
			synctest.Test(t, func(t *testing.T) {
				report := run(t, labBench(t, r.faults, ports), qualify.Options{Experiments: list, Destructive: true})
				if got := found(report); got != want {
					t.Errorf("found %s\nwant  %s\n%s", got, want, text(t, report))
				}
			})
		})
	}
}

func TestFaults(t *testing.T)     { judged(t, false) }
func TestLongFaults(t *testing.T) { judged(t, true) }

// TestLongEveryTag has rewrite try all 65,536 tags.
func TestLongEveryTag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := labBench(t, memory.Faults{}, 2)
		b.Every = 0
		if res := run(t, b, qualify.Options{Experiments: only("rewrite")}).Result("rewrite"); res.Outcome != qualify.Pass || res.Frames.Arrived < 1<<16 {
			t.Errorf("%s: %s, %d frames arrived", res.Outcome, res.Found, res.Frames.Arrived)
		}
	})
}

// TestLostDEI: a DEI that is lost is no fault of the TPID, and a fact.
func TestLostDEI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, list := labBench(t, memory.Faults{LosesDEI: true}, 2), only("tpid", "marks")
		b.Driver, b.NoWay = nil, "the test has none"
		r := run(t, b, qualify.Options{Experiments: list})
		if res := r.Result("tpid"); res.Outcome != qualify.Pass || !strings.Contains(res.Found, "without their DEI") {
			t.Errorf("%s %s", res.Outcome, res.Found)
		}
		r.Switch.Model, r.Switch.Version = "X-1", "1"
		f, err := r.Facts(list)
		if err != nil || f.Passthrough == nil || !*f.Passthrough || f.Loses == nil || !slices.Equal(*f.Loses, []string{"DEI"}) {
			t.Errorf("%+v, %v", f, err)
		}
	})
}

// TestFactsOfRules: what rules do right is a fact, and what they do wrong is one.
func TestFactsOfRules(t *testing.T) {
	for strips, faults := range map[bool]memory.Faults{true: {}, false: {StripsPayload: true}} {
		synctest.Test(t, func(t *testing.T) {
			list, right := only("tpid", "rewrite", "untagged", "strip", "link-flap"), 3
			if !strips { // the others' facts are as with true
				list, right = only("tpid", "rewrite", "strip"), 1
			}
			r := run(t, labBench(t, faults, 2), qualify.Options{Experiments: list, Destructive: true})
			r.Switch.Model, r.Switch.Version = "X-1", "1"
			f, err := r.Facts(list)
			if err != nil {
				t.Fatal(err)
			}
			for i, fact := range []*bool{f.UpdateExact, f.VLANsUnchanged, f.SurvivesFlap} {
				if (fact != nil) != (i < right) || fact != nil && !*fact {
					t.Errorf("fact %d of update_exact, vlans_unchanged and survives_link_flap: %v, want true of the first %d", i, fact, right)
				}
			}
			if f.Strip == nil || *f.Strip != strips {
				t.Errorf("strip: %v, want %v", f.Strip, strips)
			}
		})
	}
}

// TestRestartProgress: a restart that does not come says what is waited for.
func TestRestartProgress(t *testing.T) {
	var told []string
	synctest.Test(t, func(t *testing.T) {
		run(t, labBench(t, memory.Faults{}, 2), qualify.Options{Experiments: only("restart"), Destructive: true, Progress: func(_, _ int, r *qualify.Result) {
			if r.ID == "restart" && r.Outcome == "" && r.Found != "" {
				told = append(told, r.Found)
			}
		}})
	})
	if text := strings.Join(told, "; "); len(told) != 2 || !strings.Contains(text, "2m0s until the switch is down") {
		t.Errorf("told %q", told)
	}
}

// TestACLWithRules: an ACL that drops frames with the tag has to do so where rules take them, too.
func TestACLWithRules(t *testing.T) {
	for _, shadows := range []bool{false, true} {
		t.Run(fmt.Sprint(shadows), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := labWith(t, memory.Config{Denies: [6]byte{0x02, 0xc5, 0x53, 0xac, 0x10, 0x01}, Faults: memory.Faults{ShadowsACL: shadows}}, 2)
				res := run(t, b, qualify.Options{Experiments: only("acl")}).Result("acl")
				if want := map[bool]qualify.Outcome{false: qualify.Pass, true: qualify.Fail}[shadows]; res.Outcome != want || res.Has("acl-shadowed") != shadows || !shadows && !strings.HasSuffix(res.Found, "with csig's rules and without") {
					t.Errorf("%s: %s %v %v", res.Outcome, res.Found, res.Faults, res.Notes)
				}
			})
		})
	}
}

// only are the experiments of these IDs.
func only(ids ...string) []qualify.Experiment {
	return slices.DeleteFunc(qualify.All(), func(e qualify.Experiment) bool { return !slices.Contains(ids, e.ID) })
}
