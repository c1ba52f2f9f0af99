//go:build kernels

package integration

import (
	"testing"

	"github.com/csig-agent/csig/hosts/tcp"
)

// TestHostTCPAccECN has the option that reflects tags beside those of Accurate ECN, on kernels that have that one (.ci/kernel).
func TestHostTCPAccECN(t *testing.T) {
	t.Parallel()
	b := newTCPBed(t)
	b.giveRoom()
	for _, h := range []*tcpHost{b.h1, b.h2} {
		exits(t, 0, h.node.Command("sysctl", "-q", "-w", "net.ipv4.tcp_ecn=3", "net.ipv4.tcp_ecn_option=2"))
	}
	b.start(b.h1)
	b.start(b.h2)
	at1 := b.watch(b.h1)
	server := b.serve(b.h2, 5201)
	c := b.dial(b.h1, "10.0.0.2:5201")
	send(c)
	b.await(b.h1, "reflections come", func(s *tcp.Status) bool { return len(s.Flows) == 1 && s.Flows[0].State == tcp.FlowTagged })
	before := server.got.Load()
	if !within(patience, func() bool { return server.got.Load() > before+2_000_000 }) {
		t.Error("the connection does not go on")
	}
	pure, both, accurate := 0, 0, 0
	for _, p := range at1() {
		if p.payload > 0 || p.flags&2 != 0 {
			continue
		}
		pure++
		if p.accurate {
			accurate++
		}
		if p.accurate && p.csig != nil {
			both++
		}
	}
	t.Logf("%d pure ACKs, %d with an option of Accurate ECN, %d with both", pure, accurate, both)
	if accurate == 0 || both*2 < accurate {
		t.Errorf("of %d pure ACKs %d have an option of Accurate ECN, %d have both", pure, accurate, both)
	}
}
