package api

import (
	"fmt"
	"slices"
	"testing"
)

func TestNotes(t *testing.T) {
	var many Notes
	for i := range 64 {
		port := fmt.Sprintf("swp%d", i+1)
		many.Add("", port, fmt.Sprintf("port %s: no FCS is counted: set speed: for %s, e.g. ethtool -s %s speed 10000", port, port, port))
	}
	if got := many.List(); len(got) != 1 || got[0].String() != "swp1 … swp64: no FCS is counted: set speed: for PORT, e.g. ethtool -s PORT speed 10000" {
		t.Errorf("64 ports: %v", got)
	}
	for _, tc := range []struct {
		name string
		add  [][3]string
		want []string
	}{
		{"one port keeps its name", [][3]string{{"", "swp1", "ip link set swp1 up"}}, []string{"swp1: ip link set swp1 up"}},
		{"a name inside a longer one stays", [][3]string{{"", "swp1", "swp10, swp1.100 and xswp1 are not swp1."}, {"", "swp2", "swp10, swp1.100 and xswp1 are not swp2."}},
			[]string{"swp1, swp2: swp10, swp1.100 and xswp1 are not PORT."}},
		{"the port once more inside", [][3]string{{"", "swp1", "not yet: port swp1: no counter: no port swp1: add it"}, {"", "swp2", "not yet: port swp2: no counter: no port swp2: add it"}},
			[]string{"swp1, swp2: not yet: no counter: no port PORT: add it"}},
		{"different texts", [][3]string{{"", "swp1", "down"}, {"", "swp2", "up"}, {"", "swp3", "down"}}, []string{"swp1, swp3: down", "swp2: up"}},
		{"different kinds", [][3]string{{"a", "swp1", "down"}, {"b", "swp2", "down"}}, []string{"swp1: down", "swp2: down"}},
		{"no text", [][3]string{{"", "swp1", ""}, {"", "swp2", ""}}, []string{"swp1, swp2: "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var n Notes
			for _, a := range tc.add {
				n.Add(a[0], a[1], a[2])
			}
			var got []string
			for _, note := range n.List() {
				got = append(got, note.String())
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
