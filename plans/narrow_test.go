package plans

import (
	"bytes"
	"strings"
	"testing"

	"github.com/csig-agent/csig/findings"
)

// TestNarrow wants what concerns one device, in its place in the whole, and
// refuses to read it as a plan to carry out.
func TestNarrow(t *testing.T) {
	whole := &Plan{
		Format: Format, Devices: []Device{{Device: "a"}, {Device: "b"}},
		Stages: []Stage{
			{Name: "fence", Waves: []Wave{{Name: "rest", Steps: []Step{{ID: 1, Device: "a"}}}}},
			{Name: "ready", Waves: []Wave{{Name: "rest", Steps: []Step{{ID: 2, Device: "a"}, {ID: 3, Device: "b"}}}}},
		},
		Findings: []findings.Finding{{Reason: "all"}, {Device: "a", Reason: "one"}, {Device: "b", Reason: "two"}, {Device: "a", Peers: []string{"b"}, Reason: "both"}},
	}
	if whole.Narrow(nil) != whole {
		t.Error("it is narrowed to no device")
	}
	p := whole.Narrow([]string{"b"})
	var messages []string
	for _, f := range p.Findings {
		messages = append(messages, f.Reason)
	}
	if got := strings.Join(messages, " "); got != "all two both" {
		t.Errorf("findings: %s", got)
	}
	if len(p.Devices) != 1 || len(p.Stages) != 2 || len(p.Stages[0].Waves) != 0 || len(p.Stages[1].Waves[0].Steps) != 1 || p.Stages[1].Waves[0].Steps[0].ID != 3 {
		t.Errorf("got %+v", p)
	}
	if len(whole.Stages[1].Waves[0].Steps) != 2 || whole.Stages[1].Waves[0].Steps[0].Device != "a" || whole.Findings[1].Reason != "one" {
		t.Error("the whole plan is not what it was")
	}
	for _, names := range [][]string{{"b"}, {"a"}, {"a", "b"}} {
		var text bytes.Buffer
		if err := whole.Narrow(names).Write(&text); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), `"only":["`) {
			t.Errorf("%v: its JSON does not say so: %s", names, text.String())
		}
		if _, err := Read(&text); err == nil || !strings.Contains(err.Error(), "narrowed") {
			t.Errorf("%v: read, %v", names, err)
		}
	}
}
