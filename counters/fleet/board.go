package fleet

import (
	"fmt"
	"sync"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/quantize"
)

// BoardDevice is what a Board needs to know of a device to make something of its
// readings.
type BoardDevice struct {
	Ports     []BoardPort // in the order of the samples
	Interval  time.Duration
	Method    counters.Method
	Tau       time.Duration // of EWMA and DRE
	Overhead  *uint8        // replaces that of the samples; nil leaves it
	Refresh   counters.RefreshConfig
	Damping   counters.Damping
	Signals   []*quantize.Buckets // tables of signals that counters can tell
	OnReading func(*Reading)      // called first, with the samples as they came; may be nil
}

// BoardPort is one port of a BoardDevice.
type BoardPort struct {
	Name  string
	Speed uint64 // capacity in bit/s; 0 takes the samples'
}

// Board turns the readings of a fleet into bandwidths and buckets, and keeps the newest
// of each port. Its Take is a Config.Sink. Other methods may be called at any time.
type Board struct {
	devices []boardDevice
}

type boardDevice struct {
	mu      sync.Mutex
	cfg     BoardDevice
	refresh *counters.Refresh
	ports   []boardPort
}

type boardPort struct {
	est  counters.Averager
	damp []*counters.Damper // beside the signals
	view PortView
}

// PortView is what is known of a port.
type PortView struct {
	Port string
	// Now is what the newest reading said, and Last the newest one that is Valid:
	// where Now only repeats old counters, Last still holds. A device that could not be
	// read is an Error of each of its ports.
	Now, Last counters.Estimate
	Seen      time.Time    // when Last was read; zero before the first
	Ended     time.Time    // the end of Last's window by our clock, whatever the device's says
	Read      time.Time    // when the port could be read last; zero before the first time
	Err       error        // why it could not be in the newest reading, nil where it could
	Signals   []SignalView // in the order of BoardDevice.Signals; of Last
}

// SignalView is one signal of a port.
type SignalView struct {
	Signal quantize.Signal
	Bucket uint8                // to advertise, after damping
	Range  counters.BucketRange // of Last
}

// NewBoard returns a Board for devices in the order of Config.Devices.
func NewBoard(devices []BoardDevice) (*Board, error) {
	b := &Board{devices: make([]boardDevice, len(devices))}
	for i := range b.devices {
		d := &b.devices[i]
		d.cfg = devices[i]
		if err := d.cfg.Damping.Validate(); err != nil {
			return nil, err
		}
		d.refresh = counters.NewRefresh(d.cfg.Refresh)
		d.ports = make([]boardPort, len(d.cfg.Ports))
		for j, p := range d.cfg.Ports {
			port := &d.ports[j]
			port.view.Port = p.Name
			port.est = counters.NewAverager(d.cfg.Method, counters.EstimatorConfig{Interval: d.cfg.Interval, Speed: p.Speed, Tau: d.cfg.Tau})
			for _, table := range d.cfg.Signals {
				if _, ok := counters.BucketsOf(&counters.Estimate{State: counters.Down}, table); !ok {
					return nil, fmt.Errorf("fleet: signal %s cannot be read from counters", table.Signal)
				}
				port.damp = append(port.damp, counters.NewDamper(d.cfg.Damping))
				port.view.Signals = append(port.view.Signals, SignalView{Signal: table.Signal})
			}
		}
	}
	return b, nil
}

// Take takes one reading in. In the steady state it allocates nothing.
func (b *Board) Take(r *Reading) {
	d := &b.devices[r.Index]
	if d.cfg.OnReading != nil {
		d.cfg.OnReading(r)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := r.Err; err != nil || len(r.Samples) != len(d.ports) {
		if err == nil {
			err = fmt.Errorf("%d samples of %d ports", len(r.Samples), len(d.ports))
		}
		for i := range d.ports {
			now := &d.ports[i].view.Now
			*now = counters.Estimate{Start: r.End, End: r.End, Capacity: now.Capacity, State: counters.Error, Reason: err.Error()}
		}
		return
	}
	d.refresh.Observe(r.Samples)
	for i := range r.Samples {
		d.ports[i].take(&r.Samples[i], &d.cfg, r.End)
	}
}

func (p *boardPort) take(s *counters.Sample, cfg *BoardDevice, now time.Time) {
	if cfg.Overhead != nil {
		s.Overhead = *cfg.Overhead
	}
	if p.view.Err = s.Err; s.Err == nil {
		p.view.Read = now
	}
	p.view.Now = p.est.Update(*s)
	if !p.view.Now.State.Valid() {
		return
	}
	p.view.Last, p.view.Seen, p.view.Ended = p.view.Now, now, s.At
	if !s.Local.IsZero() {
		p.view.Ended = s.Local
	}
	for i, table := range cfg.Signals {
		sig := &p.view.Signals[i]
		sig.Range, _ = counters.BucketsOf(&p.view.Last, table)
		value := p.view.Last.ABW
		if table.Signal == quantize.MinABWC {
			value = uint64(p.view.Last.ABWC)
		}
		sig.Bucket = p.damp[i].Next(table, value)
	}
}

// Refresh is what has been learned of a device's refreshes.
func (b *Board) Refresh(device int) counters.RefreshStatus {
	d := &b.devices[device]
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refresh.Status()
}

// Ports appends what is known of a device's ports to dst[:0].
func (b *Board) Ports(device int, dst []PortView) []PortView {
	d := &b.devices[device]
	d.mu.Lock()
	defer d.mu.Unlock()
	dst = dst[:0]
	for i := range d.ports {
		v := d.ports[i].view
		v.Signals = append([]SignalView(nil), v.Signals...)
		dst = append(dst, v)
	}
	return dst
}
