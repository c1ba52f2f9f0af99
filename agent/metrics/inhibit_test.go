package metrics

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const alertmanager = "../../deploy/prometheus/csig-alertmanager.yml"

// startAlertmanager runs a real one with csig's inhibition, on a free port of the loopback address.
func startAlertmanager(t *testing.T) (base string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "prometheus-alertmanager", "--config.file="+alertmanager, "--storage.path="+filepath.Join(t.TempDir(), "data"),
		"--cluster.listen-address=", "--web.listen-address=127.0.0.1:0")
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: install the Debian package prometheus-alertmanager", err)
	}
	said, listens := make(chan string, 1), regexp.MustCompile(`msg="Listening on" address=(\S+)`)
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		for range said {
		}
		_ = cmd.Wait() // killed: nothing to learn
	})
	go func() {
		defer close(said)
		lines := bufio.NewScanner(log)
		for lines.Scan() {
			if m := listens.FindStringSubmatch(lines.Text()); m != nil {
				said <- m[1]
			}
		}
	}()
	address, ok := <-said
	if !ok {
		t.Fatal("Alertmanager ended before it listened")
	}
	return "http://" + address
}

// sent are alerts that Alertmanager would send, and not those that it holds back, each with its device.
func sent(t *testing.T, base string) (list []string, all int) {
	t.Helper()
	res, err := http.Get(base + "/api/v2/alerts")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var answer []struct {
		Labels map[string]string
		Status struct{ InhibitedBy []string }
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	for _, a := range answer {
		if len(a.Status.InhibitedBy) == 0 {
			list = append(list, strings.TrimSpace(a.Labels["device"]+" "+a.Labels["alertname"]+" "+a.Labels["port"]))
		}
	}
	slices.Sort(list)
	return list, len(answer)
}

// TestOneCauseOneAlert: what a real Alertmanager sends while alerts fire at several devices at once.
func TestOneCauseOneAlert(t *testing.T) {
	_, rules := alerts(t)
	var firing []map[string]any
	fire := func(labels string, names ...string) { // labels of the agent, as instance/device/port
		part := strings.Split(labels+"//", "/")
		for _, name := range names {
			i := slices.IndexFunc(rules, func(r rule) bool { return r.Alert == name })
			if i < 0 {
				t.Fatalf("there is no alert %s", name)
			}
			l := map[string]string{"alertname": name, "job": "csig", "severity": rules[i].Labels["severity"]}
			for k, label := range []string{"instance", "device", "port"} {
				if part[k] != "" {
					l[label] = part[k]
				}
			}
			firing = append(firing, map[string]any{"labels": l})
		}
	}
	// The counters of dead answer nothing, those of frozen stand still, those of partial are refused.
	fire("a/dead", "CsigCyclesFail", "CsigDataPlane", "CsigLeaseLapsed", "CsigDriftNotChecked")
	fire("a/frozen", "CsigCountersFrozen", "CsigDataPlane", "CsigLeaseLapsed")
	fire("a/partial", "CsigCountersFail")
	for i := range 64 {
		for _, device := range []string{"dead", "frozen", "partial"} {
			fire(fmt.Sprintf("a/%s/swp%d", device, i), "CsigPortStale")
		}
		fire(fmt.Sprintf("a/taken/swp%d", i), "CsigPortLost")
	}
	// What has another cause is sent.
	fire("a/dead/swp1", "CsigPortFlaps")
	fire("a/dead", "CsigTableFull")
	fire("a/frozen/swp2", "CsigPortRefused")
	fire("a/alone/swp1", "CsigPortStale")
	// Another process has the rules of taken, and no cycle of hangs ends.
	fire("a/taken", "CsigDataPlaneLost", "CsigCyclesFail")
	fire("a/hangs", "CsigLoopHangs", "CsigCyclesFail", "CsigDataPlane")
	// One of two controllers does not answer.
	fire("b", "CsigDown")
	fire("b/dead", "CsigCyclesFail")
	fire("b/other/swp1", "CsigPortStale", "CsigPortFlaps")
	want := []string{
		"CsigDown", "alone CsigPortStale swp1", "dead CsigCyclesFail", "dead CsigPortFlaps swp1", "dead CsigTableFull",
		"frozen CsigCountersFrozen", "frozen CsigPortRefused swp2", "hangs CsigLoopHangs", "partial CsigCountersFail", "taken CsigDataPlaneLost",
	}

	base := startAlertmanager(t)
	body, err := json.Marshal(firing)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(base+"/api/v2/alerts", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("Alertmanager refuses the alerts: %s", res.Status)
	}
	tick := time.NewTicker(20 * time.Millisecond) // it takes them in one by one
	defer tick.Stop()
	var list []string
	var all int
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-tick.C {
		if list, all = sent(t, base); all == len(firing) && slices.Equal(list, want) {
			return
		}
	}
	t.Errorf("of %d alerts, %d taken, Alertmanager sends\n%s, want\n%s", len(firing), all, strings.Join(list, "\n"), strings.Join(want, "\n"))
}
