package metrics

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	grafana "github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

const dashboardFile = "../../deploy/grafana/csig.json"

// grafanas is the schema of dashboards that every version of Grafana imports; its successor is for new ones alone.
type grafanas = grafana.Dashboard //nolint:staticcheck // deprecated for that successor

// dashboard reads the file by Grafana's schema: keys and types that it does not have are mistakes.
func dashboard(t *testing.T) (raw []byte, d grafanas) {
	t.Helper()
	raw, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	known := cog.NewRuntime()
	known.RegisterPanelcfgVariant(stat.VariantConfig())
	known.RegisterPanelcfgVariant(statetimeline.VariantConfig())
	known.RegisterPanelcfgVariant(table.VariantConfig())
	known.RegisterPanelcfgVariant(timeseries.VariantConfig())
	known.RegisterDataqueryVariant(prometheus.VariantConfig())
	var mistakes cog.BuildErrors // empty and not nil, where there are none
	if err := new(grafanas).UnmarshalJSONStrict(raw); !errors.As(err, &mistakes) || len(mistakes) > 0 {
		t.Errorf("Grafana's schema: %v", err)
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	if err := d.Validate(); err != nil {
		t.Errorf("Grafana's schema: %v", err)
	}
	return raw, d
}

// TestDashboardIsGrafanas: the dashboard is of Grafana's schema; its panels have ids of their own, stand beside each
// other, and have units that Grafana knows.
func TestDashboardIsGrafanas(t *testing.T) {
	_, d := dashboard(t)
	ids := map[uint32]bool{}
	taken := map[[2]uint32]string{} // each cell of the grid
	place := func(title string, id *uint32, at *grafana.GridPos) {
		if id == nil || at == nil {
			t.Errorf("%s has no id or place", title)
			return
		}
		if ids[*id] {
			t.Errorf("%s has the id %d of another", title, *id)
		}
		ids[*id] = true
		if at.W < 1 || at.H < 1 || at.X+at.W > 24 {
			t.Errorf("%s is outside the grid: %+v", title, *at)
		}
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other, ok := taken[[2]uint32{x, y}]; ok {
					t.Errorf("%s is over %s", title, other)
					return
				}
				taken[[2]uint32{x, y}] = title
			}
		}
	}
	known := map[string]bool{units.NoUnit: true, units.Seconds: true, units.BitsPerSecondSI: true, units.PercentUnit: true, units.CountsPerSecond: true, units.OpsPerSecond: true}
	for _, p := range d.Panels {
		if r := p.RowPanel; r != nil {
			place(*r.Title, &r.Id, r.GridPos)
			continue
		}
		place(*p.Panel.Title, p.Panel.Id, p.Panel.GridPos)
		if _, ok := cog.NewRuntime().ConfigForPanelcfgVariant(p.Panel.Type); !ok {
			t.Errorf("%s is a panel of the unknown type %s", *p.Panel.Title, p.Panel.Type)
		}
		if unit := p.Panel.FieldConfig.Defaults.Unit; unit == nil || !known[*unit] {
			t.Errorf("%s has no unit, or another than these: %v", *p.Panel.Title, known)
		}
	}
}

// TestDashboardShowsBits: rates are metrics in bytes, as Prometheus has them, and shown in bits, as csig has them
// everywhere else, or as a share of the capacity.
func TestDashboardShowsBits(t *testing.T) {
	_, d := dashboard(t)
	found := map[string]int{}
	for _, p := range d.Panels {
		if p.Panel == nil {
			continue
		}
		for _, target := range p.Panel.Targets {
			expr, unit := target.(*prometheus.Dataquery).Expr, *p.Panel.FieldConfig.Defaults.Unit
			if strings.Contains(expr, "_bytes_per_second") && p.Panel.Type != "table" { // whose columns have units of their own
				want := units.BitsPerSecondSI
				if strings.Contains(expr, " / csig_port_capacity_") {
					want = units.PercentUnit
				} else if !strings.Contains(expr, "8 * csig_port_") {
					t.Errorf("%s shows bytes: %s", *p.Panel.Title, expr)
				}
				if unit != want {
					t.Errorf("%s shows %s as %s", *p.Panel.Title, expr, unit)
				}
				found[want]++
			}
		}
	}
	if found[units.BitsPerSecondSI] < 4 || found[units.PercentUnit] < 3 {
		t.Errorf("the dashboard shows %v", found)
	}
}

// TestDashboardAsksWhatIsExposed: every query of the dashboard is PromQL, of metrics that are exposed.
func TestDashboardAsksWhatIsExposed(t *testing.T) {
	raw, _ := dashboard(t)
	var exprs []string
	for _, m := range regexp.MustCompile(`"(?:expr|definition)": ("(?:[^"\\]|\\.)*")`).FindAllSubmatch(raw, -1) {
		var text string
		if err := json.Unmarshal(m[1], &text); err != nil {
			t.Fatal(err)
		}
		exprs = append(exprs, text)
	}
	if len(exprs) < 40 {
		t.Fatalf("%d queries", len(exprs))
	}
	rules := "groups: [{name: dashboard, rules: [\n"
	for i, e := range exprs {
		if names := unknown(e); len(names) > 0 {
			t.Errorf("%s: no metric is called %s", e, names)
		}
		e = regexp.MustCompile(`^label_values\((.*), \w+\)$`).ReplaceAllString(e, "$1")
		e = strings.NewReplacer("$__rate_interval", "1m", "$device", ".*", "$port", ".*").Replace(e)
		quoted, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		rules += fmt.Sprintf("  {record: 'query:%d', expr: %s},\n", i, quoted)
	}
	file := filepath.Join(t.TempDir(), "queries.yml")
	if err := os.WriteFile(file, []byte(rules+"]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := promtool(t, ".", "check", "rules", file); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
