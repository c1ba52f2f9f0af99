package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors/vendorstest/freeport"
)

// asController has this test program be the controller: it gives privileges up.
const asController = "CSIG_TEST_CONTROLLER"

func TestMain(m *testing.M) {
	if os.Getenv(asController) != "" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// get is what an address answers with, 0 while nothing does.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url) //nolint:noctx // the test ends with it
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// A controller answers for all its devices: here for two that were never given a configuration.
func TestMetricsOfAController(t *testing.T) {
	dir := t.TempDir()
	var text strings.Builder
	text.WriteString(`format: csig.fleet/v1
profile: {name: dc, tpid: 0x9900, layout: draft-00, interval: 1s, signals: {abw: {buckets: log-100M}}}
devices:
`)
	for i, name := range []string{"a", "b"} {
		fmt.Fprintf(&text, `  - name: %s
    platform: ovs
    management:
      ssh: {user: csig, key: %s, known_hosts: %s, port: 1}
      ovs: {bridge: br%d}
      daemon: {at: here, socket: %s}
    address: 127.0.0.1
    ports: [{name: p1, speed: 1G, lm: %d, peer: h%d}]
`, name, filepath.Join(dir, "key"), filepath.Join(dir, "known"), i, filepath.Join(dir, name+".sock"), i+1, i)
	}
	file, addr := filepath.Join(dir, "fleet.yaml"), freeport.Addr(t)
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(args ...string) (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"-i", file, "--state", filepath.Join(dir, "state"), "--log-level", "error"}, args...)...)
		var out bytes.Buffer
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), asController+"=1"), &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, &out
	}
	refused, out := start("--metrics", "0.0.0.0:0")
	if err := refused.Wait(); err == nil || !strings.Contains(out.String(), "--metrics-ca is missing") {
		t.Errorf("everyone's metrics: %v %s", err, out)
	}
	cmd, out := start("--metrics", addr)
	code, metrics := 0, ""
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); strings.Count(metrics, "csig_configured{") < 2 && time.Now().Before(deadline); <-tick.C {
		code, metrics = get(t, "http://"+addr+"/metrics")
	}
	for _, want := range []string{`csig_configured{device="a"} 0`, `csig_configured{device="b"} 0`, `csig_build_info{version="unknown"`} {
		if code != http.StatusOK || !strings.Contains(metrics, "\n"+want) {
			t.Errorf("%d: there is no %s in\n%s", code, want, metrics)
		}
	}
	if code, text := get(t, "http://"+addr+"/healthz"); code != http.StatusOK {
		t.Errorf("health: %d %s", code, text)
	}
	if code, text := get(t, "http://"+addr+"/readyz"); code != http.StatusServiceUnavailable || text != "device a: no configuration runs\ndevice b: no configuration runs\n" {
		t.Errorf("readiness: %d %s", code, text)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v %s", err, out)
	}
	if code, _ := get(t, "http://"+addr+"/healthz"); code != 0 {
		t.Errorf("it answers after its end: %d", code)
	}
}
