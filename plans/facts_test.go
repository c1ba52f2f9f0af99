package plans

import (
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans/planstest"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

func no() *bool { return new(bool) }

func measuredFacts() *inventory.Facts {
	return &inventory.Facts{Name: "m32", Platform: "linux", Model: "M32", Version: "1.2", Date: "2026-11-22", TPIDs: []uint16{0x9900}}
}

func yes() *bool {
	b := true
	return &b
}

// rulesRight is measuredFacts of a model on which the rules did what a plan needs.
func rulesRight() *inventory.Facts {
	q := measuredFacts()
	q.UpdateExact, q.Strip = yes(), yes()
	return q
}

// TestFactsInPlans: what was measured of leaf0's model decides what a plan says of it.
func TestFactsInPlans(t *testing.T) {
	for name, tc := range map[string]struct {
		facts        *inventory.Facts
		change       func(q *inventory.Facts)
		identity     vendors.Identity
		experimental string
		optIn        bool
		goal         Goal
		code         findings.Code // of leaf0's first finding; "": none
		level        findings.Level
		want         string // a part of it
		reason       string // a part of the level's
	}{
		"no facts, no experiment": {},
		"experimental":            {experimental: "never on a switch", code: findings.Experimental, level: findings.Error, want: "its driver is experimental: never on a switch, and no facts are of its model; measure its model with csig qualify and name the result (facts: NAME), or let csig set it up without that (experimental: true)"},
		"experimental, opted in":  {experimental: "never on a switch", optIn: true, code: findings.Experimental, level: findings.Warning, want: "experimental: true lets csig set it up all the same"},
		"experimental, taken off": {experimental: "never on a switch", goal: TakeOff},
		"experimental, measured":  {experimental: "never on a switch", facts: rulesRight(), reason: "ran on M32 1.2, 2026-11-22"},
		"no rule tried": {experimental: "never on a switch", facts: measuredFacts(), change: func(q *inventory.Facts) { q.Passthrough = yes() }, code: findings.Experimental, level: findings.Error,
			want: "its driver is experimental: never on a switch, and facts m32 do not show that its rules are right: they have no update_exact, they have no strip; measure its model with csig qualify and name the result (facts: NAME), or let csig set it up without that (experimental: true)"},
		"no rule tried, opted in": {experimental: "never on a switch", facts: measuredFacts(), optIn: true, code: findings.Experimental, level: findings.Warning,
			want: "(never on a switch), and facts m32 do not show that its rules are right: they have no update_exact, they have no strip; experimental: true lets"},
		"not hitless": {experimental: "never on a switch", facts: rulesRight(), change: func(q *inventory.Facts) { q.Hitless = no() }, code: findings.Experimental, level: findings.Error,
			want: "do not show that its rules are right: hitless failed; measure"},
		"fence not tried": {experimental: "never on a switch", facts: rulesRight(), change: func(q *inventory.Facts) { q.Strip = nil }, code: findings.Experimental, level: findings.Error,
			want: "do not show that its rules are right: they have no strip; measure"},
		"no rule tried, taken off":   {experimental: "never on a switch", facts: measuredFacts(), goal: TakeOff},
		"of hardware, no rule tried": {facts: measuredFacts()},
		"not of the model":           {facts: measuredFacts(), identity: vendors.Identity{Model: "M48"}, code: findings.FactsNotUsed, level: findings.Warning, want: "facts m32 are not used: they are of M32, and it is M48: qualify that model"},
		"not of the version":         {facts: measuredFacts(), identity: vendors.Identity{Model: "M32", Version: "1.3"}, code: findings.FactsNotUsed, level: findings.Warning, want: "they are of M32 1.2, and it runs 1.3: qualify it again"},
		"wrong":                      {facts: measuredFacts(), change: func(q *inventory.Facts) { q.UpdateExact = no() }, code: findings.CannotUpdate, level: findings.Error, want: "compare-and-replace is not right for every value of the tag (ran on M32 1.2, 2026-11-22)"},
		"no room":                    {facts: measuredFacts(), change: func(q *inventory.Facts) { one := 1; q.Entries = &one }, code: findings.RulesRefused, level: findings.Error, want: "needs 7 ternary entries with no-op runs for abw, 1 in the table"},
		"VIDs of the domain": {facts: measuredFacts(), change: func(q *inventory.Facts) { q.DroppedVIDs = &[]inventory.VIDRange{{First: 3968, Last: 4095}} },
			code: findings.VIDsDropped, level: findings.Error, want: "frames do not get past it whose tag has the VIDs 3968-4095, and the domain's tags have VIDs from 1 to 4094 (ran on M32 1.2, 2026-11-22)"},
		"short frames": {facts: measuredFacts(), change: func(q *inventory.Facts) { n := 1521; q.MaxFrame = &n }, code: findings.MTUTooSmall, level: findings.Warning,
			want: "frames with the tag were seen to pass with up to 1521 bytes, without the FCS (ran on M32 1.2, 2026-11-22), and hosts send up to 1522"},
		"full-size frames": {facts: measuredFacts(), change: func(q *inventory.Facts) { n := 1522; q.MaxFrame = &n }},
		"other VIDs":       {facts: measuredFacts(), change: func(q *inventory.Facts) { q.DroppedVIDs = &[]inventory.VIDRange{{}, {First: 4095, Last: 4095}} }, reason: "ran on M32 1.2, 2026-11-22"},
	} {
		t.Run(name, func(t *testing.T) {
			f := planstest.Fabric(2, 1, 2)
			d := &f.Devices[0]
			for i := range f.Hosts {
				f.Hosts[i].MTU = 1508
			}
			if tc.change != nil {
				tc.change(tc.facts)
			}
			d.Facts, d.Experimental = tc.facts, tc.optIn
			p := made(t, f, func(d *inventory.Device) Observation {
				o := unseen(d)
				if d.Name == "leaf0" {
					o.Experimental, o.Facts.Identity, o.Facts.Rules.Match = tc.experimental, tc.identity, vlanrules.MatchTernary
					if tc.goal == TakeOff {
						o.Setup = planstest.SetUp(d, 0x9900, 0)
					}
				}
				return o
			}, Options{Goal: tc.goal, Now: time.Unix(1e9, 0)})
			var got findings.Finding
			for _, one := range p.Findings {
				if one.Device == "leaf0" && one.Code != findings.MTUUnknown {
					got = one
					break
				}
			}
			if got.Code != tc.code || got.Level != tc.level || !strings.Contains(got.Reason, tc.want) {
				t.Errorf("got %s %s: %s\nwant %s %s: %s", got.Level, got.Code, got.Reason, tc.level, tc.code, tc.want)
			}
			if reason := p.Devices[0].Reason; !strings.Contains(reason, tc.reason) || tc.reason == "" && strings.Contains(reason, "ran on") && tc.facts == nil {
				t.Errorf("its level is %s: %q, want %q", p.Devices[0].Level, reason, tc.reason)
			}
			if stops := len(p.Errors()) > 0; stops != (tc.level == findings.Error) || stops != (len(p.Stages) == 0) {
				t.Errorf("the plan has %d stages and the errors %v", len(p.Stages), p.Errors())
			}
		})
	}
}

// TestUntested: a setup needs what it does to have been tested, and nothing else.
func TestUntested(t *testing.T) {
	setup := func(actions ...vlanrules.Action) *vendors.Setup {
		s := &vendors.Setup{TPID: 0x9900}
		for _, a := range actions {
			s.Ports = append(s.Ports, vendors.PortSetup{Port: "p", Action: a})
		}
		return s
	}
	const untested = "facts m32 do not show that its rules are right: "
	for name, tc := range map[string]struct {
		facts  *inventory.Facts
		change func(q *inventory.Facts)
		setups []*vendors.Setup
		want   string
	}{
		"no facts":      {nil, nil, []*vendors.Setup{setup(vlanrules.Strip)}, "no facts are of its model"},
		"nothing to do": {measuredFacts(), nil, []*vendors.Setup{setup(vlanrules.Passthrough)}, ""},
		"update alone":  {measuredFacts(), func(q *inventory.Facts) { q.UpdateExact = yes() }, []*vendors.Setup{setup(vlanrules.Update)}, ""},
		"hitless":       {rulesRight(), func(q *inventory.Facts) { q.Hitless = yes() }, []*vendors.Setup{setup(vlanrules.Update)}, ""},
		"update wrong":  {rulesRight(), func(q *inventory.Facts) { q.UpdateExact = no() }, []*vendors.Setup{setup(vlanrules.Update)}, untested + "update_exact failed"},
		"VLANs altered": {rulesRight(), func(q *inventory.Facts) { q.VLANsUnchanged = no() }, []*vendors.Setup{setup(vlanrules.Update)}, untested + "vlans_unchanged failed"},
		"another layout": {rulesRight(), func(q *inventory.Facts) { q.Layout = "uec" }, []*vendors.Setup{setup(vlanrules.Update), setup(vlanrules.Update)},
			untested + "they were tried with tags of layout uec, and the domain's are of draft-00"},
		"another signal": {rulesRight(), func(q *inventory.Facts) { q.Layout, q.Signals = "draft-00", &[]string{"abw"} },
			[]*vendors.Setup{setup(vlanrules.Passthrough), {TPID: 0x9900, Signals: []quantize.Signal{quantize.MinABW, quantize.MaxPD}, Ports: []vendors.PortSetup{{Port: "p", Action: vlanrules.Update}}}},
			untested + "they were not tried with the signal pd"},
		"these signals": {rulesRight(), func(q *inventory.Facts) { q.Layout, q.Signals = "draft-00", &[]string{"abw", "pd"} },
			[]*vendors.Setup{{TPID: 0x9900, Signals: []quantize.Signal{quantize.MinABW}, Ports: []vendors.PortSetup{{Port: "p", Action: vlanrules.Update}}}}, ""},
		"no fallback": {rulesRight(), func(q *inventory.Facts) {
			q.Lease, q.Reasons = no(), inventory.FactReasons{"lease": "the last value stays"}
		}, []*vendors.Setup{setup(vlanrules.Update)}, untested + "lease failed"},
		"no lease":              {rulesRight(), func(q *inventory.Facts) { q.Lease = no() }, []*vendors.Setup{setup(vlanrules.Update)}, ""},
		"strip alone":           {measuredFacts(), func(q *inventory.Facts) { q.Strip = yes() }, []*vendors.Setup{setup(vlanrules.Strip)}, ""},
		"strip wrong":           {rulesRight(), func(q *inventory.Facts) { q.Strip, q.Hitless = no(), no() }, []*vendors.Setup{setup(vlanrules.Strip)}, untested + "strip failed"},
		"strip in another step": {measuredFacts(), func(q *inventory.Facts) { q.UpdateExact = yes() }, []*vendors.Setup{setup(vlanrules.Update), setup(vlanrules.Update, vlanrules.Strip)}, untested + "they have no strip"},
		"tags of other TPIDs": {measuredFacts(), func(q *inventory.Facts) { q.UpdateExact = yes() }, []*vendors.Setup{{TPID: 0x9900, Ports: []vendors.PortSetup{{Port: "p", Action: vlanrules.Update, StripOthers: true}}}},
			untested + "they have no strip"},
	} {
		if tc.change != nil {
			tc.change(tc.facts)
		}
		if got := Untested(tc.facts, tc.setups...); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
