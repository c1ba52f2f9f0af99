package web

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"io"
	"math"
	"slices"
	"time"

	"github.com/csig-agent/csig/agent/api"
)

// Bounds of the fleet's past.
const (
	pastEvery = 10 * time.Second // between two columns, where an hour of them fits
	pastKept  = time.Hour
	pastPart  = 6         // it may take a sixth of what the ports' histories may
	pastWorst = 16        // the longest time between two columns, in pastEvery; beyond that the oldest are lost
	maxColumn = 256 << 20 // bytes of one, unpacked
)

// past is the whole fleet as it was, a column for each time. What it takes is counted in bytes: where an hour does not
// fit, every second column is left out.
type past struct {
	columns []column // the oldest first
	bytes   int
	most    int
	every   time.Duration
	last    time.Time // of the last column, by the monotonic clock
}

// column is all ports at one time.
type column struct {
	at     int64 // ms since 1970
	of     *places
	packed []byte
}

// places are the devices and ports of columns, in the order of their rows. Columns share them while these are the same.
type places struct {
	shape   int // of the board
	devices []string
	ports   []portPlace
}

type portPlace struct {
	device int
	name   string
}

// size is what a column takes, and what its places do where it is the first with them.
func (c *column) size() int { return len(c.packed) + 64 }

func (p *places) size() int { return 16*len(p.devices) + 24*len(p.ports) }

func newPast(most int) past { return past{most: most, every: pastEvery} }

// due reports whether it is time for a column.
func (r *past) due(now time.Time) bool { return r.last.IsZero() || now.Sub(r.last) >= r.every }

// add keeps a column.
func (r *past) add(c column, now time.Time) {
	r.last = now
	for n := len(r.columns); n > 0 && r.columns[n-1].at >= c.at; n-- { // a clock was set back
		r.columns = r.columns[:n-1]
	}
	r.columns = append(r.columns, c)
	for len(r.columns) > 1 && c.at-r.columns[0].at > pastKept.Milliseconds() {
		r.columns = slices.Delete(r.columns, 0, 1)
	}
	if r.count(); r.bytes > r.most && r.every < pastWorst*pastEvery {
		kept := r.columns[:0:0]
		for i := range r.columns {
			if (len(r.columns)-1-i)%2 == 0 {
				kept = append(kept, r.columns[i])
			}
		}
		r.columns, r.every = kept, 2*r.every
	} else if r.bytes < r.most/4 && r.every > pastEvery {
		r.every /= 2 // ports are gone
	}
	for r.count(); r.bytes > r.most && len(r.columns) > 1; r.count() {
		r.columns = slices.Delete(r.columns, 0, 1)
	}
}

// count works out what all columns take.
func (r *past) count() {
	r.bytes = 0
	for i := range r.columns {
		r.bytes += r.columns[i].size()
		if i == 0 || r.columns[i].of != r.columns[i-1].of {
			r.bytes += r.columns[i].of.size()
		}
	}
}

// pastPort is a port of a column.
type pastPort struct {
	state, reason       string
	measured            bool
	capacity, load, abw uint64
	age                 time.Duration // of the window that ended last
	signals             [signalsKept]byte
	locators            [signalsKept]string
}

// Bits of a signal beside its S.
const (
	signalThere, signalStale, signalDoubtful = 1 << 5, 1 << 6, 1 << 7
	signalS                                  = 1<<5 - 1
)

// abwc is its ABW/C in ppm; ok: it counts among the bottlenecks.
func (p *pastPort) abwc() (ppm uint32, ok bool) {
	if !p.measured || p.capacity == 0 {
		return 0, false
	}
	return uint32(float64(p.abw) / float64(p.capacity) * 1e6), p.state == api.StateLive
}

// The fields of a column, each of which has the values of all ports behind each other: so they pack well.
const (
	fieldTexts  = iota // that others name by number
	fieldSilent        // by device
	fieldWaiting
	fieldState
	fieldReason
	fieldCapacity
	fieldHigh // figures
	fieldLow
	fieldAge
	fieldSignals
	fieldLocators
	fields
)

// packer makes a column.
type packer struct {
	f     [fields][]byte
	texts map[string]uint64
}

func (k *packer) number(field int, v uint64) { k.f[field] = binary.AppendUvarint(k.f[field], v) }

func (k *packer) text(field int, s string) {
	n, known := k.texts[s]
	if !known {
		n = uint64(len(k.texts))
		k.texts[s] = n
		k.number(fieldTexts, uint64(len(s)))
		k.f[fieldTexts] = append(k.f[fieldTexts], s...)
	}
	k.number(field, n)
}

const ageUnit = 10 * time.Millisecond

func (k *packer) port(p *pastPort) {
	k.text(fieldState, p.state)
	k.text(fieldReason, p.reason)
	if !p.measured {
		k.number(fieldAge, 0)
	} else {
		k.number(fieldAge, 1+uint64(max(0, p.age)/ageUnit))
		k.number(fieldCapacity, p.capacity)
		v := figure(p.capacity, p.load)
		k.f[fieldHigh], k.f[fieldLow] = append(k.f[fieldHigh], byte(v>>8)), append(k.f[fieldLow], byte(v))
	}
	for t, s := range p.signals {
		k.f[fieldSignals] = append(k.f[fieldSignals], s)
		if s != 0 {
			k.text(fieldLocators, p.locators[t])
		}
	}
}

// pack is the column's bytes.
func (k *packer) pack() []byte {
	var out bytes.Buffer
	w, _ := flate.NewWriter(&out, flate.BestSpeed) // the level is one
	for _, f := range k.f {
		_, _ = w.Write(binary.AppendUvarint(nil, uint64(len(f)))) // memory takes all
		_, _ = w.Write(f)
	}
	_ = w.Close()
	return bytes.Clone(out.Bytes())
}

// figure is a load in 16 bits: of the load and of what is left the smaller one, as a part of the capacity, in a float of
// 5 bits and 10. So both have three digits.
func figure(capacity, load uint64) uint16 {
	load = min(load, capacity)
	small, of := capacity-load, uint16(0)
	if load < small {
		small, of = load, 1<<15
	}
	if capacity == 0 || small == 0 {
		return of
	}
	m, e := math.Frexp(float64(small) / float64(capacity)) // 0.5 ≤ m < 1, e ≤ 0
	mantissa := uint16(math.Round((m - 0.5) * 2048))
	if mantissa == 1024 {
		mantissa, e = 0, e+1
	}
	if e < -30 {
		return of
	}
	return of | uint16(e+31)<<10 | mantissa
}

// loadOf is the load of a figure.
func loadOf(capacity uint64, v uint16) uint64 {
	small := uint64(0)
	if v&(1<<15-1) != 0 {
		m, e := 0.5+float64(v&1023)/2048, int(v>>10&31)-31
		small = uint64(math.Round(math.Ldexp(m, e) * float64(capacity)))
	}
	if v>>15 == 1 {
		return small
	}
	return capacity - min(small, capacity)
}

// each calls f with the ports of a column, by their numbers among its places, up to one for which it is false, and
// device with the devices; nil: none.
func (c *column) each(device func(i int, silent bool, waiting string), f func(i int, p *pastPort) bool) error {
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(c.packed)), maxColumn))
	if err != nil {
		return err
	}
	var r unpacker
	for i := range r.f {
		n, k := binary.Uvarint(text)
		r.f[i], text = text[k:k+int(n)], text[k+int(n):]
	}
	for len(r.f[fieldTexts]) > 0 {
		n := r.number(fieldTexts)
		r.texts, r.f[fieldTexts] = append(r.texts, string(r.f[fieldTexts][:n])), r.f[fieldTexts][n:]
	}
	for i := range c.of.devices {
		silent, waiting := r.byte(fieldSilent) == 1, r.text(fieldWaiting)
		if device != nil {
			device(i, silent, waiting)
		}
	}
	var p pastPort
	for i := range c.of.ports {
		if p = r.port(); !f(i, &p) {
			break
		}
	}
	return nil
}

// unpacker reads what a packer of this process has made.
type unpacker struct {
	f     [fields][]byte
	texts []string
}

func (r *unpacker) number(field int) uint64 {
	v, n := binary.Uvarint(r.f[field])
	r.f[field] = r.f[field][n:]
	return v
}

func (r *unpacker) byte(field int) byte {
	v := r.f[field][0]
	r.f[field] = r.f[field][1:]
	return v
}

func (r *unpacker) text(field int) string { return r.texts[r.number(field)] }

func (r *unpacker) port() (p pastPort) {
	p.state, p.reason = r.text(fieldState), r.text(fieldReason)
	if age := r.number(fieldAge); age > 0 {
		p.measured, p.age, p.capacity = true, time.Duration(age-1)*ageUnit, r.number(fieldCapacity)
		p.load = loadOf(p.capacity, uint16(r.byte(fieldHigh))<<8|uint16(r.byte(fieldLow)))
		p.abw = p.capacity - p.load
	}
	for t := range p.signals {
		if p.signals[t] = r.byte(fieldSignals); p.signals[t] != 0 {
			p.locators[t] = r.text(fieldLocators)
		}
	}
	return p
}
