package netbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
)

func example(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../examples/netbox", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// draft is the fleet file of some files.
func draft(t testing.TB, roles []string, files ...string) (string, error) {
	t.Helper()
	var x Export
	for i, text := range files {
		if err := x.Read(fmt.Sprintf("file%d", i), strings.NewReader(text)); err != nil {
			return "", err
		}
	}
	d, err := x.Draft("a test", roles)
	if err != nil {
		return "", err
	}
	text, err := d.YAML()
	return string(text), err
}

// The REST API's JSON of the fabric of examples/netbox, as far as it is looked at.
const devicesJSON = `{"count": 6, "next": null, "previous": null, "results": [
{"id": 1, "url": "http://netbox/api/dcim/devices/1/", "name": "leaf1", "device_type": {"manufacturer": {"name": "Arista"}, "model": "DCS-7050CX3-32S"}, "role": {"name": "leaf"}, "platform": {"name": "Arista EOS"}, "status": {"value": "active", "label": "Active"}, "primary_ip": {"address": "192.0.2.11/24"}, "tags": [{"name": "canary"}]},
{"id": 2, "url": "http://netbox/api/dcim/devices/2/", "name": "leaf2", "device_type": {"manufacturer": {"name": "Edgecore"}, "model": "AS7726-32X"}, "role": {"name": "leaf"}, "platform": {"name": "SONiC"}, "status": {"value": "active"}, "primary_ip": {"address": "192.0.2.12/24"}, "tags": []},
{"id": 3, "url": "http://netbox/api/dcim/devices/3/", "name": "leaf3", "device_type": {"manufacturer": {"name": "Edgecore"}, "model": "AS7726-32X"}, "role": {"name": "leaf"}, "platform": null, "status": {"value": "planned"}, "primary_ip": null},
{"id": 4, "url": "http://netbox/api/dcim/devices/4/", "name": "spine1", "device_type": {"manufacturer": {"name": "Mellanox"}, "model": "SN2700"}, "role": {"name": "spine"}, "platform": null, "status": {"value": "active"}, "primary_ip": {"address": "192.0.2.21/24"}},
{"id": 5, "url": "http://netbox/api/dcim/devices/5/", "name": "gpu1", "device_type": {"model": "SYS-421GE"}, "role": {"name": "server"}, "status": {"value": "active"}},
{"id": 6, "url": "http://netbox/api/dcim/devices/6/", "name": null, "device_type": {"model": "PDU"}, "role": {"name": "pdu"}, "status": {"value": "active"}}
]}`

func ifaceJSON(device, name, kind string, mtu, kbps, peer string) string {
	dev, port, _ := strings.Cut(peer, ":")
	peers := "[]"
	peerType := "null"
	if dev != "" {
		peers, peerType = fmt.Sprintf(`[{"url": "http://netbox/api/dcim/interfaces/9/", "device": {"name": %q}, "name": %q, "cable": {"id": 1}}]`, dev, port), `"dcim.interface"`
	}
	return fmt.Sprintf(`{"url": "http://netbox/api/dcim/interfaces/7/", "device": {"name": %q}, "name": %q, "type": {"value": %q, "label": "x"}, "enabled": true, "mgmt_only": %t, "mtu": %s, "speed": %s,
 "link_peers_type": null, "link_peers": [], "connected_endpoints_type": %s, "connected_endpoints": %s, "cable": null}`, device, name, kind, strings.HasPrefix(name, "Man"), mtu, kbps, peerType, peers)
}

func interfacesJSON(peers bool) string {
	list := [][6]string{
		{"leaf1", "Ethernet1", "100gbase-x-qsfp28", "9214", "null", "spine1:swp1"},
		{"leaf1", "Ethernet2", "100gbase-x-qsfp28", "9214", "25000000", "gpu1:eth0"},
		{"leaf1", "Ethernet3", "100gbase-x-qsfp28", "null", "null", ""},
		{"leaf1", "Management1", "1000base-t", "null", "null", ""},
		{"leaf1", "Vlan100", "virtual", "null", "null", ""},
		{"leaf2", "Ethernet0", "100gbase-x-qsfp28", "null", "null", "spine1:swp2"},
		{"leaf2", "Ethernet4", "25gbase-x-sfp28", "null", "null", "gpu2:eth0"},
		{"spine1", "swp1", "100gbase-x-qsfp28", "9214", "null", "leaf1:Ethernet1"},
		{"spine1", "swp2", "40gbase-x-qsfpp", "null", "null", "leaf2:Ethernet0"},
	}
	var out []string
	for _, p := range list {
		if !peers {
			p[5] = ""
		}
		out = append(out, ifaceJSON(p[0], p[1], p[2], p[3], p[4], p[5]))
	}
	return "[" + strings.Join(out, ",\n") + "]"
}

const cablesJSON = `{"next": null, "results": [
{"url": "http://netbox/api/dcim/cables/1/", "type": "", "status": {"value": "connected"}, "a_terminations": [{"object_type": "dcim.interface", "object": {"device": {"name": "leaf1"}, "name": "Ethernet1"}}], "b_terminations": [{"object_type": "dcim.interface", "object": {"device": {"name": "spine1"}, "name": "swp1"}}]},
{"url": "http://netbox/api/dcim/cables/2/", "status": {"value": "connected"}, "a_terminations": [{"object_type": "dcim.interface", "object": {"device": {"name": "gpu1"}, "name": "eth0"}}], "b_terminations": [{"object_type": "dcim.interface", "object": {"device": {"name": "leaf1"}, "name": "Ethernet2"}}]},
{"url": "http://netbox/api/dcim/cables/3/", "status": {"value": "connected"}, "a_terminations": [{"object_type": "dcim.interface", "object": {"device": {"name": "spine1"}, "name": "swp2"}}], "b_terminations": [{"object_type": "dcim.interface", "object": {"device": {"name": "leaf2"}, "name": "Ethernet0"}}]},
{"url": "http://netbox/api/dcim/cables/4/", "status": {"value": "connected"}, "a_terminations": [{"object_type": "dcim.interface", "object": {"device": {"name": "leaf2"}, "name": "Ethernet4"}}], "b_terminations": [{"object_type": "dcim.interface", "object": {"device": {"name": "gpu2"}, "name": "eth0"}}]},
{"url": "http://netbox/api/dcim/cables/5/", "status": {"value": "planned"}, "a_terminations": [{"object_type": "dcim.interface", "object": {"device": {"name": "leaf1"}, "name": "Ethernet3"}}], "b_terminations": [{"object_type": "dcim.interface", "object": {"device": {"name": "spine1"}, "name": "swp3"}}]},
{"url": "http://netbox/api/dcim/cables/6/", "status": {"value": "connected"}, "a_terminations": [{"object_type": "dcim.powerport", "object": {"device": {"name": "leaf1"}, "name": "PSU1"}}], "b_terminations": []}
]}`

const cablesCSV = "ID,Label,Termination A,Termination B,Device A,Device B,Status,Type\n" +
	"1,,Ethernet1,swp1,leaf1,spine1,Connected,\n2,,eth0,Ethernet2,gpu1,leaf1,Connected,\n3,,swp2,Ethernet0,spine1,leaf2,Connected,\n" +
	"4,,Ethernet4,eth0,leaf2,gpu2,Connected,\n5,,Ethernet3,swp3,leaf1,spine1,Planned,\n6,,PSU1,,leaf1,,Connected,\n"

// Whatever NetBox is asked for, the fleet is the same, up to what it left out.
func TestFormats(t *testing.T) {
	roles := []string{"Leaf", "spine"}
	devices, interfaces := example(t, "netbox_devices.csv"), example(t, "netbox_interfaces.csv")
	lines := func(text string) string {
		var out []string
		for line := range strings.Lines(text) {
			if !strings.Contains(line, "left out") {
				out = append(out, line)
			}
		}
		return strings.Join(out, "")
	}
	want, err := draft(t, roles, devices, interfaces)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := inventory.Parse("fleet.yaml", []byte(want)); err != nil || len(f.Devices) != 3 || len(f.Links()) != 4 {
		t.Fatalf("%v\n%s", err, want)
	}
	noPeers := strings.NewReplacer("Connection", "Other").Replace(interfaces)
	for name, files := range map[string][]string{
		"json":                       {devicesJSON, interfacesJSON(true)},
		"json, cables":               {devicesJSON, interfacesJSON(false), cablesJSON},
		"both":                       {interfacesJSON(true), devices, cablesCSV},
		"csv, cables":                {devices, noPeers, cablesCSV},
		"csv with ; and a byte mark": {"\ufeff" + strings.ReplaceAll(devices, ",", ";"), strings.ReplaceAll(noPeers, ",", ";"), cablesJSON},
		"cables as imported": {devices, noPeers, "side_a_device,side_a_type,side_a_name,side_b_device,side_b_type,side_b_name\n" +
			"leaf1,dcim.interface,Ethernet1,spine1,dcim.interface,swp1\nleaf1,dcim.interface,Ethernet2,gpu1,dcim.interface,eth0\n" +
			"leaf2,dcim.interface,Ethernet0,spine1,dcim.interface,swp2\nleaf2,dcim.interface,Ethernet4,gpu2,dcim.interface,eth0\nleaf1,dcim.powerport,PSU1,pdu,dcim.poweroutlet,1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := draft(t, roles, files...)
			if err != nil {
				t.Fatal(err)
			}
			if lines(got) != lines(want) {
				t.Errorf("%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestMistakes(t *testing.T) {
	devices, interfaces := example(t, "netbox_devices.csv"), example(t, "netbox_interfaces.csv")
	for _, tt := range []struct {
		want  string
		files []string
	}{
		{"it is empty", []string{""}},
		{"neither devices, interfaces nor cables", []string{"a,b\n1,2\n"}},
		{"neither devices, interfaces nor cables", []string{`{"detail": "Authentication credentials were not provided."}`}},
		{"neither devices, interfaces nor cables", []string{`[{"name": "site1"}]`}},
		{"one page of several", []string{`{"next": "http://netbox/api/dcim/devices/?limit=50&offset=50", "results": []}`}},
		{"without the columns Device A and Device B", []string{"Label,Termination A,Termination B\n"}},
		{"no device: name the export", []string{interfaces}},
		{"no interface: name the export", []string{devices}},
		{"two devices are called leaf1", []string{devices, devices, interfaces}},
		{"object 1:", []string{`[{"name": {}}]`}},
		{"unexpected EOF", []string{`{"results": [{"url": "x`}},
		{"no switch with a port", []string{devices, "Name,Device,Type\nswp1,other,SFP+ (10GE)\n"}},
	} {
		if _, err := draft(t, nil, tt.files...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.files, err, tt.want)
		}
	}
	if _, err := draft(t, []string{"access"}, devices, interfaces); err == nil || !strings.Contains(err.Error(), "their roles are leaf, server, spine") {
		t.Errorf("%v", err)
	}
}

func TestSpeeds(t *testing.T) {
	for kind, want := range map[string]uint64{
		"100base-tx": 100e6, "1000base-x-sfp": 1e9, "2.5gbase-t": 2500e6, "10gbase-x-sfpp": 10e9, "400gbase-x-qsfpdd": 400e9, "1.6tbase-dr8": 1600e9,
		"100BASE-TX (10/100ME)": 100e6, "1000BASE-BX10-D (1GE BiDi Down)": 1e9, "2.5GBASE-T (2.5GE)": 2500e6, "SFP+ (10GE)": 10e9, "OSFP1600 (1.6TE)": 1600e9,
		"10GBASE-CU (10GE DAC Passive Twinax)": 10e9, "QSFP28 (128GFC)": 0, "virtual": 0, "Link Aggregation Group (LAG)": 0, "IEEE 802.11ax (Wi-Fi 6)": 0, "EPON (1 Gbps)": 0, "5g": 0,
	} {
		if got, physical := speedOf(kind); got != want || physical != (want > 0) {
			t.Errorf("%s: %d, %t; want %d", kind, got, physical, want)
		}
	}
}

// What no fleet file can have is left out, and said; whatever a cell has, the file loads and
// has no line of the cell's own.
func TestHostileCells(t *testing.T) {
	const evil = "\x1b[2J\u202e #: - {x}\n"
	devices := "Name,Status,Role,Type,IP Address,Platform,Tags\n" +
		`"leaf one",Active,leaf,x,192.0.2.1,linux,` + "\n" +
		"leaf2,Active,leaf,\"" + evil + "\",\"" + evil + "\",\"" + evil + "\",\"" + evil + ",ok\"\n" +
		"leaf3,Active,leaf,x,192.0.2.3,linux,\nleaf4,Active,leaf,x,192.0.2.3,linux,\n"
	interfaces := "Name,Device,Type,MTU,Connection\n" +
		"swp1,leaf2,SFP+ (10GE),99999999,leaf3 > swp1\n\"" + evil + "\",leaf2,SFP+ (10GE),,leaf3 > swp2\nswp1,leaf3,SFP+ (10GE),,leaf2 > swp1\n" +
		"a-name-that-is-too-long-for-linux,leaf3,SFP+ (10GE),,printer > lan\nswp3,leaf3,SFP+ (10GE),,\"" + evil + " > x\"\n" +
		"swp4,leaf3,SFP+ (10GE),,\"leaf2 > swp5, leaf2 > swp6\"\nswp1,leaf4,SFP+ (10GE),,leaf one > swp1\n"
	text, err := draft(t, nil, devices, interfaces)
	if err != nil {
		t.Fatal(err)
	}
	f, err := inventory.Parse("fleet.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(text, "\x1b\u202e") || len(f.Devices) != 3 || len(f.Links()) != 1 {
		t.Errorf("%d devices, %v\n%s", len(f.Devices), f.Links(), text)
	}
	for _, want := range []string{"device leaf one is left out", "a Linux interface name has at most 15 bytes", "device leaf4 has the address of leaf3", "leaf3:swp4 leads to several ports", "tags: [\"ok\"]"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(example(f, "netbox_devices.csv"), example(f, "netbox_interfaces.csv"))
	f.Add(devicesJSON, interfacesJSON(true))
	f.Add(devicesJSON, cablesJSON)
	f.Fuzz(func(t *testing.T, a, b string) {
		text, err := draft(t, nil, a, b, devicesJSON, interfacesJSON(true))
		if err != nil && strings.Contains(err.Error(), "bug in csig") {
			t.Fatal(err)
		}
		if strings.ContainsAny(text, "\x1b\u202e\x00") {
			t.Fatalf("%q", text)
		}
	})
}
