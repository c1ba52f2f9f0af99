package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/plans"
)

// Devices that are driven in different ways are no group, and groups say their
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
