package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans/assess"
	"github.com/csig-agent/csig/quantize"
)

// A port that the kernel sends from more slowly than the fleet file says advertises what it has, the
// agent, csig counters and csig assess say so, and an override is what it says.
func TestSlowLinkAdvertisesWhatItHas(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	p := &b.fleet.Devices[0].Ports[0]
	p.Speed = 10 * capacity
	b.setLoad(t, roomy)
	a := b.start(t)
	st := a.await("that it measures", func(s *api.Status) bool {
		p := &s.Ports[0]
		return p.State == api.StateLive && len(p.Signals) == 2 && p.LoadBPS > roomy*9/10 && p.LoadBPS < roomy*11/10
	})
	got := &st.Ports[0]
	if got.CapacityBPS != capacity || got.ABWBPS != capacity-got.LoadBPS || got.Signals[0].Bucket != b.want(quantize.MinABW, roomy) || got.Signals[1].Bucket != b.want(quantize.MinABWC, roomy) {
		t.Errorf("%+v", got)
	}
	const reason = "a speed of 50M, and the fleet file has speed: 500M"
	if got.Code != findings.SlowLink || !strings.Contains(got.Reason, reason) {
		t.Errorf("code %s, reason %q", got.Code, got.Reason)
	}

	// It becomes slower still, and its load is what it was.
	const slower = 25_000_000
	if err := b.egress.Shape(slower); err != nil {
		t.Fatal(err)
	}
	a.await("the capacity that it has now", func(s *api.Status) bool {
		return s.Ports[0].State == api.StateLive && s.Ports[0].CapacityBPS == slower && s.Ports[0].ABWBPS <= slower-roomy*9/10 && strings.Contains(s.Ports[0].Reason, "a speed of 25M")
	})
	if err := b.egress.Shape(capacity); err != nil {
		t.Fatal(err)
	}
	file := b.write(t)
	read := func() (out struct {
		Ports []struct {
			SpeedBPS uint64 `json:"speed_bps"`
			Note     string
		}
	}) {
		t.Helper()
		if err := json.Unmarshal([]byte(exits(t, 0, b.s1.Command(csig, "counters", "read", "-i", file, "--every", "50ms", "--count", "4", "--json"))), &out); err != nil || len(out.Ports) != 1 {
			t.Fatalf("%+v, %v", out, err)
		}
		return out
	}
	if r := read(); r.Ports[0].SpeedBPS != capacity || !strings.Contains(r.Ports[0].Note, reason) {
		t.Errorf("csig counters read: %+v", r)
	}
	var all assess.Assessment
	if err := json.Unmarshal([]byte(exits(t, 0, b.s1.Command(csig, "assess", "-i", file, "--json"))), &all); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, f := range all.Findings {
		found = found || f.Code == findings.SlowLink && f.Level == findings.Warning && f.Place() == "s1:swp3" && strings.Contains(f.Reason, reason)
	}
	if !found {
		t.Errorf("csig assess: %+v", all.Findings)
	}

	p.SpeedOverride = true
	file = b.write(t)
	if r := read(); r.Ports[0].SpeedBPS != 10*capacity || strings.Contains(r.Ports[0].Note, "fleet file") {
		t.Errorf("csig counters read, with an override: %+v", r)
	}
	if shown := exits(t, 0, b.s1.Command(csig, "inventory", "show", "-i", file, "--device", "s1")); !strings.Contains(shown, fmt.Sprintf("{override: %s}", inventory.FormatSpeed(10*capacity))) {
		t.Errorf("csig inventory show:\n%s", shown)
	}
}
