package integration

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	bpf "github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ebpf"
	"github.com/csig-agent/csig/vendors/linux"
	"github.com/csig-agent/csig/vlanrules"
)

// BenchmarkDataPlanes is the packet rate through a switch port that does CSIG in eBPF, by
// rules of nftables, and not at all, in turns, and with an empty program at tcx egress; "ratio" is the median over the turns of a rate
// against that without. Untagged frames are UDP as in BenchmarkPort; tagged ones are sent as they are,
// and are rewritten.
func BenchmarkDataPlanes(b *testing.B) {
	for _, name := range []string{"untagged", "untagged-full", "tagged"} {
		b.Run(name, func(b *testing.B) { benchPlanes(b, name) })
	}
}

func benchPlanes(b *testing.B, name string) {
	t := newBed(b, quantize.Draft00)
	if err := t.egress.Node().Do(func() error { // at full speed, for once
		return netlink.QdiscDel(&netlink.GenericQdisc{QdiscType: "tbf", QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: t.egress.Index(), Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}})
	}); err != nil {
		b.Fatal(err)
	}
	send := map[string]func() func(int) time.Duration{
		"untagged":      func() func(int) time.Duration { return t.udp(b, 18) },
		"untagged-full": func() func(int) time.Duration { return t.udp(b, 1400) },
		"tagged":        func() func(int) time.Duration { return t.taggedBursts(b) },
	}[name]()
	counters, err := t.egress.Counters()
	if err != nil {
		b.Fatal(err)
	}
	defer counters.Close()
	planes := t.planes(b)
	names := []string{"none", "ebpf", "nft", "empty"}
	cost := func(name string) float64 { // ns a frame
		defer planes[name](b)()
		send(2) // warm again after the change
		before, err := counters.Read()
		if err != nil {
			b.Fatal(err)
		}
		took := send(150)
		after, err := counters.Read()
		if err != nil {
			b.Fatal(err)
		}
		if after.Frames-before.Frames < 150*64 {
			b.Fatalf("%d frames left the port, %d were sent", after.Frames-before.Frames, 150*64)
		}
		return float64(took.Nanoseconds()) / float64(after.Frames-before.Frames)
	}
	rates, ratios := map[string][]float64{}, map[string][]float64{}
	for b.Loop() {
		for i := range 30 {
			turn := map[string]float64{}
			for j := range names { // each goes first as often
				n := names[(i+j)%len(names)]
				turn[n] = cost(n)
			}
			for n, c := range turn {
				rates[n], ratios[n] = append(rates[n], 1e9/c), append(ratios[n], turn["none"]/c)
			}
		}
	}
	median := func(d []float64) float64 {
		slices.Sort(d)
		return d[len(d)/2]
	}
	for _, n := range names {
		b.ReportMetric(median(rates[n]), "packets/s-"+n)
		if n != "none" {
			b.ReportMetric(median(ratios[n]), "ratio-"+n)
		}
	}
	b.ReportMetric(0, "ns/op")
}

// planes are what the port may have: each is set up by a call, and removed by what that returns.
func (b *bed) planes(t testing.TB) map[string]func(testing.TB) (remove func()) {
	t.Helper()
	nft, err := linux.Open(linux.Config{NetNS: b.s1.FD()})
	if err != nil {
		t.Fatal(err)
	}
	native, err := ebpf.Open(ebpf.Config{NetNS: b.s1.FD()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nft.Close(); native.Close() })
	dev := b.fleet.Devices[0]
	dev.Interval = time.Millisecond
	with := func(d vendors.Driver) func(testing.TB) func() {
		return func(t testing.TB) func() {
			ctx := context.Background()
			err := d.Apply(ctx, vendors.SetupOf(&b.fleet.Profile, inventory.Policy{OnStale: inventory.Conservative}, &dev))
			if err == nil {
				_, err = d.Update(ctx, []vendors.PortUpdate{{Port: b.egress.Name, Rate: capacity, Intents: []vlanrules.Intent{
					{Signal: quantize.MinABW, Action: vlanrules.Update, S: 7, LM: lmABW},
					{Signal: quantize.MinABWC, Action: vlanrules.Update, S: 7, LM: lmABWC},
				}}}, time.Minute)
			}
			if err != nil {
				t.Fatal(err)
			}
			return func() {
				if err := d.Remove(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return map[string]func(testing.TB) func(){
		"none": func(testing.TB) func() { return func() {} },
		"nft":  with(nft), "ebpf": with(native), "empty": b.emptyProgram(t),
	}
}

// emptyProgram attaches one, which is what the hook takes.
func (b *bed) emptyProgram(t testing.TB) func(testing.TB) func() {
	t.Helper()
	p, err := bpf.NewProgram(&bpf.ProgramSpec{Type: bpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return func(t testing.TB) func() {
		var l link.Link
		if err := b.s1.Do(func() (err error) {
			l, err = link.AttachTCX(link.TCXOptions{Interface: b.egress.Index(), Program: p, Attach: bpf.AttachTCXEgress})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return func() { l.Close() }
	}
}

// taggedBursts sends shortest frames with a tag that every hop may replace.
func (b *bed) taggedBursts(t testing.TB) func(int) time.Duration {
	t.Helper()
	f := append(append(make([]byte, 0, 64), b.h2.MAC...), b.h1.MAC...)
	f = binary.BigEndian.AppendUint16(f, b.fleet.Profile.TPID)
	f = binary.BigEndian.AppendUint16(f, 31<<7|b.fleet.Profile.Layout.LMNone())
	f = append(binary.BigEndian.AppendUint16(f, 0x88b6), make([]byte, 46)...)
	fd := -1
	err := b.h1.Node().Do(func() (err error) {
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: b.h1.Index()})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return bursts(t, fd, f)
}
