package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/plans/assess"
	"github.com/csig-agent/csig/vendors/all"
	"github.com/csig-agent/csig/vendors/openflow"
)

// mixedFleet is 200 devices of every platform: eight transit switches of each that
// csig has no driver for, or has one for, between Linux leaves with two hosts
// each. told is whether the file has levels for half of those that cannot
// update, strips before the others, and has a TPID that all drivers take; else it
// is what a user who does not know CSIG would write. drivers are the platforms that csig
// has one for, of those that it has one for today.
func mixedFleet(t *testing.T, told bool, drivers ...string) *inventory.Fleet {
	t.Helper()
	const devices, each = 200, 7
	r := all.Default()
	names := slices.DeleteFunc(r.Platforms(), func(name string) bool { return name == "linux-ebpf" }) // the leaves' twin
	leaves := devices - each*(len(names)-1)
	var b, links strings.Builder
	tpid, apart, optIn := "0x9900", "", ""
	if told { // a TPID that every driver can give its ports
		tpid, apart, optIn = "0x88a8", "vlan_tpids: [0x8100]\n", "experimental: true, "
	}
	b.WriteString("format: csig.fleet/v1\n" + apart + "profile: {name: mixed, tpid: " + tpid + ", interval: 1s, signals: {abw: {buckets: log-100G}}}\n")
	b.WriteString("defaults: {" + optIn + "port: {speed: 100G, mtu: 9216}}\ngroups:\n")
	b.WriteString("  bridges: {level: {is: passthrough, reason: it only bridges tagged frames}}\n")
	b.WriteString("  native: {level: {is: native, reason: its own software has set it up}}\n")
	b.WriteString("devices:\n")
	port := map[int]int{}
	strips := map[[2]int]bool{}
	next := 0
	cable := func(device, far string, strip bool) {
		leaf := next % leaves
		next++
		port[leaf]++
		strips[[2]int{leaf, 2 + port[leaf]}] = strip
		fmt.Fprintf(&links, "  leaf-%d:swp%d - %s:%s\n", leaf+1, 2+port[leaf], device, far)
	}
	for _, name := range names {
		p, err := r.Platform(name)
		if err != nil {
			t.Fatal(err)
		}
		if name == "linux" {
			continue
		}
		for i := 1; i <= each; i++ {
			group := ""
			if name == "ovs" {
				group = ", management: {ovs: {bridge: csig}}"
			}
			if slices.Contains(openflow.Names, name) {
				group = fmt.Sprintf(", address: %s-%d, management: {openflow: {plaintext: true, ordinary_vlans: not-parsed}, daemon: {at: here, socket: /run/csig/%[1]s-%[2]d.sock}}", name, i)
			}
			if name == "eos" && told {
				group = ", management: {eos: {forwarding: [{in_port: e1, port: e2}, {in_port: e2, port: e1}]}}"
			}
			if told && p.Offline().ConfigUpdates != nil {
				group += ", updates: cli, lease: none"
			}
			passive := !slices.Contains(drivers, name) || p.Offline().SetupOnly // it updates no tags
			switch {
			case slices.Contains([]string{"nxos", "iosxr", "junos-ex", "junos-qfx", "junos-mx"}, name): // over SSH
			case p.Offline().SetupOnly:
				group = fmt.Sprintf(", address: %s-%d, management: {gnmi: {plaintext: true}, daemon: {at: here, socket: /run/csig/%[1]s-%[2]d.sock}}", name, i)
			}
			if told && p.Open != nil && !slices.Contains(drivers, name) {
				group += ", experimental: false"
			}
			known := told && i > each/2 && passive
			switch native := p.Offline().Traits.Native.Is; {
			case known && native != "":
				group += ", groups: native"
			case known:
				group += ", groups: bridges"
			}
			fmt.Fprintf(&b, "  - {name: %s-%d, platform: %s%s}\n", name, i, name, group)
			for _, far := range []string{"e1", "e2"} {
				cable(fmt.Sprintf("%s-%d", name, i), far, told && !known && passive)
			}
		}
	}
	for leaf := range leaves {
		fmt.Fprintf(&b, "  - {name: leaf-%d, platform: linux, ports: [{name: \"swp[1-2]\"}", leaf+1)
		for k := 3; k <= 2+port[leaf]; k++ {
			fmt.Fprintf(&b, ", {name: swp%d", k)
			if strips[[2]int{leaf, k}] {
				b.WriteString(", action: strip")
			}
			b.WriteString("}")
		}
		b.WriteString("]}\n")
	}
	b.WriteString("hosts: [{name: \"gpu-[1-" + fmt.Sprint(2*leaves) + "]\", csig: true, mtu: 9000}]\nlinks: |\n")
	for leaf := range leaves {
		for k := range 2 {
			fmt.Fprintf(&b, "  leaf-%d:swp%d - gpu-%d\n", leaf+1, k+1, 2*leaf+k+1)
		}
	}
	b.WriteString(links.String())
	fleet, err := inventory.Parse("fabric.yaml", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return fleet
}

// assessed is a mixed fleet, with all drivers of today, and what csig assess makes of it.
type assessed struct {
	fleet *inventory.Fleet
	is    *assess.Assessment
}

var mixedFleets = map[bool]assessed{}

// assessedMixed is the fleet that is told, or the other one. It takes a second to assess, and so does it once.
func assessedMixed(t *testing.T, told bool) assessed {
	t.Helper()
	m := mixedFleets[told]
	if m.fleet == nil {
		m.fleet = mixedFleet(t, told, all.Default().Drivers()...)
		m.is = assessOf(t, m.fleet)
		mixedFleets[told] = m
	}
	return m
}

// A fleet of every platform: what csig assess and csig plan print of it offline,
// for a fleet file with the levels that csig cannot know, and for one that has
// not.
func TestMixedFleet(t *testing.T) {
	for _, tc := range []struct {
		name string
		told bool
	}{{"told", true}, {"untold", false}} {
		m := assessedMixed(t, tc.told)
		fleet, a := m.fleet, m.is
		p, err := plans.Build(fleet, device.NewOpener(fleet).Offline, plans.Options{Offline: true, Version: "test", InventoryHash: "of no file", Now: time.Unix(1_800_000_000, 0)})
		if err != nil {
			t.Fatal(err)
		}
		if (len(p.Errors()) == 0) != tc.told {
			t.Errorf("%s: %d errors", tc.name, len(p.Errors()))
		}
		files := map[string]string{"assess.txt": assessText(a, false, 100), "plan.txt": planText(p, nil, 100)}
		if tc.told { // one device of each kind
			var some []string
			for _, g := range assessGroups(a, false) {
				some = append(some, g.Names[0])
			}
			var object, plan bytes.Buffer
			if err := errors.Join(printJSON(&object, a.Only(some)), p.Write(&plan)); err != nil {
				t.Fatal(err)
			}
			files["assess.json"], files["plan.json"] = object.String(), plan.String()
		}
		for name, got := range files {
			file := filepath.Join("testdata", "mixed", tc.name+"."+name)
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil || got != string(want) {
				t.Errorf("%s (%v; a new platform changes it, and a new fact: go test ./cmd/csig -run TestMixedFleet -update)", file, err)
			}
			if strings.HasSuffix(name, ".json") && strings.Contains(got, "null") {
				t.Errorf("%s has a null in it", name)
			}
			for line := range strings.Lines(got) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); strings.HasSuffix(name, ".txt") && n > 100 {
					t.Errorf("%s: %d columns: %s", file, n, line)
				}
			}
		}
	}
}

// What nothing drives is refused by name before anything is opened.
func TestNoDriverIsRefused(t *testing.T) {
	fleet := assessedMixed(t, false).fleet
	r := device.NewOpener(fleet)
	for name, want := range map[string]string{
		"iosxe-1": "csig has no driver for Cisco IOS XE (csig platforms iosxe): give it the level that it has in the fleet file, and make a new plan", "leaf-1": "csig does not know how to reach it",
	} {
		if _, err := r.Open(t.Context(), name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	d, _ := fleet.Device("iosxe-3")
	if s := r.Observe(t.Context(), d, time.Minute); s.Err != nil || s.NoDriver == "" || s.Facts.Platform != "iosxe" {
		t.Errorf("online: %+v", s)
	}
}
