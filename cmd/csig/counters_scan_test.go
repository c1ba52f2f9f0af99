package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/openconfig/gnmi/proto/gnmi"

	"github.com/csig-agent/csig/counters/snmp/snmptest"
	"github.com/csig-agent/csig/protocol/gnmi/gnmitest"
)

// runHere runs csig in this process.
func runHere(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

// pageBlock compares a text with what a page has between two comments.
func pageBlock(t *testing.T, page, name, text string) {
	t.Helper()
	begin, end := fmt.Sprintf("<!-- %s: go test ./cmd/csig -run %s -update -->\n```text\n", name, t.Name()), fmt.Sprintf("```\n<!-- end of %s -->\n", name)
	page = filepath.Join("../../docs", page)
	was, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(was), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no block %q", page, begin)
	}
	want := head + begin + text + end + tail
	switch {
	case want == string(was):
	case *update:
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s does not show\n%s", page, text)
	}
}

// leafAgent is an agent with two cables and an operator's descriptions.
func leafAgent(t *testing.T) *snmptest.Agent {
	a := snmptest.StartPorts(t, nil, "mgmt0", "swp1", "swp2", "swp3")
	a.Name("leaf1")
	a.Alias(2, "to spine1")
	a.Neighbor(2, "spine1.example.net", "swp7")
	a.Neighbor(3, "spine2.example.net", "swp7")
	return a
}

var upFor = regexp.MustCompile(`up 1h0m\d+s`)

// What the page shows is what csig prints of a real agent of SNMP.
func TestScanPage(t *testing.T) {
	a := leafAgent(t)
	t.Setenv("COMMUNITY", snmptest.Community)
	target := fmt.Sprintf("127.0.0.1:%d", a.Port)
	out, errs, err := runHere(t, "counters", "scan", target, "-v2c", "-c", "env:COMMUNITY")
	if err != nil || errs != "" {
		t.Fatalf("%v\n%s", err, errs)
	}
	out = upFor.ReplaceAllString(strings.ReplaceAll(out, target, "leaf1.example.net"), "up 1h0m0s")
	var trimmed strings.Builder
	for line := range strings.Lines(out) {
		trimmed.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	pageBlock(t, "counters.md", "scan", "$ csig counters scan leaf1.example.net -v2c -c env:COMMUNITY\n"+trimmed.String())
}

func TestScanJSON(t *testing.T) {
	a := leafAgent(t)
	target := fmt.Sprintf("udp:127.0.0.1:%d", a.Port)
	out, errs, err := runHere(t, "counters", "scan", target, "-v", "2c", "-c", snmptest.Community, "-t", "1", "-r", "0", "--json")
	if err != nil || errs != "" { // everyone knows this community
		t.Fatalf("%v\n%s", err, errs)
	}
	var got scanResult
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got.Format != "csig.scan/v1" || got.Name != "leaf1" || len(got.Interfaces) != 4 || len(got.Neighbors) != 2 || got.UptimeNS == nil || got.Error != "" {
		t.Errorf("%s", out)
	}
	if p := got.Interfaces[1]; p.Index != 2 || p.Name != "swp1" || p.Alias != "to spine1" || *p.SpeedBPS != 1e9 || p.OperStatus != "up" || len(p.Wide) != 4 || len(p.Uses) != 4 {
		t.Errorf("%+v", p)
	}
}

// A device that is not there is an error with what to do; one that ends half way is listed as
// far as it came.
func TestScanOfWhatDoesNotAnswer(t *testing.T) {
	mute, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	_, errs, err := runHere(t, "counters", "scan", mute.LocalAddr().String(), "-c", "hush-hush", "-t", "0.05", "-r", "0")
	if err == nil || !strings.Contains(err.Error(), "the community (a wrong one is not answered)") || strings.Contains(err.Error(), "hush") {
		t.Errorf("%v", err)
	}
	if !strings.Contains(errs, "see -c in the process list") || strings.Contains(errs, "hush") {
		t.Errorf("%s", errs)
	}
	a := snmptest.Start(t, 3, func(e *snmptest.Exchange) {
		if e.N > 4 { // after the system group and the names
			e.Answer = nil
		}
	})
	out, _, err := runHere(t, "counters", "scan", fmt.Sprintf("127.0.0.1:%d", a.Port), "-c", "public", "-t", "50ms", "-r", "0")
	if err == nil || !strings.Contains(out, "swp3") {
		t.Errorf("%v\n%s", err, out)
	}
}

// gNMI, as gnmic's users type it.
func TestScanGNMI(t *testing.T) {
	g, srv := gnmitest.NewGateway(t, "openconfig")
	g.Port(time.Now(), "swp1", 1000, 10)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	gnmi.RegisterGNMIServer(s, srv)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	out, _, err := runHere(t, "counters", "scan", l.Addr().String(), "--gnmi", "--insecure", "--target", gnmitest.Behind, "--encoding", "PROTO", "--origin", "openconfig")
	if err != nil || !strings.Contains(out, "out-octets + 3 of packets") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, _, err := runHere(t, "counters", "scan", l.Addr().String(), "--gnmi", "--skip-verify", "-t", "500ms"); err == nil || !strings.Contains(err.Error(), "TLS") {
		t.Errorf("%v", err)
	}
}

func TestScanFlags(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"host", "-c is missing"},
		{"host -v 1 -c public", "no 64-bit counters"},
		{"host -v 4", "want 2c or 3"},
		{"host -v 3", "-u is missing"},
		{"host -v 3 -u me -c public", "-c belongs to SNMPv2c"},
		{"host -c public -u me", "add -v 3"},
		{"host -v 3 -u me -a SHA3 -A 12345678", "want MD5, SHA"},
		{"host -v 3 -u me -a SHA-256 -A 12345678 -x ROT13 -X 12345678", "want DES, AES"},
		{"host -v 3 -u me -x AES -X 12345678", "no privacy without authentication"},
		{"host -v 3 -u me -l authPriv -a SHA-256 -A 12345678", "make it authNoPriv"},
		{"host -v 3 -u me -a SHA", "--auth-pass is missing"},
		{"host -c public --insecure", "goes with --gnmi"},
		{"host --gnmi -c public", "is SNMP's"},
		{"host --gnmi -u admin", "-u and -p go together"},
		{"host --gnmi --encoding ascii", "want proto, json_ietf, json"},
		{"host --gnmi --insecure --skip-verify", "do not go together"},
		{"host -c public -t soon", "is not a duration"},
		{"host -c public -t 0", "want from 1ms to 1h"},
		{"host:0 -c public", "want a number from 1 to 65535"},
		{"[::1 -c public", "want HOST, HOST:PORT"},
		{":161 -c public", "want HOST, HOST:PORT"},
		{"host -c env:CSIG_NOT_SET", "-c: secret env:CSIG_NOT_SET: the variable is not set"},
		{"", "target is missing"},
	} {
		_, _, err := runHere(t, append([]string{"counters", "scan"}, strings.Fields(tt.args)...)...)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.args, err, tt.want)
		}
	}
	for target, want := range map[string]string{"a": "a 161", "a:7": "a 7", "udp:a:7": "a 7", "2001:db8::1": "2001:db8::1 161", "[2001:db8::1]:7": "2001:db8::1 7", "udp6:[::1]": "::1 161"} {
		host, port, err := hostPort(target, snmpPort)
		if got := fmt.Sprint(host, " ", port); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", target, got, err, want)
		}
	}
}
