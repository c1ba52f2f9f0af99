package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans/assess"
	"github.com/csig-agent/csig/vendors/all"
)

// uplinks is what becomes of tags at uplinks of a mixed fleet: the cables between a Linux
// leaf and a switch.
type uplinks struct{ update, native, pass, strip int }

func (u *uplinks) add(v uplinks) {
	u.update, u.native, u.pass, u.strip = u.update+v.update, u.native+v.native, u.pass+v.pass, u.strip+v.strip
}

func (u uplinks) all() int { return u.update + u.native + u.pass + u.strip }

// mixedUplinks counts the uplinks of a fleet, by the platform of the switch, as csig assess
// judges both of their ends.
func mixedUplinks(t *testing.T, fleet *inventory.Fleet, is *assess.Assessment) map[string]uplinks {
	t.Helper()
	type end struct{ platform, action, level string }
	ends := map[string]end{}
	for _, d := range is.Devices {
		for _, ports := range d.Ports {
			for _, port := range ports.Ports {
				ends[d.Device+":"+port] = end{d.Platform, ports.Action, ports.Level}
			}
		}
	}
	out := map[string]uplinks{}
	for _, l := range fleet.Links() {
		leaf, far := ends[l.A.String()], ends[l.B.String()]
		if leaf.platform != "linux" {
			leaf, far = far, leaf
		}
		if far.platform == "" { // a host
			continue
		}
		var u uplinks
		switch update := "update"; {
		case leaf.platform != "linux" || leaf.level != inventory.LevelSoftware.String():
			t.Fatalf("%s: %+v is no leaf that updates", l, leaf)
		case leaf.action == "strip", far.level == inventory.LevelDiscard.String(): // the file has it otherwise, and csig assess requires it
			u.strip++
		case leaf.action == update && far.action == update && far.level == inventory.LevelSoftware.String():
			u.update++
		case leaf.action == update && far.level == inventory.LevelNative.String():
			u.native++
		case leaf.action == update && far.level == inventory.LevelPassthrough.String():
			u.pass++
		default:
			t.Fatalf("%s: from %+v to %+v", l, leaf, far)
		}
		sum := out[far.platform]
		sum.add(u)
		out[far.platform] = sum
	}
	return out
}

// docs/assess.md has how many uplinks of a mixed fleet update with the first three drivers, and
// with today's.
func TestMixedUplinks(t *testing.T) {
	first := []string{"linux", "ovs", "sonic"} // those that had a driver before hardware OpenFlow and command lines
	then, today := mixedFleet(t, true, first...), assessedMixed(t, true)
	before := mixedUplinks(t, then, assessOf(t, then))
	drivers := all.Default().Drivers()
	now := mixedUplinks(t, today.fleet, today.is)

	var names []string
	var was, is uplinks
	alike := map[[2]uplinks][]string{}
	var rows [][2]uplinks
	for name := range now {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		row := [2]uplinks{before[name], now[name]}
		if alike[row] == nil {
			rows = append(rows, row)
		}
		alike[row] = append(alike[row], name)
		was.add(row[0])
		is.add(row[1])
		if (row[0].update > 0) != slices.Contains(first, name) {
			t.Errorf("%s: %d uplinks update before it has a driver", name, row[0].update)
		}
		if row[1].update > 0 && !slices.Contains(drivers, name) || row[0].all() != row[1].all() || row[1].strip > row[0].strip {
			t.Errorf("%s: before %+v, now %+v", name, row[0], row[1])
		}
	}
	if len(names) != len(all.Default().Platforms())-2 { // but the leaves' own, and its twin
		t.Errorf("switches of %d platforms", len(names))
	}

	var b strings.Builder
	b.WriteString("| switches of | uplinks of each | updated | by the device itself | passed through | stripped |\n|---|---|---|---|---|---|\n")
	cell := func(was, is int) string {
		if was == is {
			return fmt.Sprint(is)
		}
		return fmt.Sprintf("%d → %d", was, is)
	}
	line := func(name string, all int, was, is uplinks) {
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s |\n", name, all, cell(was.update, is.update), cell(was.native, is.native), cell(was.pass, is.pass), cell(was.strip, is.strip))
	}
	for _, row := range rows {
		line(strings.Join(alike[row], ", "), row[1].all(), row[0], row[1])
	}
	line("all", is.all(), was, is)

	const page, begin, end = "../../docs/assess.md", "<!-- uplinks: go test ./cmd/csig -run TestMixedUplinks -update -->\n", "<!-- end of uplinks -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no table of uplinks", page)
	}
	want := head + begin + b.String() + end + tail
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("%s: the table of uplinks is not\n%s: go test ./cmd/csig -run TestMixedUplinks -update", page, b.String())
	}
}
