package rollout

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
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
	seen := func(d *inventory.Device) plans.Observation {
		s := unseen(d)
		s.MTUs = f.mtus[d.Name]
		return s
	}
	p := made(t, net, seen, plans.Options{})
	if len(p.Findings) > 0 || p.Stages[0].Name != plans.StageMTU || p.Totals.Disruptive != 1 {
		t.Fatalf("findings %v\n%s", p.Findings, fmt.Sprintf("%+v", p.Stages))
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
		if !s.Nothing() {
			t.Errorf("%s still has %+v", name, s)
		}
	}
}
