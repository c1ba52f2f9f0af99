package plans

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans/planstest"
)

// bigFleet is 10,000 devices of 64 ports: pods of 32 leaves and 32 spines.
func bigFleet() *inventory.Fleet {
	var big *inventory.Fleet
	for pod := 0; big == nil || len(big.Devices) < 10_000; pod++ {
		f := planstest.Fabric(32, 32, 32)
		rename := func(name string) string { return fmt.Sprintf("p%d-%s", pod, name) }
		for i := range f.Devices {
			d := &f.Devices[i]
			d.Name = rename(d.Name)
			for j := range d.Ports {
				d.Ports[j].Peer.Device = rename(d.Ports[j].Peer.Device)
			}
			for n := len(d.Ports); n < 64; n++ { // spines have machines, too
				p := d.Ports[0]
				p.Name, p.Peer = fmt.Sprintf("x%d", n), inventory.Peer{Device: fmt.Sprintf("p%d-x%d-%d", pod, i, n)}
				d.Ports = append(d.Ports, p)
			}
		}
		if big == nil {
			big = f
			big.Hosts = nil
		} else {
			big.Devices = append(big.Devices, f.Devices...)
		}
	}
	big.Devices = big.Devices[:10_000]
	return big
}

// BenchmarkBuild makes the plan of a fleet of 10,000 devices of 64 ports, all of
// which change, and writes it.
func BenchmarkBuild(b *testing.B) {
	f := bigFleet()
	b.ReportAllocs()
	for b.Loop() {
		p, err := Build(f, unseen, Options{Now: time.Unix(1e9, 0)})
		if err != nil || len(p.Errors()) > 0 || p.Totals.Devices != 10_000 {
			b.Fatal(err, p.Errors())
		}
		if err := p.Write(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
