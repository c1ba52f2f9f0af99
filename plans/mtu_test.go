package plans

import (
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans/planstest"
)

func TestMTUFindings(t *testing.T) {
	for name, tc := range map[string]struct {
		hosts [2]int
		port  int // of leaf0, in the file
		slack int
		wide  bool
		want  string // "": none
	}{
		"room":                    {hosts: [2]int{1504, 1504}, slack: 4},
		"not given":               {want: "no host has an mtu"},
		"cards too small":         {hosts: [2]int{1500, 1500}, slack: 4, want: "with a tag of 4, IP packets may have 1496 at most; raise the cards' MTU to 1504"},
		"wide tags":               {hosts: [2]int{1504, 1504}, slack: 4, wide: true, want: "with a tag of 8"},
		"unlike":                  {hosts: [2]int{9000, 1504}, slack: 4, want: "h0-1: the host's network card takes 1504 bytes, others send up to 9000"},
		"port too small":          {hosts: [2]int{1504, 1504}, port: 1499, slack: 4, want: "mtu: 1499 is too small for frames of 1504 bytes with their tags: want 1500 at least"},
		"port as large as needed": {hosts: [2]int{1504, 1504}, port: 1500, slack: 4},
		"no slack":                {hosts: [2]int{1504, 1504}, port: 1500, want: "want 1504 at least"},
	} {
		t.Run(name, func(t *testing.T) {
			f := planstest.Fabric(1, 1, 2)
			f.Hosts[0].MTU, f.Hosts[1].MTU = tc.hosts[0], tc.hosts[1]
			f.Devices[0].Ports[0].MTU = tc.port
			if tc.wide {
				f.Profile.WideTPID = 0x9901
			}
			p := made(t, f, func(d *inventory.Device) Observation {
				s := unseen(d)
				s.Facts.MTUHeadroom = tc.slack
				s.MTUs = map[string]int{}
				for i := range d.Ports {
					s.MTUs[d.Ports[i].Name] = 9216
				}
				return s
			}, Options{})
			var all []string
			for _, f := range p.Findings {
				all = append(all, f.String())
			}
			text := strings.Join(all, "\n")
			if tc.want == "" && text != "" || !strings.Contains(text, tc.want) {
				t.Errorf("want %q in %q", tc.want, text)
			}
		})
	}
}
