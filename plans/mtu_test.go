package plans

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
)

func (d *device) MTUs(context.Context) (map[string]int, error) {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	return maps.Clone(d.f.mtus[d.name]), nil
}

func (d *device) SetMTU(_ context.Context, port string, mtu int) error {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	if err := d.f.broken[d.name]; err != nil {
		return err
	}
	d.f.log = append(d.f.log, fmt.Sprint(d.name, " mtu ", port, " ", mtu))
	d.f.mtus[d.name][port] = mtu
	return nil
}

// Links whose MTU leaves no room for the tag are raised before anything else,
// and lowered again last.
func TestMTUIsRaisedFirst(t *testing.T) {
	net, f := offFleet()
	clear(f.devices)
	f.mtus = map[string]map[string]int{}
	for i := range net.Hosts {
		net.Hosts[i].MTU = 1504
	}
	for i := range net.Devices {
		d := &net.Devices[i]
		f.devices[d.Name] = f.devices[""]
		f.mtus[d.Name] = map[string]int{}
		for j := range d.Ports {
			f.mtus[d.Name][d.Ports[j].Name] = 1504
		}
	}
	delete(f.devices, "")
	f.mtus["spine0"]["down2"] = 1500
	seen := func(d *inventory.Device) Seen {
		s := unseen(d)
		s.MTUs = f.mtus[d.Name]
		return s
	}
	p := made(t, net, seen, Options{})
	if len(p.Findings) > 0 || p.Stages[0].Name != StageMTU || p.Totals.Disruptive != 1 {
		t.Fatalf("findings %v\n%s", p.Findings, outline(p))
	}
	j := begin(t, p)
	r := &Run{Journal: j, Open: f.open}
	if err := r.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.log[0] != "spine0 mtu down2 1504" || strings.Count(strings.Join(f.log, ","), "mtu") != 1 {
		t.Errorf("did %v", f.log)
	}
	f.log = nil
	r.Journal = reopen(t, j)
	if err := r.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if last := f.log[len(f.log)-1]; last != "spine0 mtu down2 1500" {
		t.Errorf("undone: %v", f.log)
	}
	for name, s := range f.devices {
		if !none(&s) {
			t.Errorf("%s still has %+v", name, s)
		}
	}
}

func TestMTUFindings(t *testing.T) {
	for name, tc := range map[string]struct {
		hosts [2]int
		port  int // of leaf0, in the file
		slack int
		wide  bool
		want  string // "": none
	}{
		"room":            {hosts: [2]int{1504, 1504}, slack: 4},
		"not given":       {want: "no host has an mtu"},
		"cards too small": {hosts: [2]int{1500, 1500}, slack: 4, want: "with a tag of 4, IP packets may have 1496 at most; raise the cards' MTU to 1504"},
		"wide tags":       {hosts: [2]int{1504, 1504}, slack: 4, wide: true, want: "with a tag of 8"},
		"unlike":          {hosts: [2]int{9000, 1504}, slack: 4, want: "h0-1: the host's network card takes 1504 bytes, others send up to 9000"},
		"port too small":  {hosts: [2]int{1504, 1504}, port: 1499, slack: 4, want: "mtu: 1499 is too small for frames of 1504 bytes with their tags: want 1500 at least"},
		"no slack":        {hosts: [2]int{1504, 1504}, port: 1500, want: "want 1504 at least"},
	} {
		t.Run(name, func(t *testing.T) {
			f := fabric(1, 1, 2)
			f.Hosts[0].MTU, f.Hosts[1].MTU = tc.hosts[0], tc.hosts[1]
			f.Devices[0].Ports[0].MTU = tc.port
			if tc.wide {
				f.Profile.WideTPID = 0x9901
			}
			p := made(t, f, func(d *inventory.Device) Seen {
				s := unseen(d)
				s.Facts.Slack = tc.slack
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
