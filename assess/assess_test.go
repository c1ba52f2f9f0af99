package assess

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

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

func TestTableCostAndHeadroom(t *testing.T) {
	f := planstest.Fabric(1, 0, 4)
	f.Profile.Signals[quantize.MinABWC] = quantize.SignalProfile{}
	f.Devices[0].Ports[0].LM[quantize.MinABWC] = 1 // of all: they share the map
	caps := vlanrules.Caps{Match: vlanrules.MatchTernary, MatchPCP: true, MatchD: true, Txn: vlanrules.TxnEntry, Modify: true, ModifyEntry: true, Entries: 100, Shared: true}
	look := func(d *inventory.Device) Evidence {
		e := ableEvidence(d)
		e.Facts.Rules = caps
		return e
	}
	d := assessed1(f, look).Devices[0]
	if c := d.Table; c.Form != "lazy" || c.Ports != 4 || c.PerPort != 14 || c.Entries != 56 || c.Capacity != 100 || !c.Shared || c.OpsMean < 2 || c.OpsMean > 2.3 {
		t.Errorf("ternary: %+v", *c)
	}
	// Half the room: the smaller table, then none.
	caps.Entries = 40
	if c := assessed1(f, look).Devices[0].Table; c.Form != "ordered" || c.Entries+c.Headroom > 40 {
		t.Errorf("ternary in 40 entries: %+v", *c)
	}
	caps.Entries = 12
	a := assessed1(f, look)
	if c := a.Devices[0].Table; c.Form != "" || a.Totals.Errors != 4 || a.Totals.Ports["passthrough"] != 4 {
		t.Errorf("ternary in 12 entries: %+v, %+v", *c, a.Totals)
	}
	if p := a.Devices[0].Ports; len(p) != 1 || strings.Contains(p[0].Reason, "swp") {
		t.Errorf("ports with the same trouble are not put together: %+v", p)
	}
	// And then they may not be called capable.
	if !slices.ContainsFunc(a.Requirements, func(r Requirement) bool {
		return r.Rule == RuleAccuracy && r.Status == StatusUnmet && len(r.Ports) == 4
	}) {
		t.Errorf("nothing is said of ports that should update and cannot: %v", a.Requirements)
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

// A device whose updates take longer than its schedule allows is warned of.
func TestSlowUpdates(t *testing.T) {
	f := planstest.Fabric(1, 0, 1)
	f.Devices[0].Interval, f.Devices[0].Schedule = time.Second, "@every 10ms"
	a := assessed1(f, func(d *inventory.Device) Evidence {
		e := ableEvidence(d)
		e.Facts.Traits.MinUpdate = vendors.That(25*time.Millisecond, vendors.Source{Mark: vendors.Ran, From: "a clock"})
		return e
	})
	if got := time.Duration(a.Devices[0].Signal.ShortestNS); got != 25*time.Millisecond {
		t.Errorf("the shortest honest Δt is %v", got)
	}
	if text := fmt.Sprint(a.Findings); !strings.Contains(text, "leaf0: it is sampled every 10ms, but an update of its rules takes 25ms at least") {
		t.Error(text)
	}
}

func TestRequirements(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(f *inventory.Fleet)
		facts  vendors.Facts
		mtus   map[string]int // as the device has them
		want   string         // rule status place
	}{
		"receivers strip meanwhile": {want: "strip-while-rolling planned leaf0:swp1"},
		"they cannot":               {facts: vendors.Facts{Strip: refused("no tcx")}, want: "strip-while-rolling impossible leaf0:swp1"},
		"a host without CSIG":       {change: func(f *inventory.Fleet) { f.Hosts[0].CSIG = false }, want: "strip-at-edge unmet leaf0:swp1"},
		"it strips": {change: func(f *inventory.Fleet) {
			f.Hosts[0].CSIG = false
			f.Devices[0].Ports[0].Action = vlanrules.Strip
		}, want: "strip-at-edge met leaf0:swp1"},
		"it strips, and cannot": {facts: vendors.Facts{Strip: refused("no tcx")}, change: func(f *inventory.Fleet) {
			f.Hosts[0].CSIG = false
			f.Devices[0].Ports[0].Action = vlanrules.Strip
		}, want: "strip-at-edge impossible leaf0:swp1"},
		"it strips, and not all": {facts: vendors.Facts{Strip: vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "none before MPLS"}}, change: func(f *inventory.Fleet) {
			f.Hosts[0].CSIG = false
			f.Devices[0].Ports[0].Action = vlanrules.Strip
		}, want: "strip-at-edge unchecked leaf0:swp1"},
		"an unknown host":    {change: func(f *inventory.Fleet) { f.Hosts = f.Hosts[1:] }, want: "strip-at-edge unchecked leaf0:swp1"},
		"a device of others": {change: func(f *inventory.Fleet) { f.Devices[0].Ports[1].Peer = inventory.Peer{Device: "isp", Port: "1"} }, want: "strip-at-edge unchecked leaf0:up1"},
		"one that forwards": {change: func(f *inventory.Fleet) {
			f.Devices[2].Level = inventory.Level{Support: inventory.LevelPassthrough}
			for i := range f.Devices[2].Ports {
				f.Devices[2].Ports[i].Action = vlanrules.Passthrough
			}
		}, want: "accuracy choice spine0:down1"},
		"one that should update": {change: func(f *inventory.Fleet) { f.Devices[2].Level = inventory.Level{Support: inventory.LevelPassthrough} }, want: "accuracy unmet spine0:down1"},
		"a sender at one that discards": {change: func(f *inventory.Fleet) {
			f.Devices[0].Level = inventory.Level{Support: inventory.LevelDiscard}
		}, want: "no-sending unmet h0-0"},
		"room":                                  {change: func(f *inventory.Fleet) { f.Hosts[0].MTU, f.Devices[2].Ports[0].MTU = 1504, 1504 }, want: "mtu met spine0:down1"},
		"no room":                               {change: func(f *inventory.Fleet) { f.Hosts[0].MTU, f.Devices[2].Ports[0].MTU = 1504, 1503 }, want: "mtu unmet spine0:down1"},
		"room with slack":                       {facts: vendors.Facts{MTUHeadroom: 4}, change: func(f *inventory.Fleet) { f.Hosts[0].MTU, f.Devices[2].Ports[0].MTU = 1504, 1500 }, want: "mtu met spine0:down1"},
		"no room with it":                       {facts: vendors.Facts{MTUHeadroom: 4}, change: func(f *inventory.Fleet) { f.Hosts[0].MTU, f.Devices[2].Ports[0].MTU = 1504, 1499 }, want: "mtu unmet spine0:down1"},
		"unknown":                               {change: func(f *inventory.Fleet) { f.Hosts[0].MTU = 1500 }, want: "mtu unchecked spine0:down1"},
		"read, and enough":                      {mtus: map[string]int{"down1": 1504}, change: func(f *inventory.Fleet) { f.Hosts[0].MTU = 1504 }, want: "mtu met spine0:down1"},
		"read, and too small":                   {mtus: map[string]int{"down1": 1500}, change: func(f *inventory.Fleet) { f.Hosts[0].MTU = 1504 }, want: "mtu planned spine0:down1"},
		"read, and not yet what the file has":   {mtus: map[string]int{"down1": 1504}, change: func(f *inventory.Fleet) { f.Hosts[0].MTU, f.Devices[2].Ports[0].MTU = 1504, 9000 }, want: "mtu planned spine0:down1"},
		"read as enough, and the file has less": {mtus: map[string]int{"down1": 1504}, change: func(f *inventory.Fleet) { f.Hosts[0].MTU, f.Devices[2].Ports[0].MTU = 1504, 1503 }, want: "mtu unmet spine0:down1"},
		"the card":                              {change: func(f *inventory.Fleet) { f.Hosts[0].MTU = 1500 }, want: "mtu unchecked h0-0"},
		"the peer is unknown": {change: func(f *inventory.Fleet) {
			f.Devices[2].Level = inventory.Level{Support: inventory.LevelDiscard}
			f.Devices[0].Ports[1].Peer = inventory.Peer{} // only the other side says
		}, want: "strip-before-discard unmet leaf0:up1"},
	} {
		t.Run(name, func(t *testing.T) {
			f := planstest.Fabric(2, 1, 1)
			if tc.change != nil {
				tc.change(f)
			}
			a := assessed1(f, func(d *inventory.Device) Evidence {
				e := ableEvidence(d)
				e.Facts, e.MTUs = tc.facts, tc.mtus
				return e
			})
			var all []string
			for _, r := range a.Requirements {
				for _, p := range r.Ports {
					all = append(all, r.Rule+" "+r.Status+" "+r.Device+":"+p)
				}
				for _, h := range r.Hosts {
					all = append(all, r.Rule+" "+r.Status+" "+h)
				}
				if !strings.HasPrefix(r.Section, "draft-00 §6.") || r.What == "" || r.Why == "" || len(r.Ports) != len(r.Peers) && r.Hosts == nil {
					t.Errorf("a requirement without a section, a reason or a peer: %+v", r)
				}
			}
			if !slices.Contains(all, tc.want) {
				t.Errorf("no %q among\n%s", tc.want, strings.Join(all, "\n"))
			}
			n := 0
			for _, of := range a.Totals.Requirements {
				n += of
			}
			if n != len(all) {
				t.Errorf("the totals have %d places, the list has %d", n, len(all))
			}
		})
	}
}

// TestRoomOfHosts: hosts with one MTU share a requirement, which has the IP MTU that
// leaves the tag its bytes; of hosts without one the bytes are named.
func TestRoomOfHosts(t *testing.T) {
	f := planstest.Fabric(2, 1, 2)
	for i, mtu := range []int{1500, 1500, 9000} {
		f.Hosts[i].MTU = mtu
	}
	got := map[string]int{}
	for _, r := range assessed1(f, ableEvidence).Requirements {
		if r.Rule == RuleMTU && len(r.Hosts) > 0 {
			got[r.What] = len(r.Hosts)
		}
	}
	want := map[string]int{
		"leave 4 bytes of its card's MTU (1500) for the tag: an IP MTU of 1496, or a larger one for the card": 2,
		"leave 4 bytes of its card's MTU (9000) for the tag: an IP MTU of 8996, or a larger one for the card": 1,
		"leave 4 bytes of its card's MTU for the tag: lower its IP MTU by them, or raise the card's":          len(f.Hosts) - 3,
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Whatever the fabric: every egress port to a device that must not see a tag is
// named by a requirement to strip, and those that do not strip are not met.
func TestNoTagReachesADiscardDevice(t *testing.T) {
	costs := map[string]tableOps{} // counting them takes long
	rapid.Check(t, func(t *rapid.T) {
		f := planstest.Fabric(rapid.IntRange(1, 5).Draw(t, "leaves"), rapid.IntRange(0, 4).Draw(t, "spines"), rapid.IntRange(0, 3).Draw(t, "hosts"))
		kinds := []inventory.Support{inventory.LevelAuto, inventory.LevelNative, inventory.LevelSoftware, inventory.LevelPassthrough, inventory.LevelDiscard}
		type facts struct {
			basis Basis
			vendors.Facts
		}
		all := map[string]facts{}
		for i := range f.Devices {
			d := &f.Devices[i]
			d.Level = inventory.Level{Support: rapid.SampledFrom(kinds).Draw(t, "asserted")}
			one := facts{basis: rapid.SampledFrom([]Basis{BasisProbe, BasisPlatform, BasisFile}).Draw(t, "basis")}
			for _, v := range []*vlanrules.Verdict{&one.Update, &one.Passthrough, &one.Strip} {
				if rapid.Bool().Draw(t, "refused") {
					*v = refused("no")
				}
			}
			if one.Passthrough.Level == vlanrules.Full && rapid.Bool().Draw(t, "under a condition") {
				one.Passthrough = vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "if it only bridges"}
			}
			all[d.Name] = one
			for j := range d.Ports {
				d.Ports[j].Action = rapid.SampledFrom([]vlanrules.Action{vlanrules.Update, vlanrules.Passthrough, vlanrules.Strip}).Draw(t, "action")
				if d.Ports[j].Peer.Port != "" && i%2 == 0 && rapid.IntRange(0, 4).Draw(t, "silent") == 0 {
					d.Ports[j].Peer = inventory.Peer{}
				}
			}
		}
		for i := range f.Hosts {
			f.Hosts[i].CSIG = rapid.Bool().Draw(t, "csig")
		}
		a := assess(f, func(d *inventory.Device) Evidence {
			one := all[d.Name]
			return Evidence{Basis: one.basis, Observation: plans.Observation{Facts: one.Facts}}
		}, Options{Now: time.Unix(1e9, 0)}, costs)
		// The model: a device may see tags only where a source says that it
		// forwards them, and no answer says that it does not.
		blind := map[string]bool{}
		for i := range f.Devices {
			d := &f.Devices[i]
			one := all[d.Name]
			knows := one.basis == BasisProbe || one.basis == BasisPlatform
			drops := knows && one.Update.Level == vlanrules.Refused && one.Passthrough.Level != vlanrules.Full
			switch d.Level.Support {
			case inventory.LevelAuto:
				blind[d.Name] = drops || one.basis == BasisFile
			case inventory.LevelDiscard:
				blind[d.Name] = true
			case inventory.LevelSoftware:
				blind[d.Name] = drops
			case inventory.LevelPassthrough: // the file may say that a condition is met
				blind[d.Name] = drops && one.Passthrough.Level == vlanrules.Refused
			}
			if got := a.Devices[i].Level; blind[d.Name] != (got == "discard" || got == "unknown") {
				t.Fatalf("%s is %s", d.Name, got)
			}
		}
		named := map[string]string{}
		for _, r := range a.Requirements {
			for k, p := range r.Ports {
				if r.Rule == RuleStripDiscard {
					named[r.Device+":"+p] = r.Status + " " + inventory.Peer(r.Peers[k]).String()
				}
			}
		}
		for i := range f.Devices {
			d := &f.Devices[i]
			for j := range d.Ports {
				p := &d.Ports[j]
				far, ok := farEnd(f, d, p)
				if !ok {
					continue
				}
				state := named[d.Name+":"+p.Name]
				if !blind[far.Device] {
					if state != "" {
						t.Fatalf("%s:%s is to strip before %s, which forwards tags", d.Name, p.Name, far.Device)
					}
					continue
				}
				status, peer, _ := strings.Cut(state, " ")
				if peer != far.String() {
					t.Fatalf("%s:%s to %s is not named: %q", d.Name, p.Name, far, state)
				}
				if p.Action != vlanrules.Strip && status == StatusMet && a.Devices[i].Level != "discard" {
					t.Fatalf("%s:%s to %s has action %s and is called met", d.Name, p.Name, far, p.Action)
				}
			}
		}
	})
}

// farEnd finds a port's peer from either side.
func farEnd(f *inventory.Fleet, d *inventory.Device, p *inventory.Port) (inventory.Peer, bool) {
	if p.Peer.Port != "" {
		return p.Peer, true
	}
	for i := range f.Devices {
		for j := range f.Devices[i].Ports {
			if f.Devices[i].Ports[j].Peer == (inventory.Peer{Device: d.Name, Port: p.Name}) {
				return inventory.Peer{Device: f.Devices[i].Name, Port: f.Devices[i].Ports[j].Name}, true
			}
		}
	}
	return inventory.Peer{}, false
}

func TestCautions(t *testing.T) {
	book := vendors.Source{Mark: vendors.Read, From: "a book"}
	// What is harmless of a platform that takes 0x88a8 for a VLAN tag's TPID.
	harmless := func(edit func(*vendors.Traits)) vendors.Traits {
		t := vendors.Traits{
			VLANTPIDs: vendors.That(vendors.TPIDList{0x8100, 0x88a8}, book), Independent: vendors.That(true, book), Learning: vendors.That(true, book),
			Parses: vendors.That(true, book), Hash: vendors.That(vendors.Fields{vendors.FieldIP}, book), DropDEI: vendors.That(false, book),
			TrustPCP: vendors.That(false, book), Routed: vendors.That(true, book),
		}
		edit(&t)
		return t
	}
	for name, tc := range map[string]struct {
		tpid   uint16
		basis  Basis
		level  inventory.Support
		none   string // why csig has no driver
		traits vendors.Traits
		want   []string // findings of the device, in order
	}{
		"nothing is known": {0x9900, BasisFile, inventory.LevelPassthrough, "", vendors.Traits{},
			[]string{"so check: QoS trust", "so check: DEI", "so check: hashing", "so check: the VLAN"}},
		"nothing is known of one that does it itself": {0x9900, BasisFile, inventory.LevelNative, "", vendors.Traits{}, nil},
		"no traits": {0x9900, BasisProbe, "", "", vendors.Traits{},
			[]string{"so check: QoS trust", "so check: DEI", "so check: hashing", "so check: the VLAN"}},
		"another TPID": {0x9900, BasisProbe, "", "", harmless(func(*vendors.Traits) {}),
			[]string{"it does not look behind TPID 0x9900"}},
		"another TPID, and routes none": {0x9900, BasisProbe, "", "", harmless(func(t *vendors.Traits) { t.Routed.Is = false }),
			[]string{"tagged frames; it bridges tagged frames, and routes none"}},
		"another TPID, native": {0x9900, BasisPlatform, inventory.LevelNative, "", harmless(func(t *vendors.Traits) { t.Native = vendors.That("all", book) }),
			[]string{"its level is native"}},
		"a TPID that csig sets": {0x9900, BasisPlatform, "", "", harmless(func(t *vendors.Traits) {
			t.Independent.Is, t.TPIDs = false, vendors.That(vendors.TPIDs{List: vendors.TPIDList{0x9900}, AsVLAN: true}, book)
		}), []string{"it takes 0x9900 for a VLAN tag's TPID, and the tag's VID, which is the signal, chooses the VLAN that frames are bridged in (read: a book)"}},
		"another TPID, that a user may set": {0x9900, BasisPlatform, "", "no driver", harmless(func(t *vendors.Traits) {
			t.Independent.Is, t.TPIDs = false, vendors.That(vendors.TPIDs{List: vendors.TPIDList{0x9900}, AsVLAN: true}, book)
		}), []string{"tagged frames; were that set as a TPID of its, the tag's VID"}},
		"another TPID, that no user can set": {0x9900, BasisPlatform, "", "no driver", harmless(func(t *vendors.Traits) {
			t.Independent.Is, t.TPIDs = false, vendors.That(vendors.TPIDs{List: vendors.TPIDList{0x9100}, AsVLAN: true}, book)
		}), []string{"filters of IP fields do not take in tagged frames"}},
		"harmless": {0x88a8, BasisProbe, "", "", harmless(func(*vendors.Traits) {}), nil},
		"hashes the VID": {0x88a8, BasisProbe, "", "", harmless(func(t *vendors.Traits) { t.Hash.Is = vendors.Fields{vendors.FieldVID, vendors.FieldPCP} }),
			[]string{"take in the VID: flows may be reordered when S changes"}},
		"hashes the PCP": {0x88a8, BasisProbe, "", "", harmless(func(t *vendors.Traits) { t.Hash.Is = vendors.Fields{vendors.FieldPCP} }),
			[]string{"take in the PCP: packets of a flow"}},
		"finds no IP header": {0x88a8, BasisProbe, "", "", harmless(func(t *vendors.Traits) { t.Parses.Is = false }),
			[]string{"does not find the IP header behind it: hashing (ECMP, LAG), ECN marking, DSCP, ACLs and PFC"}},
		"drops by DEI": {0x88a8, BasisProbe, "", "", harmless(func(t *vendors.Traits) { t.DropDEI.Is = true }),
			[]string{"DEI is drop precedence"}},
		"queues by PCP": {0x88a8, BasisProbe, "", "", harmless(func(t *vendors.Traits) { t.TrustPCP.Is = true }),
			[]string{"the PCP chooses the queue"}},
		"routes without the tag": {0x88a8, BasisProbe, "", "", harmless(func(t *vendors.Traits) { t.Routed.Is = false }),
			[]string{"leave without their tag"}},
		"keeps VIDs": {0x88a8, BasisProbe, "", "", harmless(func(t *vendors.Traits) {
			t.VIDs = vendors.That(vendors.VIDs{Last: 4094, Reserved: vendors.VIDRanges{{First: 1002, Last: 1005}}}, book)
		}), []string{"it keeps VIDs 1002 to 1005 for itself"}},
		"bridges as assumed": {0x88a8, BasisProbe, "", "", harmless(func(t *vendors.Traits) {
			t.Independent.Source = vendors.Source{Mark: vendors.Assumed, From: "of bridges without filtering"}
		}), []string{"so check: the VLAN that a frame is bridged in does not follow the VID of the tag: that is so of bridges without filtering"}},
		"loses R": {0x88a8, BasisProbe, "", "", harmless(func(t *vendors.Traits) { t.Loses = vendors.That(vendors.Fields{vendors.FieldDEI}, book) }),
			[]string{"a tag's R (DEI) is lost on the way through it: read: a book"}},
		"half known": {0x88a8, BasisProbe, "", "", vendors.Traits{VLANTPIDs: vendors.That(vendors.TPIDList{0x88a8}, book)},
			[]string{"so check: hashing (ECMP, LAG), ECN", "so check: hashing (ECMP, LAG) does not", "so check: DEI", "so check: QoS trust", "so check: the VLAN", "so check: the tag survives"}},
		"no tag reaches it": {0x88a8, BasisPlatform, inventory.LevelDiscard, "", vendors.Traits{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := planstest.Fabric(1, 0, 1)
			f.Profile.TPID, f.Devices[0].Level, f.Devices[0].Interval = tc.tpid, inventory.Level{Support: tc.level}, time.Second
			a := assessed1(f, func(*inventory.Device) Evidence {
				facts := vendors.Facts{Traits: tc.traits}
				if tc.none != "" {
					facts.Update = refused("no driver")
				}
				return Evidence{Basis: tc.basis, Observation: plans.Observation{Facts: facts, NoDriver: tc.none}, Counters: Freshness{Readings: 10, Kind: "live"}}
			})
			var got []string
			for _, f := range a.Findings {
				if f.Device != "" {
					got = append(got, f.Reason)
				}
			}
			ok := len(got) == len(tc.want)
			for i := range min(len(got), len(tc.want)) {
				ok = ok && strings.Contains(got[i], tc.want[i])
			}
			if !ok {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
	f := planstest.Fabric(2, 1, 1)
	if text := fmt.Sprint(assessed1(f, ableEvidence).Findings); !strings.Contains(text, "VIDs from 1 to 4094") {
		t.Error(text)
	}
	f.Profile.InitialS = map[quantize.Signal]uint8{quantize.MinABW: 30}
	if text := fmt.Sprint(assessed1(f, ableEvidence).Findings); strings.Contains(text, "VIDs from") {
		t.Errorf("with initial_s: 30: %s", text)
	}
}

// A table that all ports share has no entry for a port where it is too small,
// and no limit where it has none; what others hold is not there.
func TestSharesOfATable(t *testing.T) {
	for name, tc := range map[string]struct {
		caps vlanrules.Caps
		ok   bool
	}{
		"an entry for each": {vlanrules.Caps{MatchPCP: true, Entries: 65, Shared: true, Ports: 65}, true},
		"too small":         {vlanrules.Caps{MatchPCP: true, Entries: 64, Shared: true, Ports: 65}, false},
		"others hold one":   {vlanrules.Caps{MatchPCP: true, Entries: 65, Taken: 1, Shared: true, Ports: 65}, false},
		"others hold all":   {vlanrules.Caps{MatchPCP: true, Entries: 65, Taken: 70}, false},
		"no limit":          {vlanrules.Caps{Match: vlanrules.MatchTernary, MatchPCP: true, Modify: true, Shared: true, Ports: 65}, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := &assessor{fleet: planstest.Fabric(1, 0, 1), costs: map[string]tableOps{}}
			if got := a.ops(tc.caps); got.ok != tc.ok || got.ok != (got.ops.Max > 0) {
				t.Errorf("%+v, want ok %v", got, tc.ok)
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

// TestFactsInAssessments: what was measured of a model takes the place of what is assumed
// and read, says so, and is asked for where a driver never ran on hardware.
func TestFactsInAssessments(t *testing.T) {
	no, yes, refresh := false, true, 3*time.Second
	most := 9236
	measured := &inventory.Facts{Name: "m32", Platform: "linux", Model: "M32", Version: "1.2", Date: "2026-11-22", TPIDs: []uint16{0x9900},
		Loses: &[]string{"DEI"}, ECN: &no, CounterRefresh: &refresh, UpdateExact: &yes}
	noRule := &inventory.Facts{Name: "m32", Platform: "linux", Model: "M32", Version: "1.2", Date: "2026-11-22", TPIDs: []uint16{0x9900}, MaxFrame: &most}
	for name, tc := range map[string]struct {
		facts    *inventory.Facts
		optIn    bool
		identity vendors.Identity
		want     []string // parts of the device's findings, in order
		notes    string
		refresh  string
	}{
		"nothing measured": {want: []string{"so check: QoS", "so check: DEI", "so check: hashing", "so check: the VLAN", "csig apply does not set it up: its driver is experimental: never on a switch, and no facts are of its model; measure its model"}, refresh: "unknown"},
		"opted in":         {optIn: true, want: []string{"so check: QoS", "so check: DEI", "so check: hashing", "so check: the VLAN", "its driver is experimental (never on a switch), and no facts are of its model"}, refresh: "unknown"},
		"measured": {facts: measured, want: []string{"so check: QoS", "so check: DEI", "so check: hashing", "so check: the VLAN"},
			notes: "ECN is not marked behind the tag (ran on M32 1.2, 2026-11-22); it refreshes its counters at most every 3s (ran on M32 1.2, 2026-11-22)", refresh: "ran on M32 1.2, 2026-11-22"},
		"no rule tried": {facts: noRule, want: []string{"so check: QoS", "so check: DEI", "so check: hashing", "so check: the VLAN", "csig apply does not set it up: its driver is experimental: never on a switch, and facts m32 do not show that its rules are right: they have no update_exact; measure its model"},
			notes: "frames with the tag of up to 9236 bytes without the FCS pass (ran on M32 1.2, 2026-11-22)", refresh: "unknown"},
		"of another version": {facts: measured, identity: vendors.Identity{Version: "1.3"},
			want: []string{"facts m32 are not used: they are of M32 1.2, and it runs 1.3: qualify it again", "so check: QoS", "so check: DEI", "so check: hashing", "so check: the VLAN", "csig apply does not set it up"}, refresh: "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			f := planstest.Fabric(1, 0, 1)
			d := &f.Devices[0]
			d.Facts, d.Experimental, d.Interval = tc.facts, tc.optIn, 10*time.Second
			a := assessed1(f, func(*inventory.Device) Evidence {
				e := Evidence{Basis: BasisProbe, Observation: plans.Observation{Facts: planstest.Able, Experimental: "never on a switch"}, Counters: Freshness{Source: "snmp"}}
				e.Facts.Identity = tc.identity
				return e
			})
			var got []string
			for _, f := range a.Findings {
				if f.Device != "" {
					got = append(got, f.Reason)
				}
			}
			slices.Sort(got)
			slices.Sort(tc.want)
			for _, want := range tc.want {
				if !slices.ContainsFunc(got, func(reason string) bool { return strings.Contains(reason, want) }) || len(got) != len(tc.want) {
					t.Errorf("got  %q\nwant %q", got, tc.want)
				}
			}
			if notes := strings.Join(a.Devices[0].Notes, "; "); notes != tc.notes || a.Devices[0].Signal.Refresh != tc.refresh {
				t.Errorf("notes %q, refresh %q", notes, a.Devices[0].Signal.Refresh)
			}
			if used := strings.Contains(a.Devices[0].Update.Reason, "ran on M32 1.2, 2026-11-22"); used != (tc.notes != "") {
				t.Errorf("update: %+v", a.Devices[0].Update)
			}
		})
	}
}

// What csig qualify saw of the counters' refresh is an upper bound: it does not make the
// interval of counters longer that were read and are live.
func TestMeasuredRefreshOfLiveCounters(t *testing.T) {
	refresh := 3 * time.Second
	q := &inventory.Facts{Name: "m32", Platform: "linux", Model: "M32", Version: "1.2", Date: "2026-11-22", TPIDs: []uint16{0x9900}, CounterRefresh: &refresh}
	shortest := func(facts *inventory.Facts, c Freshness) int64 {
		f := planstest.Fabric(1, 0, 1)
		f.Devices[0].Facts = facts
		return assessed1(f, func(*inventory.Device) Evidence {
			return Evidence{Basis: BasisProbe, Observation: plans.Observation{Facts: planstest.Able}, Counters: c}
		}).Devices[0].Signal.ShortestNS
	}
	live := Freshness{Source: "linux", Readings: 10, Kind: "live"}
	if with, without := shortest(q, live), shortest(nil, live); with != without || with >= refresh.Nanoseconds() {
		t.Errorf("the shortest honest interval of live counters is %d ns, and %d ns without facts", with, without)
	}
	if got := shortest(q, Freshness{Source: "snmp"}); got != refresh.Nanoseconds() {
		t.Errorf("of counters that were not read it is %d ns", got)
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
		if cost := got[findings.UpdatesCost]; cost.Level != findings.Info || !strings.Contains(cost.Reason, "at most 2160 lines an hour in accounting logs; no agent has observed the rate of bucket changes, and it is assumed that all 2 change") {
			t.Errorf("cost: %+v", cost)
		}
		refused, is := got[findings.UpdatesRefused]
		if is != (updates == "") || is && (refused.Level != findings.Warning || !strings.Contains(refused.Reason, "csig apply does not set it up: each update of its signal")) {
			t.Errorf("updates %q: %+v", updates, refused)
		}
	}
}
