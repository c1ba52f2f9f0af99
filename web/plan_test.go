package web

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/web/webtest"
)

// TestLongPlanPage: a plan that is handed over is shown with how far the devices are; one that was
// altered is refused, and no plan is none.
func TestLongPlanPage(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "up.plan")
	p := &plans.Plan{
		Format: plans.Format, Created: time.Now().UTC(), Version: "test", Fleet: "/fleet.yaml", Goal: plans.RollOut, Stages: []plans.Stage{},
		Totals: plans.Totals{Add: 3, Change: 1, Devices: 2},
		Devices: []plans.Device{
			{Device: "s1", Platform: "linux", Config: "new", Changes: []plans.Change{{Kind: "+", Ports: "swp1, swp2", Count: 2, What: "update abw", Detail: "LM 5"}, {Kind: "~", What: "TPID", Disruptive: "the port flaps <b>once</b>"}}},
			{Device: "s2", Platform: "linux", Config: "other", Changes: []plans.Change{{Kind: "+", Ports: "swp1", Count: 1, What: "strip"}}},
			{Device: "s3", Platform: "sonic", Changes: []plans.Change{}},
		},
		Findings: []findings.Finding{{Code: findings.Lease, Level: findings.Warning, Device: "s1", Reason: "it cannot expire rules"}},
	}
	var text bytes.Buffer
	if err := p.Write(&text); err != nil {
		t.Fatal(err)
	}
	s1 := status("s1", live("swp1", 10e9, 1e9))
	s1.ConfigHash = "old"
	a := &agents{of: map[string]*api.Status{"s1": s1}}
	cfg := one(t)
	cfg.Plan, cfg.Status, cfg.Fleet = file, a.status, func() (*inventory.Fleet, []string) { return nil, []string{"s1"} }
	host := run(t, cfg).Addr().String()
	b := webtest.New(t, webtest.Options{}, host)
	b.Window(1200, 700)
	b.Open("http://" + host + "/plan")
	b.Await(`document.getElementById("about").textContent.endsWith("is not there: csig plan -o writes it")`)

	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	rows := func(want string) {
		t.Helper()
		b.Await(`[...document.querySelectorAll("#changes tr")].map((tr) => tr.innerText).join("|") === ` + "`" + want + "`")
	}
	const rest = "s1\t\t~ change\tthe switch\tTPID (disruptive: the port flaps <b>once</b>)|s2\tnot known here\t+ add\tswp1\tstrip"
	rows("s1\tpending\t+ add\tswp1, swp2\tupdate abw: LM 5|" + rest)
	b.Await(`document.getElementById("totals").textContent.startsWith("3 to add, 1 to change, 0 to remove. 1 of 2 switches")`)
	b.Await(`document.getElementById("notes").textContent.includes("s1: it cannot expire rules")`)
	picture(t, b, "plan")
	a.mu.Lock()
	s1.ConfigHash = "new"
	a.mu.Unlock()
	rows("s1\tcarried out\t+ add\tswp1, swp2\tupdate abw: LM 5|" + rest)

	if err := os.WriteFile(file, bytes.Replace(text.Bytes(), []byte("LM 5"), []byte("LM 6"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	b.Await(`document.getElementById("about").textContent.includes("was altered after it was made") && document.querySelectorAll("#changes tr").length === 0`)
}

// TestLongPlanAgain: the page of a plan is live again once its server is, also where nothing has changed.
func TestLongPlanAgain(t *testing.T) {
	t.Parallel()
	cfg := one(t)
	cfg.Plan = filepath.Join(t.TempDir(), "up.plan")
	s, stop := start(t, cfg)
	cfg.Addr = s.Addr().String()
	b := webtest.New(t, webtest.Options{}, cfg.Addr)
	b.Open("http://" + cfg.Addr + "/plan")
	b.Await(`document.getElementById("about").textContent.includes("is not there")`)
	stop()
	b.Await(`document.getElementById("about").textContent.startsWith("Not live")`)
	_, stop = start(t, cfg)
	defer stop()
	b.Await(`document.getElementById("about").textContent.includes("is not there")`)
	b.Problems() // of the server that was gone
}

// TestReadOnce: what many browsers ask for all the time is made once, and again where it has changed.
func TestReadOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "up.plan")
	write := func(version string) {
		t.Helper()
		var text bytes.Buffer
		p := &plans.Plan{Format: plans.Format, Created: time.Now().UTC(), Version: version, Fleet: "/fleet.yaml", Goal: plans.RollOut, Stages: []plans.Stage{}, Devices: []plans.Device{}, Findings: []findings.Finding{}}
		if err := p.Write(&text); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var p planFile
	version := func(want string) {
		t.Helper()
		if a := p.now(file, nil); a.Version != want {
			t.Errorf("%+v, want version %s", a, want)
		}
	}
	write("one")
	version("one")
	p.answer.Version = "kept"
	version("kept")
	write("another")
	version("another")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	version("")
	write("again")
	version("again")

	fleet, _, _ := large(t)
	s := new(Server)
	first := s.topology(fleet)
	if again := s.topology(fleet); &again[0] != &first[0] {
		t.Error("the map is drawn twice")
	}
	if other := s.topology(nil); bytes.Equal(other, first) {
		t.Error("another fleet has the same map")
	}
}
