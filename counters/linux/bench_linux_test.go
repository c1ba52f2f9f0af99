package linux

import (
	"errors"
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// BenchmarkRead measures a reading beside its floor: the same requests, the
// answers drained and not looked at. The ports are veths whose other ends live
// in another namespace, so that the dump holds nothing else.
func BenchmarkRead(b *testing.B) {
	for _, shaped := range []bool{false, true} {
		for _, ports := range []int{64, 512} {
			counter := "interface"
			if shaped {
				counter = "tbf"
			}
			b.Run(fmt.Sprintf("counter=%s/ports=%d", counter, ports), func(b *testing.B) {
				s := fabric(b, ports, shaped)
				b.Run("floor", func(b *testing.B) {
					request := s.getStats
					if shaped {
						request = s.getQdiscs
					}
					b.ReportAllocs()
					for b.Loop() {
						drain(b, s.dumps, request)
					}
				})
				b.Run("read", func(b *testing.B) {
					dst := ready(b, s)
					if got := s.Facts()[0].Counter == "interface"; got == shaped {
						b.Fatalf("read from %s", s.Facts()[0].Counter)
					}
					b.ReportAllocs()
					for b.Loop() {
						var err error
						if dst, err = s.Read(b.Context(), dst); err != nil || len(dst) != ports || dst[ports-1].Err != nil {
							b.Fatal(err, len(dst))
						}
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(ports), "ns/port")
				})
			})
		}
	}
}

// fabric makes so many ports in a fresh namespace and a source of them.
func fabric(b *testing.B, ports int, shaped bool) *Source {
	enter(b)
	far := aside(b)
	there, err := netlink.NewHandleAt(far)
	must(b, err)
	defer there.Close()
	var cfg Config
	for i := range ports {
		name := fmt.Sprintf("swp%d", i)
		must(b, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name, PeerNamespace: netlink.NsFd(far)}))
		up(b, name)
		peer, err := there.LinkByName(name)
		must(b, err)
		must(b, there.LinkSetUp(peer))
		if shaped {
			tbf(b, name, 1_000_000_000)
		}
		cfg.Ports = append(cfg.Ports, Port{Name: name, Speed: 1_000_000_000})
	}
	return sourceOf(b, cfg)
}

// drain sends a dump request and receives until nothing is left.
func drain(b *testing.B, s *socket, request []byte) {
	must(b, s.send(request))
	for {
		_, err := s.receive()
		if errors.Is(err, unix.EAGAIN) {
			return
		}
		must(b, err)
	}
}
