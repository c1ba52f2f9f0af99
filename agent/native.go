package agent

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// supervision compares what a port's data plane has counted by itself with the port's
// counters. What goes around the data plane is missing in its signal.
type supervision struct {
	measured vendors.Measurement
	since    counters.Sample // when both began to be compared
	bytes    uint64          // what the data plane had counted then
	windows  int             // readings since then
	missed   string          // why the port falls back; "" where it does not
	took     int             // readings until that was noticed
}

// So many readings are compared before a new beginning, and for so long at least: in less, what
// may be on the way is a large part of all.
const (
	windowsCompared = 10
	timeCompared    = 10 * time.Second
)

// inFlight is what the data plane may have counted that the counters have not, and the
// other way round: frames between the two, and what was sent between the two readings.
const (
	inFlightBytes = 256 << 10
	inFlightNS    = 20e6
)

// measure reads what the data plane of a native device has counted, right after its counters.
func (a *Agent) measure(ctx context.Context) error {
	m, ok := vendors.As[vendors.Measurer](a.cfg.Driver)
	if !ok || !a.facts.Native {
		return nil
	}
	defer a.lockDriver()()
	var err error
	if a.measured, err = m.Measurements(ctx, a.measured[:0]); err != nil {
		return fmt.Errorf("reading what the data plane has counted: %w", err)
	}
	return nil
}

// supervise compares one reading of each port.
func (a *Agent) supervise(samples []counters.Sample) {
	next := 0
	for i := range a.ports {
		p := &a.ports[i]
		if next < len(a.measured) && a.measured[next].Port == p.cfg.Name {
			p.supervised.compare(&samples[i], &a.measured[next], p.view.Now.Capacity)
			next++
		}
		switch v := &p.supervised; {
		case p.state != api.StateLive:
		case v.missed != "":
			p.state, p.code, p.reason = api.StateStale, findings.PassedBy, v.missed
		case v.measured.Before != "":
			p.code, p.reason = findings.RunsBefore, findings.Join(v.measured.Before, findings.Join(v.measured.Coarse, p.reason))
		case v.measured.Coarse != "":
			p.code, p.reason = findings.Coarse, findings.Join(v.measured.Coarse, p.reason)
		}
	}
}

// trustChip has a port of a chip that measures by itself be live whatever the counters say: those are csig's own estimate,
// beside it.
func (p *port) trustChip() {
	if p.cfg.Action == vlanrules.Update && (p.state == api.StateWaiting || p.state == api.StateStale) {
		p.state, p.code, p.reason = api.StateLive, cmp.Or(p.code, findings.Measuring), findings.Join(chipMeasures, p.reason)
	}
}

const chipMeasures = "its chip measures by itself, and the port's counters do not tell what it writes"

// compare takes in one reading. The data plane counts no less than the counters where no
// frame goes around it; more, where its queue has dropped some, which understates ABW alone.
// Counters that miss bits notice less, but nothing that is not so; those that may have more
// than was sent are not compared.
func (v *supervision) compare(s *counters.Sample, m *vendors.Measurement, capacity uint64) {
	restarted := m.Bytes < v.measured.Bytes
	v.measured = *m
	if s.Err != nil || !s.Up || s.Inflated || v.windows == 0 || s.Epoch != v.since.Epoch || restarted || s.Octets < v.since.Octets || s.Packets < v.since.Packets {
		v.begin(s, m)
		return
	}
	counted := s.Octets - v.since.Octets + uint64(s.Overhead)*(s.Packets-v.since.Packets)
	own := m.Bytes - v.bytes
	allowed := counted/50 + inFlightBytes + uint64(float64(capacity)/8*inFlightNS/1e9)
	switch v.windows++; {
	case own+allowed < counted:
		v.missed = fmt.Sprintf("%d of %d bytes that it sent went around the data plane (another BPF program, XDP redirect, AF_XDP or offloaded forwarding): it would advertise more than there is", counted-own, counted)
		v.took = v.windows
		v.begin(s, m)
	case v.missed != "" && v.windows <= v.took: // as much may go around still, and not be noticed yet
	case v.missed != "" || v.windows > windowsCompared && s.At.Sub(v.since.At) >= timeCompared:
		v.missed = ""
		v.begin(s, m)
	}
}

func (v *supervision) begin(s *counters.Sample, m *vendors.Measurement) {
	v.since, v.bytes, v.windows = *s, m.Bytes, 1
}
