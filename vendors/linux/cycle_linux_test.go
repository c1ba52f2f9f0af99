package linux

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/agent"
	"github.com/csig-agent/csig/counters"
	source "github.com/csig-agent/csig/counters/linux"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// swing is the kernel's counters with made-up traffic on top, such that every
// port's available bandwidth steps between two neighbouring buckets of both
// signals at each reading, 100 ms of the samples' clock apart.
type swing struct {
	counters.Source
	octets [2]uint64 // sent in a window, in turns
	sum    uint64
	n      int
}

const swingSpeed = 1_000_000_000

func (s *swing) Read(ctx context.Context, dst []counters.Sample) ([]counters.Sample, error) {
	dst, err := s.Source.Read(ctx, dst)
	s.sum += s.octets[s.n%2]
	s.n++
	for i := range dst {
		dst[i].Octets += s.sum
		dst[i].Up = true
		dst[i].Live = true
		dst[i].At = time.Unix(1_700_000_000, int64(s.n)*int64(100*time.Millisecond))
	}
	return dst, err
}

// bareDump is the floor of reading: the dump that the source asks for, without
// parsing the answer.
func bareDump(b *testing.B, fd int, buf []byte) {
	msg := make([]byte, 0, 28)
	msg = binary.NativeEndian.AppendUint32(msg, 28)
	msg = binary.NativeEndian.AppendUint16(msg, unix.RTM_GETSTATS)
	msg = binary.NativeEndian.AppendUint16(msg, uint16(netlink.Request|netlink.Dump))
	msg = append(msg, make([]byte, 8+8)...)
	msg = binary.NativeEndian.AppendUint32(msg, 1<<(unix.IFLA_STATS_LINK_64-1))
	if _, err := unix.Write(fd, msg); err != nil {
		b.Fatal(err)
	}
	for {
		n, err := unix.Read(fd, buf)
		if err != nil {
			b.Fatal(err)
		}
		for m := buf[:n]; len(m) >= 16; m = m[min(len(m), int(binary.NativeEndian.Uint32(m)+3)&^3):] {
			if binary.NativeEndian.Uint16(m[4:]) == unix.NLMSG_DONE {
				return
			}
		}
	}
}

// BenchmarkCycle is the agent's whole cycle on real ports, in which every
// port's two buckets change, beside its two floors: the bare counter dump, and
// the bare transaction of the same elements. "ratio" is the median of cycle to
// floors over pairs that ran one after the other; "%core" is what the cycle
// takes beyond its floors when it runs every 100 ms.
func BenchmarkCycle(b *testing.B) {
	for _, ports := range []int{64, 512} {
		b.Run(fmt.Sprintf("ports=%d", ports), func(b *testing.B) { benchCycle(b, ports) })
	}
}

func benchCycle(b *testing.B, ports int) {
	n, setup := newPorts(b, ports)
	d := openDriver(b, n)
	dev := inventory.Device{Name: "s1", Platform: "linux", Interval: 100 * time.Millisecond, Schedule: "@every 100ms"}
	var cfg source.Config
	for i, p := range setup.Ports {
		lm := uint16(1 + i%100)
		dev.Ports = append(dev.Ports, inventory.Port{Name: p.Port, Speed: swingSpeed, Action: vlanrules.Update,
			LM: map[quantize.Signal]uint16{quantize.MinABW: lm, quantize.MinABWC: lm}})
		cfg.Ports = append(cfg.Ports, source.Port{Name: p.Port, Speed: swingSpeed})
	}
	cfg.NetNS = n.fd
	src, err := source.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer src.Close()
	abw, err := quantize.Preset(quantize.MinABW, "log-1G")
	if err != nil {
		b.Fatal(err)
	}
	abwc, err := quantize.Preset(quantize.MinABWC, "log")
	if err != nil {
		b.Fatal(err)
	}
	swings := &swing{Source: src}
	for i, bucket := range []uint8{20, 21} {
		low, high := abw.Range(bucket)
		swings.octets[i] = (swingSpeed - (low+high)/2) / 8 / 10 // of a window of 100 ms
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	a, err := agent.New(agent.Config{
		Profile: quantize.Profile{TPID: setup.TPID, Signals: map[quantize.Signal]quantize.SignalProfile{
			quantize.MinABW: {Buckets: abw}, quantize.MinABWC: {Buckets: abwc}}},
		Policy: inventory.Policy{OnStale: inventory.Conservative}, Device: dev, Source: swings, Driver: d, Log: logrus.NewEntry(log),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	if err := a.Start(ctx); err != nil {
		b.Fatal(err)
	}
	cycle := func() {
		if err := a.Cycle(ctx); err != nil {
			b.Fatal(err)
		}
	}
	// The bare transactions: what the driver sends, kept.
	var bare [2]batch
	for i := range 6 {
		cycle()
		bare[i%2] = d.batch
		bare[i%2].b = append([]byte(nil), d.batch.b...)
	}
	for i := range bare {
		dropGeneration(&bare[i])
	}
	fd := routeSocket(b, n)
	buf := make([]byte, 64<<10)

	var ratios, beyond []float64
	var read, compute, program, dump, txn []time.Duration
	before := a.Status().Cycle.Operations
	for b.Loop() {
		t0 := time.Now()
		cycle()
		cycle()
		t1 := time.Now()
		bareDump(b, fd, buf)
		bareDump(b, fd, buf)
		t2 := time.Now()
		for i := range bare {
			if err := d.sock.commit(&bare[i]); err != nil {
				b.Fatal(err)
			}
		}
		t3 := time.Now()
		d.generation += 2 // the bare ones, whose end is where they began
		floors := t3.Sub(t1)
		ratios = append(ratios, float64(t1.Sub(t0))/float64(floors))
		beyond = append(beyond, float64(t1.Sub(t0)-floors)/2)
		s := a.Status().Cycle
		read, compute, program = append(read, time.Duration(s.ReadNS)), append(compute, time.Duration(s.ComputeNS)), append(program, time.Duration(s.ProgramNS))
		dump, txn = append(dump, t2.Sub(t1)/2), append(txn, t3.Sub(t2)/2)
	}
	s := a.Status().Cycle
	if got, want := s.Operations-before, uint64(2*len(ratios)*ports*8); got != want {
		b.Fatalf("%d element operations, want %d: every bucket of every port changes each cycle", got, want)
	}
	slices.Sort(ratios)
	slices.Sort(beyond)
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
	b.ReportMetric(100*beyond[len(beyond)/2]/float64(100*time.Millisecond), "%core@100ms")
	for _, m := range []struct {
		unit string
		d    []time.Duration
	}{{"µs-read", read}, {"µs-dump-floor", dump}, {"µs-compute", compute}, {"µs-program", program}, {"µs-transaction-floor", txn}} {
		b.ReportMetric(float64(median(m.d).Nanoseconds())/1000, m.unit)
	}
	b.ReportMetric(0, "ns/op") // two cycles and their floors: the medians say more
}

// routeSocket is a netlink socket inside the namespace.
func routeSocket(b *testing.B, n *netns) int {
	b.Helper()
	fd := -1
	err := n.do(func() (err error) {
		fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { unix.Close(fd) })
	return fd
}

var _ vendors.Driver = (*Driver)(nil)
