package sonic

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
)

// BenchmarkUpdate is a cycle of 64 ports and 2 signals at a fake switch, whose
// ASIC takes no time: what remains is Redis and the fake's orchagent. In "steady"
// nothing changes, in "step" one bucket of each signal of each port.
func BenchmarkUpdate(b *testing.B) {
	var names []string
	for i := range 64 {
		names = append(names, fmt.Sprintf("Ethernet%d", 4*i))
	}
	r := sonictest.StartRedis(b)
	sonictest.NewSwitch(b, r, sonictest.R202311, names...)
	d := Open(Config{Redis: clientOf(r), Patience: 10 * time.Second})
	defer d.Close()
	s := setupOf(quantize.Draft00, names...)
	s.Signals = s.Signals[:2]
	ctx := context.Background()
	if err := d.Apply(ctx, s); err != nil {
		b.Fatal(err)
	}
	updates := func(n int) []vendors.PortUpdate {
		var us []vendors.PortUpdate
		for i, p := range names {
			us = append(us, vendors.PortUpdate{Port: p, Intents: intents(5, uint8(8+(i+n)%2), uint8(20+(i+n)%2))})
		}
		return us
	}
	for _, tc := range []struct {
		name string
		step int
	}{{"steady", 0}, {"step", 1}} {
		b.Run(tc.name, func(b *testing.B) {
			ops, n := 0, 0
			for b.Loop() {
				n += tc.step
				res, err := d.Update(ctx, updates(n), time.Second)
				if err != nil {
					b.Fatal(err)
				}
				ops += res.Ops
			}
			b.ReportMetric(float64(ops)/float64(b.N), "entries/op")
		})
	}
}
