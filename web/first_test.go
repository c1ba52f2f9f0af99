package web

import (
	"fmt"
	"slices"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/web/webtest"
)

// TestLongFirstScreen: what a reader sees without scrolling answers where the bottleneck is, since
// when, and whether all of it is current.
func TestLongFirstScreen(t *testing.T) {
	t.Parallel()
	m := newMoving(t, 2, 2)
	m.at(0)
	for _, p := range []struct {
		device, port string
		load         uint64
	}{{"leaf1", "Ethernet204", 99e9}, {"leaf2", "Ethernet8", 90e9}} {
		m.set(p.device, p.port, loaded(100e9, p.load))
	}
	host := serve(t, m.fleet, m.names, m.agents)
	b := webtest.New(t, webtest.Options{}, host)
	b.Window(1440, 900)
	b.Open("http://" + host + "/")
	b.Await(`document.getElementById("now").textContent.startsWith("4 switches: 4 live. Oldest signal: ")`)
	const worst = `[...document.querySelectorAll("#worst li")].map((li) => li.querySelector("a").textContent + li.querySelector(".peer").textContent + " " + li.querySelector(".figure").innerText.replace(/\s+/g, " "))`
	b.Await(worst + `[0] === "leaf1:Ethernet204 → spine1:Ethernet4 1.0 % left 1 Gbit/s"`)
	if got := webtest.Eval[[]string](b, worst); len(got) != 5 || got[1] != "leaf2:Ethernet8 → gpu-7 10.0 % left 10 Gbit/s" {
		t.Errorf("the worst are %q", got)
	}
	if low := webtest.Eval[float64](b, `Math.max(...["#worst", "#map", "#table"].map((s) => document.querySelector(s).getBoundingClientRect()).map((r, i) => (i ? r.top : r.bottom)))`); low > 500 {
		t.Errorf("the bottlenecks end, and the map and the table begin, %v px below the top", low)
	}

	// On the map, too, with figures on each half of a link that a port leaves.
	b.Await(`document.querySelector('#map .badge[data-rank="1"]')`)
	if n := webtest.Eval[int](b, `[...document.querySelectorAll("#map .figure")].filter((e) => /^[0-9.]+G [0-9.]+ %$/.test(e.textContent)).length`); n != 16 {
		t.Errorf("figures of %d ports on the map, of 16", n)
	}
	if got := webtest.Eval[[]string](b, `[...document.querySelectorAll("#map .switch .name")].map((e) => e.textContent)`); !slices.Equal(got, []string{"spine1", "spine2", "leaf1", "leaf2"}) {
		t.Errorf("the switches stand in the order %q", got)
	}
	if n := webtest.Eval[int](b, `document.querySelectorAll("#map .host").length`); n != 8 {
		t.Errorf("%d hosts on the map, of 8", n)
	}
	// What all switches say alike is said once, and folded.
	if got := webtest.Eval[[]string](b, `[...document.querySelectorAll("#caveats li")].map((e) => e.textContent)`); len(got) != 4 || got[0] != "degraded: update: counters are cached for 1 s (all 4 switches)" {
		t.Errorf("the caveats are %q", got)
	}
	if webtest.Eval[bool](b, `document.getElementById("caveats").open`) {
		t.Error("the caveats are not folded")
	}

	// Another port becomes the worst.
	m.set("spine2", "Ethernet8", loaded(100e9, 995e8))
	b.Await(worst + `[0].startsWith("spine2:Ethernet8 → leaf2:Ethernet204 0.5 % left")`)
	b.Await(`/^below 5 % since [0-9:]{8}/.test(document.querySelector("#worst .since").textContent)`)

	// What is not live is named with its reason, and is no bottleneck.
	m.set("spine2", "Ethernet8", func(p *api.Port) {
		p.State, p.Reason, p.WindowStart, p.WindowEnd, p.Signals = api.StateStale, "the lease ended 3s ago", nil, nil, nil
	})
	b.Await(`document.getElementById("ill").innerText === "spine2:Ethernet8 ? stale: the lease ended 3s ago"`)
	b.Await(worst + `[0].startsWith("leaf1:Ethernet204")`)
	b.Await(`document.getElementById("now").textContent.startsWith("4 switches: 3 live, 1 stale. ")`)
	if unnamed := b.Unnamed(); len(unnamed) > 0 {
		t.Errorf("without a name: %q", unnamed)
	}

	// With keys: from the top to the worst port's page.
	for range 20 {
		b.Type(kb.Tab)
		if webtest.Eval[bool](b, `document.activeElement.matches("#worst a")`) {
			break
		}
	}
	b.Type(kb.Enter)
	b.Await(`location.pathname === "/port" && document.querySelector("#load svg")`)
	if unnamed := b.Unnamed(); len(unnamed) > 0 {
		t.Errorf("the page of a port, without a name: %q", unnamed)
	}

	// On a narrow screen nothing is cut off, and the figures of the map lie on no others.
	b.Window(390, 844)
	b.Open("http://" + host + "/")
	b.Await(`document.querySelectorAll("#map .switch").length === 4 && document.querySelectorAll("#map .tick").length === 8 && document.querySelectorAll("#rows tr").length === 16`)
	for _, part := range []string{"body", "#map", "#worst", "#table"} {
		if right := webtest.Eval[float64](b, fmt.Sprintf(`document.querySelector(%q).getBoundingClientRect().right`, part)); right > 390 {
			t.Errorf("%s ends %v px from the left, of 390", part, right)
		}
	}
	legible(t, b)
	picture(t, b, "first-390")
	b.Prefer("forced-colors", "active")
	picture(t, b, "first-390-contrast")
}

// legible wants the names and the figures of the map within it, and none on another.
func legible(t *testing.T, b *webtest.Browser) {
	t.Helper()
	if cut := webtest.Eval[[]string](b, `(() => {
		const map = document.getElementById("map").getBoundingClientRect(), out = [];
		const all = [...document.querySelectorAll("#map .figure, #map .name")].map((e) => [e.textContent, e.getBoundingClientRect()]);
		all.forEach(([text, r], i) => {
			if (r.left < map.left || r.right > map.right) out.push(text + " leaves the map");
			for (const [other, o] of all.slice(i + 1)) if (text && other && r.left < o.right && o.left < r.right && r.top < o.bottom && o.top < r.bottom) out.push(text + " lies on " + other);
		});
		return out;
	})()`); len(cut) > 0 {
		t.Errorf("on the map: %q", cut)
	}
}
