package linux

import (
	"context"
	"fmt"
	"reflect"
	"sort"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// newPorts makes a namespace with n ports, and the setup that updates them.
func newPorts(t testing.TB, n int) (*netns, vendors.Setup) {
	t.Helper()
	ns := newNetNS(t)
	ns.sysctl("net/ipv6/conf/default/disable_ipv6", "1")
	var ports []vendors.PortSetup
	if err := ns.do(func() error {
		for i := range n {
			name := fmt.Sprintf("swp%d", i)
			if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: fmt.Sprintf("far%d", i)}); err != nil {
				return err
			}
			ports = append(ports, vendors.PortSetup{Port: name, Action: vlanrules.Update})
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return ns, setupFor(ports...)
}

// walk is what n ports with two signals want in a cycle: each bucket differs
// by one from the cycle before.
func walk(updates []vendors.PortUpdate, s vendors.Setup, cycle int) []vendors.PortUpdate {
	updates = updates[:0]
	for i, p := range s.Ports {
		b := uint8(5 + i%16 + cycle%2)
		updates = append(updates, vendors.PortUpdate{Port: p.Port, Intents: []vlanrules.Intent{
			bucket(quantize.MinABW, b, uint16(1+i%100)), bucket(quantize.MinABWC, b+3, uint16(1+i%100))}})
	}
	return updates
}

func TestManyPorts(t *testing.T) {
	t.Parallel()
	const ports = 512
	n, s := newPorts(t, ports)
	d := openDriver(t, n)
	start := time.Now()
	apply(t, d, s)
	t.Logf("Apply: %v, the kernel takes %d bytes at once", time.Since(start), d.sock.max)
	for cycle := range 4 {
		start = time.Now()
		res := update(t, d, time.Minute, walk(nil, s, cycle)...)
		t.Logf("Update: %v, %+v", time.Since(start), res)
		want := vendors.UpdateResult{Ports: ports, Ops: ports * 8, Leased: true, ReadBack: vendors.ReadBackAfter}
		if cycle == 0 {
			want.Ops = ports * 4
		}
		if !reflect.DeepEqual(res, want) {
			t.Errorf("cycle %d: %+v, want %+v", cycle, res, want)
		}
	}
	// A socket with buffers as an ordinary user gets them: several transactions.
	d.sock.max = 64 << 10
	for cycle := range 2 {
		if res := update(t, d, time.Minute, walk(nil, s, cycle)...); res.Ports != ports || res.Repaired != nil {
			t.Errorf("in pieces: %+v", res)
		}
	}
	second := openDriver(t, n)
	start = time.Now()
	have, err := second.Observe(context.Background())
	t.Logf("Observe: %v", time.Since(start))
	if err != nil {
		t.Fatal(err)
	}
	if changes, err := second.Diff(have, s); err != nil || len(changes) != 0 {
		t.Errorf("%v, %v", changes, err)
	}
	if res := update(t, second, time.Minute, walk(nil, s, 1)...); !reflect.DeepEqual(res, vendors.UpdateResult{Leased: true, ReadBack: vendors.ReadBackAfter}) {
		t.Errorf("another driver has to change %+v", res)
	}
	start = time.Now()
	if err := d.Remove(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Logf("Remove: %v", time.Since(start))
	d.sock.max = 64 << 10
	start = time.Now()
	apply(t, d, s)
	t.Logf("Apply in pieces: %v", time.Since(start))
	if have, err := second.Observe(context.Background()); err != nil || have.Damaged != "" || len(have.Ports) != ports {
		t.Errorf("after Apply in pieces: %d ports, %q, %v", len(have.Ports), have.Damaged, err)
	}
}

// TestSteadyStateAllocatesNothing: neither where only the lease is renewed nor
// where every port changes.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	n, s := newPorts(t, 4)
	d := openDriver(t, n)
	apply(t, d, s)
	ctx := context.Background()
	cycles := [2][]vendors.PortUpdate{walk(nil, s, 0), walk(nil, s, 1)}
	for i, tc := range []struct {
		name string
		step int
	}{{"lease only", 0}, {"every port changes", 1}} {
		for range 4 { // both cycles' scratch space is there
			update(t, d, time.Minute, cycles[0]...)
			update(t, d, time.Minute, cycles[1]...)
		}
		cycle := 1
		if got := testing.AllocsPerRun(50, func() {
			cycle += tc.step
			if _, err := d.Update(ctx, cycles[cycle%2], time.Minute); err != nil {
				t.Fatal(err)
			}
		}); got != 0 {
			t.Errorf("%d, %s: %v allocations", i, tc.name, got)
		}
	}
}

// BenchmarkUpdate changes every port's two buckets by one in each cycle. Beside
// it, in turns, the same elements in transactions that were encoded before:
// "ratio" is the median of driver to bare, of pairs that ran one after the
// other.
func BenchmarkUpdate(b *testing.B) {
	for _, ports := range []int{64, 512} {
		b.Run(fmt.Sprintf("ports=%d", ports), func(b *testing.B) {
			n, s := newPorts(b, ports)
			d := openDriver(b, n)
			apply(b, d, s)
			ctx := context.Background()
			cycles := [2][]vendors.PortUpdate{walk(nil, s, 0), walk(nil, s, 1)}
			// The bare transactions: what the driver sends, kept.
			var bare [2]batch
			for i := range 4 {
				update(b, d, time.Minute, cycles[i%2]...)
				bare[i%2] = d.batch
				bare[i%2].b = append([]byte(nil), d.batch.b...)
			}
			for i := range bare {
				// Without the generation they were made for.
				dropGeneration(&bare[i])
			}
			var driver, floor []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				for i := range 2 {
					if _, err := d.Update(ctx, cycles[i], time.Minute); err != nil {
						b.Fatal(err)
					}
				}
				middle := time.Now()
				for i := range 2 {
					if err := d.sock.commit(&bare[i]); err != nil {
						b.Fatal(err)
					}
				}
				driver, floor = append(driver, middle.Sub(start)/2), append(floor, time.Since(middle)/2)
				d.generation += 2 // the bare ones, whose end is where they began
			}
			var ratios []float64
			for i := range driver {
				ratios = append(ratios, float64(driver[i])/float64(floor[i]))
			}
			sort.Float64s(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "ratio")
			b.ReportMetric(float64(median(driver).Microseconds()), "µs-driver")
			b.ReportMetric(float64(median(floor).Microseconds()), "µs-bare")
			b.ReportMetric(0, "ns/op") // four transactions: the medians above say more
		})
	}
}

func median(d []time.Duration) time.Duration {
	sort.Slice(d, func(i, j int) bool { return d[i] < d[j] })
	return d[len(d)/2]
}

// dropGeneration makes a batch valid at any generation: 0 in place of the
// number, which the kernel takes for none.
func dropGeneration(b *batch) {
	at := nlmsgHeader + genmsgHeader + 4
	copy(b.b[at:at+4], []byte{0, 0, 0, 0})
}
