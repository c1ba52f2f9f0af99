package tcp

import (
	"errors"
	"fmt"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// headroom is what each S of one signal leaves at least.
type headroom struct {
	signal quantize.Signal
	room   [quantize.NumBuckets]uint64 // bytes/s
	age    time.Duration               // until what a host does is in the signal, without the path's delay
}

func (cfg *Config) wantsControl() bool { return cfg.Host.TCP.Control == inventory.ControlCSIG }

// headroom is the one that csig's congestion control takes a share of. Of abw it is the bucket's lower end. abwc has
// the least share of any port's capacity, which is left at the slowest port, too. Neither is more than the speed of the
// port that faces this host.
func (cfg *Config) headroom() (*headroom, error) {
	h := &headroom{age: cfg.Fleet.Profile.Interval}
	most, slowest, unknown := ^uint64(0), ^uint64(0), ""
	for i := range cfg.Fleet.Devices {
		d := &cfg.Fleet.Devices[i]
		h.age = max(h.age, d.Interval)
		for j := range d.Ports {
			p := &d.Ports[j]
			if p.Speed != 0 && p.Peer.Device == cfg.Host.Name {
				most = min(most, p.Speed)
			}
			if p.Action != vlanrules.Update {
				continue
			}
			if p.Speed == 0 && unknown == "" {
				unknown = inventory.PortRef{Device: d.Name, Port: p.Name}.String()
			}
			slowest = min(slowest, p.Speed)
		}
	}
	h.age *= 2 // the window that a value is of, and the one while it is written
	profile := &cfg.Fleet.Profile
	sig, carried := profile.Signals[quantize.MinABW]
	if !carried {
		h.signal = quantize.MinABWC
		if sig, carried = profile.Signals[h.signal]; !carried {
			return nil, errors.New("the profile carries neither abw nor abwc")
		}
		switch {
		case unknown != "":
			return nil, fmt.Errorf("of abwc alone the capacities of all ports have to be known: the speed of %s is not in the fleet file", unknown)
		case slowest == ^uint64(0):
			return nil, errors.New("no port of the fleet file writes the signal")
		}
	}
	for s := range h.room {
		low, _ := sig.Buckets.Range(uint8(s))
		if h.signal == quantize.MinABWC {
			low = uint64(float64(min(low, 1e6)) / 1e6 * float64(slowest))
		}
		h.room[s] = min(low, most) / 8
	}
	return h, nil
}
