package ebpf

import (
	"errors"
	"fmt"
	"time"
)

// Intervals is when the intervals begin in which a port's data plane measures.
type Intervals struct {
	Start  uint64        // of one of them, CLOCK_MONOTONIC in ns; the others begin whole lengths before and after it
	Length time.Duration // 0: the port was told none yet
}

// IntervalsOf reads them of the network device with this index, in the caller's network
// namespace, whichever process drives it. Errors: no data plane of csig's is there.
func IntervalsOf(index int) (in Intervals, err error) {
	prog, err := attached(index)
	if err != nil {
		return in, err
	}
	if prog == nil {
		return in, fmt.Errorf("network device %d: no BPF program %s is attached", index, programName)
	}
	defer prog.Close()
	maps, err := mapsOf(prog)
	if err != nil {
		return in, err
	}
	defer func() { err = errors.Join(err, closeMaps(maps)) }()
	p := &plane{planeObjects: planeObjects{planeMaps: planeMaps{CsigPlaces: maps["csig_places"], CsigLive: maps["csig_live"], CsigPorts: maps["csig_ports"], CsigState: maps["csig_state"]}}}
	if p.CsigPlaces == nil || p.CsigLive == nil || p.CsigPorts == nil || p.CsigState == nil {
		return in, fmt.Errorf("network device %d: BPF program %s is another version's", index, programName)
	}
	var port planePort
	var state planeState
	if err := p.lookup(uint32(index), &port); err != nil {
		return in, fmt.Errorf("network device %d: read csig_ports: %w", index, err)
	}
	if err := p.CsigState.Lookup(port.Slot, &state); err != nil {
		return in, fmt.Errorf("network device %d: read csig_state: %w", index, err)
	}
	return Intervals{Start: state.Start, Length: time.Duration(port.Interval)}, nil
}
