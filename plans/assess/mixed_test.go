package assess

import (
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/plans/planstest"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// TestMixedDomain: what windows of different Δt and devices without wide tags mean for a
// path is said once, of the fleet.
func TestMixedDomain(t *testing.T) {
	const spread = "windows of Δt from 1ms (l1) to 100ms ("
	for name, tc := range map[string]struct {
		layout quantize.Layout
		native bool   // the first device measures in its data plane, each 1 ms
		wide   uint16 // TPID
		want   map[findings.Code]string
		level  findings.Level // of the spread
	}{
		"alike":          {},
		"mixed":          {native: true, want: map[findings.Code]string{findings.IntervalsDiffer: spread}, level: findings.Info},
		"mixed, uec":     {native: true, layout: quantize.UEC, want: map[findings.Code]string{findings.IntervalsDiffer: "a uec domain may demand one Δt"}, level: findings.Warning},
		"wide and mixed": {native: true, wide: 0x9901, want: map[findings.Code]string{findings.IntervalsDiffer: spread, findings.WideTags: "wide tags are correct only on paths where every hop updates them"}, level: findings.Info},
		"wide nowhere":   {wide: 0x9901},
	} {
		t.Run(name, func(t *testing.T) {
			f := planstest.Fabric(2, 1, 1)
			f.Profile.Layout, f.Profile.WideTPID = tc.layout, tc.wide
			for i := range f.Devices {
				f.Devices[i].Interval = 100 * time.Millisecond
			}
			first := f.Devices[0].Name
			if tc.native {
				f.Devices[0].Interval = time.Millisecond
			}
			a := assessed1(f, func(d *inventory.Device) Evidence {
				facts := planstest.Able
				facts.Wide = refused("its rules see 12 bits")
				if tc.native && d.Name == first {
					facts.Wide, facts.Native = vlanrules.Verdict{}, true
				}
				return Evidence{Basis: BasisProbe, Observation: plans.Observation{Facts: facts}, Counters: Freshness{Readings: 10, Kind: "live"}}
			})
			got := map[findings.Code]findings.Finding{}
			for _, one := range a.Findings {
				if one.Code == findings.IntervalsDiffer || one.Code == findings.WideTags {
					got[one.Code] = one
				}
			}
			for code, part := range tc.want {
				part = strings.ReplaceAll(part, "(l1)", "("+first+")")
				if one := got[code]; !strings.Contains(one.Reason, part) || one.Device != "" || strings.Contains(one.Reason, first) != (code == findings.IntervalsDiffer) {
					t.Errorf("%v: %+v, want %q", code, one, part)
				}
			}
			if len(got) != len(tc.want) || len(tc.want) > 0 && got[findings.IntervalsDiffer].Level != tc.level {
				t.Errorf("%+v", got)
			}
		})
	}
}
