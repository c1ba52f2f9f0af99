package controller

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/agent/metrics"
	"github.com/csig-agent/csig/controller/owner"
	"github.com/csig-agent/csig/inventory"
)

// Statuses are those of a controller's devices. The zero value is ready to use.
type Statuses struct {
	mu sync.Mutex
	of map[string]source // of every device of the fleet file

	fleet  *inventory.Fleet
	names  []string
	reload *api.Reload
}

// Reload is the last of the fleet file, nil where there was none.
func (s *Statuses) Reload() *api.Reload {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reload
}

// reloaded notes how the fleet file was read again.
func (s *Statuses) reloaded(r api.Reload) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reload = &r
}

// source is where a device's status comes from.
type source struct {
	status  func() *api.Status                  // nil while no agent runs
	why     func(port string) (*api.Why, error) // of an agent of this controller, else nil
	standby bool                                // another controller drives the device, or none: the store is asked
}

// Fleet is the fleet file as it was last read, with the devices that are driven by it.
func (s *Statuses) Fleet() (*inventory.Fleet, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fleet, s.names
}

// drives has these devices of a fleet be those that are driven.
func (s *Statuses) drives(f *inventory.Fleet, devices []*inventory.Device) {
	if s == nil {
		return
	}
	names := make([]string, len(devices))
	for i, d := range devices {
		names[i] = d.Name
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fleet, s.names = f, names
}

// Status is a device's, nil while this controller runs no agent of it; of a device that another
// controller drives, it is that which the device's socket answers with.
func (s *Statuses) Status(device string) *api.Status {
	s.mu.Lock()
	status := s.of[device].status
	s.mu.Unlock()
	if status == nil {
		return nil
	}
	return status()
}

// Why is what has made a port's signals what they were, as the device's agent has it in this process.
func (s *Statuses) Why(device, port string) (*api.Why, error) {
	s.mu.Lock()
	why := s.of[device].why
	s.mu.Unlock()
	if why == nil {
		return nil, fmt.Errorf("no agent of %s runs in this process: csig why --socket asks the one that does", device)
	}
	return why(port)
}

// Devices are all devices as metrics have them, by name. The store that controllers share is
// not asked for statuses: a scrape has to be answered without it.
func (s *Statuses) Devices(share *owner.Store) []metrics.Device {
	s.mu.Lock()
	of := maps.Clone(s.of)
	s.mu.Unlock()
	list := make([]metrics.Device, 0, len(of))
	for _, name := range slices.Sorted(maps.Keys(of)) {
		from, d := of[name], metrics.Device{Name: name}
		if share != nil {
			d.Shared, d.Owner = true, share.Owner(name)
		}
		switch {
		case from.standby:
			d.Status = &api.Status{Waiting: "another controller drives the device, or none"}
		case from.status != nil:
			d.Status, d.Own = from.status(), share != nil
		}
		list = append(list, d)
	}
	return list
}

// set has a device's status come from here, until what it returns is called.
func (s *Statuses) set(device string, from source) (unset func()) {
	if s == nil {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, was := s.of[device]
	if s.of == nil {
		s.of = make(map[string]source)
	}
	s.of[device] = from
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.of[device] = before; !was {
			delete(s.of, device)
		}
	}
}
