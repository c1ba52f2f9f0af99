package mesh

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"

	"github.com/csig-agent/csig/quantize"
)

// Bounds of how many series a metric has.
const (
	mostLimiting = 100  // bottlenecks, those that limit the most pairs
	mostSeries   = 1000 // histograms, those of the longest time
)

// MetricNames are the names of Families, and what each is, in the order of docs/mesh.md.
var MetricNames = [][2]string{
	{"csig_mesh_hosts", "Hosts of the mesh, by whether their rows come."},
	{"csig_mesh_pairs", "Pairs of hosts, by what their probes found out."},
	{"csig_mesh_limited_pairs", "Pairs that an egress port limits: at most half of its speed is left."},
	{"csig_mesh_findings", "What is wrong, by code and severity."},
	{"csig_mesh_rows_total", "Rows that hosts have sent."},
	{"csig_mesh_discarded_total", "What arrived at hosts and was of no use, and probes that could not be sent."},
	{"csig_mesh_signal_seconds", "How long paths from a host to a prefix read S or less of a locator, in seconds."},
}

// Families are the mesh as metrics: no label has a text of a host or a device.
func (c *Collector) Families() []*dto.MetricFamily {
	s := c.Status()
	out := make([]*dto.MetricFamily, len(MetricNames))
	for i, m := range MetricNames {
		out[i] = &dto.MetricFamily{Name: proto.String(m[0]), Help: proto.String(m[1]), Type: dto.MetricType_GAUGE.Enum()}
	}
	add := func(i int, v float64, labels ...string) {
		m := &dto.Metric{Label: pairs(labels), Gauge: &dto.Gauge{Value: &v}}
		if strings.HasSuffix(MetricNames[i][0], "_total") {
			m.Gauge, m.Counter = nil, &dto.Counter{Value: &v}
			out[i].Type = dto.MetricType_COUNTER.Enum()
		}
		out[i].Metric = append(out[i].Metric, m)
	}
	hosts, rows, discarded := map[string]int{HostLive: 0, HostSilent: 0, HostNever: 0}, uint64(0), map[string]uint64{}
	for i := range s.Hosts {
		h := &s.Hosts[i]
		hosts[h.State]++
		rows += h.Rows
		for why, n := range h.Counts.byName() {
			discarded[why] += n
		}
	}
	for _, state := range slices.Sorted(maps.Keys(hosts)) {
		add(0, float64(hosts[state]), "state", state)
	}
	for _, state := range States {
		add(1, float64(s.States[state]), "state", state)
	}
	for i := range s.Bottlenecks[:min(len(s.Bottlenecks), mostLimiting)] {
		b := &s.Bottlenecks[i]
		add(2, float64(b.Pairs), "ports", strings.Join(b.Ports, " "), "place", b.Place, "signal", b.Signal)
	}
	found := map[[2]string]int{}
	for i := range s.Findings {
		found[[2]string{string(s.Findings[i].Code), string(s.Findings[i].Level)}]++
	}
	for _, k := range slices.SortedFunc(maps.Keys(found), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		add(3, float64(found[k]), "code", k[0], "severity", k[1])
	}
	add(4, float64(rows))
	for _, why := range slices.Sorted(maps.Keys(discarded)) {
		add(5, float64(discarded[why]), "why", why)
	}
	out[6].Type = dto.MetricType_HISTOGRAM.Enum()
	out[6].Metric = c.histogramMetrics()
	return slices.DeleteFunc(out, func(f *dto.MetricFamily) bool { return len(f.Metric) == 0 })
}

// histogramMetrics are the histograms since the start, of the longest time first.
func (c *Collector) histogramMetrics() (out []*dto.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	type one struct {
		key histogramKey
		of  *[quantize.NumBuckets]time.Duration
		sum time.Duration
	}
	var all []one
	for k, h := range c.histograms.all {
		sum := time.Duration(0)
		for _, d := range h {
			sum += d
		}
		all = append(all, one{k, h, sum})
	}
	slices.SortFunc(all, func(a, b one) int { return int(b.sum - a.sum) })
	for _, h := range all[:min(len(all), mostSeries)] {
		m := &dto.Histogram{}
		so, weighted := time.Duration(0), 0.0
		for s, d := range h.of {
			so += d
			weighted += float64(s) * d.Seconds()
			m.Bucket = append(m.Bucket, &dto.Bucket{UpperBound: proto.Float64(float64(s)), CumulativeCount: proto.Uint64(uint64(so.Seconds()))})
		}
		m.SampleCount, m.SampleSum = proto.Uint64(uint64(so.Seconds())), proto.Float64(weighted)
		out = append(out, &dto.Metric{Histogram: m, Label: pairs([]string{
			"source", c.hosts[h.key.from].Name, "destination", h.key.to.String(), "signal", h.key.signal.String(), "lm", strconv.Itoa(int(h.key.lm)), "ports", h.key.ports,
		})})
	}
	return out
}

func pairs(labels []string) (out []*dto.LabelPair) {
	for i := 0; i < len(labels); i += 2 {
		out = append(out, &dto.LabelPair{Name: proto.String(labels[i]), Value: proto.String(labels[i+1])})
	}
	return out
}
