package linux

import (
	"cmp"
	"strings"
	"testing"
)

func TestDecide(t *testing.T) {
	on := offloads{known: true, segmentation: []string{"tso", "tx-udp-segmentation"}, vlan: []string{"txvlan"}}
	off := offloads{known: true}
	vlanOnly := offloads{known: true, vlan: []string{"txvlan", "tx-vlan-stag-hw-insert"}}
	fixed := offloads{known: true, segmentation: []string{"tso"}, fixed: []string{"tx-tcp-segmentation"}}
	tbf := qdisc{handle: 7 << 16, kind: "tbf", counts: true, rate: 100e6}
	wireTBF := tbf
	wireTBF.overhead = 24
	stab := qdisc{kind: "htb", counts: true, stab: true}

	const none = 1 // nothing is reported
	tests := []struct {
		name      string
		port      Port
		dev       device
		qdisc     bool
		speed     uint64 // that is the capacity
		from      string
		reported  uint64   // in the samples; 0: the same
		degraded  []string // each contained, in order; none is exact
		pieces    int      // how many reasons
		notesHave string
	}{
		{name: "hardware", dev: device{bus: "pci", linkSpeed: 25e9, offloads: on, root: qdisc{kind: "mq", counts: true}}, speed: 25e9, from: "ethtool", notesHave: "not verified"},
		{name: "hardware, tagged", port: Port{Tagged: true}, dev: device{bus: "pci", linkSpeed: 25e9, offloads: on}, speed: 25e9, from: "ethtool"},
		{name: "hardware, link down", dev: device{bus: "pci"}},
		{name: "hardware, shaped below the link", dev: device{bus: "pci", linkSpeed: 1e9, root: wireTBF}, speed: 100e6, from: "tbf rate"},
		{name: "hardware, shaped above the link", dev: device{bus: "pci", linkSpeed: 10e6, root: tbf}, speed: 10e6, from: "ethtool"},
		{name: "a part of the link is configured", port: Port{Speed: 5e8}, dev: device{bus: "pci", linkSpeed: 1e9}, speed: 5e8, from: "configuration", reported: 1e9},
		{name: "slower than configured", port: Port{Speed: 1e9}, dev: device{bus: "pci", linkSpeed: 100e6}, speed: 100e6, from: "ethtool"},
		{name: "slower than configured, override", port: Port{Speed: 1e9, Override: true}, dev: device{bus: "pci", linkSpeed: 10e6}, speed: 1e9, from: "configuration", reported: 10e6},
		{name: "shaped below the configured speed", port: Port{Speed: 5e9}, dev: device{bus: "pci", linkSpeed: 1e9, root: wireTBF}, speed: 100e6, from: "tbf rate"},
		{name: "shaped below the configured speed, without overhead", port: Port{Speed: 5e9}, dev: device{bus: "pci", linkSpeed: 1e9, root: tbf}, speed: 100e6, from: "tbf rate", degraded: []string{"`overhead 24`"}, pieces: 1},
		{name: "shaped below the configured speed, override", port: Port{Speed: 5e9, Override: true}, dev: device{bus: "pci", linkSpeed: 1e9, root: tbf}, speed: 5e9, from: "configuration", reported: 100e6},
		{name: "shaped above the configured speed", port: Port{Speed: 5e7}, dev: device{bus: "pci", linkSpeed: 1e9, root: tbf}, speed: 5e7, from: "configuration", reported: 100e6},
		{name: "configured, link down", port: Port{Speed: 5e7}, dev: device{bus: "pci"}, speed: 5e7, from: "configuration", reported: none},
		{name: "veth", dev: device{kind: "veth", offloads: on, root: qdisc{kind: "noqueue"}}, degraded: []string{"run `ethtool -K PORT tso off tx-udp-segmentation off`"}, pieces: 1, notesHave: "beside the frame"},
		{name: "veth, nothing known", dev: device{kind: "veth"}, degraded: []string{"offloads cannot be read"}, pieces: 1},
		{name: "veth, offloads fixed", dev: device{kind: "veth", offloads: fixed}, degraded: []string{"tx-tcp-segmentation cannot be switched off"}, pieces: 1},
		{name: "veth, offloads off", dev: device{kind: "veth", offloads: off}},
		{name: "veth, offloads off and shaped", dev: device{kind: "veth", offloads: off, root: wireTBF}, speed: 100e6, from: "tbf rate"},
		{name: "veth, shaped", dev: device{kind: "veth", offloads: on, root: wireTBF}, qdisc: true, speed: 100e6, from: "tbf rate"},
		{name: "veth, shaped without overhead", dev: device{kind: "veth", offloads: on, root: tbf}, qdisc: true, speed: 100e6, from: "tbf rate", degraded: []string{"`overhead 24`"}, pieces: 1},
		{name: "veth, shaped, configured", port: Port{Speed: 1e8}, dev: device{kind: "veth", offloads: on, root: tbf}, qdisc: true, speed: 1e8, from: "configuration"},
		{name: "veth, size table", port: Port{Speed: 1}, dev: device{kind: "veth", offloads: on, root: stab}, qdisc: true, speed: 1, from: "configuration", reported: none, degraded: []string{"size table (stab) of its htb"}, pieces: 1},
		{name: "veth, cake", port: Port{Speed: 1}, dev: device{kind: "veth", offloads: on, root: qdisc{kind: "cake", counts: true}}, qdisc: true, speed: 1, from: "configuration", reported: none, degraded: []string{"cake"}, pieces: 1},
		{name: "veth, tagged", port: Port{Tagged: true}, dev: device{kind: "veth", offloads: vlanOnly}, degraded: []string{"run `ethtool -K PORT txvlan off tx-vlan-stag-hw-insert off`"}, pieces: 1},
		{name: "veth, tagged, super-frames", port: Port{Tagged: true}, dev: device{kind: "veth", offloads: on}, degraded: []string{"run `ethtool -K PORT tso off tx-udp-segmentation off`", "run `ethtool -K PORT txvlan off`"}, pieces: 2},
		{name: "veth, tagged, all off", port: Port{Tagged: true}, dev: device{kind: "veth", offloads: off}},
		{name: "veth, tagged, shaped", port: Port{Tagged: true}, dev: device{kind: "veth", offloads: on, root: wireTBF}, qdisc: true, speed: 100e6, from: "tbf rate", degraded: []string{"4 bytes each: run `ethtool -K PORT tso off tx-udp-segmentation off txvlan off`"}, pieces: 1},
		{name: "veth, tagged, shaped, fixed", port: Port{Tagged: true}, dev: device{kind: "veth", offloads: fixed, root: wireTBF}, qdisc: true, speed: 100e6, from: "tbf rate", degraded: []string{"has to do"}, pieces: 1},
		{name: "veth, tagged, nothing known", port: Port{Tagged: true}, dev: device{kind: "veth"}, degraded: []string{"shape the port", "4 bytes each: its offloads cannot be read"}, pieces: 2},
		{name: "virtio counts in its driver", dev: device{bus: "virtio", linkSpeed: 0, offloads: on, root: qdisc{kind: "fq_codel", counts: true}}, qdisc: true},
		{name: "no kind, no bus", dev: device{offloads: on}, degraded: []string{"super-frame"}, pieces: 1},
		{name: "bond", dev: device{kind: "bond", offloads: off}, degraded: []string{"name its members as ports"}, pieces: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.port.Name = "p"
			before := strings.Join(tt.dev.offloads.segmentation, ",")
			v := decide(&tt.port, &tt.dev)
			if v.fromQdisc != tt.qdisc || v.Speed != tt.speed || v.SpeedFrom != tt.from {
				t.Errorf("qdisc %v, speed %d from %q; want %v, %d, %q", v.fromQdisc, v.Speed, v.SpeedFrom, tt.qdisc, tt.speed, tt.from)
			}
			if want := cmp.Or(tt.reported, tt.speed); v.reported != want && (want != none || v.reported != 0) {
				t.Errorf("reported %d, want %d", v.reported, want)
			}
			pieces := 0
			if v.Degraded != "" {
				pieces = 1 + strings.Count(v.Degraded, "; ")
			}
			rest := v.Degraded
			for _, d := range tt.degraded {
				_, after, ok := strings.Cut(rest, d)
				if !ok {
					t.Errorf("degraded %q lacks %q", v.Degraded, d)
				}
				rest = after
			}
			if pieces != tt.pieces {
				t.Errorf("%d reasons, want %d: %q", pieces, tt.pieces, v.Degraded)
			}
			if !strings.Contains(strings.Join(v.Notes, "\n"), tt.notesHave) {
				t.Errorf("notes %q lack %q", v.Notes, tt.notesHave)
			}
			if strings.Join(tt.dev.offloads.segmentation, ",") != before {
				t.Error("decide changed the device")
			}
		})
	}
}

func TestWhoCountsInSoftware(t *testing.T) {
	shaped := qdisc{kind: "tbf", counts: true}
	for _, tt := range []struct {
		name string
		dev  device
		want bool
	}{
		{"veth", device{kind: "veth"}, true},
		{"virtio", device{bus: "virtio"}, true},
		{"hardware", device{bus: "pci"}, false},
		{"hardware, shaped", device{bus: "pci", root: shaped}, false},
		{"bond", device{kind: "bond"}, false},
		{"bond, shaped: its qdisc counts", device{kind: "bond", root: shaped}, true},
		{"switch behind a port", device{kind: "dsa"}, false},
		{"unknown", device{}, false},
	} {
		if v := decide(&Port{Name: "p"}, &tt.dev); v.live != tt.want {
			t.Errorf("%s: live is %v", tt.name, v.live)
		}
	}
}
