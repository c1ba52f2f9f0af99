package draw

import (
	"slices"
	"testing"

	"github.com/csig-agent/csig/inventory"
)

// TestMap: spines stand above leaves, and leaves in the order of their numbers, whatever the order of
// the file is; each link has its ports at the right ends.
func TestMap(t *testing.T) {
	f, err := inventory.Parse("fleet.yaml", []byte(`format: csig.fleet/v1
profile: {name: a, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-100G}}}
defaults: {platform: sonic}
devices: [{name: dc-leaf10}, {name: dc-leaf9}, {name: dc-spine1}, {name: dc-alone, ports: [{name: p1}]}]
links: |
  dc-leaf10:up1 - dc-spine1:d10
  dc-leaf10:up2 - dc-spine1:d11
  dc-spine1:d9 - dc-leaf9:up1
  dc-leaf9:p1 - gpu-1
  dc-leaf10:p1 - gpu-1
`))
	if err != nil {
		t.Fatal(err)
	}
	m := NewMap(f)
	var labels []string
	for _, n := range m.Nodes {
		labels = append(labels, n.Label)
	}
	if want := []string{"alone", "spine1", "leaf9", "leaf10", "gpu-1"}; !slices.Equal(labels, want) {
		t.Errorf("in the order %v, want %v", labels, want)
	}
	at := func(a, b string) []MapLink {
		for _, e := range m.Edges {
			if m.Nodes[e.A].Label == a && m.Nodes[e.B].Label == b {
				return e.Links
			}
		}
		return nil
	}
	for _, c := range []struct {
		a, b string
		want []MapLink
	}{
		{"spine1", "leaf10", []MapLink{{"d10", "up1"}, {"d11", "up2"}}},
		{"spine1", "leaf9", []MapLink{{"d9", "up1"}}},
		{"leaf9", "gpu-1", []MapLink{{"p1", ""}}},
		{"leaf10", "gpu-1", []MapLink{{"p1", ""}}},
	} {
		if got := at(c.a, c.b); !slices.Equal(got, c.want) {
			t.Errorf("%s to %s: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}
