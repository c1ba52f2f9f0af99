package inventory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// docParts are the blocks of fleet files on pages of docs/ that are no whole file, by page and first
// line. Those with a completion are made one: it goes behind their line "profile:".
var docParts = map[string]string{
	"agent.md management:":                         "",
	"agent.md - name: vs2":                         "",
	"controller.md - name: vs2":                    "",
	"fleet.md defaults:":                           "",
	"fleet.md links: |":                            "",
	"fleet.md devices:":                            "",
	"fleet.md profile:":                            "",
	"linux.md management:":                         "",
	"mesh.md mesh:":                                "",
	"native.md profile:":                           "  name: lab\n  signals: {abw: {buckets: log-10G, quantum: 1Mbit/s}}\n",
	"nxos.md - name: spine1":                       "",
	"openflow.md management:":                      "",
	"operations.md scrape_configs:":                "",
	"operations.md policy:":                        "",
	"qualify.md include: [qualify-sw1/facts.yaml]": "",
	"rollout.md hosts:":                            "",
	"sai.md devices:":                              "",
	"hosts.md hosts:":                              "",
	"sonic.md management:":                         "",
}

// TestDocFleets has every fleet file that a page shows accepted, written and read again, with what
// an agent of each device starts from; a block that is none is listed above.
func TestDocFleets(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	whole, seen := 0, map[string]bool{}
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for block := range strings.SplitSeq(string(text), "```yaml") {
			_, block, _ = strings.Cut(block, "\n") // a file's name may be behind "yaml"
			block, _, ok := strings.Cut(block, "```")
			if !ok || strings.HasPrefix(string(text), block) {
				continue
			}
			first, _, _ := strings.Cut(strings.TrimSpace(block), "\n")
			if first == "format: "+Format {
				if _, rest, _ := strings.Cut(strings.TrimSpace(block), "\n"); strings.HasPrefix(rest, "include:") {
					continue // of files that the page does not show
				}
			} else {
				name := filepath.Base(page) + " " + first
				completion, known := docParts[name]
				if !known {
					if strings.Contains(block, ":") && strings.Contains(string(text), "```yaml\n"+block) {
						t.Errorf("the block %q is neither a fleet file nor listed as a part of one", name)
					}
					continue
				}
				seen[name] = true
				if completion == "" {
					continue
				}
				block = "format: " + Format + "\n" + strings.Replace(block, "profile:\n", "profile:\n"+completion, 1)
			}
			whole++
			f, err := Parse(filepath.Base(page), []byte(block))
			if err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			roundTrip(t, f)
			for i := range f.Devices {
				if _, err := Marshal(f.DeviceView(&f.Devices[i])); err != nil {
					t.Errorf("%s: %s: an agent does not start from it: %v", page, f.Devices[i].Name, err)
				}
			}
		}
	}
	for name := range docParts {
		if !seen[name] {
			t.Errorf("no page has the block %q", name)
		}
	}
	if whole < 2 {
		t.Errorf("%d fleet files found: this test checks next to nothing", whole)
	}
}
