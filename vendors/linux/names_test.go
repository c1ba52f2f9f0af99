package linux

import (
	"regexp"
	"slices"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Hashes of profiles.
const (
	profileA = "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9"
	profileB = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"
)

func TestPortKey(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"swp1":      "p_swp1",
		"eth0.100":  "p_eth0.100",
		"map":       "p_map",
		"1a":        "p_1a",
		"swp_1":     "p_swp__1",
		"swp-1":     "p_swp_2d1",
		"a\xff":     "p_a_ff",
		"veth0@if3": "p_veth0_40if3",
	} {
		if got := portKey(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func FuzzPortKey(f *testing.F) {
	f.Add("swp_1", "swp-1")
	f.Add("_2d", "-")
	readable := regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9/\\_.]*$`)
	f.Fuzz(func(t *testing.T, a, b string) {
		if !readable.MatchString(portKey(a)) {
			t.Errorf("nft cannot read %q", portKey(a))
		}
		if a != b && portKey(a) == portKey(b) {
			t.Errorf("%q and %q are both %q", a, b, portKey(a))
		}
	})
}

func TestComments(t *testing.T) {
	t.Parallel()
	for _, s := range []vendors.Setup{
		{TPID: 0x9900, Signals: []quantize.Signal{quantize.MinABW}, OnStale: inventory.Conservative},
		{TPID: 0x88a8, WideTPID: 0x9901, Layout: quantize.UEC, Signals: quantize.Signals[:], OnStale: inventory.StalePassthrough},
	} {
		text := setupComment(&s)
		got, ok := parseSetupComment(text)
		if !ok || setupComment(&got) != text || got.TPID != s.TPID || got.WideTPID != s.WideTPID || got.Layout != s.Layout ||
			got.OnStale != s.OnStale || !slices.Equal(got.Signals, s.Signals) {
			t.Errorf("%q reads back as %+v, %v", text, got, ok)
		}
	}
	for _, s := range []vendors.Setup{
		{}, {Profile: profileA}, {Others: []vendors.OtherTPID{{TPID: 0x88a8}}},
		{Profile: profileB, Others: []vendors.OtherTPID{{TPID: 0x88a8}, {TPID: 0x9900, Wide: true}, {TPID: 0x9901}, {TPID: 0xffff, Wide: true}}},
	} {
		var got vendors.Setup
		text := profileComment(&s)
		if ok := parseProfileComment(text, &got); !ok || got.Profile != s.Profile || !slices.Equal(got.Others, s.Others) {
			t.Errorf("%q reads back as %+v, %v", text, got, ok)
		}
		if len(text) > 128 { // what nft takes
			t.Errorf("%q has %d bytes", text, len(text))
		}
	}
	for _, p := range []vendors.PortSetup{{Port: "swp1", Action: vlanrules.Update, StripOthers: true}, {Port: "swp1", Action: vlanrules.Passthrough, StripOthers: true},
		{Port: "swp1", Action: vlanrules.Update}, {Port: "a_b-c", Action: vlanrules.Strip}, {Port: "x", Action: vlanrules.Passthrough}} {
		if got, ok := parsePortComment(portComment(p)); !ok || got != p {
			t.Errorf("%+v reads back as %+v, %v", p, got, ok)
		}
	}
}

// FuzzSetupComment: any text in the comment is refused, or is one of ours.
func FuzzSetupComment(f *testing.F) {
	f.Add("tpid=0x9900 wide=0x0000 layout=draft-00 signals=abw,abwc stale=conservative")
	f.Add("tpid=99999 layout=")
	f.Add("hash=" + profileA + " others=0x88a8,0x9902 wide=0x9900")
	f.Fuzz(func(t *testing.T, text string) {
		if s, ok := parseSetupComment(text); ok && setupComment(&s) != text {
			t.Errorf("%q reads as %+v", text, s)
		}
		if s := (vendors.Setup{}); parseProfileComment(text, &s) && profileComment(&s) != text {
			t.Errorf("%q reads as %+v", text, s)
		}
		if p, ok := parsePortComment(text); ok && portComment(p) != text {
			t.Errorf("%q reads as %+v", text, p)
		}
	})
}

func TestDifference(t *testing.T) {
	t.Parallel()
	a, b, c := interval{1, 2, 3}, interval{5, 6, 7}, interval{5, 9, 7}
	for _, tc := range []struct {
		name                 string
		have, want, del, add []interval
	}{
		{"nothing", nil, nil, nil, nil},
		{"the same", []interval{a, b}, []interval{a, b}, nil, nil},
		{"all new", nil, []interval{a, b}, nil, []interval{a, b}},
		{"all gone", []interval{a, b}, nil, []interval{a, b}, nil},
		{"another end", []interval{a, b}, []interval{a, c}, []interval{b}, []interval{c}},
		{"one before", []interval{b}, []interval{a, b}, nil, []interval{a}},
		{"one less", []interval{a, b}, []interval{b}, []interval{a}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			del, add := difference(nil, nil, tc.have, tc.want)
			if !slices.Equal(del, tc.del) || !slices.Equal(add, tc.add) {
				t.Errorf("delete %v, add %v", del, add)
			}
		})
	}
}

func TestLowerRefuses(t *testing.T) {
	t.Parallel()
	good := vlanrules.Entry{Type: vlanrules.RewriteVID, Match: vlanrules.Match{
		PCP: vlanrules.Field{Kind: vlanrules.Ternary, Value: 1, Mask: 7}, VID: vlanrules.Field{Kind: vlanrules.Range, First: 128, Last: 4095}}, VID: 5}
	got, err := lower(nil, vlanrules.Table{good})
	if want := []interval{{0x2080, 0x2fff, 0x2005}, {0x3080, 0x3fff, 0x3005}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%x, %v", got, err)
	}
	for name, edit := range map[string]func(*vlanrules.Entry){
		"no-op":       func(e *vlanrules.Entry) { e.Type = vlanrules.NoOp },
		"any PCP":     func(e *vlanrules.Entry) { e.Match.PCP = vlanrules.Field{} },
		"one DEI":     func(e *vlanrules.Entry) { e.Match.DEI = vlanrules.Field{Kind: vlanrules.Ternary, Mask: 1} },
		"ternary VID": func(e *vlanrules.Entry) { e.Match.VID = vlanrules.Field{Kind: vlanrules.Ternary} },
	} {
		e := good
		edit(&e)
		if _, err := lower(nil, vlanrules.Table{e}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
