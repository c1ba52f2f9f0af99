package mesh

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
