package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gosnmp/gosnmp"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/agent/api/tlstest"
	"github.com/csig-agent/csig/counters/snmp/snmptest"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// prometheus is a real one, in a node's network.
type prometheus struct {
	t      testing.TB
	client *http.Client
	base   string
}

// metricsAt is where agents of the tests serve their metrics, each in a network of its own.
const metricsAt = "127.0.0.1:9343"

// alertsAt is where a Prometheus of the tests looks for an Alertmanager, which there need not be.
const alertsAt = "127.0.0.1:9093"

// inTheClear scrapes an agent on a loopback address.
const inTheClear = "static_configs: [{targets: ['" + metricsAt + "']}]"

// startPrometheus runs one that scrapes as it is told in a node's network. The rules are the names of files;
// none are needed.
func startPrometheus(t testing.TB, in *fabric.Node, scrape string, rules ...string) *prometheus {
	t.Helper()
	return startPrometheusAt(t, in, "127.0.0.1:9090", scrape, rules...)
}

func startPrometheusAt(t testing.TB, in *fabric.Node, at, scrape string, rules ...string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	list, err := json.Marshal(rules) // a list of YAML, too
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}
rule_files: %s
alerting: {alertmanagers: [{static_configs: [{targets: [%q]}]}]}
scrape_configs: [{job_name: csig, %s}]
`, list, alertsAt, scrape)
	file := filepath.Join(dir, "prometheus.yml")
	writeFile(t, file, []byte(config))
	cmd := in.Command("prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+at, "--log.level=warn")
	var log output
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: install the Debian package prometheus", err)
	}
	p := &prometheus{t: t, base: "http://" + at, client: clientIn(in)}
	t.Cleanup(func() {
		p.client.CloseIdleConnections()
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed: nothing to learn
		if t.Failed() {
			t.Logf("Prometheus's log:\n%s", log.String())
		}
	})
	return p
}

// clientIn is an HTTP client in a node's network.
func clientIn(in *fabric.Node) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(_ context.Context, network, addr string) (c net.Conn, err error) {
		err = in.Do(func() error { c, err = net.Dial(network, addr); return err })
		return c, err
	}}}
}

// promSeries is one of an answer to a query.
type promSeries struct {
	Metric map[string]string
	Value  [2]any
}

// query is what an expression is now.
func (p *prometheus) query(ctx context.Context, expr string) ([]promSeries, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+"/api/v1/query?query="+url.QueryEscape(expr), nil)
	if err != nil {
		return nil, err
	}
	res, err := p.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []promSeries }
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s: %s", expr, answer.Error)
	}
	return answer.Data.Result, nil
}

// await waits until an expression has a result that is right.
func (p *prometheus) await(expr string, ok func([]promSeries) bool) []promSeries {
	p.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last []promSeries
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-tick.C {
		if last, err = p.query(p.t.Context(), expr); err == nil && ok(last) {
			return last
		}
	}
	p.t.Fatalf("Prometheus never had %s as wanted: %v, %v", expr, last, err)
	return nil
}

func TestPrometheusScrapesAnAgent(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	a := b.start(t, "--metrics", metricsAt)
	p := startPrometheus(t, b.s1, inTheClear)
	a.live()
	got := p.await("csig_configured", func(s []promSeries) bool { return len(s) == 1 && s[0].Value[1] == "1" })
	if got[0].Metric["device"] != "s1" {
		t.Errorf("labels are %v", got[0].Metric)
	}

	// Every query of the dashboard has an answer, and those about the bandwidth of ports have a value.
	queries := regexp.MustCompile(`"expr": ("(?:[^"\\]|\\.)*")`).FindAllSubmatch(readFile(t, "../deploy/grafana/csig.json"), -1)
	if len(queries) < 40 {
		t.Fatalf("%d queries", len(queries))
	}
	for _, m := range queries {
		var expr string
		if err := json.Unmarshal(m[1], &expr); err != nil {
			t.Fatal(err)
		}
		expr = strings.NewReplacer("$__rate_interval", "5s", "$device", ".*", "$port", ".*").Replace(expr)
		p.await(expr, func(s []promSeries) bool { return len(s) > 0 || !strings.Contains(expr, "_bytes_per_second") })
	}
}

// On an address that others reach both ends have certificates, as docs/operations.md has it.
func TestLongPrometheusScrapesOverTLS(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	const address = "192.0.2.9"
	b.run(t, "ip", "address", "add", address+"/32", "dev", "lo")
	ca := tlstest.New(t)
	cert, key := ca.Certify("leaf1")
	a := b.start(t, "--metrics", address+":9343", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca.CA, "--tls-read", "prometheus.example.net")
	cert, key = ca.Certify("prometheus.example.net")
	p := startPrometheus(t, b.s1, fmt.Sprintf("scheme: https, tls_config: {ca_file: %q, cert_file: %q, key_file: %q, server_name: leaf1}, static_configs: [{targets: ['%s:9343']}]", ca.CA, cert, key, address))
	a.live()
	p.await("csig_configured", func(s []promSeries) bool { return len(s) == 1 && s[0].Value[1] == "1" })

	cert, key = ca.Certify("someone-else")
	stranger := startPrometheusAt(t, b.s1, "127.0.0.1:9091", fmt.Sprintf("scheme: https, tls_config: {ca_file: %q, cert_file: %q, key_file: %q, server_name: leaf1}, static_configs: [{targets: ['%s:9343']}]", ca.CA, cert, key, address))
	stranger.await("up", func(s []promSeries) bool { return len(s) == 1 && s[0].Value[1] == "0" })
}

// frozen is an SNMP agent whose counters can be made to stand still.
type frozen struct {
	is   atomic.Bool
	dead atomic.Bool    // it answers nothing
	down atomic.Bool    // the links are, says its ifOperStatus
	last map[string]any // values as they were answered last
}

func (f *frozen) behave(e *snmptest.Exchange) {
	if f.dead.Load() {
		e.Answer = nil
	}
	if e.Answer == nil {
		return
	}
	for i := range e.Answer.Variables {
		v := &e.Answer.Variables[i]
		if f.down.Load() && strings.HasPrefix(strings.TrimPrefix(v.Name, "."), "1.3.6.1.2.1.2.2.1.8.") && v.Type == gosnmp.Integer {
			v.Value = 2
		}
		if v.Type != gosnmp.Counter64 {
			continue
		}
		if f.is.Load() && f.last[v.Name] != nil {
			v.Value = f.last[v.Name]
		}
		f.last[v.Name] = v.Value
	}
}

// quicker has alerts fire after moments, and look as far back: thresholds stay as they are.
func quicker(t testing.TB) string {
	t.Helper()
	text := readFile(t, "../deploy/prometheus/csig-alerts.yml")
	text = regexp.MustCompile(`for: \d+[sm]`).ReplaceAll(text, []byte("for: 400ms"))
	text = regexp.MustCompile(`\[\d+m\]`).ReplaceAll(text, []byte("[4s]"))
	file := filepath.Join(t.TempDir(), "alerts.yml")
	writeFile(t, file, text)
	return file
}

func firing(alert string) string { return `ALERTS{alertstate="firing", alertname="` + alert + `"}` }

func (p *prometheus) fires(alert string) {
	p.t.Helper()
	p.await(firing(alert), func(s []promSeries) bool { return len(s) == 1 })
}

// resolves waits until no alert fires at all.
func (p *prometheus) resolves() {
	p.t.Helper()
	p.await(`ALERTS{alertstate="firing"}`, func(s []promSeries) bool { return len(s) == 0 })
}

// startAlertmanager runs a real one with csig's inhibition, in a node's network.
func startAlertmanager(t testing.TB, in *fabric.Node) {
	t.Helper()
	cmd := in.Command("prometheus-alertmanager", "--config.file=../deploy/prometheus/csig-alertmanager.yml", "--storage.path="+t.TempDir(),
		"--cluster.listen-address=", "--web.listen-address="+alertsAt, "--log.level=warn")
	var log output
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: install the Debian package prometheus-alertmanager", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed: nothing to learn
		if t.Failed() {
			t.Logf("Alertmanager's log:\n%s", log.String())
		}
	})
}

// sends waits until Alertmanager sends one alert alone, and holds back others, these among them.
func (p *prometheus) sends(want string, held ...string) {
	p.t.Helper()
	var got, inhibited []string
	if !within(patience, func() bool {
		res, err := p.client.Get("http://" + alertsAt + "/api/v2/alerts")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		var answer []struct {
			Labels map[string]string
			Status struct{ InhibitedBy []string }
		}
		if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
			return false
		}
		got, inhibited = nil, nil
		for _, a := range answer {
			list := &got
			if len(a.Status.InhibitedBy) > 0 {
				list = &inhibited
			}
			*list = append(*list, a.Labels["alertname"])
		}
		return slices.Equal(got, []string{want}) && !slices.ContainsFunc(held, func(alert string) bool { return !slices.Contains(inhibited, alert) })
	}) {
		p.t.Errorf("Alertmanager sends %q and holds back %q, want %s and %q", got, inhibited, want, held)
	}
}

// alerted is a switch whose counters are those of an SNMP agent, its agent, and a Prometheus with the alerts.
type alerted struct {
	*bed
	*frozen
	a *agent
	p *prometheus
}

func newAlerted(t *testing.T, args ...string) *alerted {
	t.Helper()
	d := &alerted{bed: newBed(t, quantize.Draft00), frozen: &frozen{last: map[string]any{}}}
	var snmpd *snmptest.Agent
	if err := d.s1.Do(func() error { snmpd = snmptest.StartPorts(t, d.behave, "swp3"); return nil }); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(d.dir, "community")
	writeFile(t, secret, []byte(snmptest.Community))
	var err error
	counters := fmt.Sprintf("    local: true\n    address: 127.0.0.1\n    counters: {source: snmp, snmp: {port: %d, version: 2c, community: {file: %s}}}\n", snmpd.Port, secret)
	if d.fleet, err = inventory.Parse("bed.yaml", []byte(strings.Replace(fmt.Sprintf(fleetText, quantize.Draft00), "    local: true\n", counters, 1))); err != nil {
		t.Fatal(err)
	}
	d.a = d.bed.start(t, append(args, "--metrics", metricsAt)...)
	d.p = startPrometheus(t, d.s1, inTheClear, quicker(t))
	d.a.live()
	d.p.await("up", func(s []promSeries) bool { return len(s) == 1 && s[0].Value[1] == "1" })
	d.p.resolves()
	d.ready(t, http.StatusOK)
	return d
}

// ready waits for an answer of /readyz.
func (d *alerted) ready(t *testing.T, want int) {
	t.Helper()
	var code int
	var text []byte
	if !within(patience, func() bool {
		res, err := d.p.client.Get("http://" + metricsAt + "/readyz")
		if err == nil {
			defer res.Body.Close()
			code = res.StatusCode
			text, err = io.ReadAll(res.Body)
		}
		return err == nil && code == want
	}) {
		t.Errorf("/readyz: %d %s, want %d", code, text, want)
	}
}

// alerts: the alert rules fire in faults of a real agent, as a real Prometheus sees them,
// and resolve when they are over.
func alerts(t *testing.T) {
	b := newAlerted(t)
	a, p := b.a, b.p
	startAlertmanager(t, b.s1)

	// Before its counters can be seen to stand still they have to be known to move.
	a.await("that the counters are current", func(s *api.Status) bool { return s.Cycle.Count > 40 })
	b.is.Store(true)
	p.fires("CsigCountersFrozen")
	p.sends("CsigCountersFrozen", "CsigPortStale")
	b.ready(t, http.StatusServiceUnavailable)
	b.is.Store(false)
	p.resolves()

	b.run(t, "ip", "link", "set", b.egress.Name, "name", "foo")
	p.fires("CsigPortRefused")
	b.run(t, "ip", "link", "set", "foo", "name", b.egress.Name)
	p.resolves()

	b.dead.Store(true)
	p.fires("CsigCyclesFail")
	p.fires("CsigDataPlane")
	p.sends("CsigCyclesFail", "CsigDataPlane", "CsigPortStale")
	b.dead.Store(false)
	p.resolves()
}

// alertsOfRules are those of rules, files and agents that others change or end.
func alertsOfRules(t *testing.T) {
	b := newAlerted(t)
	a, p := b.a, b.p

	b.run(t, "nft", "delete table netdev csig; add table netdev csig { comment \"another program's\"; }; add chain netdev csig other")
	p.fires("CsigDataPlaneLost")
	p.fires("CsigPortLost")
	b.run(t, "nft", "delete table netdev csig")
	p.resolves()

	// Again and again: each time after a cycle has restored them.
	p.await(firing("CsigRulesRepaired"), func(s []promSeries) bool {
		if len(s) == 1 {
			return true
		}
		before := a.await("its repairs", func(*api.Status) bool { return true }).Cycle.Repairs
		b.run(t, "nft", "delete table netdev csig")
		a.await("a repair", func(s *api.Status) bool { return s.Cycle.Repairs > before })
		return false
	})
	p.resolves()

	file := b.write(t)
	good, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, bytes.Replace(good, []byte("profile:"), []byte("profil:"), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.fires("CsigReloadFailed")
	writeFile(t, file, good)
	p.resolves()

	stopped := a.await("its lapses", func(*api.Status) bool { return true }).Cycle.Lapses
	if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.fires("CsigDown")
	if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.fires("CsigLeaseLapsed")
	if s := a.await("a lapse", func(s *api.Status) bool { return s.Cycle.Lapses > stopped }); s.Cycle.LastLapseNS <= 0 {
		t.Errorf("%+v", s.Cycle)
	}
	p.resolves()

	if err := a.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-a.ended
	p.fires("CsigDown")
	again := b.start(t, "--metrics", metricsAt)
	again.live()
	p.resolves()
	b.ready(t, http.StatusOK)
}

// alertsOfPorts are those of a port that flaps, and of its records on a full disk, for which they wait 30 s.
func alertsOfPorts(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("none", disk, "tmpfs", 0, "size=64k,mode=0700"); err != nil { // this process has its own mounts
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	b := newAlerted(t, "--records", filepath.Join(disk, "records"))
	a, p := b.a, b.p
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 64<<10), 0o600); !errors.Is(err, unix.ENOSPC) && err != nil {
		t.Fatal(err)
	}
	flap := func() {
		t.Helper()
		before := a.await("its link", func(s *api.Status) bool { return s.Ports[0].State == api.StateLive }).Ports[0].LinkDowns
		b.down.Store(true)
		a.await("the link to be down", func(s *api.Status) bool { return s.Ports[0].LinkDowns == before+1 })
		b.down.Store(false)
		a.live()
	}
	for _, alert := range []string{"CsigPortFlaps", "CsigRecordsFail"} {
		p.await(firing(alert), func(s []promSeries) bool {
			if len(s) == 0 {
				flap()
			}
			return len(s) == 1
		})
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	flap()
	p.resolves()
}
