package integration

import (
	"context"
	"encoding/binary"
	"math/bits"
	"slices"
	"testing"
	"time"

	bpf "github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ebpf"
	"github.com/csig-agent/csig/vendors/linux"
	"github.com/csig-agent/csig/vlanrules"
)

// BenchmarkDataPlanes is the packet rate through a switch port that does CSIG in eBPF, by
// rules of nftables, and not at all, in turns, and with two programs that no data plane can do
// without: an empty one, and one that reads the clock. "ratio" is the median over the turns of a
// rate against that without. Rows:
//
//   - untagged: UDP as in BenchmarkPort, the shortest frames and full ones.
//   - tagged-udp: the same datagrams, with a tag that h1 inserts and h2 takes out, as docs/hosts.md
//     has hosts do it; each is replaced.
//   - tagged: shortest frames of a packet socket that nobody receives, each replaced. Nothing is
//     on the way but the port.
func BenchmarkDataPlanes(b *testing.B) {
	for _, name := range []string{"untagged", "untagged-full", "tagged-udp", "tagged"} {
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
		"tagged-udp":    func() func(int) time.Duration { return t.taggedUDP(b, 18) },
		"tagged":        func() func(int) time.Duration { return t.taggedBursts(b) },
	}[name]()
	counters, err := t.egress.Counters()
	if err != nil {
		b.Fatal(err)
	}
	defer counters.Close()
	planes := t.planes(b)
	names := []string{"none", "ebpf", "nft", "empty", "clock"}
	const sent = 40
	cost := func(name string) float64 { // ns a frame
		defer planes[name](b)()
		send(10) // warm again after the change
		before, err := counters.Read()
		if err != nil {
			b.Fatal(err)
		}
		took := send(sent)
		after, err := counters.Read()
		if err != nil {
			b.Fatal(err)
		}
		if after.Frames-before.Frames < sent*64 {
			b.Fatalf("%d frames left the port, %d were sent", after.Frames-before.Frames, sent*64)
		}
		return float64(took.Nanoseconds()) / float64(after.Frames-before.Frames)
	}
	rates, ratios := map[string][]float64{}, map[string][]float64{}
	for b.Loop() {
		for i := range 100 { // short turns: other programs disturb a few of them, not all
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
	ctx := context.Background()
	set := func(t testing.TB, d vendors.Driver) {
		err := d.Apply(ctx, vendors.SetupOf(&b.fleet.Profile, inventory.Policy{OnStale: inventory.Conservative}, &dev))
		if err == nil {
			_, err = d.Update(ctx, []vendors.PortUpdate{{Port: b.egress.Name, Rate: capacity, Intents: []vlanrules.Intent{
				{Signal: quantize.MinABW, Action: vlanrules.Update, S: 7, LM: lmABW},
				{Signal: quantize.MinABWC, Action: vlanrules.Update, S: 7, LM: lmABWC},
			}}}, time.Hour)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// The data plane is set up once; its program then comes and goes.
	set(t, native)
	var own *bpf.Program
	if err := b.s1.Do(func() error {
		found, err := link.QueryPrograms(link.QueryOptions{Target: b.egress.Index(), Attach: bpf.AttachTCXEgress})
		if err != nil {
			return err
		}
		if own, err = bpf.NewProgramFromID(found.Programs[0].ID); err != nil {
			return err
		}
		return link.RawDetachProgram(link.RawDetachProgramOptions{Target: b.egress.Index(), Program: own, Attach: bpf.AttachTCXEgress})
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { own.Close() })
	next := asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}
	return map[string]func(testing.TB) func(){
		"none": func(testing.TB) func() { return func() {} },
		"nft": func(t testing.TB) func() {
			set(t, nft)
			return func() {
				if err := nft.Remove(ctx); err != nil {
					t.Fatal(err)
				}
			}
		},
		"ebpf":  attaches(b.egress, bpf.AttachTCXEgress, own),
		"empty": attaches(b.egress, bpf.AttachTCXEgress, program(t, next)),
		"clock": attaches(b.egress, bpf.AttachTCXEgress, program(t, append(asm.Instructions{asm.FnKtimeGetNs.Call()}, next...))),
	}
}

// program loads one for tcx.
func program(t testing.TB, code asm.Instructions) *bpf.Program {
	t.Helper()
	p, err := bpf.NewProgram(&bpf.ProgramSpec{Type: bpf.SchedCLS, License: "GPL", Instructions: code})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// attaches returns what attaches a program to a port, and returns what detaches it.
func attaches(port *fabric.Port, where bpf.AttachType, p *bpf.Program) func(testing.TB) func() {
	return func(t testing.TB) func() {
		var l link.Link
		if err := port.Node().Do(func() (err error) {
			l, err = link.AttachTCX(link.TCXOptions{Interface: port.Index(), Program: p, Attach: where})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return func() { l.Close() }
	}
}

// taggedUDP is udp with tags in datagrams: h1 inserts them and h2 takes them out.
func (b *bed) taggedUDP(t testing.TB, size int) func(int) time.Duration {
	t.Helper()
	b.fleet.Profile.TPID = 0x88a8 // which the kernel can insert and take out
	send := b.udp(t, size)
	tag := asm.Instructions{
		asm.Mov.Imm(asm.R2, int32(bits.ReverseBytes16(b.fleet.Profile.TPID))),
		asm.Mov.Imm(asm.R3, int32(31<<7|b.fleet.Profile.Layout.LMNone())),
		asm.FnSkbVlanPush.Call(), asm.Mov.Imm(asm.R0, -1), asm.Return(),
	}
	untag := asm.Instructions{asm.FnSkbVlanPop.Call(), asm.Mov.Imm(asm.R0, -1), asm.Return()}
	t.Cleanup(attaches(b.h1, bpf.AttachTCXEgress, program(t, tag))(t))
	t.Cleanup(attaches(b.h2, bpf.AttachTCXIngress, program(t, untag))(t))
	return send
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
