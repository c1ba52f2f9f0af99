package integration

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/qualify"
	"github.com/csig-agent/csig/qualify/qualifytest"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
)

const qualifiedOVS = `format: csig.fleet/v1
profile: {name: lab, tpid: 0x88a8, interval: 100ms, signals: {abw: {buckets: log-10G}, abwc: {buckets: log}}}
vlan_tpids: [0x8100]
devices:
  - name: sw1
    platform: ovs
    local: true
    management: {ovs: {bridge: csig, run_dir: %s}}
    ports: [{name: p1, speed: 10G, lm: 1}, {name: p2, speed: 10G, lm: 2}]
`

// TestLongQualifyOVS: of Open vSwitch, as docs/ovs.md sets it up, the bench finds what the
// driver says of it, and nothing else.
func TestLongQualifyOVS(t *testing.T) {
	t.Parallel()
	var f fabric.Fabric
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	host, err := f.AddHost("bench")
	if err != nil {
		t.Fatal(err)
	}
	node, err := f.AddHost("sw1")
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 2; i++ {
		if _, _, err := f.Connect(fabric.End{Node: host, Port: fmt.Sprintf("eth%d", i)}, fabric.End{Node: node, Port: fmt.Sprintf("p%d", i)}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.WaitUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	vs := ovstest.Start(t, inNode(node))
	bridged(vs, "p1", "p2")
	fleet, err := inventory.Parse("fleet.yaml", fmt.Appendf(nil, qualifiedOVS, vs.Dir))
	if err != nil {
		t.Fatal(err)
	}
	driver, err := all.Open("ovs", vendors.Config{Device: fleet.Devices[0], Who: "csig qualify"})
	if err != nil {
		t.Fatal(err)
	}
	b := &qualify.Bench{Device: fleet.Devices[0], Profile: &fleet.Profile, Policy: fleet.Policy, Driver: driver}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := b.Driver.Close(); err != nil {
			t.Error(err)
		}
	})
	b.Ports = qualifytest.Cards(t, host, "eth", "p1", "p2")
	r, err := qualify.Run(t.Context(), b, qualify.Options{Experiments: qualify.Forwarding(), Folder: filepath.Join(t.TempDir(), "out"), Quiet: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	for i := range r.Results {
		for _, f := range r.Results[i].Faults {
			codes = append(codes, f.Code)
		}
	}
	slices.Sort(codes)
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	// DEI is lost on every tagged frame, and a tag of 16 zeros is no tag to it (docs/ovs.md).
	if want := []string{"marks-dei-altered", "vid-0-altered"}; !slices.Equal(codes, want) {
		t.Errorf("faults %v, want %v\n%s", codes, want, &text)
	}
	for _, id := range []string{"positions", "mtu", "bridging", "learning", "dscp"} {
		if res := r.Result(id); res.Outcome != qualify.Pass {
			t.Errorf("%s: %s: %s", id, res.Outcome, res.Found)
		}
	}
}
