package ebpf

import (
	"math"

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

// held is how many bytes a device's queues hold, of those that show no backlog.
func held(e *netdev.Egress) uint32 {
	frame := uint64(e.MTU) + shortestEthernet + l1Overhead
	return uint32(min(max(uint64(e.TxQLen)*uint64(max(e.TxQueues, 1))*frame, leastHeld), math.MaxUint32))
}
