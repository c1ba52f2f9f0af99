package inventory

import (
	"strings"
	"testing"
)

func TestSelect(t *testing.T) {
	f, err := Parse("fleet.yaml", []byte(`
format: csig.fleet/v1
profile: {name: p, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-1G}}}
defaults: {platform: linux, port: {speed: 1G}}
groups:
  leaf: {tags: tor, ports: [{name: p1}]}
  spine: {ports: [{name: p1}]}
devices:
  - {name: "leaf-[1-12]", groups: leaf}
  - {name: leaf-13, groups: [leaf, spine], tags: canary}
  - {name: spine-1, groups: spine}
`))
	if err != nil {
		t.Fatal(err)
	}
	for selectors, want := range map[string]string{
		"leaf-2":              "leaf-2",
		"leaf-[2,11-13]":      "leaf-2 leaf-11 leaf-12 leaf-13",
		"leaf-1?":             "leaf-10 leaf-11 leaf-12 leaf-13",
		"*-1":                 "leaf-1 spine-1",
		"spine-1 leaf-3":      "leaf-3 spine-1",
		"tag:canary spine-*":  "leaf-13 spine-1",
		"group:spine":         "leaf-13 spine-1",
		"group:spine leaf-13": "leaf-13 spine-1",
		"leaf-[1-2]*":         "leaf-1 leaf-2 leaf-10 leaf-11 leaf-12 leaf-13",

		"":            ": fleet.yaml has no such device",
		"leaf-14":     "leaf-14: fleet.yaml has no such device",
		"core-*":      "core-*: fleet.yaml has no such device",
		"tag:canry":   `tag:canry: fleet.yaml has no device with that tag: did you mean "canary"?`,
		"group:spin":  `group:spin: fleet.yaml has no device in that group: did you mean "spine"?`,
		"tag:":        "tag:: fleet.yaml has no device with that tag",
		"leaf-[2-1]":  "[2-1] runs backwards",
		"leaf-[":      "a [ without its ]",
		"a\x1b[2J]b":  "[2J] is not a range",
		"\\*\x1b":     "·: fleet.yaml has no such device",
		"leaf-1 nono": "nono: fleet.yaml has no such device",
	} {
		got, err := f.Select(strings.Split(selectors, " "))
		if strings.Contains(want, ":") || strings.Contains(want, "[") {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("%q: %v, want %q", selectors, err, want)
			}
			continue
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %v, %v, want %s", selectors, got, err, want)
		}
	}
	if got, err := f.Select(nil); got != nil || err != nil {
		t.Errorf("nothing: %v, %v", got, err)
	}
	// A flat file has no groups: it says everything of each device.
	text, err := Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	flat, err := Parse("flat.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := flat.Select([]string{"group:leaf"}); err == nil {
		t.Error("a flat file has groups")
	}
}
