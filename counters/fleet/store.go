package fleet

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/csig-agent/csig/counters"
)

// Store turns the readings of a fleet into bandwidths and buckets, and keeps the newest
// of each port. Its Take is a Config.Sink. Other methods may be called at any time.
type Store struct {
	devices []storeDevice
}

type storeDevice struct {
	mu       sync.Mutex
	pipeline *counters.Pipeline
	ports    []PortView
	answers  Answers
}

// Answers is how the readings of a device went that had samples: one in which no port could be
// read is as good as none.
type Answers struct {
	Mute  uint64    // readings without one port
	InRow int       // of these, up to now
	Good  time.Time // when the last one with a port ended; zero before the first
}

// PortView is what is known of a port. Where the state's Now only repeats old
// counters its Last still holds; a device that could not be read is an Error of
// each of its ports.
type PortView struct {
	Port string
	counters.PortState
	Seen  time.Time // when Last was read; zero before the first
	Ended time.Time // the end of Last's window by our clock, whatever the device's says
	Read  time.Time // when the port could be read last; zero before the first time
	Err   error     // why it could not be in the newest reading, nil where it could
}

// NewStore returns a Store for devices in the order of Config.Devices, with tables of
// readable signals only.
func NewStore(devices []counters.PipelineConfig) (*Store, error) {
	st := &Store{devices: make([]storeDevice, len(devices))}
	for i := range st.devices {
		d := &st.devices[i]
		for _, table := range devices[i].Tables {
			if !table.Signal.Counted() {
				return nil, fmt.Errorf("fleet: signal %s cannot be read from counters", table.Signal)
			}
		}
		var err error
		if d.pipeline, err = counters.NewPipeline(devices[i]); err != nil {
			return nil, err
		}
		for j, p := range devices[i].Ports {
			d.ports = append(d.ports, PortView{Port: p.Name, PortState: *d.pipeline.Port(j)})
		}
	}
	return st, nil
}

// Take takes one reading in, and says in its Look when another one would tell more about the
// source's refreshes. In the steady state it allocates nothing.
func (st *Store) Take(r *Reading) {
	d := &st.devices[r.Index]
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := r.Err; err != nil || len(r.Samples) != len(d.ports) {
		if err == nil {
			err = fmt.Errorf("%d samples of %d ports", len(r.Samples), len(d.ports))
		}
		for i := range d.ports {
			now := &d.ports[i].Now
			*now = counters.Estimate{Start: r.End, End: r.End, Capacity: now.Capacity, State: counters.Error, Reason: err.Error()}
		}
		return
	}
	d.pipeline.Observe(r.Samples)
	defer d.answered(r)
	defer func() { r.Look = d.pipeline.Look(r.Next) }()
	for i := range r.Samples {
		s, port := &r.Samples[i], &d.ports[i]
		if port.Err = s.Err; s.Err == nil {
			port.Read = r.End
		}
		port.PortState = *d.pipeline.Take(i, s)
		if port.Now.State.Valid() {
			port.Seen, port.Ended = r.End, s.At
			if !s.Local.IsZero() {
				port.Ended = s.Local
			}
		}
	}
}

// answered counts a reading that had samples.
func (d *storeDevice) answered(r *Reading) {
	if len(r.Samples) > 0 && !slices.ContainsFunc(r.Samples, func(s counters.Sample) bool { return s.Err == nil }) {
		d.answers.Mute++
		d.answers.InRow++
		return
	}
	d.answers.InRow, d.answers.Good = 0, r.End
}

// Answers is how a device's readings went that had samples.
func (st *Store) Answers(device int) Answers {
	d := &st.devices[device]
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.answers
}

// Refresh is what has been learned of a device's refreshes.
func (st *Store) Refresh(device int) counters.RefreshStatus {
	d := &st.devices[device]
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pipeline.Refresh()
}

// Ports appends what is known of a device's ports to dst[:0].
func (st *Store) Ports(device int, dst []PortView) []PortView {
	d := &st.devices[device]
	d.mu.Lock()
	defer d.mu.Unlock()
	dst = dst[:0]
	for i := range d.ports {
		v := d.ports[i]
		v.Signals = slices.Clone(v.Signals)
		dst = append(dst, v)
	}
	return dst
}
