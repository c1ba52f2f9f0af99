package tcp

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
)

// TestReading has tags name the ports that may have written them.
func TestReading(t *testing.T) {
	cfg, err := Local(parse(t, fleetText))
	if err != nil {
		t.Fatal(err)
	}
	n := newNames(cfg)
	for _, row := range []struct {
		name string
		tag  quantize.Tag
		peer string
		out  bool
		want []string
		note string
	}{
		{"two ports write it", quantize.Tag{S: 9, LM: 6}, "h2", true, []string{"s2:host"}, ""},
		{"the way back", quantize.Tag{S: 9, LM: 6}, "h2", false, []string{"s1:host"}, ""},
		{"another signal", quantize.Tag{T: quantize.MinABWC, S: 9, LM: 5}, "h3", true, []string{"s1:up"}, ""},
		{"of no port on the way", quantize.Tag{S: 9, LM: 7}, "h2", true, []string{}, ""},
		{"a peer that is not in the file", quantize.Tag{S: 9, LM: 6}, "", true, []string{"s1:host", "s2:host"}, ""},
		{"of no port", quantize.Tag{S: 9, LM: 99}, "h2", true, []string{}, ""},
		{"as sent", quantize.Tag{S: 31, LM: 126}, "h2", true, []string{}, "none"},
		{"stale", quantize.Tag{S: 0, LM: 125}, "h2", true, []string{}, "stale"},
	} {
		tci, err := quantize.Draft00.Pack(row.tag)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time from what is kept
			r, ok := n.reading(tci, time.Second, row.peer, row.out)
			if !ok || !slices.Equal(r.Ports, row.want) || r.Note != row.note || uint32(r.S) != row.tag.S || r.AgeNS != 1e9 || r.Signal != row.tag.T.String() || r.Range == "" {
				t.Errorf("%s: %+v", row.name, r)
			}
		}
	}
	for tci := range 1 << 16 { // a peer may reflect anything
		r, ok := n.reading(quantize.TCI(tci), 0, "h2", true)
		if ok != (tci>>13 < 2) || ok && (int(r.T) != tci>>13 || int(r.S) != tci>>7&31 || int(r.LM) != tci&127 || r.Ports == nil) {
			t.Fatalf("%04x: %v, %+v", tci, ok, r)
		}
	}
}

// TestLocal has fleet files that do not say which host this machine is.
func TestLocal(t *testing.T) {
	for _, row := range []struct{ old, new, want string }{
		{"local: true, interface: eth0, ", "", "fleet.yaml: no host is marked local: add local: true, and its interface, to the one that is this machine (h1 has tcp)"},
		{`local: true, interface: eth0, tcp: {to: [10.0.0.0/24, "fd00::/64"]}`, "", "fleet.yaml: no host is marked local: add this machine"},
		{`, tcp: {to: [10.0.0.0/24, "fd00::/64"]}`, "", "fleet.yaml: host h1 has no tcp: add the prefixes"},
		{"address: 10.0.0.2", "address: 10.0.0.2, local: true, interface: eth1", "the hosts h1 and h2 are both marked local"},
	} {
		_, err := Local(parse(t, strings.Replace(fleetText, row.old, row.new, 1)))
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%v, want %q", err, row.want)
		}
	}
}
