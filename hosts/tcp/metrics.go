package tcp

import (
	"maps"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

// MetricNames are the names of a Status as metrics, and what each is, in the order of docs/hosts.md.
var MetricNames = [][2]string{
	{"csig_host_connections", "TCP connections whose peer reflects tags, by whether frames have tags now, and by the congestion control."},
	{"csig_host_trouble", "1 where no connection has tags, or none is under csig's congestion control though the fleet file wants it."},
	{"csig_host_connections_total", "TCP connections whose ends agreed on the option."},
	{"csig_host_frames_total", "Frames or super-frames with a tag, by what became of it."},
	{"csig_host_reflections_total", "Reflections, by direction."},
	{"csig_host_discarded_total", "Options that were ignored, ACKs without room for one, and tags that the kernel did not insert or remove."},
	{"csig_host_control_total", "Connections given to csig's congestion control and back, and head-room that it took."},
}

// Families are a status as metrics: no label has a connection's addresses.
func (s *Status) Families() []*dto.MetricFamily {
	out := make([]*dto.MetricFamily, len(MetricNames))
	for i, m := range MetricNames {
		out[i] = &dto.MetricFamily{Name: proto.String(m[0]), Help: proto.String(m[1]), Type: dto.MetricType_GAUGE.Enum()}
		if strings.HasSuffix(m[0], "_total") {
			out[i].Type = dto.MetricType_COUNTER.Enum()
		}
	}
	add := func(i int, v uint64, labels ...string) {
		m := &dto.Metric{}
		for k := 0; k < len(labels); k += 2 {
			m.Label = append(m.Label, &dto.LabelPair{Name: proto.String(labels[k]), Value: proto.String(labels[k+1])})
		}
		f := float64(v)
		if out[i].GetType() == dto.MetricType_COUNTER {
			m.Counter = &dto.Counter{Value: &f}
		} else {
			m.Gauge = &dto.Gauge{Value: &f}
		}
		out[i].Metric = append(out[i].Metric, m)
	}
	n := map[[2]string]uint64{}
	for i := range s.Flows {
		n[[2]string{s.Flows[i].Control, s.Flows[i].State}]++
	}
	for _, k := range slices.SortedFunc(maps.Keys(n), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		add(0, n[k], "control", k[0], "state", k[1])
	}
	for _, t := range [][2]string{{"control", s.Control.Trouble}, {"tags", s.Trouble}} {
		add(1, uint64(min(1, len(t[1]))), "of", t[0])
	}
	c, k := &s.Counts, &s.Control.Counts
	add(2, c.Connections)
	add(3, c.Probes, "what", "probe")
	add(3, c.Stripped, "what", "stripped")
	add(3, c.Tagged, "what", "tagged")
	add(4, c.Received, "direction", "received")
	add(4, c.Sent, "direction", "sent")
	add(5, c.Failed, "why", "failed")
	add(5, c.Malformed, "why", "malformed")
	add(5, c.NoRoom, "why", "no_room")
	add(6, k.Given, "event", "given")
	add(6, k.Jumps, "event", "jump")
	add(6, k.Ramps, "event", "ramp")
	add(6, k.Refused, "event", "refused")
	add(6, k.Stale, "event", "stale")
	add(6, k.Stopped, "event", "stopped")
	add(6, k.Undelivered, "event", "undelivered")
	return slices.DeleteFunc(out, func(f *dto.MetricFamily) bool { return len(f.Metric) == 0 })
}
