package linux

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

var updateGoldens = flag.Bool("update", false, "write the golden files anew")

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

const listed = `# a warning of nft's
table netdev csig {
	comment "csig v1"
	set lease {
		typeof meta protocol
		flags timeout
		comment "tpid=0x9900 wide=0x0000 layout=draft-00 signals=abw stale=conservative"
		elements = { 8021q timeout 1m8ms expires 2s4ms,
			     8021ad timeout 1m8ms expires 1s984ms,
			     0x9900 timeout 1d2h expires 1d }
	}

	map stale {
		typeof @ll,112,16 : @ll,112,16
		size 100
		flags interval
		elements = { 0x1080-0x1fff : 0x107d, 0x80 : 0x7d }
	}

	map odd {
		type inet_service : verdict
		flags interval,constant
		elements = { 1 comment "}" : accept }
	}

	counter c {
		packets 0 bytes 0
	}

	chain stale {
		@ll,96,16 == 39168 @ll,120,8 & 1 == 0 @ll,112,16 set @ll,112,16 map @stale comment "a } b"
		meta protocol != vlan counter packets 1 bytes 2 accept
	}

	chain p_swp1 {
		type filter hook egress devices = { "swp1" } priority 0; policy accept;
		meta protocol != @lease goto stale comment "c"
	}

	chain two {
		type filter hook ingress devices = { "a", "b" } priority filter + 10; policy drop;
	}
}
`

func TestListing(t *testing.T) {
	o, err := parseListing(listed)
	if err != nil {
		t.Fatal(err)
	}
	protocol, data := field{protocol: true, bits: 16}, field{offset: 112, bits: 16}
	want := &observed{table: true, comment: tableMark,
		sets: map[string]*observedSet{
			"lease": {name: "lease", flags: flagTimeout, keyLen: 2, comment: "tpid=0x9900 wide=0x0000 layout=draft-00 signals=abw stale=conservative",
				keys: []uint16{0x8100, 0x88a8, 0x9900}, left: 1984 * time.Millisecond},
			"stale": {name: "stale", flags: flagMap | flagInterval, keyLen: 2, dataLen: 2, intervals: []interval{{0x80, 0x80, 0x7d}, {0x1080, 0x1fff, 0x107d}}},
			"odd":   {name: "odd", flags: flagMap | flagInterval | unknownFlag, irregular: true},
		},
		chains: map[string]*observedChain{
			"stale": {name: "stale", hook: -1, rules: [][]step{
				{{op: isValue, at: field{offset: 96, bits: 16}, value: 0x9900}, {op: isValue, at: field{offset: 120, bits: 8}, mask: 1}, {op: rewrite, at: data, name: "stale"}},
				{{op: notValue, at: protocol, value: 0x8100}, {op: foreignStep, name: "counter packets 1 bytes 2 accept"}},
			}},
			"p_swp1": {name: "p_swp1", device: "swp1", hook: hookEgress, policy: policyAccept, rules: [][]step{{{op: notInSet, at: protocol, name: "lease"}, {op: jumpTo, name: "stale"}}}},
		},
	}
	two := o.chains["two"]
	delete(o.chains, "two")
	if two == nil || (&chainSpec{device: "a"}).sameHook(two) || (&chainSpec{}).sameHook(two) {
		t.Errorf("%+v passes as a chain of ours", two)
	}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("got  %+v\nwant %+v", o, want)
		for n, s := range want.sets {
			t.Errorf("set %s\ngot  %+v\nwant %+v", n, o.sets[n], s)
		}
		for n, c := range want.chains {
			t.Errorf("chain %s\ngot  %+v\nwant %+v", n, o.chains[n], c)
		}
	}
	// Cut off anywhere, it is an error.
	whole := strings.TrimRight(listed, "\n}")
	for i := range whole {
		if o, err := parseListing(whole[:i]); err == nil {
			t.Fatalf("%q reads as %+v", whole[max(0, i-30):i], o)
		}
	}
}

// FuzzListing reads any text. What it reads holds together: a ruleset that is
// built from a setup it found compares with it without a panic.
func FuzzListing(f *testing.F) {
	f.Add(listed)
	f.Add("table netdev csig {\n\tset p_a {\n\t\ttypeof @ll,112,16\n\t\telements = { 1-0 }\n\t}\n}\n")
	f.Fuzz(func(t *testing.T, text string) {
		o, err := parseListing(text)
		if err != nil {
			return
		}
		s, _, err := o.setup(map[string]int{"swp1": 1}, maxDepth)
		if err != nil {
			return
		}
		if _, err := Diff(s, s); err != nil {
			return // it found what no Apply leaves
		}
		want, err := rulesetOf(&s, everywhere, maxDepth)
		if err != nil {
			return
		}
		if text := scriptOf(reconcile(&s, want, o), o); text.Len() == 0 && s.Damaged != "" {
			t.Errorf("damaged, and yet nothing to do: %s", s.Damaged)
		}
	})
}
