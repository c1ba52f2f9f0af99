package fleet

import "time"

// DeviceStatus is how one device is doing.
type DeviceStatus struct {
	Device   string
	Interval time.Duration // between two slots
	Reads    uint64        // readings that have ended, failed ones included
	Failed   uint64
	Missed   uint64 // slots without a reading: the device was still being read, or backed off from
	Fails    int    // failures in a row up to now
	Error    string // of the last reading; "" for a good one

	Good    time.Time     // when the last good reading ended; zero before the first
	Age     time.Duration // since then
	Running time.Duration // for how long a reading has been under way; 0 when none is

	Late, Took         Histogram // of all readings
	LastLate, LastTook time.Duration
}

// Summary is how the fleet is doing.
type Summary struct {
	Devices int
	Good    int // with a good last reading
	Failing int // whose last reading failed
	Unread  int // without any reading yet
	Running int // readings under way
	Slow    int // of these, for longer than Patience

	Reads, Failed, Missed uint64
	Late, Took            Histogram // of all readings of all devices
	Age                   Histogram // of the devices that have had a good reading, now
}

// Device returns how one device is doing; i is its index in Config.Devices.
func (f *Fleet) Device(i int) DeviceStatus {
	d := f.devices[i]
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.status
	if !out.Good.IsZero() {
		out.Age = now.Sub(out.Good)
	}
	if !d.started.IsZero() {
		out.Running = max(now.Sub(d.started), 1)
	}
	return out
}

// Status returns how the fleet is doing.
func (f *Fleet) Status() Summary {
	out := Summary{Devices: len(f.devices)}
	for i := range f.devices {
		d := f.Device(i)
		switch {
		case d.Reads == 0:
			out.Unread++
		case d.Fails > 0:
			out.Failing++
		default:
			out.Good++
		}
		if d.Running > 0 {
			out.Running++
			if d.Running > f.cfg.Patience {
				out.Slow++
			}
		}
		out.Reads += d.Reads
		out.Failed += d.Failed
		out.Missed += d.Missed
		out.Late.Merge(&d.Late)
		out.Took.Merge(&d.Took)
		if !d.Good.IsZero() {
			out.Age.Add(d.Age)
		}
	}
	return out
}
