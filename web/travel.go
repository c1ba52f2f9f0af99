package web

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// maxTravels is how many answers of the past are made at a time: each has all ports.
const maxTravels = 4

// signalNames are those of signals by T.
var signalNames = [signalsKept]string{"abw", "abwc", "pd", "nqd"}

// remember keeps the fleet as it is now, where it is time.
func (b *board) remember(now time.Time) {
	b.mu.Lock()
	due := b.past.due(now)
	b.mu.Unlock()
	if !due {
		return
	}
	c := b.column(now)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.past.add(c, now)
}

// column is the fleet as it is now.
func (b *board) column(now time.Time) column {
	b.mu.Lock()
	c := column{at: now.UnixMilli(), of: b.places()}
	k := packer{texts: make(map[string]uint64)}
	for _, d := range b.devices {
		silent := byte(0)
		if d.silent {
			silent = 1
		}
		k.f[fieldSilent] = append(k.f[fieldSilent], silent)
		k.text(fieldWaiting, d.wait)
	}
	for _, d := range b.devices {
		for _, p := range d.ports {
			one := p.asPast(now)
			k.port(&one)
		}
	}
	b.mu.Unlock()
	c.packed = k.pack() // without the lock: it takes some time
	return c
}

// places are the devices and ports in their order. The caller has the lock.
func (b *board) places() *places {
	if n := len(b.past.columns); n > 0 && b.past.columns[n-1].of.shape == b.shape {
		return b.past.columns[n-1].of
	}
	out := &places{shape: b.shape}
	for i, d := range b.devices {
		out.devices = append(out.devices, d.shownName())
		for _, p := range d.ports {
			out.ports = append(out.ports, portPlace{i, p.name})
		}
	}
	return out
}

// asPast is the port as it is shown now. The caller has the lock.
func (p *boardPort) asPast(now time.Time) pastPort {
	if p.is == nil {
		return pastPort{state: p.state, reason: p.reason}
	}
	out := pastPort{state: clean(p.is.State), reason: clean(p.is.Reason)}
	if p.is.WindowEnd != nil {
		out.measured, out.capacity, out.load, out.age = true, p.is.CapacityBPS, p.is.LoadBPS, now.Sub(*p.is.WindowEnd)
	}
	for i := range p.is.Signals {
		g := &p.is.Signals[i]
		if g.T >= signalsKept || g.Bucket > signalS {
			continue
		}
		out.signals[g.T], out.locators[g.T] = signalThere|g.Bucket, clean(g.Locator)
		if g.Stale {
			out.signals[g.T] |= signalStale
		}
		if g.Doubtful {
			out.signals[g.T] |= signalDoubtful
		}
	}
	return out
}

// pastAnswer is the fleet as it was.
type pastAnswer struct {
	At      time.Time    `json:"at,omitzero"` // of the column that holds; none: nothing is kept of that time
	From    time.Time    `json:"from,omitzero"`
	EveryNS int64        `json:"every_ns"`
	Devices []DeviceRow  `json:"devices"`
	Ports   []PortRow    `json:"ports"`
	Worst   []Bottleneck `json:"worst"`
}

func (s *Server) servePast(w http.ResponseWriter, r *http.Request) {
	at, err := strconv.ParseInt(r.URL.Query().Get("at"), 10, 64)
	if err != nil {
		http.Error(w, "give at, in milliseconds since 1970", http.StatusBadRequest)
		return
	}
	if !s.mayTravel(r) {
		return
	}
	text, err := s.board.pastAt(at)
	<-s.travels // before it is sent: a client that does not read holds up no other
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	send(w, text)
}

// mayTravel waits until few answers of the past are being made; false: the client has gone. The caller takes one out of
// travels where it is true.
func (s *Server) mayTravel(r *http.Request) bool {
	select {
	case s.travels <- struct{}{}:
		return true
	case <-r.Context().Done():
		return false
	}
}

// pastAt is the answer about a time, in ms.
func (b *board) pastAt(at int64) ([]byte, error) {
	b.mu.Lock()
	columns, every := slices.Clone(b.past.columns), b.past.every
	b.mu.Unlock()
	a := pastAnswer{EveryNS: every.Nanoseconds(), Devices: []DeviceRow{}, Ports: []PortRow{}, Worst: []Bottleneck{}}
	if len(columns) > 0 {
		a.From = time.UnixMilli(columns[0].at).UTC()
	}
	// The newest that is not later.
	for i := len(columns) - 1; i >= 0; i-- {
		if columns[i].at <= at {
			if err := a.fill(columns[:i+1], every); err != nil {
				return nil, err
			}
			break
		}
	}
	return json.Marshal(a)
}

// fill has the last column of these, and what was worst then.
func (a *pastAnswer) fill(columns []column, every time.Duration) error {
	c := &columns[len(columns)-1]
	a.At = time.UnixMilli(c.at).UTC()
	var worst []int // numbers of ports
	err := c.each(func(i int, silent bool, waiting string) {
		a.Devices = append(a.Devices, DeviceRow{Device: c.of.devices[i], Silent: silent, Waiting: waiting, Limits: []string{}})
	}, func(i int, p *pastPort) bool {
		row := pastRow(c, i, p)
		a.Devices[c.of.ports[i].device].Ports++
		a.Ports = append(a.Ports, row)
		if _, ok := p.abwc(); ok {
			worst = append(worst, i)
		}
		return true
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(worst, func(x, y int) int {
		return cmp.Or(cmp.Compare(a.Ports[x].ABWCPPM, a.Ports[y].ABWCPPM), cmp.Compare(a.Ports[x].ABWBPS, a.Ports[y].ABWBPS))
	})
	worst = worst[:min(len(worst), worstPorts)]
	lines, err := sparks(columns, worst, every)
	if err != nil {
		return err
	}
	for k, i := range worst {
		h := history{ring: lines[k]} // since when is known as far as the sparkline goes
		a.Worst = append(a.Worst, bottleneck(a.Ports[i].ID, a.Ports[i].ABWCPPM, &h, c.at/sparkSlot.Milliseconds()))
	}
	return nil
}

func pastRow(c *column, i int, p *pastPort) PortRow {
	at := c.of.ports[i]
	device, port := c.of.devices[at.device], clean(at.name)
	r := PortRow{ID: device + ":" + port, Device: device, Port: port, State: p.state, Reason: p.reason, Measured: p.measured, CapacityBPS: p.capacity, LoadBPS: p.load, ABWBPS: p.abw, Signals: []Signal{}}
	r.ABWCPPM, _ = p.abwc()
	if p.measured {
		r.Ended = time.UnixMilli(c.at).Add(-p.age).UTC()
	}
	for t, g := range p.signals {
		if g&signalThere != 0 {
			r.Signals = append(r.Signals, Signal{Signal: signalNames[t], S: g & signalS, Locator: p.locators[t], Stale: g&signalStale != 0, Doubtful: g&signalDoubtful != 0})
		}
	}
	return r
}

// sparks are the last minutes of some ports of the last column, each as samples that fill a sparkline.
func sparks(columns []column, ports []int, every time.Duration) ([][]sample, error) {
	out := make([][]sample, len(ports))
	newest, last := columns[len(columns)-1], slices.Max(append([]int{-1}, ports...))
	for _, c := range columns {
		if newest.at-c.at >= (sparkSlots*sparkSlot).Milliseconds() || c.of != newest.of { // other ports, other numbers
			continue
		}
		if err := c.each(nil, func(i int, p *pastPort) bool {
			k := slices.Index(ports, i)
			if k < 0 {
				return i < last
			}
			for ago := every - sparkSlot; ago >= 0; ago -= sparkSlot { // a column speaks for the time since the one before
				out[k] = append(out[k], sample{at: c.at - ago.Milliseconds(), load: p.load, capacity: p.capacity, measured: p.measured})
			}
			return i < last
		}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// pastOf is a port of columns as samples, those before a time alone.
func pastOf(columns []column, device, port string, before int64) (out []sample) {
	var of *places
	number := -1
	for _, c := range columns {
		if c.at >= before {
			break
		}
		if c.of != of {
			of = c.of
			number = slices.IndexFunc(of.ports, func(p portPlace) bool { return p.name == port && of.devices[p.device] == device })
		}
		if number < 0 {
			continue
		}
		_ = c.each(nil, func(i int, p *pastPort) bool { // what this process has packed
			if i != number {
				return true
			}
			m := sample{at: c.at, load: p.load, capacity: p.capacity, measured: p.measured}
			if m.measured {
				m.at -= p.age.Milliseconds()
			}
			for t, g := range p.signals {
				if g&signalThere != 0 {
					m.s[t], m.has = g&signalS, m.has|1<<t
				}
			}
			if m.at < before && (len(out) == 0 || m.at > out[len(out)-1].at) {
				out = append(out, m)
			}
			return false
		})
	}
	return out
}
