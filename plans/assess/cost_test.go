package assess

import (
	"fmt"
	"slices"
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
	// Where it outlasts a lease, which is three periods and at least vendors.MinLease, the agent could never renew one.
	a = assessed1(f, func(d *inventory.Device) Evidence {
		e := ableEvidence(d)
		e.Facts.AckWaits = 7
		e.Facts.Traits.MinUpdate = vendors.That(301*time.Millisecond, vendors.Source{Mark: vendors.Ran, From: "a clock"})
		return e
	})
	if i := slices.IndexFunc(a.Findings, func(f findings.Finding) bool { return f.Code == findings.ScheduleTooFast }); i < 0 || a.Findings[i].Level != findings.Error ||
		!strings.Contains(a.Findings[i].Reason, `takes up to 301ms with its 7 waits for what it acknowledged (ran), and a lease lasts 300ms`) || !strings.Contains(a.Findings[i].Reason, `"@every 1s"`) {
		t.Errorf("%+v", a.Findings)
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
