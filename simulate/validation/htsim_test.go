package validation

import (
	"fmt"
	"testing"
)

// htsim are goals of the Ultra Ethernet Consortium's htsim for DCTCP (github.com/ultraethernet/uet-htsim at 40ccb05,
// htsim/sim/datacenter/validate_dctcp.txt, with validate.py's htsim_eqds): the last of flows of 2 MB at 100 Gbit/s in a fat tree of
// three tiers (of leaf_spine_1024_oversub.topo: two) whose cables have 1 µs, in packets of 4,150 bytes of which 64 are headers,
// marked from 10 to 25 packets on as they leave. Flows begin with 64 packets. What differs: there DCTCP is a simpler one, whose
// window falls by a third of what each marked ACK acknowledges, grows by a packet in a round trip and never exceeds 64 packets;
// queues trim what is above 35 packets to headers, which go first, as ACKs do; a top-of-rack switch does not mark what goes to
// hosts. Here it is RFC 8257's, queues have no end, and all wait in one. Goals of one path are -paths 1. Sprayed is -paths 128:
// each packet has another of 128 values, in an order that is exclusive-or'ed with one by chance each round, of which each switch
// takes a hash; a value whose packet was marked is left out once. Here each path is taken once a round, marked or not.
// The permutation of 1,024 hosts is one by chance here.
var htsim = []oracle{
	{source: "UEC htsim", name: "DCTCP, 16 hosts: one.cm", unit: "µs", want: []float64{180}, most: true, measure: dctcpLast(4, "{from: 0, to: 13, size: 2M}")},
	{source: "UEC htsim", name: "DCTCP, 16 hosts: one.cm", unit: "µs", want: []float64{176}, least: true, measure: dctcpLast(4, "{from: 0, to: 13, size: 2M}")},
	{source: "UEC htsim", name: "DCTCP, 16 hosts: incast.cm, 15 to one", unit: "µs", want: []float64{2500}, most: true, measure: dctcpLast(4, "{from: 0-14, to: 15, size: 2M}")},
	{source: "UEC htsim", name: "DCTCP, 128 hosts: incast_128.cm, 127 to one", unit: "µs", want: []float64{23000}, most: true, measure: dctcpLast(8, "{from: 0-126, to: 127, size: 2M}")},
	{source: "UEC htsim", name: "DCTCP, 16 hosts: perm_16n_16c_2MB.cm, one path each", unit: "µs", want: []float64{1300}, most: true, measure: dctcpLast(4, permutation)},
	{source: "UEC htsim", name: "DCTCP, 16 hosts: the same, sprayed", unit: "µs", want: []float64{210}, most: true, measure: sprayed("fat_tree: {k: 4", "flows: ["+permutation+"]")},
	{source: "UEC htsim", name: "DCTCP, 1,024 hosts: a permutation, one path each", unit: "µs", want: []float64{1300}, most: true, measure: dctcp("fat_tree: {k: 16", large)},
	{source: "UEC htsim", name: "DCTCP, 1,024 hosts: the same, sprayed", unit: "µs", want: []float64{220}, most: true, gap: "DCTCP of 1,024 hosts that spray", measure: sprayed("fat_tree: {k: 16", large)},
	{source: "UEC htsim", name: "DCTCP, 1,024 hosts, 8 spines: a permutation, sprayed", unit: "µs", want: []float64{880}, most: true, measure: sprayed("leaf_spine: {leaves: 32, spines: 8, hosts: 32", large)},
}

// permutation is perm_16n_16c_2MB.cm.
const permutation = "{from: 13, to: 6, size: 2M}, {from: 1, to: 4, size: 2M}, {from: 6, to: 0, size: 2M}, {from: 2, to: 13, size: 2M}, " +
	"{from: 10, to: 5, size: 2M}, {from: 15, to: 1, size: 2M}, {from: 8, to: 14, size: 2M}, {from: 14, to: 2, size: 2M}, " +
	"{from: 5, to: 15, size: 2M}, {from: 4, to: 12, size: 2M}, {from: 12, to: 11, size: 2M}, {from: 0, to: 8, size: 2M}, " +
	"{from: 9, to: 7, size: 2M}, {from: 7, to: 9, size: 2M}, {from: 3, to: 10, size: 2M}, {from: 11, to: 3, size: 2M}"

const large = "workloads: [{kind: permutation, size: 2M}]"

func dctcpLast(k int, flows string) func(t *testing.T) []float64 {
	return dctcp(fmt.Sprintf("fat_tree: {k: %d", k), "flows: ["+flows+"]")
}

func sprayed(network, flows string) func(t *testing.T) []float64 {
	return dctcp(network, "paths: {choice: spray}\nrecovery: {kind: selective}\n"+flows)
}

func dctcp(network, more string) func(t *testing.T) []float64 {
	return func(t *testing.T) []float64 {
		_, last := took(run(t, "topology: {"+network+", rate: 100G, delay: 1us}}\n"+
			"switches: {ecn: {min: 41500, max: 103750}}\npackets: {payload: 4086, header: 64}\ncontrol: {kind: dctcp, initial: 261504}\n"+more))
		return []float64{last * 1000}
	}
}
