package integration

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/hosts/mesh"
	"github.com/csig-agent/csig/quantize"
)

// TestLongMeshOfNativeSwitches has hosts read from native switches how long frames wait. Agents do not know that, and
// so nothing is found to be wrong.
func TestLongMeshOfNativeSwitches(t *testing.T) {
	t.Parallel()
	c := newClos(t, closShape{leaves: 2, spines: 1, each: 1, native: true})
	c.startAgents()
	c.startMesh(strings.NewReplacer())
	if !within(patience, func() bool { s := c.status(); return s != nil && s.States[mesh.StateCapable] == 2 }) {
		t.Fatalf("%+v", c.status())
	}
	c.none()
	buckets := c.fleet().Profile.Signals[quantize.MaxPD].Buckets
	least := buckets.Bucket(uint64(fabric.MaxQueue.Nanoseconds() / 2))
	var s *mesh.Status
	for _, ref := range []string{"leaf1:up1", "spine1:down1", "leaf2:host1"} {
		c.load("leaf1:up1", 0)
		c.load("spine1:down1", 0)
		c.load(ref, closSpeed*105/100) // the queue is full all the time
		if !within(patience, func() bool {
			s = c.status()
			return s != nil && slices.ContainsFunc(s.Bottlenecks, func(b mesh.Bottleneck) bool {
				return b.Signal == "pd" && slices.Equal(b.Ports, []string{ref}) && b.Pairs == 1 && b.S >= least
			})
		}) {
			t.Fatalf("no host reads how long frames wait at %s: %+v", ref, s)
		}
	}
	for end := time.Now().Add(time.Duration(s.OldestNS) + 4*time.Second); time.Now().Before(end); time.Sleep(time.Second) { // as long as findings have to last
		if s = c.status(); s != nil && slices.ContainsFunc(s.Findings, func(f mesh.Finding) bool { return f.Code == findings.MeshNamesIdle }) {
			t.Fatalf("%+v", s.Findings)
		}
	}
}
