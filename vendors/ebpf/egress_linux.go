package ebpf

import (
	"math"
	"math/bits"
	"time"

	"github.com/csig-agent/csig/vendors/linux/netdev"
)

const (
	shortestEthernet = 60      // bytes of a frame, without FCS
	leastHeld        = 1 << 20 // bytes: a network card's own ring
)

// shortest is the length that a device fills shorter frames up to, in bytes without FCS; 0: none.
func shortest(e *netdev.Egress) uint16 {
	if e.Wire {
		return shortestEthernet
	}
	return 0
}

// queueHolds is how many bytes a device's queues hold, of those that show no backlog.
func queueHolds(e *netdev.Egress) uint64 {
	frame := uint64(e.MTU) + shortestEthernet + l1Overhead
	return min(max(uint64(e.TxQLen)*uint64(max(e.TxQueues, 1))*frame, leastHeld), math.MaxUint32)
}

// Ticks are the link's time in the kernel, of 1/64 ns each; a byte's are kept times 2^20.
const (
	ticksPerSecond = 64 * uint64(time.Second)
	paceShift      = 20
)

// pace is how many ticks, times 2^20, a byte takes of a link of a rate in bit/s; 0: not known.
func pace(rate uint64) uint64 {
	if rate == 0 {
		return 0
	}
	return 8 * ticksPerSecond << paceShift / rate
}

// hold is how many ticks so many bytes take of it.
func hold(bytes, pace uint64) uint64 {
	high, low := bits.Mul64(bytes, pace)
	return min(high, 1<<paceShift-1)<<(64-paceShift) | low>>paceShift
}

// after is how many bytes a link sends after an instant in ns, where it has sent all in the
// tick free (after, of csig.bpf.c).
func after(free, pace, ns uint64) uint64 {
	rest := int64(free - ns*64)
	if rest <= 0 || pace == 0 {
		return 0
	}
	return min(uint64(rest), 1<<43) << paceShift / pace
}
