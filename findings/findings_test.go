package findings

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the table of docs/findings.md")

// TestPageListsEveryCode holds the table of docs/findings.md against the codes.
func TestPageListsEveryCode(t *testing.T) {
	const page, begin, end = "../docs/findings.md", "| code | meaning |\n|---|---|\n", "\n\n"
	var want strings.Builder
	for _, m := range Codes() {
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(string(m.Code)) {
			t.Errorf("%q is not kebab-case", m.Code)
		}
		want.WriteString("| `" + string(m.Code) + "` | " + m.Meaning + " |\n")
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	if !ok {
		t.Fatalf("%s has no table of codes", page)
	}
	table, after, ok := strings.Cut(rest, end)
	if ok {
		after = end + after
	}
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+strings.TrimSuffix(want.String(), "\n")+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if strings.TrimSpace(table) != strings.TrimSpace(want.String()) {
		t.Errorf("%s lists other codes: go test ./findings -update", page)
	}
}

func TestTwoFindingsNeverShareACode(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a code was taken twice")
		}
	}()
	code(NotReached, "again")
}

func TestMergedFindingsDifferInPortsAndPeersAlone(t *testing.T) {
	one := Finding{Code: PeerDiscards, Level: Error, Device: "a", Ports: []string{"p1"}, Peers: []string{"x"}, Reason: "old"}
	port, device, reason, level, code := one, one, one, one, one
	port.Ports, port.Peers = []string{"p2"}, []string{"x", "y"}
	device.Device, reason.Reason, level.Level, code.Code = "b", "new", Warning, PortIssue
	got := Merge([]Finding{one, device, port, reason, level, code})
	want := one
	want.Ports, want.Peers = []string{"p1", "p2"}, []string{"x", "y"}
	if !reflect.DeepEqual(got, []Finding{want, device, reason, level, code}) {
		t.Errorf("got %+v", got)
	}
	if len(one.Ports) != 1 || len(port.Peers) != 2 {
		t.Error("what was merged has changed")
	}
}

func TestText(t *testing.T) {
	for want, f := range map[string]Finding{
		"why":                      {Reason: "why"},
		"a: why":                   {Device: "a", Reason: "why"},
		"a:p1 … p3 to h1, h2: why": {Device: "a", Ports: []string{"p1", "p2", "p3"}, Peers: []string{"h1", "h2"}, Reason: "why"},
		"h1: why":                  {Peers: []string{"h1"}, Reason: "why"},
		"p1: why":                  {Ports: []string{"p1"}, Reason: "why"},
	} {
		if got := f.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestJSON(t *testing.T) {
	f := Finding{Code: PeerDiscards, Level: Error, Device: "a", Ports: []string{"p1", "p2", "p3"}, Peers: []string{"x"}, Reason: "old"}
	text, err := json.Marshal(f)
	if want := `{"code":"peer-discards","severity":"error","device":"a","port":"p1 … p3","far":"x","message":"old","ports":["p1","p2","p3"],"peers":["x"]}`; err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
	for text, want := range map[string]Finding{
		string(text): f,
		`{"severity":"warning","device":"a","port":"p1 … p3","far":"x","message":"old"}`: {Level: Warning, Device: "a", Ports: []string{"p1 … p3"}, Peers: []string{"x"}, Reason: "old"},
	} {
		var got Finding
		if err := json.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	if err := json.Unmarshal([]byte(`{"kind":"x"}`), &f); err == nil {
		t.Error("an unknown field is taken")
	}
}
