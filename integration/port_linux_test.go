package integration

import (
	"context"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/linux"
	"github.com/csig-agent/csig/vlanrules"
)

// BenchmarkPort is the packet rate of ordinary traffic, UDP from one host's
// socket to another's, through a switch port with rules against the same port
// without, in pairs that take turns. "ratio" is the median over the pairs.
// Sender, switch and receiver all run on the sender's thread, so its processor
// time is a clock that other programs on the machine do not disturb. What the
// port alone costs, and tagged frames, is BenchmarkForwarding in vendors/linux.
func BenchmarkPort(b *testing.B) {
	for _, size := range []int{18, 1400} { // the shortest frame, and a full one
		b.Run(map[int]string{18: "shortest", 1400: "full"}[size], func(b *testing.B) { benchPort(b, size) })
	}
}

func benchPort(b *testing.B, size int) {
	t := newBed(b, quantize.Draft00)
	if err := t.egress.Node().Do(func() error { // at full speed, for once
		return netlink.QdiscDel(&netlink.GenericQdisc{QdiscType: "tbf", QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: t.egress.Index(), Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}})
	}); err != nil {
		b.Fatal(err)
	}
	send := t.udp(b, size)
	counters, err := t.egress.Counters()
	if err != nil {
		b.Fatal(err)
	}
	defer counters.Close()
	driver, err := linux.Open(linux.Config{NetNS: t.s1.FD()})
	if err != nil {
		b.Fatal(err)
	}
	defer driver.Close()
	setup := vendors.SetupOf(&t.fleet.Profile, inventory.Policy{OnStale: inventory.Conservative}, &t.fleet.Devices[0])
	ctx := context.Background()
	rules := func(on bool) {
		var err error
		if !on {
			err = driver.Remove(ctx)
		} else if err = driver.Apply(ctx, setup); err == nil {
			_, err = driver.Update(ctx, []vendors.PortUpdate{{Port: t.egress.Name, Intents: []vlanrules.Intent{
				{Signal: quantize.MinABW, Action: vlanrules.Update, S: 7, LM: lmABW},
				{Signal: quantize.MinABWC, Action: vlanrules.Update, S: 7, LM: lmABWC},
			}}}, time.Minute)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	cost := func(on bool) float64 { // ns a frame
		rules(on)
		send(2) // warm again after the rules have changed
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
	var with, without, ratios []float64
	for b.Loop() {
		for i := range 30 {
			first, second := cost(i%2 == 0), cost(i%2 == 1) // each goes first as often
			if i%2 == 1 {
				first, second = second, first
			}
			with, without, ratios = append(with, first), append(without, second), append(ratios, second/first)
		}
	}
	for _, d := range [][]float64{with, without, ratios} {
		slices.Sort(d)
	}
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
	b.ReportMetric(1e9/with[len(with)/2], "packets/s-with")
	b.ReportMetric(1e9/without[len(without)/2], "packets/s-without")
	b.ReportMetric(0, "ns/op")
}

// udp returns a function that sends bursts of 64 datagrams from h1 to a socket
// at h2 and returns how much processor time that took.
func (b *bed) udp(t testing.TB, size int) func(bursts int) time.Duration {
	t.Helper()
	addr := [4]byte{192, 0, 2, 2}
	for i, p := range []struct {
		nic  *net.HardwareAddr
		do   func(func() error) error
		own  string
		peer string
	}{
		{&b.h2.MAC, b.h1.Node().Do, "192.0.2.1/24", "192.0.2.2"},
		{&b.h1.MAC, b.h2.Node().Do, "192.0.2.2/24", "192.0.2.1"},
	} {
		err := p.do(func() error {
			link, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			a, err := netlink.ParseAddr(p.own)
			if err != nil {
				return err
			}
			if err := netlink.LinkSetARPOn(link); err != nil {
				return err
			}
			if err := netlink.AddrAdd(link, a); err != nil {
				return err
			}
			return netlink.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.ParseIP(p.peer), HardwareAddr: *p.nic})
		})
		if err != nil {
			t.Fatalf("host %d: %v", i+1, err)
		}
	}
	socket := func(do func(func() error) error, prepare func(fd int) error) int {
		fd := -1
		err := do(func() (err error) {
			if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
				return err
			}
			return prepare(fd)
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	socket(b.h2.Node().Do, func(fd int) error { return unix.Bind(fd, &unix.SockaddrInet4{Port: 9, Addr: addr}) })
	tx := socket(b.h1.Node().Do, func(fd int) error { return unix.Connect(fd, &unix.SockaddrInet4{Port: 9, Addr: addr}) })

	return bursts(t, tx, make([]byte, size))
}

// bursts returns a function that sends 64 times these bytes at once, and returns how much
// processor time so many such calls took.
func bursts(t testing.TB, tx int, payload []byte) func(bursts int) time.Duration {
	t.Helper()
	type mmsghdr struct {
		hdr unix.Msghdr
		n   uint32
		_   [4]byte
	}
	msgs, iov := make([]mmsghdr, 64), make([]unix.Iovec, 64)
	for i := range msgs {
		iov[i].Base = &payload[0]
		iov[i].SetLen(len(payload))
		msgs[i].hdr.Iov = &iov[i]
		msgs[i].hdr.SetIovlen(1)
	}
	clock := func() time.Duration {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
			t.Fatal(err)
		}
		return time.Duration(ts.Nano())
	}
	return func(bursts int) time.Duration {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		start := clock()
		for range bursts {
			n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(tx), uintptr(unsafe.Pointer(&msgs[0])), 64, 0, 0, 0)
			if errno != 0 || n != 64 {
				t.Fatalf("sendmmsg: %d of 64, %v", n, errno)
			}
		}
		return clock() - start
	}
}
