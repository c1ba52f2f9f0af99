package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/csig-agent/csig/agent/api/tlstest"
)

// TestSharingFlags: what cannot be meant is refused, with what to write.
func TestSharingFlags(t *testing.T) {
	const cluster = "--cluster 127.0.0.1:6222 --peer c2=127.0.0.2:6222 --peer c3=127.0.0.3:6222"
	const files = " --tls-cert c --tls-key k --tls-ca a"
	for args, want := range map[string]string{
		"":                                 "",
		cluster + files:                    "",
		cluster + " --insecure-cluster":    "",
		"--nats nats://192.0.2.1:4222":     "",
		"--nats tls://n:4222" + files:      "",
		cluster:                            "--insecure-cluster",
		cluster + " --nats nats://n:4222":  "exclude each other",
		"--cluster 127.0.0.1:6222" + files: "give two others, or four",
		"--name c1":                        "go with --cluster or --nats",
		"--peer c2=127.0.0.1:6222":         "go with --cluster or --nats",
		"--cluster 127.0.0.1:6222 --peer 127.0.0.2:6222 --peer c3=127.0.0.3:6222" + files:    "NAME=HOST:PORT",
		"--cluster 127.0.0.1:6222 --peer =127.0.0.2:6222 --peer c3=127.0.0.3:6222" + files:   "NAME=HOST:PORT",
		"--cluster 127.0.0.1:6222 --peer c2=127.0.0.2:6222 --peer c2=127.0.0.3:6222" + files: "two controllers of one name",
		cluster + " --name c2" + files: "two controllers of one name",
		cluster + files + " --clients-at 127.0.0.1:4222 --clients c7 --observers prom": "",
		cluster + files + " --clients-at 127.0.0.1:4222":                               "--clients or --observers",
		cluster + files + " --clients c7":                                              "--clients-at",
		cluster + files + " --clients-at 127.0.0.1:x --clients c7":                     "HOST:PORT",
		cluster + files + " --clients-at 127.0.0.1:4222 --clients c7 --observers c7":   "among --clients and",
		cluster + " --insecure-cluster --clients-at 127.0.0.1:4222 --clients c7":       "TLS",
		"--nats nats://n:4222 --clients-at 127.0.0.1:4222 --clients c7":                "go with --cluster",
		"--tls-ca a": "--metrics-ca",
		"--nats tls://n:4222 --tls-cert c --tls-key k": "go together with --nats",
		"--nats nats://n:4222 --tls-cert c":            "go together",
		cluster + files + " --replicas 1":              "--replicas 1",
		"--nats nats://n:4222 --replicas 2":            "--replicas 2",
		cluster + files + " --term 100ms":              "at least 1s",
		cluster + " --tls-cert c --tls-key k":          "--tls-ca",
		cluster + "0000" + files:                       "HOST:PORT",
		cluster + "x" + files:                          "HOST:PORT",
		"--cluster c:1 --peer a --peer b:1" + files:    "HOST:PORT",
		"--nats nats://n:4222 --name c/1":              "letters, digits",
	} {
		var s sharing
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		s.flags(f)
		if err := f.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		if err := s.check(false); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}

// TestOwnName: a certificate without the controller's name is refused before anything starts.
func TestOwnName(t *testing.T) {
	ca := tlstest.New(t)
	s := sharing{name: "c1", listen: "127.0.0.1:6222", ca: ca.CA}
	s.cert, s.key = ca.Certify("c2.example.net")
	if _, err := s.tls(); err == nil || !strings.Contains(err.Error(), "[c2.example.net]") || !strings.Contains(err.Error(), "--peer c1=") {
		t.Error(err)
	}
	s.cert, s.key = ca.Certify("c1.example.net", "c1")
	if _, err := s.tls(); err != nil {
		t.Error(err)
	}
}

// TestMetricsReaders: those of metrics elsewhere have an authority of their own.
func TestMetricsReaders(t *testing.T) {
	for _, test := range []struct {
		m          metricsFlags
		cert, want string
	}{
		{metricsFlags{}, "", ""},
		{metricsFlags{addr: "127.0.0.1:9343"}, "", ""},
		{metricsFlags{addr: "192.0.2.1:9343", ca: "a", read: []string{"prom"}}, "c", ""},
		{metricsFlags{addr: "192.0.2.1:9343", read: []string{"prom"}}, "c", "--metrics-ca is missing"},
		{metricsFlags{addr: ":9343", read: []string{"prom"}}, "c", "--tls-ca does not serve"},
		{metricsFlags{addr: "192.0.2.1:9343", ca: "a"}, "c", "--tls-read"},
		{metricsFlags{ca: "a"}, "", "goes with --metrics"},
	} {
		if err := test.m.check(test.cert); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.m, err, test.want)
		}
	}
}

// TestEpochFile: the highest epoch is read again; a damaged file is no epoch of 0.
func TestEpochFile(t *testing.T) {
	f := epochFile(t.TempDir() + "/epoch")
	for _, want := range []uint64{0, 7834, 1 << 19} {
		if want > 0 {
			if err := f.write(want); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := f.read(); err != nil || got != want {
			t.Errorf("%d, %v; want %d", got, err, want)
		}
	}
	if err := os.WriteFile(string(f), []byte("csig epoch x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := f.read(); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("%d, %v", got, err)
	}
}
