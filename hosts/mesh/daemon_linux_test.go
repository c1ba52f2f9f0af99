package mesh

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/agent/api/tlstest"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
)

// TestRefusedRows has a collector refuse a host's rows for a while: the log has that once a minute, and its end.
func TestRefusedRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, lines := logtest.NewNullLogger()
		fleet := testFleet(t)
		without := changedFleet(t, `"h[1-4]", csig: true, address: "10.0.[1-4].9"`, `"h[2-5]", csig: true, address: "10.0.[2-5].9"`, "peer: h1}", "peer: h5}")
		c, net := NewCollector(without), newNetwork(t, 2)
		m := membership{Member: Member{Fleet: fleet, Host: &fleet.Hosts[0]}, cfg: &DaemonConfig{Log: logrus.NewEntry(log)}, prober: net.hosts[addrOf(1)]}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		var reports atomic.Int32
		go func() { ended <- m.report(ctx, c, func() { reports.Add(1) }) }()
		time.Sleep(150*time.Second + time.Millisecond)
		if all := lines.AllEntries(); len(all) != 3 || all[0].Level != logrus.WarnLevel || all[2].Time.Sub(all[0].Time) != 2*time.Minute || reports.Load() != 150 {
			t.Errorf("%d lines after %d reports, want 3 after 150: %v", len(all), reports.Load(), all)
		}
		lines.Reset()
		c.Reload(fleet)
		time.Sleep(time.Minute)
		if all := lines.AllEntries(); len(all) != 1 || all[0].Message != "the collector takes the rows again" {
			t.Errorf("%v", all)
		}
		if s := c.Status(); s.Hosts[0].State != HostLive {
			t.Errorf("%+v", s.Hosts)
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestCertificates has hosts and a collector with certificates that do not go together: messages name the file, the
// setting and the end that is to be changed.
func TestCertificates(t *testing.T) {
	ours, theirs := tlstest.New(t), tlstest.New(t)
	of := func(a *tlstest.Authority, name string) (f api.TLSFiles) {
		f.CA = a.CA
		f.Cert, f.Key = a.Certify(name)
		return f
	}
	log, lines := logtest.NewNullLogger()
	s, err := NewServer(ServerConfig{Fleet: testFleet(t), Socket: filepath.Join(t.TempDir(), "s"), Addr: "127.0.0.1:0", TLS: of(ours, "collector"), Log: logrus.NewEntry(log)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	over := api.TLSFiles{CA: ours.CA}
	over.Cert, over.Key = ours.Expire("former")
	stranger := of(theirs, "h1")
	stranger.CA = ours.CA
	distrusts := of(ours, "h1")
	distrusts.CA = theirs.CA
	for _, c := range []struct {
		what, server string
		files        api.TLSFiles
		want         string
	}{
		{"right", "collector", of(ours, "h1"), ""},
		{"another host's", "collector", of(ours, "h2"), "rows of a host come with a certificate that has its name"},
		{"another authority's", "collector", stranger, "refuses csig's own certificate " + stranger.Cert + ", which is valid until"},
		{"over", "collector", over, "refuses csig's own certificate " + over.Cert},
		{"who distrusts the collector", "collector", distrusts, "it comes from none of the authorities in " + theirs.CA + "; name the file that has its own (--tls-ca)"},
		{"another name", "h9", of(ours, "h1"), "give the collector a certificate for this one (its --tls-cert)"},
	} {
		cfg, err := c.files.Client(c.server)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true}}
		err = send(ctx, client, c.files, s.listeners[1].Addr().String(), &Report{Format: RowsFormat, Host: "h1"})
		if c.want == "" != (err == nil) || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "{")) {
			t.Errorf("%s: %v, want %s", c.what, err, c.want)
		}
	}
	// The collector's log has who was refused, once a minute of each host.
	refusals := 0
	for _, e := range lines.AllEntries() {
		if e.Message == "rows are refused" {
			refusals++
		}
	}
	if refusals != 1 {
		t.Errorf("the log has %d refusals", refusals)
	}
	if _, err := NewServer(ServerConfig{Fleet: testFleet(t), Socket: filepath.Join(t.TempDir(), "s"), Addr: s.listeners[1].Addr().String(), TLS: of(ours, "collector"), Log: logrus.NewEntry(log)}); err == nil || !strings.Contains(err.Error(), "ss -ltnp") {
		t.Error(err)
	}
}
