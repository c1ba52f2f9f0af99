package fabric

import (
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// MaxQueue is the longest that a shaped port delays a frame while its queue
// holds frames of 200 bytes or more, wherever two full-size frames take less
// than that; slower ports hold two full-size frames.
const MaxQueue = 5 * time.Millisecond

// linklayerEthernet is the kernel's TC_LINKLAYER_ETHERNET: frame times are
// computed from the length, without a table from user space.
const linklayerEthernet = 1

// bucket are the parameters of a token bucket: rate in bytes per second, the
// rest in bytes of frames as the kernel counts them.
type bucket struct {
	rate  uint64
	burst uint32
	limit uint32
}

// linkBucket imitates a link of bps with a shallow queue.
func linkBucket(bps uint64, mtu int) bucket {
	rate := bps / 8
	frame := uint64(mtu + maxL2)
	// The kernel counts the queue without L1Overhead, which is 11 % of a
	// frame of 200 bytes.
	limit := rate * uint64(MaxQueue) / uint64(time.Second) * 200 / (200 + L1Overhead)
	// The burst is what a late timer may make up for.
	burst := rate * uint64(time.Millisecond) / uint64(time.Second)
	return bucket{rate: rate, burst: uint32(max(burst, frame)), limit: uint32(max(limit, 2*frame))}
}

// maxL2 is the longest L2 header in front of an MTU's worth of payload:
// addresses, ethertype, and four VLAN tags beside a wide CSIG tag in case the
// interface lets them through.
const maxL2 = 14 + 4*4 + 8

// set puts a token bucket on the interface, in the namespace of the calling
// thread. It changes the one that is there without dropping its queue.
//
// The request is made here since netlink.Tbf has neither the per-frame
// overhead nor the link layer.
func (b bucket) set(ifindex int) error {
	if b.rate == 0 {
		return errors.New("a rate below 8 bit/s")
	}
	request := func(flags int) error {
		req := nl.NewNetlinkRequest(unix.RTM_NEWQDISC, flags|unix.NLM_F_ACK)
		req.AddData(&nl.TcMsg{
			Family:  unix.AF_UNSPEC,
			Ifindex: int32(ifindex),
			Handle:  netlink.MakeHandle(1, 0),
			Parent:  netlink.HANDLE_ROOT,
		})
		req.AddData(nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated("tbf")))
		parms := nl.TcTbfQopt{
			Rate:  nl.TcRateSpec{Linklayer: linklayerEthernet, Overhead: L1Overhead, Rate: uint32(min(b.rate, 1<<32-1))},
			Limit: b.limit,
		}
		options := nl.NewRtAttr(nl.TCA_OPTIONS, nil)
		options.AddRtAttr(nl.TCA_TBF_PARMS, parms.Serialize())
		options.AddRtAttr(nl.TCA_TBF_BURST, nl.Uint32Attr(b.burst))
		if b.rate >= 1<<32 {
			options.AddRtAttr(nl.TCA_TBF_RATE64, nl.Uint64Attr(b.rate))
		}
		req.AddData(options)
		_, err := req.Execute(unix.NETLINK_ROUTE, 0)
		return err
	}
	err := request(0) // change
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
		err = request(unix.NLM_F_CREATE | unix.NLM_F_REPLACE)
	}
	return err
}

// Shape makes the port send at most bps (layer 1 bits per second, rounded down
// to whole bytes) with a queue of at most MaxQueue behind it. On a port that
// is already shaped it changes the rate live: frames in the queue stay there.
func (p *Port) Shape(bps uint64) error {
	b := linkBucket(bps, p.mtu)
	if err := p.node.Do(func() error { return b.set(p.index) }); err != nil {
		return fmt.Errorf("%s: shape to %d bit/s: %w", p, bps, err)
	}
	return nil
}
