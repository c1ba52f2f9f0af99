package ovs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
	"github.com/csig-agent/csig/vlanrules"
)

const benchPorts = 64

// BenchmarkUpdate is a cycle of 64 ports with two signals each: with every bucket
// changed by one, with none, and beside them the same bundle without csig, as
// bytes that are ready to be sent, and by ovs-ofctl.
func BenchmarkUpdate(b *testing.B) {
	s := ovstest.Start(b, ovstest.Options{Dummy: true})
	s.AddBridge("csig")
	setup := vendors.Setup{TPID: tpidCSIG, Signals: []quantize.Signal{quantize.MinABW, quantize.MinABWC}, OnStale: "conservative"}
	var add []string
	var rounds [2][]vendors.PortUpdate
	for i := range benchPorts {
		name := fmt.Sprintf("swp%d", i+1)
		add = append(add, "--", "add-port", "csig", name, "--", "set", "interface", name, "type=dummy")
		setup.Ports = append(setup.Ports, vendors.PortSetup{Port: name, Action: vlanrules.Update})
		for r := range rounds {
			at := uint8((i + r) % 32)
			rounds[r] = append(rounds[r], vendors.PortUpdate{Port: name, Intents: []vlanrules.Intent{bucket(quantize.MinABW, at, 5), bucket(quantize.MinABWC, 31-at, 5)}})
		}
	}
	s.Vsctl(add[1:]...)
	d, err := Open(Config{Bridge: "csig", RunDir: s.Dir})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	apply(b, d, setup)
	update(b, d, time.Minute, rounds[0]...)
	b.Run("csig, every bucket changes", func(b *testing.B) {
		ops := 0
		for i := range b.N {
			ops += update(b, d, time.Minute, rounds[(i+1)%2]...).Ops
		}
		b.ReportMetric(float64(ops)/float64(b.N), "flows/op")
	})
	b.Run("csig, nothing changes", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			update(b, d, time.Minute, rounds[0]...)
		}
	})
	b.Run("csig, a look at all flows", func(b *testing.B) {
		for range b.N {
			d.checked = time.Time{}
			update(b, d, time.Minute, rounds[0]...)
		}
	})
	var bare [2][]ofp.Mod
	for r := range rounds {
		update(b, d, time.Minute, rounds[1-r]...)
		for _, p := range d.ports {
			for _, u := range rounds[r] {
				if u.Port == p.name {
					if err := d.compile(p, u.Intents); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
		d.mods = nil
		for _, p := range d.ports {
			d.stage(p)
		}
		for _, m := range d.mods {
			f := *m.Flow
			bare[r] = append(bare[r], ofp.Mod{Kind: m.Kind, Flow: &f})
		}
		for _, p := range d.ports { // what update thinks is true again
			p.Reset()
			p.changes()
		}
	}
	update(b, d, time.Minute, rounds[0]...)
	b.Run("the bare bundle", func(b *testing.B) {
		for i := range b.N {
			if err := d.of.Commit(b.Context(), bare[(i+1)%2]); err != nil {
				b.Fatal(err)
			}
		}
	})
	var files [2]string
	for r := range bare {
		var text strings.Builder
		for _, m := range slices.Clone(bare[r]) {
			line := flowText(m.Flow)
			if m.Kind == ofp.Delete {
				line, _, _ = strings.Cut(line, ",actions=")
				line = "delete_strict " + strings.Replace(line, "cookie=0x6373696700000001,", "", 1)
			} else {
				line = "add " + line
			}
			text.WriteString(line + "\n")
		}
		files[r] = filepath.Join(b.TempDir(), "flows")
		if err := os.WriteFile(files[r], []byte(text.String()), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("ovs-ofctl --bundle", func(b *testing.B) {
		for i := range b.N {
			s.Ofctl("--bundle", "add-flows", "csig", files[(i+1)%2])
		}
	})
}
