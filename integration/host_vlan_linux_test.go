//go:build kernels

package integration

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/csig-agent/csig/hosts/tcp"
)

// TestHostTCPOnVLAN has connections of a VLAN interface carry tags, which stand behind that of the VLAN. The kernel needs
// 802.1Q (.ci/kernel).
func TestHostTCPOnVLAN(t *testing.T) {
	t.Parallel()
	b := newTCPBed(t)
	for _, h := range []*tcpHost{b.h1, b.h2} {
		other := b.h1
		if h == b.h1 {
			other = b.h2
		}
		exits(t, 0, h.node.Command("sh", "-ec", `ip address flush dev eth0
ip link add link eth0 name eth0.5 type vlan id 5
ip link set dev eth0.5 up
ip address add `+h.address+`/24 dev eth0.5
ip neighbour add `+other.address+` lladdr `+other.nic.MAC.String()+` dev eth0.5 nud permanent
ip route replace 10.0.0.0/24 dev eth0.5 proto kernel scope link src `+h.address+` mtu 1490`))
	}
	var tagged, plain, other atomic.Int64
	var first atomic.Pointer[[]byte] // of the others
	b.frames(b.h2, func(f []byte, _ time.Time) {
		switch {
		case len(f) == 0: // none came for a while
		case len(f) < 60 || binary.BigEndian.Uint16(f[12:]) != 0x8100 || binary.BigEndian.Uint16(f[14:])&0xfff != 5:
			other.Add(1)
			odd := slices.Clone(f)
			first.CompareAndSwap(nil, &odd)
		case binary.BigEndian.Uint16(f[16:]) == 0x88a8 && binary.BigEndian.Uint16(f[20:]) == 0x0800:
			tagged.Add(1)
		case binary.BigEndian.Uint16(f[16:]) == 0x0800:
			plain.Add(1)
		default:
			other.Add(1)
			odd := slices.Clone(f)
			first.CompareAndSwap(nil, &odd)
		}
	})
	b.nic = "eth0.5"
	b.start(b.h1)
	b.start(b.h2)
	server := b.serve(b.h2, 5201)
	c := b.dial(b.h1, "10.0.0.2:5201")
	send(c)
	b.await(b.h1, "reflections come", func(s *tcp.Status) bool {
		return len(s.Flows) == 1 && s.Flows[0].State == tcp.FlowTagged && len(s.Flows[0].Learned) > 0
	})
	before := server.got.Load()
	if !within(patience, func() bool { return server.got.Load() > before+5_000_000 }) {
		t.Error("the connection does not go on")
	}
	t.Logf("%d frames with a tag behind that of the VLAN, %d without, %d others", tagged.Load(), plain.Load(), other.Load())
	if tagged.Load() < 100 || plain.Load() > tagged.Load() || other.Load() > 0 {
		t.Errorf("what arrived: %d frames with a tag, %d without, %d others", tagged.Load(), plain.Load(), other.Load())
		if odd := first.Load(); odd != nil {
			t.Logf("one of the others: % x", (*odd)[:min(len(*odd), 80)])
		}
	}
}
