package sonic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
	"github.com/csig-agent/csig/vendors/vendorstest"
)

// TestHostile: whatever the switch's Redis does, and from whichever command on, each
// call of the driver ends in time, with an error that can be printed; a switch that never
// answers as it should has nothing removed.
func TestHostile(t *testing.T) {
	real := sonictest.StartRedis(t)
	sonictest.NewSwitch(t, real, sonictest.R202405, "Ethernet0", "Ethernet4")
	rnd := rand.New(rand.NewPCG(1, 1))
	for i, h := range append(sonictest.Hostilities(), sonictest.Flood()) {
		afters := []int{0, rnd.IntN(12), 12 + rnd.IntN(300)}
		if h.Name == sonictest.Flood().Name { // which begins with a subscription
			afters = afters[1:]
		}
		for n := range sized(t, 1, len(afters)) {
			after := afters[(i+n)%len(afters)]
			t.Run(fmt.Sprintf("%s after %d", h.Name, after), func(t *testing.T) { hostile(t, h, real, after) })
		}
	}
}

func hostile(t *testing.T, h sonictest.Hostility, real *sonictest.Redis, after int) {
	s := sonictest.StartHostile(t, h, real, after)
	d := Open(Config{Patience: 200 * time.Millisecond, Redis: sonicdb.New(sonicdb.Options{Dial: sonictest.Dial, File: s.File, Timeout: 100 * time.Millisecond,
		ReadFile: func(_ context.Context, path string) ([]byte, error) { return os.ReadFile(path) }})})
	d.settle = 40 * time.Millisecond
	defer d.Close()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	var have vendors.Setup
	for name, call := range map[string]func(ctx context.Context) error{
		"Probe": func(ctx context.Context) error {
			f, err := d.Probe(ctx)
			printable(t, strings.Join(append(f.Notes, f.Off...), " "))
			return err
		},
		"Observe": func(ctx context.Context) (err error) {
			have, err = d.Observe(ctx)
			printable(t, have.Damaged)
			return err
		},
		"Diff": func(context.Context) error {
			_, err := d.Diff(have, setupOf(quantize.Draft00, "Ethernet0"))
			return err
		},
		"Apply": func(ctx context.Context) error { return d.Apply(ctx, setupOf(quantize.Draft00, "Ethernet0")) },
		"Update": func(ctx context.Context) error {
			_, err := d.Update(ctx, []vendors.PortUpdate{{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}}, time.Second)
			return err
		},
		"Release": d.Release,
		"Remove":  d.Remove,
		"Health":  func(ctx context.Context) error { _, err := d.Health(ctx); return err },
		"MTUs":    func(ctx context.Context) error { _, err := d.MTUs(ctx); return err },
		"SetMTU":  func(ctx context.Context) error { return d.SetMTU(ctx, "Ethernet0", 9100) },
	} {
		if strings.Contains(h.Name, "without an end") && !vendorstest.Long(t) && name != "Probe" && name != "Update" && name != "Remove" {
			continue // they read as much of it as these
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := call(ctx); err != nil {
			for line := range strings.Lines(err.Error()) { // an errors.Join has one for each
				printable(t, strings.TrimSuffix(line, "\n"))
			}
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("%s has no end: %v", name, err)
			}
		} else if name == "Remove" && after == 0 && h.Name != "nothing" && h.Name != "scan without an end" { // which look as if there were nothing
			t.Error("it says that it has removed everything")
		}
		cancel()
	}
	runtime.ReadMemStats(&now)
	if most := uint64(200 << 20); now.Sys > before.Sys+most {
		t.Errorf("it takes %d MiB", (now.Sys-before.Sys)>>20)
	}
}

func printable(t *testing.T, text string) {
	t.Helper()
	if clean := untrusted.Text(text, 1<<20); clean != text || len(text) > 16<<10 {
		t.Errorf("%.2000q is not to be printed", text)
	}
}
