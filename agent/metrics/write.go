package metrics

import (
	"bufio"
	"io"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/proto"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// Limits of an answer.
const (
	writeTimeout = 10 * time.Second // of a client that does not read
	maxLabel     = 100              // bytes of a label's value
)

func (h *handler) metrics(w http.ResponseWriter, r *http.Request) {
	select {
	case h.scrapes <- struct{}{}:
		defer func() { <-h.scrapes }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "other scrapes are being answered: ask again", http.StatusServiceUnavailable)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	format := expfmt.NegotiateIncludingOpenMetrics(r.Header)
	if format.FormatType() != expfmt.TypeOpenMetrics {
		format = expfmt.NewFormat(expfmt.TypeTextPlain) // none of the protobuf formats, which clients ask for at a venture
	}
	w.Header().Set("Content-Type", string(format))
	_ = h.write(w, format) // an error: the client is gone
}

// write writes every family that has a value. One family after the other, in the same
// memory: a scrape of many ports leaves little behind.
func (p *Process) write(to io.Writer, format expfmt.Format) error {
	devices, now := p.Devices(), program{version: untrusted.Text(p.Version, maxLabel)}
	switch {
	case p.Reload != nil:
		now.reload = p.Reload()
	case len(devices) == 1 && devices[0].Status != nil:
		now.reload = devices[0].Status.Reload
	}
	out := bufio.NewWriter(to)
	enc := expfmt.NewEncoder(out, format)
	var s series
	for i := range families {
		f := &families[i]
		s.begin(f)
		if f.process != nil {
			f.process(s.add, &now)
		}
		for k := range devices {
			d := &devices[k]
			if s.of = d.Name; f.device != nil {
				f.device(s.add, d)
			}
			if f.histogram != nil && d.runs() {
				s.addHistogram(f.histogram(d))
			}
		}
		if len(s.family.Metric) == 0 {
			continue
		}
		if err := enc.Encode(&s.family); err != nil {
			return err
		}
	}
	if p.More != nil {
		for _, f := range p.More() {
			if err := enc.Encode(f); err != nil {
				return err
			}
		}
	}
	if end, ok := enc.(expfmt.Closer); ok {
		if err := end.Close(); err != nil {
			return err
		}
	}
	return out.Flush()
}

// addHistogram has memory of its own: there is one a device.
func (s *series) addHistogram(l *api.Latency) {
	h := &dto.Histogram{SampleCount: proto.Uint64(l.Count), SampleSum: proto.Float64(l.Sum.Seconds())}
	for _, m := range l.Most {
		h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: proto.Float64(m.Limit.Seconds()), CumulativeCount: proto.Uint64(m.Count)})
	}
	s.add(0)
	last := s.family.Metric[len(s.family.Metric)-1]
	last.Gauge, last.Counter, last.Histogram = nil, nil, h
}

// series are the values of one family at a time.
type series struct {
	family dto.MetricFamily
	of     string // the device
	labels []string
	all    []*sample // also those of a longer family before
}

// sample is one value with the memory of its parts.
type sample struct {
	metric dto.Metric
	value  float64
	gauge  dto.Gauge
	count  dto.Counter
	pairs  []*dto.LabelPair
	values []string
}

func (s *series) begin(f *family) {
	s.family.Name, s.family.Help, s.family.Type = &f.name, &f.help, f.kind.Enum()
	s.family.Metric, s.labels, s.of = s.family.Metric[:0], f.labels, ""
}

// add is called with the values of the family's labels, in their order.
func (s *series) add(value float64, labels ...string) {
	n := len(s.family.Metric)
	if n == len(s.all) {
		s.all = append(s.all, new(sample))
	}
	at := s.all[n]
	at.set(s.family.GetType(), value, s.labels, s.of, labels)
	s.family.Metric = append(s.family.Metric, &at.metric)
}

func (at *sample) set(kind dto.MetricType, value float64, names []string, device string, labels []string) {
	at.value = value
	at.metric.Gauge, at.metric.Counter, at.metric.Histogram = nil, nil, nil
	if kind == dto.MetricType_COUNTER {
		at.count.Value, at.metric.Counter = &at.value, &at.count
	} else {
		at.gauge.Value, at.metric.Gauge = &at.value, &at.gauge
	}
	for len(at.pairs) < len(names) {
		at.pairs, at.values = append(at.pairs, new(dto.LabelPair)), append(at.values, "")
	}
	for i := range names {
		text := device
		if names[i] != deviceLabel {
			text, labels = labels[0], labels[1:]
		}
		at.values[i] = untrusted.Text(text, maxLabel)
		at.pairs[i].Name, at.pairs[i].Value = &names[i], &at.values[i]
	}
	at.metric.Label = at.pairs[:len(names)]
}
