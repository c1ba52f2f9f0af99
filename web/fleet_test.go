package web

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/web/webtest"
)

// large is a fleet of 40 switches with 400 ports: 36 leaves with three hosts each, or four, and
// four spines.
func large(t testing.TB) (*inventory.Fleet, []string, *agents) {
	t.Helper()
	var text strings.Builder
	text.WriteString("format: csig.fleet/v1\nprofile: {name: x, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-100G}}}\ndefaults: {platform: sonic}\ndevices:\n")
	a, names := &agents{of: make(map[string]*api.Status)}, []string(nil)
	ports := make(map[string][]api.Port)
	var links []string
	add := func(device, port string, load uint64) {
		ports[device] = append(ports[device], live(port, 100e9, load))
	}
	for l := 1; l <= 36; l++ {
		leaf := fmt.Sprintf("dc1-leaf-%02d", l)
		names = append(names, leaf)
		for s := 1; s <= 4; s++ {
			spine := fmt.Sprintf("dc1-spine-%d", s)
			up, down := fmt.Sprintf("Ethernet%d", 100+4*s), fmt.Sprintf("Ethernet%d", 4*l)
			links = append(links, fmt.Sprintf("%s:%s - %s:%s", leaf, up, spine, down))
			add(leaf, up, uint64(l*s)*1e9/2)
			add(spine, down, uint64(l)*2e9)
		}
		for h := 1; h <= 3 || h == 4 && l <= 4; h++ {
			port := fmt.Sprintf("Ethernet%d", 4*h)
			links = append(links, fmt.Sprintf("%s:%s - host-%d-%d", leaf, port, l, h))
			add(leaf, port, uint64(h)*1e10)
		}
	}
	for s := 1; s <= 4; s++ {
		spine := fmt.Sprintf("dc1-spine-%d", s)
		names = append(names, spine)
	}
	for _, name := range names {
		fmt.Fprintf(&text, "  - {name: %s}\n", name)
		a.of[name] = status(name, ports[name]...)
	}
	text.WriteString("links: |\n")
	for _, l := range links {
		text.WriteString("  " + l + "\n")
	}
	f, err := inventory.Parse("fleet.yaml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	a.set("dc1-leaf-07", "Ethernet104", loaded(100e9, 98e9))
	ill := func(device, port, state, reason string) {
		a.set(device, port, func(p *api.Port) {
			p.State, p.Reason, p.WindowStart, p.WindowEnd, p.Signals = state, reason, nil, nil, []api.Signal{}
		})
	}
	ill("dc1-leaf-12", "Ethernet108", api.StateStale, "the lease ended 3s ago: no answer")
	ill("dc1-leaf-20", "Ethernet112", api.StateRefused, "the table is full: 64 entries are left of 80")
	ill("dc1-spine-3", "Ethernet16", api.StateDown, "")
	return f, names, a
}

// TestLongPageOfALargeFleet wants 40 switches with 400 ports to be legible and quick, with a
// mouse, with keys alone, on a narrow screen and in the dark.
func TestLongPageOfALargeFleet(t *testing.T) {
	fleet, names, a := large(t)
	host := serve(t, fleet, names, a)
	b := webtest.New(t, webtest.Options{}, host)
	b.Window(1400, 1000)
	b.Open("http://" + host + "/")
	b.Await(`document.querySelectorAll("#rows tr").length === 400`)
	b.Await(`document.querySelectorAll("#map .switch").length === 40`)
	picture(t, b, "large")

	// What is drawn again with each event, in the browser's own time: the quickest of several, as
	// other programs hold some of them up.
	const draw = `performance.getEntriesByType("measure").filter((m) => m.name === "draw").at(-1)`
	took := webtest.Eval[float64](b, draw+".duration")
	for load := range uint64(3) {
		last := webtest.Eval[float64](b, draw+".startTime")
		a.set("dc1-leaf-01", "Ethernet4", loaded(100e9, load*1e9))
		b.Await(fmt.Sprintf("%s.startTime > %f", draw, last+0.01)) // it is kept to the microsecond
		took = min(took, webtest.Eval[float64](b, draw+".duration"))
	}
	t.Logf("the quickest drawing took %.1f ms", took)
	if took > 1000 {
		t.Errorf("drawing 400 ports takes %.0f ms", took)
	}
	// No label of a switch is cut, or lies on another one's.
	if cut := webtest.Eval[string](b, `(() => {
		const boxes = [...document.querySelectorAll("#map .switch")].map((g) => [g.querySelector("text"), g.querySelector("rect").getBoundingClientRect()]);
		const out = [];
		boxes.forEach(([text, r], i) => {
			const t = text.getBoundingClientRect();
			if (t.left < r.left - 1 || t.right > r.right + 1) out.push(text.textContent + " is wider than its box");
			if (t.height < 7) out.push(text.textContent + " is " + t.height + " px high");
			boxes.slice(i + 1).forEach(([other, o]) => { if (r.left < o.right && o.left < r.right && r.top < o.bottom && o.top < r.bottom) out.push(text.textContent + " lies on " + other.textContent); });
		});
		return out.join("; ");
	})()`); cut != "" {
		t.Error(cut)
	}
	// States stand on the map as signs, and in words for a reader who sees none.
	for sign, level := range map[string]string{"▲": "l0", "?": "stale", "✕": "refused", "▼": "down"} {
		if n := webtest.Eval[int](b, fmt.Sprintf(`[...document.querySelectorAll("#map .sign[data-level=%s]")].filter((e) => e.textContent === %q).length`, level, sign)); n != 1 {
			t.Errorf("%d signs of %s on the map", n, level)
		}
	}
	if about := webtest.Eval[string](b, `[...document.querySelectorAll("#map .switch")].find((g) => g.getAttribute("aria-label").startsWith("dc1-leaf-20")).getAttribute("aria-label")`); !strings.Contains(about, "7 ports, 1 not live, the worst: refused") {
		t.Errorf("a switch is called %q", about)
	}

	// Ports that are not known come first, then the least ABW.
	b.Await(`[...document.querySelectorAll("#rows th")].slice(0, 4).map((e) => e.textContent).join(" ") === "dc1-leaf-20:Ethernet112 dc1-leaf-12:Ethernet108 dc1-spine-3:Ethernet16 dc1-leaf-07:Ethernet104"`)

	// With keys alone: from the top to the map, to a switch, to its ports, to a port's page and back.
	focus := func() string {
		return webtest.Eval[string](b, `(document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent).split(":")[0]`)
	}
	b.Type(kb.Tab)
	if got := focus(); got != "Skip to the table" {
		t.Fatalf("the first stop is %q", got)
	}
	for range 30 { // past the states, what is not live and the bottlenecks
		b.Type(kb.Tab)
		if webtest.Eval[bool](b, `document.activeElement.matches("#map .switch")`) {
			break
		}
	}
	b.Await(`document.activeElement.matches("#map .switch")`)
	if from := focus(); from != "dc1-spine-1" {
		t.Errorf("the map begins at %s", from)
	}
	b.Type(kb.ArrowDown)
	from := focus()
	b.Type(kb.ArrowRight)
	next := focus()
	if next == from || !strings.HasPrefix(next, "dc1-leaf") {
		t.Errorf("right of %s is %s", from, next)
	}
	if figures := webtest.Eval[int](b, `[...document.querySelectorAll("#map .switch.on .note")].filter((e) => /^[→←] /.test(e.textContent)).length`); figures != 8 {
		t.Errorf("%d figures of the links of %s to its spines, want 8", figures, next)
	}
	for range 4 { // leaves stand in several lines
		if strings.HasPrefix(focus(), "dc1-spine") {
			break
		}
		b.Type(kb.ArrowUp)
	}
	if up := focus(); !strings.HasPrefix(up, "dc1-spine") {
		t.Errorf("above %s is %s", next, up)
	}
	b.Type(kb.Enter)
	b.Await(`document.activeElement.id === "search" && document.querySelectorAll("#rows tr").length === 36`)
	for range 20 { // past the search, the state, the order and the header to the first port
		b.Type(kb.Tab)
		if webtest.Eval[bool](b, `document.activeElement.matches("#rows a")`) {
			break
		}
	}
	name := webtest.Eval[string](b, `document.activeElement.textContent`)
	b.Type(kb.Enter)
	b.Await(`location.pathname === "/port" && document.querySelector("#load svg")`)
	if title := webtest.Eval[string](b, `document.title`); title != "csig: "+name {
		t.Errorf("the page of %s has the title %q", name, title)
	}

	b.Window(390, 800)
	b.Open("http://" + host + "/")
	b.Await(`document.querySelectorAll("#map .switch").length === 40 && document.querySelectorAll("#rows tr").length === 400`)
	if wide := webtest.Eval[int](b, `document.documentElement.scrollWidth`); wide > 390 {
		t.Errorf("the page is %d px wide on a screen of 390", wide)
	}
	picture(t, b, "large-390")
	b.Prefer("prefers-color-scheme", "dark")
	b.Window(1400, 1000)
	b.Await(`getComputedStyle(document.body).backgroundColor === "rgb(18, 22, 29)"`)
	picture(t, b, "large-dark")
}

// TestLongPortPage wants a port's page to have its history on axes that fit it, its events, how its S came
// about, and a way to its neighbour.
func TestLongPortPage(t *testing.T) {
	t.Parallel()
	m := newMoving(t, 2, 2)
	m.at(0)
	const port = "Ethernet204"
	cfg := one(t)
	cfg.Status, cfg.Fleet = m.status, func() (*inventory.Fleet, []string) { return m.fleet, m.names }
	began := time.Now()
	cfg.Why = func(device, p string) (*api.Why, error) {
		if device != "leaf1" || p != port {
			return nil, fmt.Errorf("asked for %s:%s", device, p)
		}
		at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
		sig := api.Signal{Signal: "abw", Bucket: 26, Low: 83e9, High: 87e9, Unit: "bit/s", Locator: "5"}
		return &api.Why{Format: api.WhyFormat, Records: []api.Record{
			{First: api.Moment{At: at(-9)}, Last: api.Moment{At: at(-5)}, Cycles: 5, State: api.StateLive, Written: true, Signals: []api.Signal{sig}},
			{
				First:  api.Moment{At: at(-4), WindowStart: at(-5), WindowEnd: at(-4), Bits: 12e9, Operations: 2, ProgramNS: 2e6, Buckets: []int{27}},
				Last:   api.Moment{At: at(-1)},
				Cycles: 4, MinABW: 84e9, MaxABW: 86e9, State: api.StateLive, Written: true, Repaired: "<b>rule</b>", Signals: []api.Signal{sig},
			},
		}}, nil
	}
	host := run(t, cfg).Addr().String()
	b := webtest.New(t, webtest.Options{}, host)
	b.Window(1200, 900)
	b.Open("http://" + host + "/port?device=leaf1&port=" + port)
	for _, load := range []uint64{20e9, 80e9, 50e9, 10e9} {
		m.set("leaf1", port, loaded(100e9, load))
		b.Await(fmt.Sprintf(`document.getElementById("facts").innerText.includes("ABW/C\n%.1f %%")`, 100-float64(load)/1e9))
	}
	const axis = `[...document.querySelectorAll("#load .axis.end")].map((e) => e.textContent)`
	if top := webtest.Eval[[]string](b, axis); top[4] != "100 Gbit/s" {
		t.Errorf("of a load of up to 80 Gbit/s the axis has %q", top)
	}
	if times := webtest.Eval[[]string](b, `[...document.querySelectorAll("#load .axis:not(.start, .end)")].map((e) => e.textContent)`); len(times) == 0 || !regexp.MustCompile(`^\d\d:\d\d:\d\d$`).MatchString(times[0]) {
		t.Errorf("the times are %q", times)
	}
	b.Await(`[...document.querySelectorAll("#s .axis.end")].some((e) => e.textContent === "27: 87.1 to 90.3 Gbit/s")`)
	b.Await(`document.querySelector("#neighbour a")?.textContent === "spine1:Ethernet4"`)

	// A capacity that was, and is no longer, does not stretch the axis.
	m.set("leaf1", port, loaded(10e9, 1e9))
	b.Await(`document.getElementById("facts").innerText.includes("Capacity\n10 Gbit/s")`)
	m.set("leaf1", port, func(p *api.Port) {
		p.State, p.Reason, p.WindowStart, p.WindowEnd, p.Signals = api.StateRefused, "the table is full", nil, nil, nil
	})
	b.Await(`document.getElementById("state").textContent === "✕ refused: the table is full"`)
	b.Await(`document.querySelector("#events tr").innerText.includes("live\trefused\tthe table is full")`)
	b.Await(`document.querySelector("#load svg")?.getAttribute("aria-label").includes("Now: load none")`)
	b.Await(`[...document.querySelectorAll("#load .event title")].some((e) => e.textContent.endsWith("Ethernet204: state refused"))`)

	rows := webtest.Eval[[]string](b, `[...document.querySelectorAll("#why tr")].map((tr) => [...tr.children].slice(2).map((e) => e.textContent).join("|"))`)
	want := []string{
		"4|live|abw 26: 83 to 87 Gbit/s (5)|84 Gbit/s to 86 Gbit/s|12000000000 bits in 1.000 s; abw is in bucket 27, damping keeps 26; 2 operations, acknowledged after 2.00 ms|rules had been changed, and were restored: <b>rule</b>",
		"5|live|abw 26: 83 to 87 Gbit/s (5)|–|0 operations, acknowledged after 0.00 ms|",
	}
	if !slices.Equal(rows, want) {
		t.Errorf("S came about by %q, want %q", rows, want)
	}
	if unnamed := b.Unnamed(); len(unnamed) > 0 {
		t.Errorf("without a name: %q", unnamed)
	}
	picture(t, b, "port")
	b.Window(390, 844)
	b.Await(`document.querySelector("#load svg").getBoundingClientRect().right <= 390`)
	if wide := webtest.Eval[int](b, `document.documentElement.scrollWidth`); wide > 390 {
		t.Errorf("the page is %d px wide on a screen of 390", wide)
	}
	picture(t, b, "port-390")

	b.Open(webtest.Eval[string](b, `document.querySelector("#neighbour a").href`))
	b.Await(`document.title === "csig: spine1:Ethernet4" && document.getElementById("why-error").textContent === "asked for spine1:Ethernet4"`)
	b.Open("http://" + host + "/port?device=leaf1&port=nothing")
	b.Await(`document.getElementById("state").textContent.startsWith("There is no such port")`)
	for _, p := range b.Problems() {
		if !strings.Contains(p, "404") {
			t.Errorf("besides the port that is not there: %q", p)
		}
	}
}

// TestLongAxisFits: of a port that is nearly idle the axis is that of its load, and says where the capacity is.
func TestLongAxisFits(t *testing.T) {
	t.Parallel()
	a := &agents{of: map[string]*api.Status{"s1": status("s1", live("swp1", 100e9, 3e9))}}
	host := serve(t, nil, []string{"s1"}, a)
	b := webtest.New(t, webtest.Options{}, host)
	b.Open("http://" + host + "/port?device=s1&port=swp1")
	b.Await(`document.querySelectorAll("#load .axis.end")[4]?.textContent === "3 Gbit/s"`)
	b.Await(`document.getElementById("load").textContent.includes("capacity 100 Gbit/s, above what is shown")`)
	b.Await(`document.getElementById("why-error").textContent === "csig why in a terminal has it"`)
	b.Await(`document.getElementById("neighbour").hidden`)
}

// TestLongPortRemoved: a port whose device is no longer in the fleet is not shown as live.
func TestLongPortRemoved(t *testing.T) {
	t.Parallel()
	a := &agents{of: map[string]*api.Status{"s1": status("s1", live("swp1", 10e9, 1e9)), "s2": status("s2", live("swp1", 10e9, 1e9))}}
	var names atomic.Pointer[[]string]
	names.Store(&[]string{"s1", "s2"})
	cfg := one(t)
	cfg.Status, cfg.Fleet = a.status, func() (*inventory.Fleet, []string) { return nil, *names.Load() }
	host := run(t, cfg).Addr().String()
	b := webtest.New(t, webtest.Options{}, host)
	b.Open("http://" + host + "/port?device=s1&port=swp1")
	b.Await(`document.getElementById("facts").innerText.includes("9 Gbit/s")`)

	names.Store(&[]string{"s2"})
	b.Await(`document.getElementById("state").textContent.startsWith("There is no such port") && document.getElementById("facts").innerText === ""`)
	if p := b.Problems(); len(p) != 1 || !strings.Contains(p[0], "404") {
		t.Errorf("besides the port that is not there: %q", p)
	}
}

// TestLongOddAddresses: an address without a port shows none, and a time that is none is taken out of it.
func TestLongOddAddresses(t *testing.T) {
	t.Parallel()
	host := run(t, one(t)).Addr().String()
	b := webtest.New(t, webtest.Options{}, host)
	for _, path := range []string{"/port", "/port?device=s1", "/port?device=s1&port="} {
		b.Open("http://" + host + path)
		b.Await(`document.getElementById("state").textContent === "The address names no port: it has device=… and port=…."`)
		if facts := webtest.Eval[string](b, `document.getElementById("facts").innerText`); facts != "" {
			t.Errorf("%s shows %q", path, facts)
		}
	}
	for _, at := range []string{"garbage", "14:29:00", "1"} {
		b.Open("http://" + host + "/?at=" + at)
		b.Await(`document.querySelectorAll("#rows tr").length === 1 && location.search === ""`)
	}
	b.Open("http://" + host + "/port?device=s1&port=swp1&at=2999-01-01T00:00:00Z")
	b.Await(`document.getElementById("facts").innerText.includes("9 Gbit/s") && !location.search.includes("at=")`)
	b.Open(fmt.Sprintf("http://%s/?at=%d", host, time.Now().UnixMilli()))
	b.Await(`document.body.classList.contains("past") && document.getElementById("now").textContent.startsWith("As it was at ")`)
}

// TestLongOneBrowserTooMany is told why it sees nothing, and not that the fleet is empty.
func TestLongOneBrowserTooMany(t *testing.T) {
	t.Parallel()
	s := run(t, one(t))
	for range maxLive {
		s.live <- struct{}{}
	}
	host := s.Addr().String()
	b := webtest.New(t, webtest.Options{}, host)
	b.Open("http://" + host + "/")
	b.Await(`document.getElementById("live").textContent === "Not live: as many browsers follow this page as it takes: close one"`)
	if text := webtest.Eval[string](b, `document.getElementById("now").textContent`); text != "Nothing has been read yet." {
		t.Errorf("the first line says %q", text)
	}
	for range maxLive {
		<-s.live
	}
	b.Await(`document.getElementById("live").textContent === "Live" && document.getElementById("now").textContent.startsWith("1 switch: 1 live")`)
	for _, p := range b.Problems() {
		if !strings.Contains(p, "503") {
			t.Error(p)
		}
	}
}

// TestLongHostileText: what a device says is text on the page, whatever it is.
func TestLongHostileText(t *testing.T) {
	t.Parallel()
	const evil = `<img src=x onerror="document.title='pwned'"><script>document.title='pwned'</script>"'><svg onload=alert(1)>`
	p := live(evil, 10e9, 1e9)
	p.Reason, p.Signals[0].Locator = evil, evil
	s := status(evil, p)
	s.Platform, s.DataPlaneReason, s.Verdicts = evil, evil, []api.Verdict{{What: evil, Level: "degraded", Reason: evil}}
	a := &agents{of: map[string]*api.Status{"": s}}
	host := serve(t, nil, []string{""}, a)
	b := webtest.New(t, webtest.Options{}, host)
	b.Open("http://" + host + "/")
	b.Await(`document.querySelector("#rows tr th")?.textContent.includes("onload=alert(1)>")`)
	if n := webtest.Eval[int](b, `document.querySelectorAll("main img, main script, main svg[onload]").length`); n > 0 {
		t.Errorf("%d elements are from a device", n)
	}
	b.Open(webtest.Eval[string](b, `document.querySelector("#rows a").href`))
	b.Await(`document.getElementById("state").textContent.includes("onload=alert(1)>") && document.querySelector("#load svg")`)
	if n := webtest.Eval[int](b, `document.querySelectorAll("main img, main script, main svg[onload]").length`); n > 0 {
		t.Errorf("%d elements of the port's page are from a device", n)
	}
	if title := webtest.Eval[string](b, `document.title`); title == "pwned" {
		t.Error("a device's script ran")
	}
}

// TestLongTimeTravel: the slider shows a port as it was, beside the record that held then, and the address
// of that moment is one to share.
func TestLongTimeTravel(t *testing.T) {
	t.Parallel()
	a := &agents{of: map[string]*api.Status{"s1": status("s1", live("swp1", 100e9, 10e9))}}
	cfg := one(t)
	began := time.Now()
	var changed atomic.Int64 // when, in ns; 0: not yet
	cfg.Status = a.status
	cfg.Why = func(string, string) (*api.Why, error) {
		w := &api.Why{}
		for i, ns := range []int64{began.Add(-time.Minute).UnixNano(), changed.Load()} {
			if ns != 0 {
				m := api.Moment{At: time.Unix(0, ns)}
				w.Records = append(w.Records, api.Record{First: m, Last: m, Cycles: uint64(i + 1), State: api.StateLive})
			}
		}
		return w, nil
	}
	host := run(t, cfg).Addr().String()
	b := webtest.New(t, webtest.Options{}, host)
	b.Window(1200, 900)
	b.Open("http://" + host + "/port?device=s1&port=swp1")
	facts := func(load string) string {
		return fmt.Sprintf(`document.getElementById("facts").innerText.includes("Load\n%s Gbit/s")`, load)
	}
	for _, load := range []uint64{20, 30} { // each in samples more than a second from the next
		a.set("s1", "swp1", loaded(100e9, load*1e9))
		b.Await(facts(fmt.Sprint(load)))
		time.Sleep(2 * time.Second)
	}
	changed.Store(time.Now().UnixNano())
	a.set("s1", "swp1", loaded(100e9, 80e9))
	b.Await(facts("80"))
	b.Await(`document.querySelectorAll("#load .then").length === 0 && document.getElementById("then").textContent === "now"`)
	if got := webtest.Eval[string](b, `new URLSearchParams(location.search).get("at") ?? "none"`); got != "none" {
		t.Errorf("the address of now has the time %s", got)
	}

	webtest.Eval[bool](b, `document.getElementById("when").focus() ?? true`)
	for range 5 {
		b.Type(kb.ArrowLeft)
		if webtest.Eval[bool](b, facts("30")) {
			break
		}
	}
	b.Await(facts("30"))
	b.Await(`document.getElementById("state").textContent.startsWith("As it was at ") && document.querySelectorAll("#load .then").length === 1`)
	b.Await(`document.querySelector("#why tr[aria-current]")?.children[2].textContent === "1"`)
	newest := webtest.Eval[float64](b, `Number(document.getElementById("when").max)`)
	a.set("s1", "swp1", loaded(100e9, 90e9)) // what comes meanwhile changes nothing of that
	address := webtest.Eval[string](b, `location.href`)
	b.Await(fmt.Sprintf(`Number(document.getElementById("when").max) > %f`, newest))
	if !webtest.Eval[bool](b, facts("30")) {
		t.Error("the past has changed")
	}
	if unnamed := b.Unnamed(); len(unnamed) > 0 {
		t.Errorf("without a name: %q", unnamed)
	}
	picture(t, b, "travel")
	b.Open(address)
	b.Await(facts("30"))
	webtest.Eval[bool](b, `document.getElementById("now").click() ?? true`)
	b.Await(facts("90"))
	b.Open("http://" + host + "/port?device=s1&port=swp1&at=" + began.Add(-time.Hour).UTC().Format(time.RFC3339))
	b.Await(`document.getElementById("state").textContent.startsWith("Nothing is kept of ")`)
}
