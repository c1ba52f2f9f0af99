package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
)

func TestBriefly(t *testing.T) {
	pods := func(n int, families ...string) (out []string) {
		for i := range n {
			for _, f := range families {
				out = append(out, fmt.Sprintf("%s-%d-%d", f, i/32, i%32+1))
			}
		}
		return out
	}
	shuffled := pods(1024, "leaf", "spine")
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for _, tc := range []struct {
		name  string
		names []string
		want  string
	}{
		{"none", nil, ""},
		{"few, as they are", []string{"spine-1", "leaf-1", "leaf-2", "leaf-3"}, "spine-1, leaf-1 … leaf-3"},
		{"interleaved", pods(4, "leaf", "spine"), "leaf-0-1 … leaf-0-4, spine-0-1 … spine-0-4"},
		{"interleaved, many", pods(1024, "leaf", "spine"), "leaf-0-1 … leaf-31-32 (1,024), spine-0-1 … spine-31-32 (1,024)"},
		{"many families", pods(40, "a", "b", "c", "d", "e", "f", "g", "h"), "a-0-1 … a-0-32, a-1-1 … a-1-8, b-0-1 … b-0-32, b-1-1 … b-1-8, c-0-1 … c-0-32, c-1-1 … c-1-8, d-0-1 … d-0-32, d-1-1 … d-1-8, e-0-1 … e-0-32, e-1-1 … e-1-8, f-0-1 … f-0-32, f-1-1 … f-1-8, and 80 more"},
		{"gaps", []string{"s1", "s3", "s5", "s7", "s9", "s11", "s13"}, "s1 … s13 (7)"},
	} {
		if got := briefly(tc.names); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	if got := briefly(shuffled); !strings.Contains(got, "leaf-0-1 … leaf-31-32 (1,024)") || !strings.Contains(got, "spine-0-1 … spine-31-32 (1,024)") {
		t.Errorf("in no order: %q", got)
	}
}

// TestLargeFleetIsReadable bounds what is printed of a fleet where each device
// has the same trouble with another name in it.
func TestLargeFleetIsReadable(t *testing.T) {
	var text strings.Builder
	text.WriteString("format: csig.fleet/v1\nprofile: {name: p, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-100G}}}\n" +
		"defaults: {platform: linux, level: {is: passthrough, reason: old}}\nhosts: [{name: \"h-[0-199]\", csig: true}]\ndevices:\n")
	for i := range 200 {
		fmt.Fprintf(&text, "  - {name: leaf-%d-%d, ports: [{name: swp1, peer: h-%d}, {name: swp2, peer: \"old-%d-%d:swp1\"}]}\n", i/30, i%30, i, i/30, i%30)
		fmt.Fprintf(&text, "  - {name: old-%d-%d, platform: ios, level: {is: discard, reason: old}, ports: [{name: swp1, peer: \"leaf-%d-%d:swp2\"}]}\n", i/30, i%30, i/30, i%30)
	}
	fleet, err := inventory.Parse("fleet.yaml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	p, err := plans.Build(fleet, device.NewOpener(fleet).Offline, plans.Options{Offline: true, Now: time.Unix(1_800_000_000, 0)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 { // texts of a later planner
		name := fmt.Sprintf("leaf-%d-%d", i/30, i%30)
		p.Findings = append(p.Findings, findings.Finding{
			Code: findings.MTUTooSmall, Level: findings.Error, Device: name, Ports: []string{"swp1"}, Peers: []string{fmt.Sprintf("h-%d", i)},
			Reason: fmt.Sprintf("frames of %d bytes with their tags do not fit", 1500+i),
		})
	}
	a := assessOf(t, fleet)
	for name, got := range map[string]string{
		"plan": planText(p, nil, 80), "plan --markdown": planMarkdown(p, nil), "assess": assessText(a, false, 80), "assess --markdown": assessMarkdown(a),
		"plan --device": planText(p, []string{"leaf-3-7"}, 80), "plan --device --markdown": planMarkdown(p, []string{"leaf-3-7"}),
	} {
		lines := strings.Split(got, "\n")
		widest := 0
		for _, l := range lines {
			widest = max(widest, utf8.RuneCountInString(l))
		}
		most := 100
		if strings.Contains(name, "markdown") {
			most = 2500
		}
		if len(lines) > 150 || widest > most {
			t.Errorf("%s: %d lines, %d columns:\n%.3000s", name, len(lines), widest, got)
		}
		if strings.Contains(name, "--device") && (strings.Contains(got, "leaf-3-8") || !strings.Contains(got, "leaf-3-7")) {
			t.Errorf("%s: not narrowed:\n%s", name, got)
		}
		if name == "plan" && !strings.Contains(got, "(200)") {
			t.Errorf("the findings are not counted:\n%s", got)
		}
	}
}
