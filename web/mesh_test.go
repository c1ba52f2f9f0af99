package web

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/hosts/mesh"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/web/webtest"
)

// meshed is a moving fleet whose hosts probe each other.
type meshed struct {
	*moving
	collector *mesh.Collector
	paths     *inventory.Paths
	hosts     []string
	lies      map[string]uint64 // by port: the load that tags have of it, where it is another than the switch's own
}

func newMeshed(t testing.TB, leaves, spines int) *meshed {
	t.Helper()
	var text strings.Builder
	text.WriteString("mesh: {key: {env: KEY}, interval: 1s}\nhosts:\n")
	m := &meshed{lies: make(map[string]uint64)}
	for h := 1; h <= 4*leaves; h++ {
		m.hosts = append(m.hosts, fmt.Sprint("gpu-", h))
		fmt.Fprintf(&text, "  - {name: gpu-%d, csig: true, address: 10.0.%d.%d}\n", h, h/200, h%200+1)
	}
	m.moving = newMovingWith(t, leaves, spines, text.String())
	m.collector, m.paths = mesh.NewCollector(m.fleet), m.fleet.Paths()
	return m
}

// lie has tags have another load of a port than its switch has.
func (m *meshed) lie(port string, load uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lies[port] = load
}

// loadOf is the load of a port as tags have it, of 100 Gbit/s.
func (m *meshed) loadOf(ref inventory.PortRef) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if load, ok := m.lies[ref.String()]; ok {
		return load
	}
	s := m.of[ref.Device]
	i := slices.IndexFunc(s.Ports, func(p api.Port) bool { return p.Port == ref.Port })
	return s.Ports[i].LoadBPS
}

// probe has all hosts send what their probes read now: each source port goes by another one of the paths.
func (m *meshed) probe(t testing.TB) {
	t.Helper()
	for _, from := range m.hosts {
		r := mesh.Report{Format: mesh.RowsFormat, Host: from}
		for _, to := range m.hosts {
			if to == from {
				continue
			}
			hops, err := m.paths.Hops(from, to)
			if err != nil {
				t.Fatal(err)
			}
			for port := range mesh.Ports {
				r.Rows = append(r.Rows, m.row(t, to, port, hops, quantize.MinABW), m.row(t, to, port, hops, quantize.MinABWC))
			}
		}
		for part := range slices.Chunk(r.Rows, mesh.MostRows) {
			r.Rows = part
			if err := m.collector.Add(from, &r); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (m *meshed) row(t testing.TB, to string, port int, hops [][]inventory.PortRef, sig quantize.Signal) mesh.Row {
	t.Helper()
	layout, buckets := m.fleet.Profile.Layout, m.fleet.Profile.Signals[sig].Buckets
	row := mesh.Row{To: to, Port: port, Signal: sig.String(), State: mesh.StateCapable, Read: true, S: sig.InitialBucket(), LM: layout.LMNone(), RTTNS: 120e3, Sent: 2, Tagged: 1}
	device := ""
	for _, hop := range hops {
		at := hop[port%len(hop)]
		if device != "" { // of the switch that the hop before leads to
			for _, ref := range hop {
				if ref.Device == device {
					at = ref
				}
			}
		}
		_, p, ok := portOf(m.fleet, at.String())
		if !ok {
			t.Fatal(at)
		}
		device = p.Peer.Device
		v := 100_000_000_000 - m.loadOf(at)
		if sig == quantize.MinABWC {
			v = v / 100_000
		}
		if s := buckets.Bucket(v); sig.Worse(s, row.S) {
			row.S, row.LM = s, p.LM[sig]
		}
	}
	return row
}

// cells are those of a mesh's answer, by "FROM TO".
func cells(t *testing.T, text string) (a meshAnswer, of map[string]pairCell) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	of = make(map[string]pairCell)
	k := 0
	for _, from := range a.Hosts {
		for _, to := range a.Hosts {
			if from != to {
				of[from+" "+to] = a.Cells[k]
				k++
			}
		}
	}
	return a, of
}

// TestMesh: the page is sent what the collector has, the pairs as cells, and a pair with its changes.
func TestMesh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeshed(t, 2, 2)
		m.at(0)
		for _, l := range m.loads {
			m.set(l.device, l.port, loaded(100e9, 10e9))
		}
		m.set("leaf2", "Ethernet0", loaded(100e9, 94e9))
		m.set("leaf1", "Ethernet204", loaded(100e9, 60e9))
		cfg := one(t)
		cfg.Status, cfg.Fleet, cfg.Mesh = m.status, func() (*inventory.Fleet, []string) { return m.fleet, m.names }, m.collector
		_, _, client := inMemory(t, cfg)
		time.Sleep(time.Second)
		const at = "http://127.0.0.1:8080/api/v1/mesh"
		_, _, text := get(t, client, at, nil)
		a, of := cells(t, text)
		if !a.Here || a.Live != 0 || a.All != 8 || a.Signal != "abwc" || len(of) != 56 || of["gpu-1 gpu-5"] != (pairCell{slices.Index(mesh.States, mesh.StateUnknown), levelNone, -1, -1, -1}) {
			t.Errorf("before the first rows: %s", text)
		}
		m.probe(t)
		time.Sleep(time.Second)
		_, _, text = get(t, client, at, nil)
		a, of = cells(t, text)
		if len(a.Bottlenecks) == 0 || a.Live != 8 || a.States[mesh.StateCapable] != 56 {
			t.Fatal(text)
		}
		if b := a.Bottlenecks[0]; b.Ports[0] != "leaf1:Ethernet204" || b.Place != "first hop" || b.Pairs != 12 {
			t.Errorf("the worst port: %+v", b)
		}
		for pair, want := range map[string]string{"gpu-1 gpu-5": "1 leaf2:Ethernet0", "gpu-2 gpu-6": "2 leaf1:Ethernet204", "gpu-6 gpu-2": "3 "} {
			c, port := of[pair], ""
			if c[4] >= 0 && c[1] < len(limits) {
				port = a.Ports[c[4]]
			}
			if got := fmt.Sprint(c[1], " ", port); got != want || (c[2] < 0) != (port == "") {
				t.Errorf("%s: %s of %v, want %s", pair, got, c, want)
			}
		}

		var why meshWhyAnswer
		ask := func(from, to string) meshWhyAnswer {
			t.Helper()
			why = meshWhyAnswer{}
			_, _, text := get(t, client, at+"/why?from="+from+"&to="+to, nil)
			if err := json.Unmarshal([]byte(text), &why); err != nil {
				t.Fatal(err)
			}
			return why
		}
		if ask("gpu-1", "gpu-5"); why.Error != "" || why.Why.Pair.Signals[0].Ports[0] != "leaf2:Ethernet0" || len(why.Why.Paths) != 2*mesh.Ports || len(why.Why.Changes) != 2*mesh.Ports {
			t.Errorf("%+v", why)
		}
		for i := range 2 * maxChanges {
			m.lie("leaf2:Ethernet0", uint64(10+80*(i%2))*1e9)
			m.probe(t)
		}
		if ask("gpu-1", "gpu-5"); len(why.Why.Changes) != maxChanges || why.More == 0 {
			t.Errorf("%d changes, %d more", len(why.Why.Changes), why.More)
		}
		if ask("gpu-1", "nobody"); why.Error != `host "nobody" is not of this mesh` || why.Why != nil {
			t.Errorf("%+v", why)
		}
		if ask("gpu-1", strings.Repeat("x", maxEnd+1)); why.Error != tooLong {
			t.Errorf("%+v", why)
		}
	})
}

// TestNoMesh: where no mesh is collected, that is said.
func TestNoMesh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, client := inMemory(t, one(t))
		if _, _, text := get(t, client, "http://127.0.0.1:8080/api/v1/mesh", nil); !strings.HasPrefix(text, `{"here":false`) {
			t.Error(text)
		}
		if _, _, text := get(t, client, "http://127.0.0.1:8080/api/v1/mesh/why?from=a&to=b", nil); !strings.Contains(text, "no mesh is collected here") {
			t.Error(text)
		}
	})
}

// TestLevels: a reading's level and per cent, where its capacity is known and where it is not.
func TestLevels(t *testing.T) {
	f, err := inventory.Parse("f.yaml", []byte(`format: csig.fleet/v1
profile: {name: x, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-100G}, abwc: {buckets: log}, pd: {buckets: log-1ms}}}
devices: [{name: s1, platform: linux-ebpf, ports: [{name: p1, speed: 10G, lm: 1}, {name: p2, lm: 2}]}]
`))
	if err != nil {
		t.Fatal(err)
	}
	at := func(sig quantize.Signal, v uint64) uint8 {
		b := f.Profile.Signals[sig].Buckets
		return b.Bucket(v)
	}
	for _, c := range []struct {
		sig  quantize.Signal
		s    uint8
		port string
		note string
		want string
	}{
		{quantize.MinABWC, at(quantize.MinABWC, 30_000), "s1:p1", "", "0 4"},
		{quantize.MinABWC, at(quantize.MinABWC, 100_000), "s1:p1", "", "1 11"},
		{quantize.MinABWC, at(quantize.MinABWC, 400_000), "s1:p1", "", "2 45"},
		{quantize.MinABWC, 31, "s1:p1", "", "3 100"},
		{quantize.MinABWC, 31, "", "none", "3 -1"},
		{quantize.MinABWC, 0, "", "stale", "4 -1"},
		{quantize.MinABW, at(quantize.MinABW, 1e9), "s1:p1", "", "1 11"},
		{quantize.MinABW, at(quantize.MinABW, 9e9), "s1:p1", "", "3 100"},
		{quantize.MinABW, 3, "s1:p2", "", "0 -1"},
		{quantize.MinABW, 20, "s1:p2", "", "3 -1"},
		{quantize.MaxPD, 30, "s1:p1", "", "0 -1"},
		{quantize.MaxPD, 20, "s1:p1", "", "2 -1"},
		{quantize.MaxPD, 3, "s1:p1", "", "3 -1"},
	} {
		r := &mesh.PairReading{S: c.s, Note: c.note, Ports: []string{c.port}}
		level, left, _ := levelOf(r, c.sig, f)
		if got := fmt.Sprint(level, " ", left); got != c.want {
			t.Errorf("%v, S %d of %s %s: %s, want %s", c.sig, c.s, c.port, c.note, got, c.want)
		}
	}
}

// serveMeshed serves a page with the mesh, whose hosts probe until the test ends.
func serveMeshed(t *testing.T, m *meshed) string {
	t.Helper()
	cfg := one(t)
	cfg.Status, cfg.Fleet, cfg.Mesh = m.status, func() (*inventory.Fleet, []string) { return m.fleet, m.names }, m.collector
	host := run(t, cfg).Addr().String()
	end, ended := make(chan struct{}), make(chan struct{})
	m.probe(t)
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			case <-time.After(700 * time.Millisecond): // rows of two seconds ago are too old
				m.probe(t)
			}
		}
	}()
	t.Cleanup(func() { close(end); <-ended })
	return host
}

// TestLongMeshOnPage: from a pair that is slow two clicks, or keys, lead to the page of the port that limits it.
func TestLongMeshOnPage(t *testing.T) {
	t.Parallel()
	m := newMeshed(t, 2, 2)
	for _, l := range m.loads {
		m.set(l.device, l.port, loaded(100e9, 10e9))
	}
	m.set("leaf2", "Ethernet0", loaded(100e9, 97e9))
	m.set("leaf1", "Ethernet204", loaded(100e9, 40e9))
	host := serveMeshed(t, m)
	b := webtest.New(t, webtest.Options{}, host)
	b.Window(1440, 900)
	b.Open("http://" + host + "/")
	b.Await(`document.getElementById("mesh")?.hidden === false`)
	b.Await(`document.getElementById("mesh-line").textContent === "Mesh: leaf2:Ethernet0 limits 7 pairs of hosts"`)
	b.Await(`document.querySelectorAll("#matrix tbody td").length === 64`)
	b.Await(`document.getElementById("mesh-state").textContent.startsWith("pod1: 8 of 8 hosts live. Pairs: 56 capable.")`)
	first := webtest.Eval[string](b, `[...document.querySelector("#limits tr").children].map((e) => e.textContent).join("|")`)
	if want := "leaf2:Ethernet0|7 pairs|abwc|"; !strings.HasPrefix(first, want) || !strings.Contains(first, "|last hop|") || !strings.Contains(first, " → gpu-5") {
		t.Errorf("the first of the ranking is %q, want %s…", first, want)
	}
	const cellOf = `[...document.querySelectorAll("#matrix td")].find((td) => td.getAttribute("aria-label")?.startsWith(%q))`
	slow := fmt.Sprintf(cellOf, "gpu-1 to gpu-5: at most 4 % left at leaf2:Ethernet0")
	b.Await(slow)
	if got := webtest.Eval[string](b, slow+`.textContent + " " + `+slow+`.dataset.level`); got != "4 l0" {
		t.Errorf("the cell has %q", got)
	}
	if unnamed := b.Unnamed(); len(unnamed) > 0 {
		t.Errorf("without a name: %q", unnamed)
	}
	picture(t, b, "mesh")

	// The first click shows the pair, the second one the port.
	webtest.Eval[bool](b, slow+`.click() ?? true`)
	b.Await(`document.activeElement.id === "pair-title" && document.activeElement.textContent === "gpu-1 → gpu-5"`)
	b.Await(`document.querySelectorAll("#pair-rows tr").length === 8 && document.querySelector("#pair-least li").textContent.includes("at leaf2:Ethernet0 read ")`)
	if got := webtest.Eval[[]string](b, `[...document.querySelectorAll("#pair-hops li")].map((li) => li.textContent)`); !slices.Equal(got, []string{"leaf1:Ethernet204 or leaf1:Ethernet208", "spine1:Ethernet8 or spine2:Ethernet8", "leaf2:Ethernet0"}) {
		t.Errorf("the hops are %q", got)
	}
	b.Await(`document.querySelectorAll("#pair-changes li").length > 0 && new URLSearchParams(location.search).get("to") === "gpu-5"`)
	if unnamed := b.Unnamed(); len(unnamed) > 0 {
		t.Errorf("with a pair, without a name: %q", unnamed)
	}
	picture(t, b, "pair")
	webtest.Eval[bool](b, `document.querySelector("#pair-least a").click() ?? true`)
	b.Await(`location.pathname === "/port" && new URLSearchParams(location.search).get("port") === "Ethernet0" && document.querySelector("#load svg")`)

	// With keys alone: into the matrix, to a pair, to its port, and back to where one was.
	b.Open("http://" + host + "/")
	b.Await(slow)
	webtest.Eval[bool](b, `document.querySelector("#limits a").focus() ?? true`)
	for range 20 {
		b.Type(kb.Tab)
		if webtest.Eval[bool](b, `document.activeElement.matches("#matrix td")`) {
			break
		}
	}
	b.Await(`document.activeElement.getAttribute("aria-label")?.startsWith("gpu-1 to gpu-2")`)
	b.Type(kb.End)
	b.Type(kb.ArrowLeft)
	b.Type(kb.ArrowDown)
	b.Type(kb.ArrowDown)
	b.Await(`document.activeElement.getAttribute("aria-label")?.startsWith("gpu-3 to gpu-7")`)
	b.Type(kb.Home)
	b.Type(kb.ArrowRight)
	b.Type(kb.ArrowRight) // past the diagonal
	b.Await(`document.activeElement.getAttribute("aria-label")?.startsWith("gpu-3 to gpu-4")`)
	b.Type(kb.ArrowRight)
	b.Type(kb.Enter)
	b.Await(`document.activeElement.id === "pair-title" && document.querySelector("#pair-least a")`)
	b.Type(kb.Escape)
	b.Await(`document.getElementById("pair").hidden && document.activeElement.getAttribute("aria-label")?.startsWith("gpu-3 to gpu-5")`)
	b.Type(kb.Enter)
	b.Await(`document.querySelector("#pair-least a")`)
	b.Type(kb.Tab)
	b.Await(`document.activeElement.matches("#pair-least a")`)
	b.Type(kb.Enter)
	b.Await(`location.pathname === "/port" && document.querySelector("#load svg")`)
}

// TestPathByTags: what tags read between two hosts, with the buckets beside it.
func TestPathByTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeshed(t, 2, 2)
		m.at(0)
		m.set("leaf2", "Ethernet0", loaded(100e9, 90e9))
		cfg := one(t)
		cfg.Status, cfg.Fleet, cfg.Mesh = m.status, func() (*inventory.Fleet, []string) { return m.fleet, m.names }, m.collector
		_, _, client := inMemory(t, cfg)
		ask := func(from, to string) (a pathAnswer) {
			t.Helper()
			_, _, text := get(t, client, "http://127.0.0.1:8080/api/v1/path?from="+from+"&to="+to, nil)
			if err := json.Unmarshal([]byte(text), &a); err != nil {
				t.Fatal(err)
			}
			return a
		}
		if a := ask("gpu-1", "gpu-5"); len(a.Hops) != 3 || a.Tags == nil || a.Tags.Read || a.Tags.State != mesh.StateUnknown {
			t.Errorf("before the first rows: %+v", a)
		}
		m.probe(t)
		time.Sleep(3 * time.Second / 2)
		tags := ask("gpu-1", "gpu-5").Tags
		if !tags.Read || tags.Signal != "abw" || !slices.Equal(tags.Ports, []string{"leaf2:Ethernet0"}) || time.Duration(tags.AgeNS).Round(10*time.Millisecond) != 1500*time.Millisecond {
			t.Errorf("%+v", tags)
		}
		b := m.fleet.Profile.Signals[quantize.MinABW].Buckets
		s := b.Bucket(10e9)
		if low, _ := b.Range(s - 1); tags.Low != low {
			t.Errorf("low %d, want %d", tags.Low, low)
		}
		if _, high := b.Range(s + 1); tags.High != high {
			t.Errorf("high %d, want %d", tags.High, high)
		}
		for _, ends := range [][2]string{{"gpu-1", "leaf2"}, {"leaf1:Ethernet204", "gpu-5"}} {
			if a := ask(ends[0], ends[1]); a.Error != "" || a.Tags != nil {
				t.Errorf("%v is no pair of hosts: %+v", ends, a)
			}
		}
	})
}

// TestLongPathByTags: the minimum by tags stands beside that of the switches, and where these differ it is said.
func TestLongPathByTags(t *testing.T) {
	t.Parallel()
	m := newMeshed(t, 2, 2)
	for _, l := range m.loads {
		m.set(l.device, l.port, loaded(100e9, 10e9))
	}
	m.set("leaf2", "Ethernet0", loaded(100e9, 97e9))
	host := serveMeshed(t, m)
	b := webtest.New(t, webtest.Options{}, host)
	b.Window(1440, 900)
	b.Open("http://" + host + "/?from=gpu-1&to=gpu-5")
	b.Await(`document.getElementById("path")?.textContent === "By the switches: on every path 3 Gbit/s, at leaf2:Ethernet0."`)
	b.Await(`/^By tags: [0-9.]+–[0-9.]+ Gbit\/s, at leaf2:Ethernet0\.$/.test(document.getElementById("by-tags").textContent)`)
	b.Await(`/^The switches' figure is [0-9.]+ (s|min) old, that of the tags [0-9.]+ s\.$/.test(document.getElementById("ages").textContent)`)
	if differ := webtest.Eval[string](b, `document.getElementById("differ").textContent`); differ != "" {
		t.Errorf("the same is said to differ: %s", differ)
	}
	m.lie("leaf2:Ethernet0", 30e9)
	b.Await(`document.getElementById("differ").textContent.startsWith("These differ by more than a bucket: leaf2:Ethernet0 has 3 Gbit/s.")`)
	b.Await(`/^By tags: [0-9.]+–[0-9.]+ Gbit/.test(document.getElementById("by-tags").textContent)`)
	picture(t, b, "differ")
	m.lie("leaf2:Ethernet0", 99e9)
	b.Await(`document.getElementById("differ").textContent.startsWith("These differ by more than a bucket: no switch on the way has less than 3 Gbit/s.")`)
	m.lie("leaf2:Ethernet0", 97e9)
	b.Await(`document.getElementById("differ").textContent === ""`)
	webtest.Eval[bool](b, `document.getElementById("swap").click() ?? true`)
	b.Await(`document.getElementById("by-tags").textContent.includes("By tags: ") && document.getElementById("path").textContent.includes("90 Gbit/s")`)
	if unnamed := b.Unnamed(); len(unnamed) > 0 {
		t.Errorf("without a name: %q", unnamed)
	}
	b.Open("http://" + host + "/?from=gpu-1&to=leaf2")
	b.Await(`document.getElementById("path")?.textContent.startsWith("On every path") && document.getElementById("by-tags").textContent === ""`)
}

// TestLongWideMatrix: 64 hosts are legible on a wide screen, and on a narrow one the matrix alone is moved sideways.
func TestLongWideMatrix(t *testing.T) {
	t.Parallel()
	m := newMeshed(t, 16, 4)
	m.at(0)
	m.set("leaf3", "Ethernet0", loaded(100e9, 98e9))
	host := serveMeshed(t, m)
	b := webtest.New(t, webtest.Options{}, host)
	for _, width := range []int64{1440, 390} {
		b.Window(width, 900)
		b.Open("http://" + host + "/")
		b.Await(`document.querySelectorAll("#matrix tbody td").length === 4096 && [...document.querySelectorAll("#matrix tbody td")].some((td) => td.dataset.level === "l0")`)
		if wide := webtest.Eval[int64](b, `document.documentElement.scrollWidth`); wide > width {
			t.Errorf("the page is %d px wide on a screen of %d", wide, width)
		}
		if wide := webtest.Eval[int64](b, `document.getElementById("matrix").scrollWidth - document.getElementById("matrix").parentNode.clientWidth`); width == 1440 && wide > 0 {
			t.Errorf("%d px of the matrix are hidden", wide)
		}
		if cut := webtest.Eval[[]string](b, `(() => {
			const range = document.createRange();
			return [...document.querySelectorAll("#matrix td:not(.own)")].filter((td) => {
				range.selectNodeContents(td);
				const text = range.getBoundingClientRect(), box = td.getBoundingClientRect();
				return !td.textContent || text.width > box.width || text.height < 8;
			}).map((td) => td.getAttribute("aria-label"));
		})()`); len(cut) > 0 {
			t.Errorf("%d px: %d cells without a legible text: %q", width, len(cut), cut[:1])
		}
		picture(t, b, fmt.Sprint("matrix-64-", width))
	}
	b.Prefer("prefers-color-scheme", "dark")
	picture(t, b, "matrix-64-390-dark")
}
