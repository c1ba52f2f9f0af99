package linux

import (
	"context"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// burst sends frames many at a time, so that the sender's system calls do not
// hide what the port costs.
type burst struct {
	fd   int
	msgs []mmsghdr
	keep [][]byte
	iov  []unix.Iovec
}

type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
	_   [4]byte
}

func newBurst(fd int, f []byte) *burst {
	const size = 64
	b := &burst{fd: fd, msgs: make([]mmsghdr, size), iov: make([]unix.Iovec, size), keep: [][]byte{f}}
	for i := range b.msgs {
		b.iov[i].Base = &f[0]
		b.iov[i].SetLen(len(f))
		b.msgs[i].hdr.Iov = &b.iov[i]
		b.msgs[i].hdr.SetIovlen(1)
	}
	return b
}

func (b *burst) send() {
	_, _, _ = unix.Syscall6(unix.SYS_SENDMMSG, uintptr(b.fd), uintptr(unsafe.Pointer(&b.msgs[0])), uintptr(len(b.msgs)), 0, 0, 0) // what the queue did not take is not counted
}

// cost is the processor time of one frame, from the sender's system call to its
// arrival at far0, in nanoseconds. All of that happens on the sender's thread,
// so its clock is a packet rate that other programs on the machine do not
// disturb.
func (w *wire) cost(b *burst, bursts int) float64 {
	w.t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	clock := func() int64 {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
			w.t.Fatal(err)
		}
		return ts.Nano()
	}
	b.send() // warm again after the rules have changed
	before := w.arrived()
	start := clock()
	for range bursts {
		b.send()
	}
	took := clock() - start
	return float64(took) / float64(w.arrived()-before)
}

func (w *wire) arrived() (n uint64) {
	w.t.Helper()
	if err := w.do(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/dev")
		if err != nil {
			return err
		}
		for _, l := range strings.Split(string(text), "\n") {
			if name, values, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(name) == "far0" {
				n, err = strconv.ParseUint(strings.Fields(values)[1], 10, 64)
			}
		}
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// BenchmarkForwarding is what frames cost through a port with rules against the
// same port without, in pairs that take turns. "ratio" is the median of the
// pairs, of packet rates: cost without over cost with. "egress" sends out of
// the port itself, where the rules are the largest part of the work that they
// can be; "bridge" sends through the bridge, as a switch does.
func BenchmarkForwarding(b *testing.B) {
	ctx := context.Background()
	for _, path := range []string{"egress", "bridge"} {
		for _, kind := range []string{"plain", "csig", "vlan", "vlan+csig", "csig no lease"} {
			b.Run(path+"/"+strings.ReplaceAll(kind, " ", "-"), func(b *testing.B) {
				w := newWire(b)
				// What arrives need not be copied.
				if err := unix.SetsockoptInt(w.far.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 0); err != nil {
					b.Fatal(err)
				}
				d := openDriver(b, w.netns)
				f := frame(1)
				switch kind {
				case "csig", "csig no lease":
					f = frame(1, tag{testTPID, initial})
				case "vlan":
					f = frame(1, tag{0x8100, 5})
				case "vlan+csig":
					f = frame(1, tag{0x8100, 5}, tag{testTPID, initial})
				}
				out := newBurst(w.port.fd, f)
				if path == "bridge" {
					out = newBurst(w.host.fd, f)
				}
				s := setupFor(updatePort)
				on := func() {
					apply(b, d, s)
					update(b, d, time.Minute, one(9, 4))
					if kind == "csig no lease" {
						if err := d.Release(ctx); err != nil {
							b.Fatal(err)
						}
					}
				}
				off := func() {
					if err := d.Remove(ctx); err != nil {
						b.Fatal(err)
					}
				}
				const bursts, pairs = 150, 20
				var with, without, ratios []float64
				for b.Loop() {
					for i := range pairs {
						measure := func(rules bool) {
							if rules {
								on()
								with = append(with, w.cost(out, bursts))
							} else {
								off()
								without = append(without, w.cost(out, bursts))
							}
						}
						measure(i%2 == 0) // each goes first as often
						measure(i%2 == 1)
						ratios = append(ratios, without[len(without)-1]/with[len(with)-1])
					}
				}
				sort.Float64s(with)
				sort.Float64s(without)
				sort.Float64s(ratios)
				b.ReportMetric(ratios[len(ratios)/2], "ratio")
				b.ReportMetric(with[len(with)/2], "ns-with")
				b.ReportMetric(without[len(without)/2], "ns-without")
				b.ReportMetric(1e9/with[len(with)/2], "packets/s-with")
				b.ReportMetric(1e9/without[len(without)/2], "packets/s-without")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
