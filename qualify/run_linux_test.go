package qualify_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/integration/fabric"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/qualify"
	"github.com/csig-agent/csig/qualify/qualifytest"
	"github.com/csig-agent/csig/vendors/linux"
)

func TestMain(m *testing.M) { fabric.Tests(m, nil) }

// fleetText is the tests' fleet file.
const fleetText = `format: csig.fleet/v1
profile:
  name: lab
  tpid: 0x9900
  wide_tpid: 0x9901
  interval: 100ms
  signals:
    abw:  {buckets: log-10G, quantum: 1Mbit/s}
    abwc: {buckets: log, quantum: 1ppm}
devices:
  - name: sw1
    platform: linux
    management: {netns: NETNS}
    ports:
      - {name: swp1, speed: 10G, lm: 1}
      - {name: swp2, speed: 10G, lm: 2}
`

func fleet(t testing.TB) *inventory.Fleet {
	t.Helper()
	f, err := inventory.Parse("fleet.yaml", []byte(strings.Replace(fleetText, "NETNS", "/run/netns/none", 1)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func text(t testing.TB, r *qualify.Report) string {
	t.Helper()
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Error(err)
	}
	return text.String()
}

// benchOf is a bench at a bed's switch, with the kernel's driver.
func benchOf(t testing.TB, bed *qualifytest.Bed) *qualify.Bench {
	t.Helper()
	d, err := linux.Open(linux.Config{NetNS: bed.Switch.FD()})
	if err != nil {
		t.Fatal(err)
	}
	f := fleet(t)
	b := &qualify.Bench{Ports: bed.Cards(t), Device: f.Devices[0], Profile: &f.Profile, Policy: f.Policy, Driver: d}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if b.Driver == nil { // the test has taken it away
			b.Driver = d
		}
		if err := b.Driver.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func run(t testing.TB, b *qualify.Bench, o qualify.Options) *qualify.Report {
	t.Helper()
	if o.Folder == "" {
		o.Folder = filepath.Join(t.TempDir(), "out")
	}
	o.Quiet, b.Settle = 20*time.Millisecond, 3*time.Millisecond
	r, err := qualify.Run(context.Background(), b, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestKernelBridge(t *testing.T) {
	b := benchOf(t, qualifytest.NewBed(t, 2))
	r := run(t, b, qualify.Options{Experiments: qualify.Forwarding(), About: qualify.About{Platform: "linux", Model: "X-1"}})
	healthy(t, r)
	f, err := r.Facts(qualify.Forwarding())
	if err != nil || f.LatencyAdded == nil || *f.LatencyAdded > time.Second/10 {
		t.Errorf("latency_added is not measured: %+v, %v", f, err)
	}
}

// healthy wants that no fault was found, and prints the report otherwise.
func healthy(t testing.TB, r *qualify.Report) {
	t.Helper()
	if n := r.Count(qualify.Fail); n != 0 || len(r.Results) == 0 {
		t.Errorf("%d of %d experiments found a fault in a healthy switch:\n%s", n, len(r.Results), text(t, r))
	}
}
