package validation

import (
	"fmt"
	"strings"
	"testing"
)

// htsim are goals of the Ultra Ethernet Consortium's htsim for DCTCP (htsim/sim/datacenter/validate_dctcp.txt): the last of flows of
// 2 MB at 100 Gbit/s in a fat tree whose cables have 1 µs, in packets of 4,150 bytes of which 64 are headers, marked from 10 to 25
// packets on. Flows begin with 1.5 times the bandwidth-delay product. There DCTCP is a simpler one, which reacts to each
// mark by itself, and queues trim what they do not hold; here it is RFC 8257's, and queues have no end.
var htsim = []oracle{
	{source: "UEC htsim", name: "DCTCP, 16 hosts: one.cm", unit: "µs", want: []float64{180}, most: true, measure: dctcpLast(4, "{from: 0, to: 13, size: 2M}")},
	{source: "UEC htsim", name: "DCTCP, 16 hosts: one.cm", unit: "µs", want: []float64{176}, least: true, measure: dctcpLast(4, "{from: 0, to: 13, size: 2M}")},
	{source: "UEC htsim", name: "DCTCP, 16 hosts: incast.cm, 15 to one", unit: "µs", want: []float64{2500}, most: true, measure: dctcpLast(4, "{from: 0-14, to: 15, size: 2M}")},
	{source: "UEC htsim", name: "DCTCP, 128 hosts: incast_128.cm, 127 to one", unit: "µs", want: []float64{23000}, most: true, measure: dctcpLast(8, "{from: 0-126, to: 127, size: 2M}")},
	{source: "UEC htsim", name: "DCTCP, 16 hosts: a permutation, one path each", unit: "µs", want: []float64{1300}, most: true, measure: dctcpLast(4, permutation(16))},
	{source: "UEC htsim", name: "DCTCP, 16 hosts: a permutation, packets sprayed over all paths", unit: "µs", want: []float64{210}, most: true, gap: "Packets that are sprayed", measure: dctcpLast(4, permutation(16))},
}

// permutation has each host send to the one that is 7 behind it, in another pod.
func permutation(hosts int) string {
	var all []string
	for i := range hosts {
		all = append(all, fmt.Sprintf("{from: %d, to: %d, size: 2M}", i, (i+7)%hosts))
	}
	return strings.Join(all, ", ")
}

func dctcpLast(k int, flows string) func(t *testing.T) []float64 {
	return func(t *testing.T) []float64 {
		_, last := took(run(t, fmt.Sprintf("topology: {fat_tree: {k: %d, rate: 100G, delay: 1us}}\n", k)+
			"switches: {ecn: {min: 41500, max: 103750}}\npackets: {payload: 4086, header: 64}\ncontrol: {kind: dctcp, initial: 270k}\nflows: ["+flows+"]"))
		return []float64{last * 1000}
	}
}
