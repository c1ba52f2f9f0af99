package assess

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/plans/planstest"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

func refused(why string) vlanrules.Verdict {
	return vlanrules.Verdict{Level: vlanrules.Refused, Reason: why}
}

func assessed1(f *inventory.Fleet, look func(*inventory.Device) Evidence) *Assessment {
	l := f.Profile.Layout
	if tablesSeen[l] == nil {
		tablesSeen[l] = map[string]tableOps{}
	}
	return assess(f, look, Options{Now: time.Unix(1e9, 0)}, tablesSeen[l])
}

// tablesSeen keeps what tables cost from test to test: counting it takes long.
var tablesSeen = map[quantize.Layout]map[string]tableOps{}

// able devices, asked, whose counters are live.
func ableEvidence(*inventory.Device) Evidence {
	return Evidence{Basis: BasisProbe, Observation: plans.Observation{Facts: planstest.Able}, Counters: Freshness{Source: "linux", Readings: 10, Kind: "live"}}
}

// bridgesBy are traits of a platform that takes a TPID for a VLAN tag's.
func bridgesBy(tpid uint16, bridging, learning bool) vendors.Traits {
	book := vendors.Source{Mark: vendors.Read, From: "a book"}
	return vendors.Traits{VLANTPIDs: vendors.That(vendors.TPIDList{tpid}, book), Independent: vendors.That(!bridging, book), Learning: vendors.That(!learning, book)}
}

func TestLevels(t *testing.T) {
	asserted := func(s inventory.Support) inventory.Level { return inventory.Level{Support: s, Reason: "told so"} }
	for name, tc := range map[string]struct {
		level     inventory.Level
		facts     vendors.Facts
		basis     Basis
		err       error
		want      inventory.Support
		reason    string
		errors    int
		warnsOf   string
		supported string // "tag depths signals level" of each kind, ";" between
	}{
		"everything": {basis: BasisProbe, want: "software", reason: "it takes the rules", supported: "compact [] [abw] software"},
		"promised":   {basis: BasisPlatform, want: "software", reason: "devices of its platform take the rules"},
		"no tags, unless": {
			basis: BasisPlatform, facts: vendors.Facts{Update: refused("no"), Passthrough: vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "only if bridged"}},
			want: "discard", reason: "not known to forward them: only if bridged; where it does forward them, give it its level, passthrough or native, with the reason", supported: "compact [] [abw] discard",
		},
		"told that it is so": {
			basis: BasisPlatform, level: asserted("passthrough"), facts: vendors.Facts{Update: refused("no"), Passthrough: vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "only if bridged"}},
			want: "passthrough", reason: "told so", warnsOf: "csig cannot see whether it is: only if bridged",
		},
		"the signal would choose the VLAN": {
			basis: BasisPlatform, facts: vendors.Facts{Update: refused("no"), Traits: bridgesBy(0x9900, true, true)},
			want: "discard", reason: "0x9900 is a VLAN tag's TPID to it, so that the tag's VID, which is the signal, chooses the VLAN that frames are bridged in",
		},
		"the signal would choose where it learns": {
			basis: BasisPlatform, facts: vendors.Facts{Update: refused("no"), Traits: bridgesBy(0x9900, false, true)},
			want: "discard", reason: "0x9900 is a VLAN tag's TPID to it, and it learns MAC addresses by the tag's VID, which is the signal",
		},
		"another TPID's VID chooses the VLAN": {
			basis: BasisPlatform, facts: vendors.Facts{Update: refused("no"), Traits: bridgesBy(0x8100, true, true)}, want: "passthrough", reason: "no",
		},
		"a TPID that it cannot be given": {
			basis: BasisPlatform, facts: vendors.Facts{Traits: vendors.Traits{TPIDs: vendors.That(vendors.TPIDs{List: vendors.TPIDList{0x8100, 0x88a8}}, vendors.Source{Mark: vendors.Read, From: "a book"})}},
			want: "passthrough", reason: "it takes the TPIDs 0x8100, 0x88a8, and the domain's is 0x9900", warnsOf: "it could update tags, but not in this domain: it takes the TPIDs",
		},
		"a TPID that it cannot be given, and does not let through": {
			basis: BasisPlatform, facts: vendors.Facts{Passthrough: refused("drops"), Traits: vendors.Traits{TPIDs: vendors.That(vendors.TPIDs{List: vendors.TPIDList{0x8100}}, vendors.Source{Mark: vendors.Read, From: "a book"})}},
			want: "discard", reason: "it takes the TPIDs 0x8100, and the domain's is 0x9900; drops",
		},
		"a driver, and another TPID's VID": {
			basis: BasisPlatform, facts: vendors.Facts{Traits: bridgesBy(0x9900, true, true)}, want: "software", reason: "devices of its platform take the rules",
		},
		"no update": {
			basis: BasisProbe, facts: vendors.Facts{Update: refused("translates the bridging VLAN only")},
			want: "passthrough", reason: "translates the bridging VLAN only", supported: "compact [] [abw] passthrough",
		},
		"no tags": {
			basis: BasisProbe, facts: vendors.Facts{Update: refused("no"), Passthrough: refused("takes the TPID for QinQ")},
			want: "discard", reason: "takes the TPID for QinQ", supported: "compact [] [abw] discard",
		},
		"degraded": {
			basis: BasisProbe, facts: vendors.Facts{Update: vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "DEI is lost"}},
			want: "software", reason: "DEI is lost",
		},
		"behind one VLAN tag": {
			basis: BasisProbe, facts: vendors.Facts{TagDepths: []vlanrules.Verdict{{}, {}, refused("too deep"), refused("too deep")}},
			want: "software", reason: "it takes the rules", supported: "compact [0 1] [abw] software; compact [2 3] [abw] passthrough",
		},
		"behind none, and discards what it does not parse": {
			basis: BasisProbe, facts: vendors.Facts{TagDepths: []vlanrules.Verdict{{}, refused("too deep")}, Passthrough: refused("drops")},
			want: "software", reason: "it takes the rules", supported: "compact [0] [abw] software; compact [1] [abw] discard",
		},
		"a port that it does not have": {
			basis: BasisProbe, facts: vendors.Facts{Ports: []string{"eth9"}}, want: "software", reason: "it takes the rules", errors: 1,
		},
		"told less":     {basis: BasisProbe, level: asserted("discard"), want: "discard", reason: "told so"},
		"told native":   {basis: BasisProbe, level: asserted("native"), want: "native", reason: "told so", warnsOf: "csig cannot tell whether that is so"},
		"told too much": {basis: BasisProbe, level: asserted("software"), facts: vendors.Facts{Update: refused("no hook")}, want: "passthrough", reason: "the fleet file says software, but: no hook", errors: 1},
		"told unsafely": {basis: BasisPlatform, level: asserted("passthrough"), facts: vendors.Facts{Update: refused("no"), Passthrough: refused("drops it")}, want: "discard", reason: "the fleet file says passthrough, but: drops it", errors: 1},
		"level unknown": {basis: BasisFile, err: fmt.Errorf("no driver"), want: "unknown", reason: "its level is unknown (no driver): give it a level in the fleet file; until then no tag may reach it", errors: 1, supported: "compact [] [abw] unknown"},
		"only told":     {basis: BasisFile, err: fmt.Errorf("no driver"), level: asserted("passthrough"), want: "passthrough", reason: "told so"},
		"told native, and it could be": {basis: BasisPlatform, level: asserted("native"), facts: vendors.Facts{Update: refused("no"), Traits: vendors.Traits{Native: vendors.That("all of it", vendors.Source{Mark: vendors.Read, From: "a book"})}},
			want: "native", reason: "told so", warnsOf: "what its platform has: all of it"},
	} {
		t.Run(name, func(t *testing.T) {
			f := planstest.Fabric(1, 0, 1)
			f.Devices[0].Level = tc.level
			a := assessed1(f, func(d *inventory.Device) Evidence {
				return Evidence{Basis: tc.basis, Observation: plans.Observation{Facts: tc.facts, Err: tc.err}}
			})
			d := a.Devices[0]
			if d.Level != tc.want.String() || d.Reason != tc.reason {
				t.Errorf("%s: %s\nwant %s: %s", d.Level, d.Reason, tc.want, tc.reason)
			}
			errors := 0
			for _, f := range a.Findings {
				if f.Level == findings.Error && f.Device != "" {
					errors++
				}
			}
			if errors != tc.errors {
				t.Errorf("errors %d, want %d: %v", errors, tc.errors, a.Findings)
			}
			if tc.warnsOf != "" && !slices.ContainsFunc(a.Findings, func(f findings.Finding) bool { return strings.Contains(f.Reason, tc.warnsOf) }) {
				t.Errorf("no finding about %q: %v", tc.warnsOf, a.Findings)
			}
			var kinds []string
			for _, s := range d.Support {
				kinds = append(kinds, fmt.Sprint(s.Tag, " ", s.VLANs, " ", s.Signals, " ", s.Level))
			}
			if got := strings.Join(kinds, "; "); tc.supported != "" && got != tc.supported {
				t.Errorf("supports %s\nwant %s", got, tc.supported)
			}
		})
	}
}

// Devices and ports are counted by their level, and the totals add up.
func TestTotals(t *testing.T) {
	f := planstest.Fabric(4, 1, 2)
	levels := []inventory.Support{inventory.LevelNative, inventory.LevelAuto, inventory.LevelPassthrough, inventory.LevelDiscard, inventory.LevelAuto}
	for i := range f.Devices {
		f.Devices[i].Level.Support = levels[i]
	}
	a := assessed1(f, func(d *inventory.Device) Evidence {
		if d.Name == "spine0" {
			return Evidence{Basis: BasisFile, Observation: plans.Observation{Err: fmt.Errorf("no driver")}}
		}
		return ableEvidence(d)
	})
	if got, want := a.Totals.Devices, (Counts{"all": 5, "native": 1, "software": 1, "passthrough": 1, "discard": 1, "unknown": 1}); !maps.Equal(got, want) {
		t.Errorf("devices %+v, want %+v", got, want)
	}
	if got, want := a.Totals.Ports, (Counts{"all": 16, "native": 3, "software": 3, "passthrough": 3, "discard": 3, "unknown": 4}); !maps.Equal(got, want) {
		t.Errorf("ports %+v, want %+v", got, want)
	}
}

// A port whose counters cannot be read says why, beside the reason of a level of its own.
func TestPortsWithoutCounters(t *testing.T) {
	f := planstest.Fabric(1, 1, 2)
	f.Devices[0].Ports[1].Action = vlanrules.Passthrough
	a := assessed1(f, func(d *inventory.Device) Evidence {
		e := ableEvidence(d)
		if d.Name == "leaf0" {
			e.Facts.Rules = vlanrules.Caps{Match: vlanrules.MatchTernary, MatchPCP: true, Txn: vlanrules.TxnEntry, Entries: 3}
		}
		e.Counters.Ports = map[string]string{"swp1": "no answer", "swp2": "no answer"}
		return e
	})
	for i, want := range []struct{ level, reason, end string }{
		{"passthrough", "needs 7 ternary entries", "3 in the table; its counters: no answer"},
		{"software", "its counters: no answer", "its counters: no answer"},
		{"passthrough", "needs 7 ternary entries", "3 in the table"},
	} {
		if p := a.Devices[0].Ports[i]; p.Level != want.level || !strings.HasPrefix(p.Reason, want.reason) || !strings.HasSuffix(p.Reason, want.end) {
			t.Errorf("%v %s: %s\nwant %+v", p.Ports, p.Level, p.Reason, want)
		}
	}
}

// Signals and tag formats differ where the facts differ.
func TestSupportOfFormatsAndSignals(t *testing.T) {
	f := planstest.Fabric(1, 0, 1)
	f.Profile.WideTPID = 0x9901
	f.Profile.Signals[quantize.MaxPD] = quantize.SignalProfile{}
	a := assessed1(f, func(d *inventory.Device) Evidence {
		e := ableEvidence(d)
		e.Facts.Wide = refused("eight bytes are two tags")
		return e
	})
	want := []Support{
		{"compact", []int{}, []string{"abw"}, "software", "it takes the rules"},
		{"compact", []int{}, []string{"pd"}, "passthrough", "a per-frame signal cannot be read from counters (draft-00 §6.4)"},
		{"wide", []int{}, []string{"abw", "pd"}, "passthrough", "eight bytes are two tags"},
	}
	if got := fmt.Sprint(a.Devices[0].Support); got != fmt.Sprint(want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if !slices.ContainsFunc(a.Requirements, func(r Requirement) bool {
		return r.Rule == RuleAccuracy && r.Status == StatusChoice && strings.Contains(r.Why, "do not update pd")
	}) {
		t.Errorf("nothing is said of pd: %v", a.Requirements)
	}
	if a.TagBytes != 8 {
		t.Errorf("the longest tag has %d bytes", a.TagBytes)
	}
}

func TestSignalAge(t *testing.T) {
	for name, tc := range map[string]struct {
		interval           time.Duration
		schedule           string
		declared           time.Duration
		counters           Freshness
		age, settles, best time.Duration
		warns              bool
	}{
		"live":           {100 * time.Millisecond, "@every 100ms", 0, Freshness{Source: "linux", Readings: 10, Kind: "live", Period: 100 * time.Millisecond, Read: 2 * time.Millisecond}, 102 * time.Millisecond, 202 * time.Millisecond, 2 * time.Millisecond, false},
		"often":          {time.Second, "@every 250ms", 0, Freshness{Source: "linux", Readings: 10, Kind: "live"}, 250 * time.Millisecond, 1250 * time.Millisecond, time.Millisecond, false},
		"a cache":        {10 * time.Second, "@every 10s", 0, Freshness{Source: "snmp", Readings: 10, Kind: "on-demand", Period: 5 * time.Second}, 15 * time.Second, 25 * time.Second, 5 * time.Second, false},
		"too short a Δt": {time.Second, "@every 1s", 0, Freshness{Source: "snmp", Readings: 10, Kind: "on-demand", Period: 5 * time.Second}, 6 * time.Second, 11 * time.Second, 5 * time.Second, true},
		"unknown":        {time.Second, "@every 1s", 0, Freshness{Source: "snmp", Readings: 10, Kind: "unknown"}, 0, 0, 0, false},
		"not read":       {time.Second, "@every 1s", 0, Freshness{Source: "snmp"}, 0, 0, 0, false},
		"declared":       {10 * time.Second, "@every 10s", 3 * time.Second, Freshness{Source: "snmp"}, 13 * time.Second, 23 * time.Second, 3 * time.Second, false},
		"measured again": {10 * time.Second, "@every 10s", 3 * time.Second, Freshness{Source: "snmp", Readings: 10, Kind: "timer", Period: 4 * time.Second}, 14 * time.Second, 24 * time.Second, 4 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := planstest.Fabric(1, 0, 1)
			d := &f.Devices[0]
			d.Interval, d.Schedule, d.Counters.Refresh = tc.interval, tc.schedule, tc.declared
			a := assessed1(f, func(d *inventory.Device) Evidence {
				e := ableEvidence(d)
				e.Counters = tc.counters
				return e
			})
			s := a.Devices[0].Signal
			if time.Duration(s.AgeNS) != tc.age || time.Duration(s.SettlesNS) != tc.settles || time.Duration(s.ShortestNS) != tc.best {
				t.Errorf("age %v, settles %v, shortest %v; want %v, %v, %v", time.Duration(s.AgeNS), time.Duration(s.SettlesNS), time.Duration(s.ShortestNS), tc.age, tc.settles, tc.best)
			}
			if warns := slices.ContainsFunc(a.Findings, func(f findings.Finding) bool { return strings.Contains(f.Reason, "have news only every") }); warns != tc.warns {
				t.Errorf("warns of a Δt that is too short: %v", warns)
			}
			if tc.age == 0 && s.Note == "" {
				t.Error("an age that is not known comes without a reason")
			}
		})
	}
}

// An assessment of some devices has all that concerns them, and lists stay
// lists in JSON.
func TestOnly(t *testing.T) {
	f := planstest.Fabric(3, 1, 1)
	f.Devices[3].Level = inventory.Level{Support: inventory.LevelDiscard, Reason: "drops"}
	a := assessed1(f, ableEvidence).Only([]string{"spine0"})
	if len(a.Devices) != 1 || a.Devices[0].Device != "spine0" || len(a.Requirements) != 3 || a.Totals.Devices["all"] != 4 {
		t.Errorf("%+v", a)
	}
	if text, err := json.Marshal(a); err != nil || strings.Contains(string(text), "null") {
		t.Errorf("%v %s", err, text)
	}
}

// TestConfigUpdates assesses a device whose updates are changes of its configuration.
func TestConfigUpdates(t *testing.T) {
	for _, updates := range []inventory.Updates{"", inventory.UpdatesCLI} {
		f := planstest.Fabric(1, 0, 2)
		f.Devices[0].Updates = updates
		a := assessed1(f, func(d *inventory.Device) Evidence {
			e := ableEvidence(d)
			e.Facts.ConfigUpdates = &vendors.ConfigUpdates{Interval: vendors.That(10*time.Second, vendors.Source{Mark: vendors.Assumed, From: "the test"}), Lines: 3}
			return e
		})
		got := map[findings.Code]findings.Finding{}
		for _, one := range a.Findings {
			got[one.Code] = one
		}
		if cost := got[findings.UpdatesCost]; cost.Level != findings.Info || !strings.Contains(cost.Reason, "at most 2160 lines an hour in accounting logs; no agent has observed the rate of bucket changes for 10 minutes, and it is assumed that all 2 change") {
			t.Errorf("cost: %+v", cost)
		}
		refused, is := got[findings.UpdatesRefused]
		if is != (updates == "") || is && (refused.Level != findings.Warning || !strings.Contains(refused.Reason, "csig apply does not set it up: each update of its signal")) {
			t.Errorf("updates %q: %+v", updates, refused)
		}
	}
}
