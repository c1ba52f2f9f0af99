package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/agent/api/tlstest"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/hosts/mesh"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/memnet"
	"github.com/csig-agent/csig/quantize"
)

// meshOf is a collector of examples/mesh.yaml, to which hosts have told what they read: what passes a port has
// its locator and an S, the rest is as it was sent. Those in drops lose tags.
func meshOf(t *testing.T, busy map[string]map[string]uint8, drops func(from, to string) bool) *mesh.Collector {
	t.Helper()
	fleet, err := inventory.Load(filepath.Join(repository, "examples", "mesh.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c, paths := mesh.NewCollector(fleet), fleet.Paths()
	for round := range 3 {
		for _, from := range fleet.Hosts {
			r := mesh.Report{Format: mesh.RowsFormat, Host: from.Name}
			for _, to := range fleet.Hosts {
				hops, err := paths.Hops(from.Name, to.Name)
				if from.Name == to.Name {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				for k := range 2 * mesh.Ports {
					sig := []quantize.Signal{quantize.MinABW, quantize.MinABWC}[k%2]
					row := mesh.Row{To: to.Name, Port: k / 2, Signal: sig.String(), State: mesh.StateCapable, Read: true, S: 31, LM: 126, AgeNS: int64(k) * 250e6, RTTNS: 84_000, Sent: 2, Tagged: 1}
					if drops(from.Name, to.Name) {
						row.State, row.Read, row.TaggedLost = mesh.StateDropsTags, false, 1
					}
					for _, hop := range hops {
						for _, ref := range hop {
							if s, is := busy[ref.String()][sig.String()]; is && round > 0 && row.Read {
								d, _ := fleet.Device(ref.Device)
								p, _ := d.Port(ref.Port)
								row.S, row.LM = s, p.LM[sig]
							}
						}
					}
					r.Rows = append(r.Rows, row)
				}
			}
			if err := c.Add(from.Name, &r); err != nil {
				t.Fatal(err)
			}
		}
		c.Status()
		time.Sleep(time.Second)
	}
	return c
}

// TestMeshPage holds what docs/mesh.md shows of csig mesh status and why against what csig prints.
func TestMeshPage(t *testing.T) {
	busy := map[string]map[string]uint8{"leaf2:swp1": {"abw": 18, "abwc": 19}}
	page := filepath.Join(repository, "docs", "mesh.md")
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(old)
	block := func(command, want string) {
		t.Helper()
		_, rest, found := strings.Cut(text, "```text\n$ "+command+"\n")
		is, _, _ := strings.Cut(rest, "```\n")
		if !found {
			t.Fatalf("docs/mesh.md has no block of %s", command)
		}
		text = strings.Replace(text, "$ "+command+"\n"+is, "$ "+command+"\n"+want, 1)
	}
	synctest.Test(t, func(t *testing.T) {
		c := meshOf(t, busy, func(string, string) bool { return false })
		block("csig mesh status", meshText(c.Status(), plainColumns, false))
		w, err := c.Why("gpu-1", "gpu-3")
		if err != nil {
			t.Fatal(err)
		}
		block("csig mesh why gpu-1 gpu-3", meshWhyText(w))
		if s := meshText(c.Status(), 200, true); strings.Count(s, "\ngpu-") != 12 || !strings.Contains(s, "gpu-1  gpu-3  capable  84µs  0%    abw") {
			t.Errorf("the matrix:\n%s", s)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		at2 := []string{"gpu-3", "gpu-4"}
		c := meshOf(t, nil, func(from, to string) bool { return slices.Contains(at2, from) || slices.Contains(at2, to) })
		block("csig mesh status  # leaf2 drops what has a tag", meshText(c.Status(), plainColumns, false))
		code, why := judgeMesh(c.Status())
		if code != checkCritical || !strings.HasPrefix(why, "leaf2: 10 pairs: probes with a tag are lost") {
			t.Errorf("--check: %d %s", code, why)
		}
	})
	for _, want := range []string{strings.Replace(strconv.Itoa(mesh.TrialBits), "6", "6,", 1) + " bits", count(mesh.MostPeers, "other") + " in an interval"} {
		if !strings.Contains(text, want) {
			t.Errorf("docs/mesh.md has no %q", want)
		}
	}
	for _, m := range mesh.MetricNames {
		if !strings.Contains(text, "| `"+m[0]+"` | "+m[1]+" |\n") {
			t.Errorf("docs/mesh.md has no %s", m[0])
		}
	}
	if !bytes.Equal([]byte(text), old) {
		if *update {
			if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return
		}
		t.Errorf("docs/mesh.md shows something else (go test ./cmd/csig -run TestMeshPage -update):\n%s", text)
	}
}

// TestMeshMinutes prints each whole minute once, as a line; without --watch the last one, whatever there is.
func TestMeshMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		collector := meshOf(t, nil, func(string, string) bool { return false })
		ln := memnet.Listen("collector:80")
		server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != mesh.HistogramsPath {
				http.NotFound(w, r)
				return
			}
			_ = json.NewEncoder(w).Encode(collector.Histograms())
		})}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(ln) }()
		at := meshCollector{name: "collector", url: "http://collector", transport: &http.Transport{DialContext: ln.DialContext, DisableKeepAlives: true}}
		lines := func(b *bytes.Buffer) (all []mesh.Histograms) {
			for line := range strings.Lines(b.String()) {
				var h mesh.Histograms
				if err := json.Unmarshal([]byte(line), &h); err != nil || h.Format != mesh.HistogramsFormat {
					t.Fatalf("%v: %s", err, line)
				}
				all = append(all, h)
			}
			return all
		}
		var once, watched bytes.Buffer
		if err := at.minutes(t.Context(), &once, false); err != nil {
			t.Fatal(err)
		}
		if all := lines(&once); len(all) != 1 || !all[0].Until.Equal(all[0].From) || len(all[0].Histograms) != 0 {
			t.Errorf("in the first minute: %+v", all)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+30*time.Second)
		defer cancel()
		if err := at.minutes(ctx, &watched, true); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		all := lines(&watched)
		for i, h := range all {
			if long := h.Until.Sub(h.From); long < time.Minute || long > time.Minute+meshMinuteLook || i > 0 && !h.From.Equal(all[i-1].Until) || (len(h.Histograms) > 0) != (i == 0) {
				t.Errorf("line %d is from %v until %v, with %d histograms", i+1, h.From, h.Until, len(h.Histograms))
			}
		}
		if len(all) != 5 {
			t.Errorf("%d lines in five minutes and a half", len(all))
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		if err := at.minutes(t.Context(), &once, true); !errors.Is(err, errNoCollector) {
			t.Errorf("without a collector: %v", err)
		}
	})
}

func runIn(dir string, args []string) (out, errOut string, code int) {
	var stdout, stderr bytes.Buffer
	code = csigHere(dir, nil, args, &stdout, &stderr)
	return stdout.String(), stderr.String(), code
}

// TestMeshCommands refuses what cannot be meant, and says what to do.
func TestMeshCommands(t *testing.T) {
	dir := t.TempDir()
	file := func(text string) string {
		name := filepath.Join(dir, "fleet.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	example, err := os.ReadFile(filepath.Join(repository, "examples", "mesh.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	local := strings.Replace(string(example), "{name: gpu-1,", "{name: gpu-1, local: true,", 1)
	ca := tlstest.New(t)
	keyed := strings.Replace(local, "/etc/csig/mesh.key", filepath.Join(dir, "mesh.key"), 1)
	if err := os.WriteFile(filepath.Join(dir, "mesh.key"), []byte("a key of sixteen bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	tls := func(cert, key string) []string {
		return []string{"--tls-cert", cert, "--tls-key", key, "--tls-ca", ca.CA}
	}
	for _, row := range []struct {
		what, text string
		args       []string
		want       string
	}{
		{"a certificate that is not there", keyed, tls("/none.pem", "/none.key"), "--tls-cert: certificate /none.pem with key /none.key"},
		{"one of another host", keyed, tls(ca.Certify("gpu-2", "db.example.net")), "gpu-2.pem is of gpu-2, db.example.net: want one with the name gpu-1"},
		{"one that is over", keyed, tls(ca.Expire("gpu-1")), "make a new one, or set the clock"},
		{"no mesh", local[:strings.Index(local, "mesh:\n")], nil, "has no mesh: add one with its key"},
		{"nobody is here", string(example), nil, "no host is marked local: add local: true"},
		{"two are here", strings.Replace(local, "{name: gpu-2,", "{name: gpu-2, local: true,", 1), nil, "the hosts gpu-1 and gpu-2 are both marked local"},
		{"no address", strings.Replace(local, "address: 10.0.1.1, ", "", 1), nil, "host gpu-1 has no address"},
		{"no certificate", local, nil, "--tls-cert, --tls-key and --tls-ca are missing"},
		{"no collector", strings.Replace(local, "  collector:", "  # collector:", 1), nil, "mesh: collector is missing"},
		{"agents of nobody", local, []string{"--agents"}, "--agents, --metrics and --tls-read go with --collect"},
		{"a rate without a unit", local, []string{"--collect", "--rate", "5"}, "--rate"},
		{"no key", local, []string{"--collect"}, "secret file:/etc/csig/mesh.key"},
	} {
		_, errOut, code := runIn(dir, append([]string{"mesh", "run", "-i", file(row.text)}, row.args...))
		if code != 1 || !strings.Contains(errOut, row.want) {
			t.Errorf("%s: exit code %d, %s", row.what, code, errOut)
		}
	}
	with := strings.Replace(string(example), "  collector: 10.0.1.1:9918", "  tls: {ca: /none.pem, cert: /none.pem, key: /none.key}\n  collector: 10.0.1.1:9918", 1)
	for text, want := range map[string]string{
		string(example): "does not say how to reach the collector: add to its mesh tls: {ca: /PATH", with: "mesh: tls: certificate /none.pem with key /none.key",
		local[:strings.Index(local, "mesh:\n")]: "does not say how to reach the collector",
	} {
		_, errOut, code := runIn(dir, []string{"mesh", "why", "gpu-1", "gpu-2", "-i", file(text)})
		if code != 1 || !strings.Contains(errOut, want) {
			t.Errorf("exit code %d, %s", code, errOut)
		}
	}
	_, errOut, code := runIn(dir, []string{"mesh", "status", "--socket", filepath.Join(dir, "none.sock")})
	if code != 1 || !strings.Contains(errOut, "no collector answers at") || !strings.Contains(errOut, "csig mesh run --collect is one") {
		t.Errorf("exit code %d, %s", code, errOut)
	}
	out, _, code := runIn(dir, []string{"mesh", "status", "--socket", filepath.Join(dir, "none.sock"), "--check", "--json"})
	if code != checkCritical || !strings.Contains(out, `"format": "csig.mesh-check/v1"`) || !strings.Contains(out, `"status": null`) {
		t.Errorf("exit code %d, %s", code, out)
	}
}

// TestHostileCollector answers with escape sequences in its texts: none reaches a terminal.
func TestHostileCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := memnet.Listen("collector:80")
		evil := "a\x1b[2J\u202e\nzz"
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			pair := mesh.Pair{From: evil, To: evil, State: evil, Signals: []mesh.PairReading{{Signal: evil, Range: evil, Ports: []string{evil}}}}
			if r.URL.Path == mesh.StatusPath {
				_ = json.NewEncoder(w).Encode(mesh.Status{
					Format: mesh.StatusFormat, Profile: evil, Hosts: []mesh.Host{{Name: evil, State: evil}}, Pairs: []mesh.Pair{pair}, States: map[string]int{evil: 1},
					Findings:    []mesh.Finding{{Level: findings.Error, Device: evil, Ports: []string{evil}, Either: []string{evil}, Reason: evil, Code: findings.Code(evil), Example: []string{evil, evil}}},
					Bottlenecks: []mesh.Bottleneck{{Ports: []string{evil}, Place: evil, Signal: evil, Range: evil, Example: []string{evil, evil}}},
				})
				return
			}
			_ = json.NewEncoder(w).Encode(mesh.Why{Format: mesh.WhyFormat, Pair: pair, Hops: [][]string{{evil}}, Paths: []mesh.PathStatus{{Signal: evil, State: evil}}, Changes: []mesh.Change{{Signal: evil, State: evil, Range: evil, Ports: []string{evil}, Note: evil}}})
		})}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(ln) }()
		at := meshCollector{name: "collector", url: "http://collector", transport: &http.Transport{DialContext: ln.DialContext, DisableKeepAlives: true}}
		s, w := new(mesh.Status), new(mesh.Why)
		err := errors.Join(at.ask(t.Context(), mesh.StatusPath, s, func() (string, string) { return s.Format, mesh.StatusFormat }),
			at.ask(t.Context(), mesh.WhyPath, w, func() (string, string) { return w.Format, mesh.WhyFormat }))
		if err != nil {
			t.Fatal(err)
		}
		_, why := judgeMesh(s)
		for _, text := range []string{meshText(s, 80, true), meshWhyText(w), meshSummary(s), why} {
			if strings.ContainsAny(text, "\x1b\u202e") || strings.Contains(text, "\nzz") || !strings.Contains(text, `a\x1b[2J\u202e zz`) {
				t.Errorf("%q", text)
			}
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}
