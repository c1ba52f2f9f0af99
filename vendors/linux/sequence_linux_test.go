package linux

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// TestSetupsInAnyOrder applies each setup to a fresh switch, and then all of
// them in random order to one: whatever was there before, the rules, the
// programs and the frames are those of the setup.
func TestSetupsInAnyOrder(t *testing.T) {
	abw, both := []quantize.Signal{quantize.MinABW}, []quantize.Signal{quantize.MinABW, quantize.MinABWC}
	ports := func(a vlanrules.Action) []vendors.PortSetup {
		return []vendors.PortSetup{{Port: "swp1", Action: a}, {Port: "sw0", Action: vlanrules.Passthrough}}
	}
	others := func(a vlanrules.Action) []vendors.PortSetup {
		list := ports(a)
		list[0].StripOthers = true
		return list
	}
	retired := []vendors.OtherTPID{{TPID: 0x9aa0}}
	rows := []struct {
		name  string
		setup vendors.Setup
	}{
		{"update", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Update)}},
		{"one signal", vendors.Setup{TPID: 0x9900, Signals: abw, OnStale: inventory.Conservative, Ports: ports(vlanrules.Update)}},
		{"uec", vendors.Setup{TPID: 0x9900, Layout: quantize.UEC, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Update)}},
		{"another TPID", vendors.Setup{TPID: 0x9aa0, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Update)}},
		{"wide tags too", vendors.Setup{TPID: 0x9900, WideTPID: 0x9901, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Update)}},
		{"in 0x88a8", vendors.Setup{TPID: 0x88a8, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Update)}},
		{"passthrough when stale", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.StalePassthrough, Ports: ports(vlanrules.Update)}},
		{"passthrough", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Passthrough)}},
		{"other port", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: []vendors.PortSetup{{Port: "sw0", Action: vlanrules.Update}}}},
		{"a profile", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Update), Profile: profileA}},
		{"another profile", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Update), Profile: profileB}},
		{"no port", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative}},
		{"strip", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Strip)}},
		{"strip and another TPID too", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Strip), Others: retired, Profile: profileA}},
		{"update and strip another TPID", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: others(vlanrules.Update), Others: retired, Profile: profileA}},
		{"update and strip another and VLANs' TPID", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: others(vlanrules.Update), Others: append([]vendors.OtherTPID{{TPID: 0x88a8}}, retired...)}},
		{"in 0x88a8, and strip another TPID", vendors.Setup{TPID: 0x88a8, Signals: both, OnStale: inventory.Conservative, Ports: others(vlanrules.Update), Others: retired, Profile: profileB}},
		{"passthrough and strip another TPID", vendors.Setup{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: others(vlanrules.Passthrough), Others: retired}},
		{"strip wide tags too", vendors.Setup{TPID: 0x9900, WideTPID: 0x9901, Signals: both, OnStale: inventory.Conservative, Ports: ports(vlanrules.Strip)}},
	}
	if !realRoot(t) {
		rows = rows[:len(rows)-7] // TestStrip checks that strip is refused
	}
	ctx := context.Background()
	// step applies a setup and checks everything but the listing.
	step := func(t *testing.T, w *wire, d *Driver, s vendors.Setup) (listing string) {
		t.Helper()
		have, err := d.Observe(ctx)
		if err != nil {
			t.Fatal(err)
		}
		before, err := d.Diff(have, s)
		if err != nil {
			t.Fatal(err)
		}
		start := generation(t, d)
		apply(t, d, s)
		if now := generation(t, d); now != start && len(before) == 0 {
			t.Errorf("Diff saw nothing to do, Apply made %d transactions", now-start)
		}
		action, stripsOthers := map[string]vlanrules.Action{}, map[string]bool{}
		var u []vendors.PortUpdate
		m := model{uec: s.Layout == quantize.UEC, local: map[uint16][2]uint16{}}
		for _, p := range s.Ports {
			action[p.Port], stripsOthers[p.Port] = p.Action, p.StripOthers
			if p.Action != vlanrules.Update {
				continue
			}
			pu := vendors.PortUpdate{Port: p.Port}
			for _, sig := range s.Signals {
				pu.Intents = append(pu.Intents, bucket(sig, 6+uint8(sig), 40))
				if p.Port == "swp1" {
					m.local[uint16(sig)] = [2]uint16{6 + uint16(sig), 40}
				}
			}
			u = append(u, pu)
		}
		update(t, d, time.Minute, u...)
		have, err = d.Observe(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if left, err := d.Diff(have, s); err != nil || len(left) != 0 {
			t.Errorf("after Apply %v is left, %v; observed %+v", left, err, have)
		}
		for _, layoutBit := range []uint16{0, 1} {
			for _, vlans := range [][]tag{nil, {{0x8100, 5}}} {
				for _, tpid := range []uint16{0x9900, 0x9aa0, 0x88a8} {
					f := frame(1, append(vlans[:len(vlans):len(vlans)], tag{tpid, initial | layoutBit})...)
					want := m.frameOut(f, s.TPID)
					if stripsOthers["swp1"] || action["swp1"] == vlanrules.Strip {
						want = strippedOf(want, &s, action["swp1"] == vlanrules.Strip)
					}
					w.port.send(f)
					if got := w.far.receive(); string(got) != string(want) {
						t.Errorf("in   %x\ngot  %x\nwant %x", f, got, want)
					}
				}
			}
		}
		return sorted(withoutTime(w.run("nft", "list", "ruleset")))
	}
	want := make([]string, len(rows))
	for i, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			w := newWire(t)
			want[i] = step(t, w, openDriver(t, w.netns), r.setup)
		})
	}
	w := newWire(t)
	d := openDriver(t, w.netns)
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	from := "nothing"
	for range 60 {
		i := r.IntN(len(rows))
		if got := step(t, w, d, rows[i].setup); got != want[i] {
			t.Errorf("%s after %s:\n%s\nwant\n%s", rows[i].name, from, got, want[i])
		}
		if t.Failed() {
			t.Fatalf("seed %d, %s after %s", seed, rows[i].name, from)
		}
		from = rows[i].name
	}
}
