package linux

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

var updateGoldens = flag.Bool("update", false, "rewrite the golden files")

// scriptRows are changes whose scripts are kept as golden files. Each begins
// where the one before ended.
func scriptRows() []struct {
	name string
	want vendors.Setup
} {
	both := []quantize.Signal{quantize.MinABW, quantize.MinABWC}
	ports := func(a, b vlanrules.Action) []vendors.PortSetup {
		return []vendors.PortSetup{{Port: "sw0", Action: a}, {Port: "swp1", Action: b}}
	}
	return []struct {
		name string
		want vendors.Setup
	}{
		{"new", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Passthrough, vlanrules.Update)}},
		{"another-action", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Update, vlanrules.Update)}},
		{"uec-in-88a8", vendors.Setup{TPID: 0x88a8, Layout: quantize.UEC, Signals: both, OnStale: inventory.StalePassthrough, Ports: ports(vlanrules.Update, vlanrules.Update)}},
		{"a-port-less", vendors.Setup{TPID: 0x88a8, Layout: quantize.UEC, Signals: both, OnStale: inventory.StalePassthrough, Ports: ports(vlanrules.Update, vlanrules.Update)[:1]}},
		{"a-profile", vendors.Setup{TPID: 0x88a8, Layout: quantize.UEC, Signals: both, OnStale: inventory.StalePassthrough, Profile: profileA, Ports: ports(vlanrules.Update, vlanrules.Update)[:1]}},
		{"another-profile", vendors.Setup{TPID: 0x88a8, Layout: quantize.UEC, Signals: both, OnStale: inventory.StalePassthrough, Profile: profileB, Ports: ports(vlanrules.Update, vlanrules.Update)[:1]}},
	}
}

func TestScriptGolden(t *testing.T) {
	t.Parallel()
	have := vendors.Setup{}
	for _, row := range scriptRows() {
		got, err := Script(have, row.want)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", row.name+".nft.golden")
		if *updateGoldens {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", row.name, got, want)
		}
		have = row.want
	}
}

// TestScriptOfDamage has remarks for what only the device's listing can tell.
func TestScriptOfDamage(t *testing.T) {
	t.Parallel()
	want := scriptRows()[0].want
	have := want
	have.Damaged = "rules of chain stale"
	have.Ports = []vendors.PortSetup{{Port: "sw0", Action: vlanrules.Strip}, {Port: "swp1", Action: vlanrules.Update, Damaged: "chain p_swp1"}}
	text, err := Script(have, want)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"# ~ shared by all ports: repair as the device's own listing shows: rules of chain stale\n",
		"# ~ port swp1: repair as the device's own listing shows: chain p_swp1\n",
		"# - port sw0: BPF program csig_strip on tcx egress, by csig on the device\n",
	} {
		if !strings.Contains(string(text), line) {
			t.Errorf("%q is not in\n%s", line, text)
		}
	}
	strips := want
	strips.Ports = have.Ports
	text, err = Script(want, strips)
	if line := "# + port sw0: BPF program"; err != nil || !strings.Contains(string(text), line) {
		t.Errorf("%q is not in, %v\n%s", line, err, text)
	}
	for _, bad := range []vendors.Setup{{}, {TPID: 0x9900, Signals: want.Signals, OnStale: inventory.StaleStrip}} {
		if text, err := Script(vendors.Setup{}, bad); err == nil {
			t.Errorf("%+v has the script\n%s", bad, text)
		}
	}
}
