package main

import (
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
)

// TestLookPanics: a driver that panics is its device's error in plan and assess.
func TestLookPanics(t *testing.T) {
	registry := &all.Registry{}
	for _, name := range []string{"bad", "good"} {
		registry.Register(name, all.Platform{
			Title: name,
			Open: func(vendors.Config) (vendors.Driver, error) {
				if name == "bad" {
					var none []int
					_ = none[len(name)]
				}
				return nil, &vendors.PermanentError{Err: vendors.ErrNotYet}
			},
			Offline: func() vendors.Facts { return vendors.Facts{} },
			Diff:    func(_, _ vendors.Setup) ([]vendors.Change, error) { return nil, nil },
		})
	}
	r := &reach{reads: true, registry: registry, fleet: &inventory.Fleet{Devices: []inventory.Device{{Name: "a", Platform: "bad", Local: true}, {Name: "b", Platform: "good", Local: true}}}}
	seen, err := r.lookAll(t.Context(), 2, time.Minute, nil)
	if err != nil || len(seen) != 2 {
		t.Fatalf("%v, %v", seen, err)
	}
	if err := seen["a"].Err; err == nil || !strings.Contains(err.Error(), "please report it: runtime error: index out of range") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
	if err := seen["b"].Err; err == nil || strings.Contains(err.Error(), "defect") {
		t.Errorf("got %v", err)
	}
}
