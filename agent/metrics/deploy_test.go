package metrics

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/goccy/go-yaml"

	"github.com/csig-agent/csig/hosts/mesh"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/operations.md")

const (
	rulesFile = "../../deploy/prometheus/csig-alerts.yml"
	rulesTest = "../../deploy/prometheus/csig-alerts-test.yml"
	causeTest = "../../deploy/prometheus/csig-alerts-causes-test.yml"
	page      = "../../docs/operations.md"
	runbook   = "https://github.com/csig-agent/csig/blob/main/docs/operations.md"
)

// rule is an alert.
type rule struct {
	Alert, Expr, For string
	Labels           map[string]string
	Annotations      map[string]string
}

func alerts(t *testing.T) (text string, list []rule) {
	t.Helper()
	raw, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		list = append(list, g.Rules...)
	}
	if len(list) < 15 {
		t.Fatalf("%d alerts", len(list))
	}
	return string(raw), list
}

// unknown are the metrics of an expression that are not exposed.
func unknown(expr string) (list []string) {
	names := map[string]bool{}
	for _, f := range families {
		names[f.name] = true
		if f.kind == dto.MetricType_HISTOGRAM {
			names[f.name+"_bucket"], names[f.name+"_sum"], names[f.name+"_count"] = true, true, true
		}
	}
	for _, m := range mesh.MetricNames {
		names[m[0]] = true
	}
	for _, name := range regexp.MustCompile(`\bcsig_\w+`).FindAllString(expr, -1) {
		if !names[name] {
			list = append(list, name)
		}
	}
	return list
}

func promtool(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The rules pass their tests, and are about metrics that are exposed.
func TestAlertRules(t *testing.T) {
	_, list := alerts(t)
	if out, err := promtool(t, ".", "check", "rules", rulesFile); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := promtool(t, filepath.Dir(rulesTest), "test", "rules", filepath.Base(rulesTest), filepath.Base(causeTest)); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, r := range list {
		if names := unknown(r.Expr); len(names) > 0 {
			t.Errorf("%s: no metric is called %s", r.Alert, names)
		}
		if s := r.Labels["severity"]; s != "page" && s != "ticket" || r.Annotations["summary"] == "" {
			t.Errorf("%s has the severity %q and the summary %q", r.Alert, s, r.Annotations["summary"])
		}
		if d := r.Annotations["description"]; len(d) < 40 || !strings.HasSuffix(d, ".") {
			t.Errorf("%s has the description %q", r.Alert, d)
		}
	}
}

// TestEachAlertIsTested: the rule test of each alert notices when the alert never fires. Each has files
// of its own with that rule alone, and promtool reads all of them at once.
func TestEachAlertIsTested(t *testing.T) {
	_, list := alerts(t)
	tests, err := os.ReadFile(rulesTest)
	if err != nil {
		t.Fatal(err)
	}
	const name, own = "\n  - name: ", "\nrule_files: [" // of a test, and of its rules
	head, _, _ := strings.Cut(string(tests), name)
	dir, args := t.TempDir(), []string{"test", "rules"}
	for _, r := range list {
		rule := map[string]any{"alert": r.Alert, "expr": "vector(1) > 2", "labels": r.Labels, "annotations": r.Annotations}
		if r.For != "" {
			rule["for"] = r.For
		}
		rules, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "csig", "rules": []any{rule}}}})
		if err != nil {
			t.Fatal(err)
		}
		_, test, ok := strings.Cut(string(tests), name+r.Alert+"\n")
		if !ok || strings.Count(head, own) != 1 {
			t.Errorf("%s has no test", r.Alert)
			continue
		}
		test, _, _ = strings.Cut(test, name)
		begin := strings.Replace(head, own+filepath.Base(rulesFile), own+r.Alert+".yml", 1)
		for file, what := range map[string]string{r.Alert + ".yml": string(rules), r.Alert + "-test.yml": begin + name + r.Alert + "\n" + test + "\n"} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(what), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		args = append(args, r.Alert+"-test.yml")
	}
	out, err := promtool(t, dir, args...)
	if err == nil {
		t.Errorf("every test passes without its alert:\n%s", out)
	}
	for _, r := range list {
		_, said, ok := strings.Cut(out, "Unit Testing:  "+r.Alert+"-test.yml\n")
		said, _, _ = strings.Cut(said, "Unit Testing: ")
		// What it wants and does not get, rather than a mistake in the files.
		if !ok || !strings.Contains(said, "alertname: "+r.Alert+", time: ") || !strings.Contains(said, "got:[]") {
			t.Errorf("no test notices that %s never fires:\n%s", r.Alert, said)
		}
	}
}

// TestPageListsEveryMetric holds the table of docs/operations.md against what is exposed.
func TestPageListsEveryMetric(t *testing.T) {
	const begin, end = "| metric | type | labels | what |\n|---|---|---|---|\n", "\n\n"
	var want strings.Builder
	for _, f := range families {
		labels := ""
		if len(f.labels) > 0 {
			labels = "`" + strings.Join(f.labels, "` `") + "`"
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", f.name, strings.ToLower(f.kind.String()), labels, f.help)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	table, after, more := strings.Cut(rest, end)
	switch {
	case !ok || !more:
		t.Fatalf("%s has no table of metrics", page)
	case *update:
		if err := os.WriteFile(page, []byte(before+begin+strings.TrimSuffix(want.String(), "\n")+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case table+"\n" != want.String():
		t.Errorf("%s lists other metrics: go test ./agent/metrics -update", page)
	}
}

// TestPageListsEveryAlert: the page has a row for each alert, with its severity, and none more, and a section
// with what to do, which is the alert's runbook_url.
func TestPageListsEveryAlert(t *testing.T) {
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var have, want []string
	for _, m := range regexp.MustCompile("(?m)^\\| \\[`(Csig\\w+)`\\]\\((#\\w+)\\) \\| (\\w+) \\| [^|]{10,} \\|$").FindAllStringSubmatch(string(raw), -1) {
		have = append(have, m[1]+" "+m[2]+" "+m[3])
	}
	_, list := alerts(t)
	for _, r := range list {
		anchor := "#" + strings.ToLower(r.Alert)
		want = append(want, r.Alert+" "+anchor+" "+r.Labels["severity"])
		if url := r.Annotations["runbook_url"]; url != runbook+anchor {
			t.Errorf("%s has the runbook_url %q", r.Alert, url)
		}
		if !regexp.MustCompile(`(?m)^#### ` + r.Alert + `\n\n[^#]{40,}`).Match(raw) {
			t.Errorf("the page has no section that says what to do about %s", r.Alert)
		}
	}
	if !slices.Equal(have, want) {
		t.Errorf("the page has the alerts\n%s, want\n%s", have, want)
	}
	if n := strings.Count(string(raw), "\n#### Csig"); n != len(list) {
		t.Errorf("%d sections of %d alerts", n, len(list))
	}
}

// What the page says of how many series there are at most.
func TestCardinality(t *testing.T) {
	d := full()
	port := d.Status.Ports[0]
	port.Signals = append(port.Signals, port.Signals...)
	for i := range port.Signals {
		port.Signals[i].Signal = fmt.Sprint("t", i)
	}
	count := func(ports int) int {
		d.Status.Ports = nil
		for i := range ports {
			p := port
			p.Port = fmt.Sprint("swp", i)
			d.Status.Ports = append(d.Status.Ports, p)
		}
		_, text, _ := scrape(t, handlerOf(d), Path, "")
		return len(regexp.MustCompile(`(?m)^csig_`).FindAllString(text, -1))
	}
	none, one, many := count(0), count(1), count(100)
	each := 9 + 3*len(port.Signals)
	if one-none != each || many-none != 100*each {
		t.Errorf("%d series without ports, %d with one, %d with 100, want %d a port", none, one, many, each)
	}
	if none > 80 {
		t.Errorf("%d series of a device, beside those of its ports", none)
	}
	t.Logf("%d series of a device, and %d of each port with %d signals", none, each, len(port.Signals))
}
