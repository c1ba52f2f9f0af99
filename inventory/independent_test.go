package inventory

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// many is a right fleet with room for a mistake of each kind.
const many = `format: csig.fleet/v1
profile:
  name: lab
  tpid: 0x9900
  interval: 1s
  signals: {abw: {buckets: log-100G}}
  locator:
    - {name: stage, bits: 2, values: {leaf: 1, spine: 2}}
    - {name: port, bits: 5}
policy: {on_stale: strip}
groups:
  leaf: {platform: linux, port: {lm: {stage: leaf}}}
devices:
  - {name: l1, platform: linux, ports: [{name: swp1, lm: {stage: leaf, port: 1}}, {name: swp2, lm: {stage: leaf, port: 2}}, {name: swp3, mtu: 9216, lm: 35}]}
  - {name: l2, platform: linux, port: {lm: {stage: leaf}}, ports: [{name: swp1}, {name: swp2, speed: 25G}, {name: swp3, peer: "l5:swp3"}]}
  - {name: l3, platform: linux, port: {lm: {stage: leaf}}}
  - {name: l4, groups: [leaf], address: 192.0.2.4, ports: [{name: swp1, action: update}]}
  - {name: l5, platform: linux, port: {lm: {stage: leaf}}, ports: [{name: swp3, peer: "l2:swp3"}, {name: swp4}, {name: swp5, peer: h3}]}
  - {name: l6, platform: linux, ports: [{name: swp1, lm: {stage: spine}}]}
hosts: [{name: h1, mtu: 9000}, {name: h2}, h3]
links:
  - l1:swp1 - l2:swp1
  - l3:swp1 - l4:swp1
  - l5:swp4 - h1
  - l1:swp2 - h2
`

// independent are mistakes that have nothing to do with each other, and what
// else is not to be missed because of them.
var independent = [][2]string{
	{"on_stale: strip", "on_stale: stripp"},
	{"lm: {stage: leaf, port: 2}", "lm: {stage: leaf, port: 1}"}, // there twice in the device
	{"mtu: 9216", "mtu: 09216"},
	{"lm: 35", "lm: 127"},
	{"speed: 25G", "speed: -25G"},
	{`peer: "l5:swp3"`, "peer: 'l5:'"},
	{"{name: l3, platform: linux,", "{name: l3,"},
	{"groups: [leaf]", "groups: [lief]"},
	{"address: 192.0.2.4", "address: 192.0.2.444"},
	{"action: update", "action: updat"},
	{"{name: swp4}", "{name: swp4, sped: 1G}"},
	{"peer: h3", "peer: h9"},
	{"{stage: spine}", "{port: 3}"},
	{"mtu: 9000", "mtu: 90"},
	{"- l1:swp2 - h2", "- l1:swp9 - h2"},
	{"- l3:swp1 - l4:swp1", "- l3:swp1 - l4:swp1\n  - l3:swp2 - l8:swp1"},
	{"- l1:swp1 - l2:swp1", "- l1:swp1 - l2:swp1\n  - l6 swp1"},
}

func messagesOf(t *testing.T, changes ...[2]string) []string {
	t.Helper()
	text := many
	for _, c := range changes {
		if strings.Count(text, c[0]) != 1 {
			t.Fatalf("%q is not once in the right file", c[0])
		}
		text = strings.Replace(text, c[0], c[1], 1)
	}
	_, err := Parse("fleet.yaml", []byte(text))
	var list Errors
	if err != nil && !errors.As(err, &list) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Msg)
	}
	slices.Sort(out)
	return out
}

// TestAllMistakesInOneRun makes mistakes one by one, two by two, and all at
// once: each is found, and nothing is that only follows from one.
func TestAllMistakesInOneRun(t *testing.T) {
	if got := messagesOf(t); got != nil {
		t.Fatalf("the right file is refused: %q", got)
	}
	alone := make([][]string, len(independent))
	var every []string
	for i, m := range independent {
		if alone[i] = messagesOf(t, m); len(alone[i]) != 1 {
			t.Errorf("%q is %d mistakes: %q", m[1], len(alone[i]), alone[i])
		}
		every = append(every, alone[i]...)
		for j := range i {
			want := slices.Sorted(slices.Values(slices.Concat(alone[i], alone[j])))
			if got := messagesOf(t, m, independent[j]); !slices.Equal(got, want) {
				t.Errorf("%q and %q: got %q, want %q", m[1], independent[j][1], got, want)
			}
		}
	}
	slices.Sort(every)
	if got := messagesOf(t, independent...); !slices.Equal(got, every) {
		t.Errorf("all at once: got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(every, "\n"))
	}
}
