package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/agent/api/tlstest"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/hosts/mesh"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vendors/vendorstest/freeport"
)

// until waits for up to a minute.
func until(t *testing.T, what string, is func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) { // between looks
		if err = is(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// TestMeshOfAController has two hosts send rows to a controller, each with the certificate of its name. They read little of a
// port whose agent, which the controller runs, says that it is idle.
func TestMeshOfAController(t *testing.T) {
	dir, addr, page := t.TempDir(), freeport.Addr(t), freeport.Addr(t)
	began := time.Now()
	sw := &oftest.Memory{Ports: []string{"p1", "p2"}, Speed: 1e9, Bytes: func(int) uint64 { return uint64(time.Since(began).Microseconds() / 8) }} // 1 Mbit/s
	if err := sw.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sw.Close)
	file, socket, agent := filepath.Join(dir, "fleet.yaml"), filepath.Join(dir, "mesh.sock"), filepath.Join(dir, "leaf.sock")
	if err := os.WriteFile(file, fmt.Appendf(nil, `format: csig.fleet/v1
profile: {name: dc, tpid: 0x88a8, interval: 200ms, signals: {abw: {buckets: log-1G}}}
vlan_tpids: [0x8100]
devices:
  - name: leaf
    platform: openflow
    experimental: true
    address: 127.0.0.1
    management: {openflow: {port: %d, plaintext: true, ordinary_vlans: not-handed-over}, daemon: {at: here, socket: %s}}
    ports: [{name: p1, speed: 1G, lm: 5, peer: h1}, {name: p2, speed: 1G, lm: 6, peer: h2}]
mesh: {key: {file: %s}, interval: 250ms, collector: %q}
hosts: [{name: h1, csig: true, address: 192.0.2.1}, {name: h2, csig: true, address: 192.0.2.2}]
`, sw.Addr().Port, agent, filepath.Join(dir, "key"), addr), 0o600); err != nil {
		t.Fatal(err)
	}
	ca := tlstest.New(t)
	cert, key := ca.Certify("controller")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-i", file, "--state", filepath.Join(dir, "state"), "--mesh", addr, "--mesh-ca", ca.CA, "--mesh-socket", socket, "--tls-cert", cert, "--tls-key", key, "--web", page)
	var log bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), asController+"=1"), &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
		if err != nil || t.Failed() {
			t.Errorf("%v\n%s", err, &log)
		}
	}()
	fleet, err := inventory.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	config, err := inventory.Marshal(fleet.DeviceView(&fleet.Devices[0]))
	if err != nil {
		t.Fatal(err)
	}
	client := api.NewClient(agent)
	defer client.Close()
	until(t, "csig apply", func() error { return client.Configure(t.Context(), config) })
	until(t, "the switch is driven", func() error {
		s, err := client.Status(t.Context())
		if err == nil && (len(s.Ports) != 2 || slices.ContainsFunc(s.Ports, func(p api.Port) bool { return p.State != api.StateLive })) {
			err = fmt.Errorf("%+v", s.Ports)
		}
		return err
	})

	// send sends rows of a host with a certificate, and returns what is said of them: "" where they are taken.
	send := func(host, to, certificate string, authority *tlstest.Authority) string {
		cert, key := authority.Files(certificate)
		cfg, err := (api.TLSFiles{Cert: cert, Key: key, CA: ca.CA}).Client("controller")
		if err != nil {
			t.Fatal(err)
		}
		c := http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true}}
		r := mesh.Report{Format: mesh.RowsFormat, Host: host}
		for port := range mesh.Ports {
			r.Rows = append(r.Rows, mesh.Row{To: to, Port: port, Signal: "abw", State: mesh.StateCapable, Read: true, S: 3, LM: map[string]uint16{"h1": 5, "h2": 6}[to], Sent: 2, Tagged: 1})
		}
		text, err := json.Marshal(&r)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Post("https://"+addr+mesh.RowsPath, "application/json", bytes.NewReader(text)) //nolint:noctx // it has a timeout
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		said, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(said))
	}
	ca.Certify("h1")
	ca.Certify("h2")
	other := tlstest.New(t)
	other.Certify("h1")
	for _, c := range []struct {
		certificate string
		of          *tlstest.Authority
		want        string
	}{
		{"h2", ca, "rows of a host come with a certificate that has its name"},
		{"h1", other, "unknown certificate authority"},
	} {
		if said := send("h1", "h2", c.certificate, c.of); !strings.Contains(said, c.want) {
			t.Errorf("rows of h1 with the certificate of %s: %q, want %q", c.certificate, said, c.want)
		}
	}

	over := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	defer over.CloseIdleConnections()
	status := func() (s mesh.Status) {
		resp, err := over.Get("http://mesh" + mesh.StatusPath) //nolint:noctx // the test ends with it
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := status(); s.Hosts[0].State != mesh.HostNever || s.Hosts[1].State != mesh.HostNever {
		t.Errorf("what was refused counts: %+v", s.Hosts)
	}
	until(t, "the hosts read what the agents do not write", func() error {
		for from, to := range map[string]string{"h1": "h2", "h2": "h1"} {
			if said := send(from, to, from, ca); said != "" {
				t.Fatalf("rows of %s: %s", from, said)
			}
		}
		s := status()
		if len(s.Bottlenecks) != 2 || s.States[mesh.StateCapable] != 2 {
			return fmt.Errorf("%+v", s)
		}
		for _, port := range []string{"leaf:p1", "leaf:p2"} {
			if !slices.ContainsFunc(s.Findings, func(f mesh.Finding) bool { return f.Code == findings.MeshNamesIdle && f.Place() == port }) {
				return fmt.Errorf("nothing at %s: %+v", port, s.Findings)
			}
		}
		return nil
	})
	resp, err := http.Get("http://" + page + "/api/v1/mesh") //nolint:noctx // the test ends with it
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var shown struct{ Bottlenecks []mesh.Bottleneck }
	if err := json.NewDecoder(resp.Body).Decode(&shown); err != nil || len(shown.Bottlenecks) != 2 {
		t.Errorf("the page has %+v, %v", shown, err)
	}
}
