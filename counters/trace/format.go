package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// Format is the header's format field.
const Format = "csig.trace/v1"

// Limits of what is read, so that a strange file cannot take all memory.
const (
	maxPorts = 1 << 16
	maxLine  = 32 << 20 // bytes
	maxName  = 256      // bytes
	maxText  = 1000     // bytes of an error or a note
)

// Header is what a trace says of itself.
type Header struct {
	Format     string   `json:"format"`
	Device     string   `json:"device"`
	Source     string   `json:"source,omitempty"` // what was read: "linux", "snmp", "gnmi"
	IntervalNS int64    `json:"interval_ns,omitempty"`
	Note       string   `json:"note,omitempty"`
	Ports      []string `json:"ports"`

	// Settings are what else became of the readings where they were recorded; nil in
	// old traces.
	Settings *Settings `json:"settings,omitempty"`
}

// Interval is the averaging window Δt that was configured, 0 where none was.
func (h *Header) Interval() time.Duration { return time.Duration(h.IntervalNS) }

func (h *Header) check() error {
	if h.Format != Format {
		return fmt.Errorf("format %q: this csig reads %s", h.Format, Format)
	}
	if len(h.Ports) == 0 || len(h.Ports) > maxPorts {
		return fmt.Errorf("%d ports: want 1 to %d", len(h.Ports), maxPorts)
	}
	if h.IntervalNS < 0 {
		return fmt.Errorf("interval of %d ns: want 0 or more", h.IntervalNS)
	}
	if _, err := h.Config(); err != nil {
		return err
	}
	seen := make(map[string]bool, len(h.Ports))
	for _, p := range h.Ports {
		switch {
		case p == "" || len(p) > maxName:
			return fmt.Errorf("port name %.20q: want 1 to %d bytes", p, maxName)
		case untrusted.Text(p, maxName) != p:
			return fmt.Errorf("port name %.20q: want what prints", p)
		case seen[p]:
			return fmt.Errorf("port %s is listed twice", p)
		}
		seen[p] = true
	}
	return nil
}

// Reading is one reading of all ports.
type Reading struct {
	Read    time.Time     // our clock when it was asked for
	Took    time.Duration // until the answer was there
	Samples []counters.Sample
	Err     error // of the whole device: then there are no samples
}

// RecordedError is an error as a trace has it: its text.
type RecordedError string

func (e RecordedError) Error() string { return string(e) }

// line is a reading as it is read.
type line struct {
	Read  int64   `json:"read"`
	Took  int64   `json:"took"`
	Error string  `json:"error"`
	Ports entries `json:"ports"`
}

// entries are at most maxPorts, so that a line of empty ones does not take all memory.
type entries []entry

// UnmarshalJSON is that of json.Unmarshaler.
func (l *entries) UnmarshalJSON(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	tok, err := dec.Token()
	if err != nil || tok == nil {
		return err
	}
	if tok != json.Delim('[') {
		return errors.New("ports are no list")
	}
	*l = (*l)[:0]
	for dec.More() {
		if len(*l) == maxPorts {
			return fmt.Errorf("more than %d ports", maxPorts)
		}
		*l = append(*l, entry{})
		if err := dec.Decode(&(*l)[len(*l)-1]); err != nil {
			return err
		}
	}
	return nil
}

// entry is a port that could be read. Bits of 0 are 64.
type entry struct {
	At       int64  `json:"at"`
	Local    int64  `json:"local,omitempty"`
	Octets   uint64 `json:"octets"`
	Packets  uint64 `json:"packets"`
	Speed    uint64 `json:"speed,omitempty"`
	Overhead uint8  `json:"overhead"`
	Bits     uint8  `json:"bits,omitempty"`
	Epoch    uint64 `json:"epoch,omitempty"`
	Cache    int64  `json:"cache,omitempty"`
	Within   int64  `json:"within,omitempty"`
	Lag      int64  `json:"lag,omitempty"`
	Down     bool   `json:"down,omitempty"`
	Live     bool   `json:"live,omitempty"`
	Degraded string `json:"degraded,omitempty"`
	Error    string `json:"error,omitempty"`
}

// written is a line that is written. A port that could not be read has only its time
// beside the error.
type written struct {
	Read  int64  `json:"read"`
	Took  int64  `json:"took"`
	Error string `json:"error,omitempty"`
	Ports []any  `json:"ports,omitempty"` // entry, or failed
}

type failed struct {
	At    int64  `json:"at"`
	Error string `json:"error"`
}

// lineOf is a reading as it is written, its errors without the given words.
func lineOf(r *Reading, words []string) written {
	l := written{Read: r.Read.UnixNano(), Took: int64(r.Took)}
	if r.Err != nil {
		l.Error = errorText(r.Err, words)
		return l
	}
	for i := range r.Samples {
		s := &r.Samples[i]
		if s.Err != nil {
			l.Ports = append(l.Ports, failed{s.At.UnixNano(), errorText(s.Err, words)})
			continue
		}
		e := entry{
			At: s.At.UnixNano(), Octets: s.Octets, Packets: s.Packets, Speed: s.Speed, Overhead: s.Overhead, Bits: s.Bits, Epoch: s.Epoch,
			Cache: int64(s.Cache), Within: int64(s.Within), Lag: int64(s.Lag), Down: !s.Up, Live: s.Live, Degraded: s.Degraded,
		}
		if e.Bits == 64 {
			e.Bits = 0
		}
		if !s.Local.IsZero() {
			e.Local = s.Local.UnixNano()
		}
		l.Ports = append(l.Ports, e)
	}
	return l
}

// errorText is not empty, as that would read as no error.
func errorText(err error, words []string) string {
	if s := hide(err.Error(), words); s != "" {
		return s
	}
	return "unknown error"
}

var errNoReading = errors.New("neither ports nor an error")

// take turns a line into r; ports are the header's.
func (l *line) take(r *Reading, ports []string) error {
	*r = Reading{Read: when(l.Read), Took: time.Duration(l.Took), Samples: r.Samples[:0]}
	if l.Took < 0 {
		return fmt.Errorf("took %d ns: want 0 or more", l.Took)
	}
	if l.Error != "" {
		r.Err = RecordedError(untrusted.Text(l.Error, maxText))
		return nil
	}
	if len(l.Ports) == 0 {
		return errNoReading
	}
	if len(l.Ports) != len(ports) {
		return fmt.Errorf("%d ports, the header names %d", len(l.Ports), len(ports))
	}
	for i := range l.Ports {
		e := &l.Ports[i]
		s := counters.Sample{Port: ports[i], At: when(e.At)}
		if e.Error != "" {
			s.Err = RecordedError(untrusted.Text(e.Error, maxText))
			r.Samples = append(r.Samples, s)
			continue
		}
		switch e.Bits {
		case 0:
			e.Bits = 64
		case 32, 64:
		default:
			return fmt.Errorf("port %s: a counter of %d bits: want 32 or 64", ports[i], e.Bits)
		}
		if e.Cache < 0 || e.Within < 0 || e.Lag < 0 {
			return fmt.Errorf("port %s: a cache of %d ns and %d ns, an instant within %d ns: want 0 or more", ports[i], e.Cache, e.Lag, e.Within)
		}
		s.Cache, s.Within, s.Lag = time.Duration(e.Cache), time.Duration(e.Within), time.Duration(e.Lag)
		if e.Local != 0 {
			s.Local = when(e.Local)
		}
		s.Octets, s.Packets, s.Speed = e.Octets, e.Packets, e.Speed
		s.Up, s.Bits, s.Overhead, s.Epoch, s.Live = !e.Down, e.Bits, e.Overhead, e.Epoch, e.Live
		s.Degraded = untrusted.Text(e.Degraded, maxText)
		r.Samples = append(r.Samples, s)
	}
	return nil
}

func when(ns int64) time.Time { return time.Unix(0, ns).UTC() }
