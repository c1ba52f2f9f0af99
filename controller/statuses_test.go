package controller

import (
	"testing"

	"github.com/csig-agent/csig/agent/api"
)

// What metrics say of a device, from the fleet file on until it is gone from there.
func TestStatusesOfMetrics(t *testing.T) {
	var s Statuses
	count := func(want int) {
		t.Helper()
		if list := s.Devices(nil); len(list) != want {
			t.Fatalf("%d devices, want %d: %+v", len(list), want, list)
		}
	}
	count(0)
	gone := s.set("b", source{})
	other := s.set("a", source{status: func() *api.Status { return &api.Status{Device: "a"} }})
	count(2)
	if list := s.Devices(nil); list[0].Name != "a" || list[0].Status.Device != "a" || list[0].Shared || list[1].Name != "b" || list[1].Status != nil {
		t.Errorf("%+v", list)
	}
	asked := false
	standsBy := s.set("b", source{status: func() *api.Status { asked = true; return nil }, standby: true})
	if d := s.Devices(nil)[1]; d.Status == nil || d.Status.Waiting == "" || d.Own || asked {
		t.Errorf("of a device that another controller drives: %+v, its store is asked: %v", d, asked)
	}
	drives := s.set("b", source{status: func() *api.Status { return &api.Status{Device: "b"} }})
	if d := s.Devices(nil)[1]; d.Status.Device != "b" || s.Status("b").Device != "b" {
		t.Errorf("%+v", d)
	}
	drives()
	standsBy()
	count(2)
	if s.Status("b") != nil {
		t.Error("it has a status without an agent")
	}
	gone()
	other()
	count(0)
}
