package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/plans"
)

// Devices that are driven in different ways are no group, and groups show their
// way where there is more than one.
func TestPlanGroupsByWay(t *testing.T) {
	p := &plans.Plan{}
	for name, via := range map[string]string{"s1": "netns /a", "s3": "netns /b", "s2": "ssh u@s2, sudo", "s4": "ssh u@s4"} {
		p.Devices = append(p.Devices, plans.Device{Device: name, Platform: "linux", Level: "software", Via: via, Changes: []plans.Change{{Kind: "+", What: "table"}}})
	}
	slices.SortFunc(p.Devices, func(a, b plans.Device) int { return strings.Compare(a.Device, b.Device) })
	heads := func(p *plans.Plan) (out []string) {
		for l := range strings.Lines(planText(p, nil, 80)) {
			if strings.HasPrefix(l, "  s") {
				out = append(out, strings.TrimSpace(l))
			}
		}
		return out
	}
	if got, want := heads(p), []string{"s1, s3 (2 alike): linux, netns, software", "s2, s4 (2 alike): linux, ssh, software"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	p.Devices = []plans.Device{p.Devices[0], p.Devices[2]}
	if got, want := heads(p), []string{"s1, s3 (2 alike): linux, software"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestMarkdownText: a device's text stays text in a change ticket.
func TestMarkdownText(t *testing.T) {
	for in, want := range map[string]string{
		"eth0, 25 Gbit/s (ok) - 1.2":          "eth0, 25 Gbit/s (ok) - 1.2",
		"[click](https://evil.example)":       `\[click\](https&#58;//evil.example)`,
		"![x](//evil.example/a.png)":          `!\[x\](//evil.example/a.png)`,
		"www.evil.example":                    "www&#46;evil.example",
		"<img src=x onerror=alert(1)>":        "&lt;img src=x onerror=alert(1)>",
		"&#91;x&#93;":                         "&amp;#91;x&amp;#93;",
		"a|b\n| c | d |":                      `a\|b \| c \| d \|`,
		"**not met** ~~met~~ `x` _y_ \\*z\\*": "\\*\\*not met\\*\\* \\~\\~met\\~\\~ \\`x\\` \\_y\\_ \\\\\\*z\\\\\\*",
	} {
		if got := mdText(in); got != want {
			t.Errorf("mdText(%q) = %q, want %q", in, got, want)
		}
	}
}
