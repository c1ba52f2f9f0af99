package linux

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// listing is all of nftables, as its two listings have it, without handles and
// what is left of timeouts.
func (n *netns) listing() string {
	n.t.Helper()
	var list struct {
		Objects []json.RawMessage `json:"nftables"`
	}
	if err := json.Unmarshal([]byte(n.run("nft", "-j", "list", "ruleset")), &list); err != nil {
		n.t.Fatal(err)
	}
	var lines []string
	for _, o := range list.Objects {
		text := string(o)
		for _, cut := range []string{`"handle": `, `"expires": `} {
			for {
				i := strings.Index(text, cut)
				if i < 0 {
					break
				}
				text = text[:i] + strings.TrimLeft(text[i+len(cut):], "0123456789")
			}
		}
		lines = append(lines, text)
	}
	// The order of rules within a chain is in the text, which is compared too.
	sort.Strings(lines)
	return strings.Join(lines, "\n") + "\n" + sorted(withoutTime(n.run("nft", "list", "ruleset")))
}

func setupRows() []vendors.Setup {
	abw, both := []quantize.Signal{quantize.MinABW}, []quantize.Signal{quantize.MinABW, quantize.MinABWC}
	ports := func(a, b vlanrules.Action) []vendors.PortSetup {
		return []vendors.PortSetup{{Port: "sw0", Action: b}, {Port: "swp1", Action: a}}
	}
	const update, pass = vlanrules.Update, vlanrules.Passthrough
	return []vendors.Setup{
		{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: ports(update, pass)},
		{TPID: 0x9900, Signals: abw, OnStale: inventory.Conservative, Ports: ports(update, update)},
		{TPID: 0x9900, Signals: quantize.Signals[:], OnStale: inventory.Conservative, Ports: ports(update, update)},
		{TPID: 0x9900, Layout: quantize.UEC, Signals: both, OnStale: inventory.Conservative, Ports: ports(update, pass)},
		{TPID: 0x9900, Layout: quantize.UEC, Signals: quantize.Signals[:], OnStale: inventory.StalePassthrough, Ports: ports(update, update)},
		{TPID: 0x9aa0, Signals: both, OnStale: inventory.Conservative, Ports: ports(update, pass)},
		{TPID: 0x9900, WideTPID: 0x9901, Signals: both, OnStale: inventory.Conservative, Ports: ports(update, pass)},
		{TPID: 0x88a8, Signals: both, OnStale: inventory.Conservative, Ports: ports(update, pass)},
		{TPID: 0x88a8, Layout: quantize.UEC, Signals: abw, OnStale: inventory.Conservative, Ports: ports(update, update)},
		{TPID: 0x9900, Signals: both, OnStale: inventory.StalePassthrough, Ports: ports(update, pass)},
		{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: ports(pass, pass)},
		{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: ports(pass, update)[:1]},
		{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative},
		{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: append(ports(update, pass),
			vendors.PortSetup{Port: "not_here.5-1", Action: update}, vendors.PortSetup{Port: "nor+this", Action: pass})},
		{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Profile: profileA, Ports: ports(update, pass)},
		{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Profile: profileB, Ports: ports(update, update)},
		{TPID: 0x88a8, Signals: abw, OnStale: inventory.Conservative, Profile: profileB, Ports: ports(update, pass),
			Others: []vendors.OtherTPID{{TPID: 0x9900}, {TPID: 0x9901, Wide: true}, {TPID: 0x9902}, {TPID: 0xffff, Wide: true}}},
	}
}

// TestScript loads, in any order, the scripts that Script makes without a
// device: the result is what Apply would have left, and Script(have, have) is
// empty.
func TestScript(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	n, by := newWire(t).netns, newWire(t).netns
	reference := openDriver(t, by)
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	rows := slices.DeleteFunc(setupRows(), func(s vendors.Setup) bool { return len(s.Ports) > 2 }) // all ports are there
	have := vendors.Setup{}
	for range 40 {
		want := rows[r.IntN(len(rows))]
		text, err := Script(have, want)
		if err != nil {
			t.Fatal(err)
		}
		n.nft(string(text))
		if err := reference.Apply(ctx, want); err != nil {
			t.Fatal(err)
		}
		if got, want := n.listing(), by.listing(); got != want {
			t.Fatalf("seed %d, the script\n%sleaves\n%s\nwant\n%s", seed, text, got, want)
		}
		if again, err := Script(want, want); err != nil || len(again) != 0 {
			t.Fatalf("nothing differs, and yet, %v:\n%s", err, again)
		}
		have = want
	}
}

// TestGoldenScripts loads the golden files, one after the other.
func TestGoldenScripts(t *testing.T) {
	t.Parallel()
	n := newWire(t).netns
	d := openDriver(t, n)
	for _, row := range scriptRows() {
		file := "testdata/" + row.name + ".nft.golden"
		n.run("nft", "-c", "-f", file)
		n.run("nft", "-f", file)
		have, err := d.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if left, err := d.Diff(have, row.want); err != nil || len(left) != 0 {
			t.Errorf("%s: %v is left, %v", row.name, left, err)
		}
	}
}

func TestOffline(t *testing.T) {
	t.Parallel()
	d := openDriver(t, newNetNS(t))
	probed, err := d.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f := Offline()
	if !reflect.DeepEqual(f.Rules, probed.Rules) || f.Update != probed.Update || f.Wide != probed.Wide || f.Lease != probed.Lease || !slices.Equal(f.TagDepths, probed.TagDepths) || f.MTUHeadroom != probed.MTUHeadroom {
		t.Errorf("promised %+v\nprobed %+v", f, probed)
	}
	setup := vendors.Setup{TPID: 0x9900, Signals: []quantize.Signal{quantize.MinABW}, OnStale: inventory.Conservative, Ports: []vendors.PortSetup{updatePort}}
	changes, err := Diff(vendors.Setup{}, setup)
	if err != nil || len(changes) != 2 {
		t.Errorf("%v, %v", changes, err)
	}
}
