package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans/assess"
)

// assessOf assesses a fleet without asking a device.
func assessOf(t *testing.T, fleet *inventory.Fleet) *assess.Assessment {
	t.Helper()
	evidence, err := gatherEvidence(t.Context(), fleet, &assessOptions{offline: true})
	if err != nil {
		t.Fatal(err)
	}
	return assess.Fleet(fleet, func(d *inventory.Device) assess.Evidence { return evidence[d.Name] }, assess.Options{
		Offline: true, Version: "test", InventoryHash: "of no file", Now: time.Unix(1_800_000_000, 0), // the hash would change with every new key
	})
}

func TestAssessGoldens(t *testing.T) {
	fleet, err := inventory.Load("testdata/assess/mixed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	a := assessOf(t, fleet)
	var page, object bytes.Buffer
	if err := assessHTML(&page, a); err != nil {
		t.Fatal(err)
	}
	if err := printJSON(&object, a); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{
		"mixed.txt": assessText(a, false, 80), "zoom.txt": assessText(a.Only([]string{"asic-1"}), true, 80),
		"mixed.md": assessMarkdown(a), "mixed.html": page.String(), "mixed.json": object.String(),
	} {
		file := filepath.Join("testdata", "assess", name)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || got != string(want) {
			t.Errorf("%s (%v; go test ./cmd/csig -run TestAssessGoldens -update): got\n%s", file, err, got)
		}
	}
	if strings.Contains(object.String(), "null") {
		t.Error("the JSON has a null in it")
	}
	var back assess.Assessment
	if err := json.Unmarshal(object.Bytes(), &back); err != nil || back.Format != "csig.assess/v1" || back.Totals.Devices["all"] != 6 {
		t.Errorf("the JSON reads back as %+v, %v", back.Totals, err)
	}
}

// elements walks a page.
func elements(n *html.Node, visit func(*html.Node)) {
	visit(n)
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		elements(c, visit)
	}
}

// The page stands alone, and shows hostile texts as they are.
func TestAssessHTMLEscapes(t *testing.T) {
	const hostile = `"><script>alert(1)</script><img src=x onerror=y>{{.Fleet}}&amp;`
	fleet, err := inventory.Load("testdata/assess/mixed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	fleet.Path = hostile
	for i := range fleet.Devices {
		d := &fleet.Devices[i]
		d.Platform += hostile
		if d.Level.Reason != "" {
			d.Level.Reason = hostile
		}
		for j := range d.Ports {
			d.Ports[j].Name += hostile
		}
	}
	for i := range fleet.Hosts {
		fleet.Hosts[i].Name += hostile
	}
	var out bytes.Buffer
	if err := assessHTML(&out, assessOf(t, fleet)); err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(&out)
	if err != nil {
		t.Fatal(err)
	}
	text := 0
	elements(root, func(n *html.Node) {
		switch n.Type {
		case html.TextNode:
			text += strings.Count(n.Data, hostile)
		case html.ElementNode:
			switch n.Data {
			case "script", "img", "iframe", "object", "link", "form", "a":
				t.Errorf("the page has a %s", n.Data)
			}
			for _, attr := range n.Attr {
				if strings.HasPrefix(attr.Key, "on") || attr.Key == "src" || attr.Key == "href" || strings.Contains(attr.Val, "alert") {
					t.Errorf("<%s %s=%q>", n.Data, attr.Key, attr.Val)
				}
			}
		}
	})
	if text < 10 {
		t.Errorf("the texts are there %d times, want more", text)
	}
}

// Markdown keeps to its table, whatever the texts are.
func TestAssessMarkdownEscapes(t *testing.T) {
	fleet, err := inventory.Load("testdata/assess/mixed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for i := range fleet.Devices {
		fleet.Devices[i].Level.Reason = "a | b\n| <script> `x` **y**"
	}
	for line := range strings.Lines(assessMarkdown(assessOf(t, fleet))) {
		if strings.HasPrefix(line, "| ") {
			if n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|"); n != 6 && n != 7 && n != 3 {
				t.Errorf("%d cells: %s", n-1, line)
			}
		}
		if strings.Contains(line, "<script") {
			t.Error(line)
		}
	}
}

// Two thousand devices that are alike are one group, in every output for
// people.
func TestAssessStaysReadable(t *testing.T) {
	fleet, err := inventory.Parse("big.yaml", []byte(`
format: csig.fleet/v1
profile: {name: x, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-100G}}}
defaults:
  platform: linux
groups:
  leaf: {ports: [{name: "swp[1-8]", speed: 25G, mtu: 9216}]}
devices:
  - {name: "leaf-[1-1000]", groups: leaf}
  - {name: "leaf-[1001-2000]", groups: leaf}
`))
	if err != nil {
		t.Fatal(err)
	}
	a := assessOf(t, fleet)
	var page bytes.Buffer
	if err := assessHTML(&page, a); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{"text": assessText(a, false, 80), "Markdown": assessMarkdown(a), "HTML": page.String()} {
		if lines := strings.Count(got, "\n"); lines > 100 || len(got) > 20_000 {
			t.Errorf("the %s has %d lines, %d bytes", name, lines, len(got))
		}
		if !strings.Contains(got, "leaf-1 … leaf-2000") {
			t.Errorf("the %s does not name the devices:\n%s", name, got)
		}
	}
}

func machineOf(ports ...machinePort) *machineResult {
	return &machineResult{Name: "sw", Readings: 10, ShortestNS: 1e6, Ports: ports}
}

// What --init prints loads, and has what is known.
func TestInitFile(t *testing.T) {
	for name, tc := range map[string]struct {
		machine *machineResult
		want    []string // device's ports as "name speed mtu"
		has     string
	}{
		"a bridge": {machineOf(machinePort{Name: "eth0", MTU: 1500, Up: true, Speed: 1e9, SpeedFrom: "ethtool"},
			machinePort{Name: "swp1", MTU: 9216, Bridge: "br0", Speed: 25e9, SpeedFrom: "ethtool", Up: true},
			machinePort{Name: "swp2", MTU: 9216, Bridge: "br0", Speed: 100e9, SpeedFrom: "ethtool"}),
			[]string{"swp1 25000000000 9216", "swp2 100000000000 9216"}, "# - {name: eth0"},
		"no bridge":     {machineOf(machinePort{Name: "eth0", MTU: 1500}, machinePort{Name: "br0", Excluded: "a bridge"}), []string{"eth0 0 1500"}, "FILL IN speed"},
		"strange names": {machineOf(machinePort{Name: "@weird'\"#1", MTU: 1500}, machinePort{Name: "null", MTU: 68}, machinePort{Name: "0x10", MTU: 65536}), []string{"@weird'\"#1 0 1500", "null 0 0", "0x10 0 0"}, ""},
		"a slow source": {&machineResult{Name: "sw", Readings: 10, ShortestNS: 1.5e9, Ports: []machinePort{{Name: "e1", MTU: 1500}}}, []string{"e1 0 1500"}, "interval: 2s"},
		"not seen":      {&machineResult{Name: "sw", Readings: 10, Ports: []machinePort{{Name: "e1", MTU: 1500}}}, []string{"e1 0 1500"}, "could not be seen without traffic"},
		"the fastest's": {machineOf(machinePort{Name: "e1", MTU: 1500, Speed: 30e9, SpeedFrom: "ethtool"}), []string{"e1 30000000000 1500"}, "log-40G"},
		"not all are known": {machineOf(machinePort{Name: "e1", MTU: 1500, Speed: 1e9, SpeedFrom: "ethtool"}, machinePort{Name: "e2", MTU: 1500}), []string{"e1 1000000000 1500", "e2 0 1500"},
			"log-1G}  # FILL IN: named by the fastest link of the domain; here of the 1 of 2 ports whose speed is known"},
		"faster than known": {machineOf(machinePort{Name: "e1", MTU: 1500, Speed: 9e12, SpeedFrom: "ethtool"}), []string{"e1 9000000000000 1500"}, "log-1600G"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := initFile(tc.machine)
			if err != nil {
				t.Fatal(err)
			}
			fleet, err := inventory.Parse("init.yaml", []byte(text))
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			d, err := fleet.LocalDevice()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range d.Ports {
				got = append(got, fmt.Sprint(p.Name, " ", p.Speed, " ", p.MTU))
			}
			if fmt.Sprint(got) != fmt.Sprint(tc.want) || !strings.Contains(text, tc.has) {
				t.Errorf("ports %q, want %q; %q in\n%s", got, tc.want, tc.has, text)
			}
		})
	}
}
