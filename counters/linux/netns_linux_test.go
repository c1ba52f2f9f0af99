package linux

import (
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/counters"
	kernel "github.com/csig-agent/csig/fabric"
)

func TestMain(m *testing.M) { kernel.Tests(m, nil) }

// enter moves the test into a fresh network namespace, which goes away with
// the test: its goroutine keeps the thread, and the thread ends with it.
func enter(t testing.TB) netns.NsHandle {
	t.Helper()
	runtime.LockOSThread()
	ns, err := netns.New()
	if err != nil {
		t.Fatalf("making a network namespace: %v", err)
	}
	t.Cleanup(func() { _ = ns.Close() })
	return ns
}

// aside makes a second network namespace without leaving the current one.
func aside(t testing.TB) netns.NsHandle {
	t.Helper()
	here, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ns.Close() })
	if err := netns.Set(here); err != nil {
		t.Fatal(err)
	}
	return ns
}

// veth makes a pair in the current namespace and brings both ends up.
func veth(t testing.TB, name, peer string) {
	t.Helper()
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: peer}))
	up(t, name)
	up(t, peer)
}

func up(t testing.TB, name string)     { t.Helper(); must(t, netlink.LinkSetUp(byName(t, name))) }
func down(t testing.TB, name string)   { t.Helper(); must(t, netlink.LinkSetDown(byName(t, name))) }
func remove(t testing.TB, name string) { t.Helper(); must(t, netlink.LinkDel(byName(t, name))) }

func byName(t testing.TB, name string) netlink.Link {
	t.Helper()
	l, err := netlink.LinkByName(name)
	must(t, err)
	return l
}

// tbf shapes a port. The handle is given so that a second one can have the same.
func tbf(t testing.TB, name string, bitPerSecond uint64) *netlink.Tbf {
	t.Helper()
	q := &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: byName(t, name).Attrs().Index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(7, 0)},
		Rate:       bitPerSecond / 8,
		Limit:      1 << 20,
		Buffer:     200_000,
	}
	must(t, netlink.QdiscAdd(q))
	return q
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// packetSocket sends frames out of one interface.
type packetSocket struct {
	fd   int
	addr unix.SockaddrLinklayer
}

func open(t testing.TB, name string) *packetSocket {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return &packetSocket{fd: fd, addr: unix.SockaddrLinklayer{Ifindex: byName(t, name).Attrs().Index, Halen: 6}}
}

func (p *packetSocket) send(t testing.TB, b []byte) {
	t.Helper()
	must(t, unix.Sendto(p.fd, b, 0, &p.addr))
}

// frame is an Ethernet frame of n bytes, without FCS, of an experimental type.
func frame(n int) []byte {
	b := make([]byte, n)
	copy(b, net.HardwareAddr{2, 0, 0, 0, 0, 9})
	copy(b[6:], net.HardwareAddr{2, 0, 0, 0, 0, 1})
	b[12], b[13] = 0x88, 0xb5
	return b
}

// sendSuperFrame sends one UDP super-frame out of an interface: one packet for
// the stack, which is so many datagrams of size bytes on the wire.
func sendSuperFrame(t testing.TB, name string, segments, size int) {
	t.Helper()
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 0, 0, 1), Mask: net.CIDRMask(24, 32)}}
	must(t, netlink.AddrAdd(byName(t, name), addr))
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, size))
	must(t, unix.Sendto(fd, make([]byte, segments*size), 0, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{10, 0, 0, 2}}))
}

// source opens a source of these ports in the current namespace.
func source(t testing.TB, names ...string) *Source {
	t.Helper()
	var cfg Config
	for _, n := range names {
		cfg.Ports = append(cfg.Ports, Port{Name: n, Speed: 1_000_000_000})
	}
	return sourceOf(t, cfg)
}

func sourceOf(t testing.TB, cfg Config) *Source {
	t.Helper()
	s, err := New(cfg)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func read(t testing.TB, s *Source) []counters.Sample {
	t.Helper()
	got, err := s.Read(t.Context(), nil)
	must(t, err)
	return got
}

// ready reads until every link is up.
func ready(t testing.TB, s *Source) []counters.Sample {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		got := read(t, s)
		if !slices.ContainsFunc(got, func(a counters.Sample) bool { return !a.Up }) {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("waiting for links: %+v", got)
		}
	}
}

// one reads a source of one port.
func one(t testing.TB, s *Source) counters.Sample {
	t.Helper()
	got := read(t, s)
	if len(got) != 1 {
		t.Fatalf("%d samples for one port", len(got))
	}
	return got[0]
}

// until reads until the port's sample is as wanted.
func until(t testing.TB, s *Source, what string, ok func(counters.Sample) bool) counters.Sample {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		got := one(t, s)
		if ok(got) {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s: %+v", what, got)
		}
		runtime.Gosched()
	}
}
