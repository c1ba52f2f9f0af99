package agent

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/quantize"
)

// A link that negotiated down is live with the capacity that it has, from the first reading that shows
// it, and its port says so; one that came up again says nothing, nor does a device that is overridden.
func TestSlowLinkIsAFinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, override := range []bool{false, true} {
			src, drv := &script{rate: 89e6}, &recorder{}
			cfg := testConfig(t, src, drv)
			cfg.Device.Ports[0].Speed, cfg.Device.Ports[0].SpeedOverride = 1e9, override
			a, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			abw := a.cfg.Profile.Signals[quantize.MinABW].Buckets
			check := func(what string, capacity uint64, code findings.Code, reason ...string) {
				t.Helper()
				p := a.Status().Ports[0]
				if p.State != api.StateLive || p.CapacityBPS != capacity || p.ABWBPS != capacity-89e6 || p.Code != code || drv.lastIntents(t)[0].S != abw.Bucket(capacity-89e6) {
					t.Errorf("override %v, %s: %+v", override, what, p)
				}
				for _, r := range reason {
					if !strings.Contains(p.Reason, r) {
						t.Errorf("override %v, %s: %q lacks %q", override, what, p.Reason, r)
					}
				}
				if len(reason) == 0 && p.Reason != "" {
					t.Errorf("override %v, %s: %q", override, what, p.Reason)
				}
			}
			cycles(t, a, 2)
			check("as configured", 1e9, "")
			src.speed = 100e6
			cycles(t, a, 1)
			if override {
				check("nonsense", 1e9, "")
				continue
			}
			check("negotiated down", 100e6, findings.SlowLink, "a speed of 100M", "speed: 1G", "repair the link", "{override: 1G}")
			src.speed = 10e9
			cycles(t, a, 2)
			check("a part of the link", 1e9, "")
		}
	})
}

// A port whose capacity is within the first bucket is live, and says that its S cannot tell its load.
func TestMisfitIsAFinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{rate: 1e3}, &recorder{}
		cfg := testConfig(t, src, drv)
		a, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		cycles(t, a, 2)
		if p := a.Status().Ports[0]; p.State != api.StateLive || p.Code != "" {
			t.Errorf("a port that fits: %+v", p)
		}
		abw := cfg.Profile.Signals[quantize.MinABW].Buckets
		_, high := abw.Range(0)
		src.speed = high - 1
		cycles(t, a, 2)
		if p := a.Status().Ports[0]; p.State != api.StateLive || p.Code != findings.BucketsMisfit || !strings.HasPrefix(p.Reason, "abw is never above") {
			t.Errorf("a port that became slower: %+v", p)
		}
	})
}
