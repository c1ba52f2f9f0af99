package mesh

import (
	"crypto/hmac"
	"net/netip"
	"slices"
	"time"

	"github.com/csig-agent/csig/probe"
)

// probeSize is what a probe's payload has: no answer is longer than what asks for it.
const probeSize = longestAnswer // bytes

// appendProbe appends the payload of a probe between two addresses to b: that of csig probe, zeros, and the MAC.
func appendProbe(b []byte, p probe.Payload, key []byte, from, to netip.Addr) []byte {
	start := len(b)
	b = p.AppendTo(b)
	b = append(b, make([]byte, start+probeSize-macSize-len(b))...)
	return append(b, signProbe(key, b[start:], from, to)...)
}

// parseProbe reads a probe's payload. Errors: probe.ErrNotProbe, ErrForged.
func parseProbe(b, key []byte, from, to netip.Addr) (probe.Payload, error) {
	p, err := probe.ParsePayload(b)
	switch {
	case err != nil:
		return p, err
	case len(b) != probeSize:
		return p, probe.ErrNotProbe
	case !hmac.Equal(signProbe(key, b[:probeSize-macSize], from, to), b[probeSize-macSize:]):
		return p, ErrForged
	}
	return p, nil
}

// signProbe takes in the addresses: a probe is of no use between other hosts.
func signProbe(key, payload []byte, from, to netip.Addr) []byte {
	b := append(make([]byte, 0, probeSize+2*16), payload...)
	src, dst := from.As16(), to.As16()
	return sign(key, append(append(b, src[:]...), dst[:]...))
}

// newest tells a peer's new probes from those that somebody sends once more, which would take the answers of new ones.
type newest struct {
	run  uint64
	at   time.Time  // of the newest
	seqs [16]uint64 // their sequences + 1, ascending: the network may reorder as many
}

// take says whether a probe is new. A peer's runs ascend; one before the present one is taken after silence, as that of
// a host whose clock was set back and that was started again.
func (s *newest) take(now time.Time, run, seq uint64, silence time.Duration) bool {
	if run != s.run {
		if run < s.run && now.Sub(s.at) < silence {
			return false
		}
		*s = newest{run: run}
	}
	i, found := slices.BinarySearch(s.seqs[:], seq+1)
	if found || i == 0 {
		return false
	}
	copy(s.seqs[:i-1], s.seqs[1:i])
	s.seqs[i-1], s.at = seq+1, now
	return true
}
