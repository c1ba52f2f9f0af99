package discovery

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/inventory"
)

const fleetText = `format: csig.fleet/v1
profile: {name: lab, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-10G}}}
devices:
  - {name: leaf1, platform: sonic, address: 192.0.2.1, ports: [{name: p1}, {name: p2}, {name: p3}, {name: p4}]}
  - {name: leaf2, platform: sonic, address: 192.0.2.2, ports: [{name: p1}, {name: p2}]}
  - {name: spine1, platform: sonic, address: 192.0.2.3, ports: [{name: p1}, {name: p2}, {name: p3}]}
links: |
  leaf1:p1 - spine1:p1
  leaf2:p1 - spine1:p2
  leaf1:p2 - h1
`

func TestCompare(t *testing.T) {
	f, err := inventory.Parse("fleet.yaml", []byte(fleetText))
	if err != nil {
		t.Fatal(err)
	}
	at := func(port, system, peer string) counters.Neighbor {
		return counters.Neighbor{Port: port, System: system, PeerPort: peer, PeerKind: counters.NamePortID}
	}
	of := func(device, self string, list ...counters.Neighbor) map[string]Answer {
		return map[string]Answer{device: {Self: self, Neighbors: list}}
	}
	good := []counters.Neighbor{at("p1", "spine1", "p1"), at("p2", "h1", "eth0")}
	mac := counters.Neighbor{Port: "p1", System: "spine1", PeerPort: "02:00:00:00:00:01", PeerKind: counters.MACPortID}
	macNamed := mac
	macNamed.PeerText = "p1"
	macOther := mac
	macOther.PeerText = "p3"
	for _, tt := range []struct {
		name    string
		answers map[string]Answer
		want    string // the findings
		seen    string // cables seen of those that were compared
	}{
		{"as the file", of("leaf1", "leaf1", good...), "", "2 of 2"},
		{"with domains and in capitals", of("leaf1", "LEAF1.example.net", at("p1", "Spine1.Example.Net", "p1"), at("p2", "h1.example.net", "eth0")), "", "2 of 2"},
		{"by MAC address", of("leaf1", "", mac), "", "1 of 2"},
		{"by MAC address and description", of("leaf1", "", macNamed), "", "1 of 2"},
		{"by MAC address and another description", of("leaf1", "", macOther), "other-peer leaf1 p1", "0 of 2"},
		{"another port", of("leaf1", "", at("p1", "spine1", "p3")), "other-peer leaf1 p1", "0 of 2"},
		{"another switch", of("leaf1", "", at("p1", "leaf2", "p2")), "other-peer leaf1 p1", "0 of 2"},
		{"a switch that the file does not have", of("leaf1", "", at("p1", "core9", "p1")), "other-peer leaf1 p1", "0 of 2"},
		{"a switch in the place of a host", of("leaf1", "", good[0], at("p2", "leaf2", "p2")), "other-peer leaf1 p2", "1 of 2"},
		{"another host", of("leaf1", "", good[0], at("p2", "h7", "eth0")), "", "1 of 2"},
		{"nothing", of("leaf1", ""), "no-neighbour leaf1 p1", "0 of 2"},
		{"no name", of("leaf1", "", counters.Neighbor{Port: "p1", Chassis: "02:00:00:00:00:09", PeerPort: "9"}), "nameless leaf1 p1", "0 of 2"},
		{"a cable that the file lacks", of("leaf1", "", append(good[:2:2], at("p3", "leaf2", "p2"))...), "peer-missing leaf1 p3", "2 of 2"},
		{"a port that the file lacks", of("leaf1", "", append(good[:2:2], at("p9", "leaf2", "p2"), at("p8", "printer", "x"))...), "port-missing leaf1", "2 of 2"},
		{"a phone beside", of("leaf1", "", at("p1", "phone", "x"), good[0]), "", "1 of 2"},
		{"two wrong ones", of("leaf1", "", at("p1", "phone", "x"), at("p1", "leaf2", "p2")), "other-peer leaf1 p1", "0 of 2"},
		{"a device that calls itself otherwise", map[string]Answer{
			"leaf1": {Self: "sw-17", Neighbors: []counters.Neighbor{at("p1", "sw-30", "p1")}}, "spine1": {Self: "sw-30", Neighbors: []counters.Neighbor{at("p1", "sw-17", "p1"), at("p2", "leaf2", "p1")}},
		}, "", "2 of 3"},
		{"two of one name", map[string]Answer{
			"leaf1": {Self: "switch", Neighbors: good[:1]}, "spine1": {Self: "switch", Neighbors: []counters.Neighbor{at("p1", "switch", "p1"), at("p2", "leaf2", "p1")}},
		}, "other-peer spine1 p1", "2 of 3"},
		{"no LLDP", map[string]Answer{"leaf2": {Err: fmt.Errorf("device leaf2: %w", counters.ErrNoLLDP)}}, "no-lldp leaf2", "0 of 0"},
		{"no answer", map[string]Answer{"leaf2": {Err: errors.New("device leaf2: no answer: check the address")}}, "unread leaf2", "0 of 0"},
		{"nobody was asked", nil, "", "0 of 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Compare(f, tt.answers)
			var kinds []string
			for _, one := range got.Findings {
				kinds = append(kinds, strings.TrimSpace(fmt.Sprintf("%s %s %s", one.Kind, one.Device, one.Port)))
				if one.At.File != "fleet.yaml" || one.At.Line == 0 || one.At.Col == 0 || !strings.Contains(one.At.Msg, one.Device) || one.Kind != Unread && one.At.Hint == "" {
					t.Errorf("%+v", one.At)
				}
			}
			if s := strings.Join(kinds, ", "); s != tt.want {
				t.Errorf("%s, want %s", s, tt.want)
			}
			if s := fmt.Sprintf("%d of %d", got.Seen, got.Cables); s != tt.seen {
				t.Errorf("seen %s, want %s", s, tt.seen)
			}
		})
	}
}

func TestPlatform(t *testing.T) {
	for text, want := range map[string]string{
		"SONiC Software Version: SONiC.202305 - HwSku: Force10-S6000 - Distribution: Debian 11 - Kernel: Linux": "sonic",
		"Arista Networks EOS version 4.30.1F running on an Arista DCS-7050CX3":                                  "eos",
		"Cisco NX-OS(tm) n9000, Software (n9000-dk9)":                                                           "nxos", "Cisco IOS XR Software (NCS-5500)": "iosxr",
		"Juniper Networks, Inc. qfx5100-48s-6q Ethernet Switch, kernel JUNOS 18.1": "junos-qfx", "Juniper Junos EX4300-48T": "junos-ex",
		"Juniper Networks, Inc. mx480 internet router, kernel JUNOS 20.4":     "junos-mx",
		"Juniper Networks, Inc. srx340 internet router, kernel JUNOS 20.4":    "",
		"Huawei Versatile Routing Platform Software VRP (R) software, CE6870": "cloudengine",
		"Huawei Versatile Routing Platform Software, S5700":                   "vrp",
		"H3C Comware Platform Software, Software Version 7.1":                 "comware",
		"SRLinux-v23.10.1-218 7220 IXR-D2L":                                   "srlinux",
		"Cumulus-Linux 5.6.0 (Linux Kernel 5.10.189)":                         "linux",
		"Linux leaf1 6.1.0-13-amd64 #1 SMP":                                   "linux", "Mellanox SN2700": "", "": "", "videos": "",
	} {
		if got := Platform(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// Names that differ by their domains only are kept apart; whoever tells none is called as it was
// named.
func TestDeviceNames(t *testing.T) {
	list := []Scanned{
		{Target: "192.0.2.1", Listing: &counters.Listing{Name: "leaf1.a.net"}}, {Target: "192.0.2.2", Listing: &counters.Listing{Name: "leaf1.b.net"}},
		{Target: "192.0.2.3", Listing: &counters.Listing{Name: "spine1.a.net"}}, {Target: "tor.example.net", Listing: &counters.Listing{}},
		{Target: "x", Listing: &counters.Listing{Name: "same"}}, {Target: "y", Listing: &counters.Listing{Name: "same"}},
	}
	if got, want := fmt.Sprint(deviceNames(list)), "[leaf1.a.net leaf1.b.net spine1 tor.example.net x y]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Two switches that differ by their domains alone are told apart, and never confused.
func TestSameNameInTwoDomains(t *testing.T) {
	listing := func(name string, neighbors ...counters.Neighbor) *counters.Listing {
		l := &counters.Listing{Name: name, Description: "SONiC", Neighbors: neighbors}
		for _, port := range []string{"p1", "p2", "p3"} {
			l.Interfaces = append(l.Interfaces, counters.Interface{Name: port, Speed: 10e9, OperStatus: "up", Uses: []string{"ifHCOutOctets"}})
		}
		return l
	}
	at := func(port, system, peer string) counters.Neighbor {
		return counters.Neighbor{Port: port, System: system, PeerPort: peer, PeerKind: counters.NamePortID}
	}
	d := FromLLDP("test", []Scanned{
		{Target: "a", Address: "192.0.2.1", Listing: listing("leaf1.pod1.example.net")},
		{Target: "b", Address: "192.0.2.2", Listing: listing("leaf1.pod2.example.net")},
		{Target: "c", Address: "192.0.2.3", Listing: listing("spine1.example.net", at("p1", "leaf1.pod1.example.net", "p1"), at("p2", "LEAF1.pod2.example.net", "p1"), at("p3", "leaf1", "p2"))},
	})
	var got []string
	for _, c := range d.Cables {
		got = append(got, c.A.String()+" "+c.B.String())
	}
	if want := "spine1:p1 leaf1.pod1.example.net:p1, spine1:p2 leaf1.pod2.example.net:p1"; strings.Join(got, ", ") != want {
		t.Errorf("%s, want %s", strings.Join(got, ", "), want)
	}
	if notes := strings.Join(d.Notes, "\n"); !strings.Contains(notes, "spine1:p3: its neighbour, leaf1 p2, may be one of several devices: FILL IN its cable") {
		t.Errorf("notes: %s", notes)
	}
}

// TestNamesOfTwoDomains: the short name of a switch in another domain is not that of one here.
func TestNamesOfTwoDomains(t *testing.T) {
	known := newCalled[int]()
	known.learn("leaf1", 1) // of the fleet file
	known.learn("leaf1.dc1.example.net", 1)
	known.learn("leaf2", 2)
	for name, want := range map[string]int{"leaf1": 1, "LEAF1.dc1.example.net": 1, "leaf1.dc2.example.net": 0, "leaf2.dc1.example.net": 2, "": 0} {
		if got, ok, several := known.find(name); got != want || ok != (want > 0) || several {
			t.Errorf("%q: %d, %v, %v, want %d", name, got, ok, several, want)
		}
	}
}
