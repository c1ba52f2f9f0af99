package web

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chromedp/chromedp/kb"
	"pgregory.net/rapid"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/web/webtest"
)

// TestFigures: of a load and of what it leaves, 16 bits have three digits.
func TestFigures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.Uint64Range(1, 1<<43).Draw(t, "capacity")
		load := rapid.OneOf(rapid.Uint64Range(0, capacity), rapid.Map(rapid.Uint64Range(0, min(capacity, 1000)), func(v uint64) uint64 { return capacity - v })).Draw(t, "load")
		got := loadOf(capacity, figure(capacity, load))
		if got > capacity {
			t.Fatalf("load %d of %d is %d", load, capacity, got)
		}
		near := func(is, want uint64) bool {
			return math.Abs(float64(is)-float64(want)) <= math.Max(float64(want)/2048, float64(capacity)/(1<<30)+1)
		}
		if !near(got, load) || !near(capacity-got, capacity-load) {
			t.Fatalf("load %d of %d is %d", load, capacity, got)
		}
	})
	if got := loadOf(1000, figure(1000, 1200)); got != 1000 {
		t.Errorf("more than the capacity is %d", got)
	}
}

// randomColumn is a column of so many ports whose loads are noise.
func randomColumn(at int64, of *places, loads func(i int) uint64) column {
	k := packer{texts: make(map[string]uint64)}
	for range of.devices {
		k.f[fieldSilent] = append(k.f[fieldSilent], 0)
		k.text(fieldWaiting, "")
	}
	for i := range of.ports {
		p := pastPort{state: api.StateLive, measured: true, capacity: 100e9, load: loads(i), age: time.Duration(i/64) * 10 * time.Millisecond}
		p.signals[0], p.locators[0] = signalThere|byte(p.load*31/100e9), "5"
		k.port(&p)
	}
	return column{at: at, of: of, packed: k.pack()}
}

// manyPlaces are devices with 64 ports each.
func manyPlaces(devices int) *places {
	of := &places{}
	for i := range devices {
		of.devices = append(of.devices, fmt.Sprint("s", i))
		for k := range 64 {
			of.ports = append(of.ports, portPlace{i, fmt.Sprint("Ethernet", 4*k)})
		}
	}
	return of
}

// TestColumns: what is packed comes out, and texts are those of each port.
func TestColumns(t *testing.T) {
	of := &places{devices: []string{"a", "b"}, ports: []portPlace{{0, "p1"}, {0, "p2"}, {1, "p1"}}}
	want := []pastPort{
		{state: api.StateLive, measured: true, capacity: 100e9, load: 25e9, abw: 75e9, age: 340 * time.Millisecond, signals: [signalsKept]byte{signalThere | 23, signalThere | signalDoubtful | 7}, locators: [signalsKept]string{"5", "leaf"}},
		{state: api.StateStale, reason: "the lease ended 3s ago", signals: [signalsKept]byte{signalThere | signalStale}, locators: [signalsKept]string{"stale"}},
		{state: stateGone, reason: strings.Repeat("x", 400)},
	}
	k := packer{texts: make(map[string]uint64)}
	k.f[fieldSilent] = []byte{0, 1}
	k.text(fieldWaiting, "")
	k.text(fieldWaiting, "waiting for a configuration")
	for i := range want {
		k.port(&want[i])
	}
	c := column{of: of, packed: k.pack()}
	var got []pastPort
	var devices []string
	if err := c.each(func(i int, silent bool, waiting string) {
		devices = append(devices, fmt.Sprint(of.devices[i], silent, waiting))
	}, func(_ int, p *pastPort) bool { got = append(got, *p); return true }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if fmt.Sprint(devices) != "[afalse btruewaiting for a configuration]" {
		t.Errorf("the devices are %q", devices)
	}
}

// TestPastIsBounded: of 100 switches with 64 ports whose load is noise an hour stays within a sixth of the histories'
// memory, in larger steps where it has to; of fewer ports the steps are small again.
func TestPastIsBounded(t *testing.T) {
	begin := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		devices, most int
		every         time.Duration
		whole         bool // an hour fits
	}{{100, 32 << 20 / pastPart, 2 * pastEvery, true}, {100, 1 << 20, pastWorst * pastEvery, true}, {100, 100 << 10, pastWorst * pastEvery, false}, {1, 2 << 20 / pastPart, pastEvery, true}} {
		r, of, noise := newPast(c.most), manyPlaces(c.devices), rand.New(rand.NewPCG(1, 2))
		var packed [8][]byte // of many minutes
		for i := range packed {
			col := randomColumn(0, of, func(int) uint64 { return noise.Uint64N(100e9) })
			packed[i] = col.packed
		}
		now, n := begin, 0
		for ; now.Sub(begin) < 2*pastKept; now = now.Add(time.Second) {
			if !r.due(now) {
				continue
			}
			r.add(column{now.UnixMilli(), of, packed[n%len(packed)]}, now)
			n++
			if r.bytes > c.most && len(r.columns) > 1 {
				t.Fatalf("%d bytes, of %d", r.bytes, c.most)
			}
		}
		span := time.Duration(r.columns[len(r.columns)-1].at-r.columns[0].at) * time.Millisecond
		if r.every != c.every || (span >= pastKept-2*r.every) != c.whole || span > pastKept {
			t.Errorf("%d devices in %d bytes: %v in steps of %v, want %v", c.devices, c.most, span, r.every, c.every)
		}
		t.Logf("%d devices: %d columns of %.2f bytes a port, %v in steps of %v, %.2f MiB", c.devices, len(r.columns), float64(len(packed[0]))/float64(64*c.devices), span, r.every, float64(r.bytes)/(1<<20))
		few := manyPlaces(1)
		one := randomColumn(0, few, func(int) uint64 { return 0 })
		for end := now.Add(2 * pastKept); now.Before(end); now = now.Add(time.Second) {
			if r.due(now) {
				r.add(column{now.UnixMilli(), few, one.packed}, now)
			}
		}
		if c.most >= 1<<20 && r.every != pastEvery {
			t.Errorf("of few ports in %d bytes the steps are %v", c.most, r.every)
		}
	}
}

// TestPastAsWhyHasIt: at any time of the last hour the fleet is shown as the records of csig why have it.
func TestPastAsWhyHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMoving(t, 2, 2)
		m.at(0)
		cfg := one(t)
		cfg.Status, cfg.Fleet = m.status, func() (*inventory.Fleet, []string) { return m.fleet, m.names }
		records := make(map[string][]api.Record) // as agents keep them
		record := func() {
			for _, name := range m.names {
				for _, p := range m.status(name).Ports {
					id := name + ":" + p.Port
					r := api.Record{First: api.Moment{At: time.Now()}, State: p.State, Reason: p.Reason, Signals: p.Signals, MinABW: p.ABWBPS, MaxABW: p.ABWBPS}
					records[id] = append(records[id], r)
				}
			}
		}
		record()
		_, _, client := inMemory(t, cfg)
		began := time.Now()
		noise := rand.New(rand.NewPCG(3, 4))
		for time.Since(began) < pastKept+5*time.Minute {
			time.Sleep(5300 * time.Millisecond)
			for _, l := range m.loads {
				m.set(l.device, l.port, loaded(100e9, noise.Uint64N(100e9)))
				if noise.IntN(20) == 0 {
					m.set(l.device, l.port, func(p *api.Port) { p.State, p.Reason = api.StateStale, "the lease ended" })
				} else {
					m.set(l.device, l.port, func(p *api.Port) { p.State, p.Reason = api.StateLive, "" })
				}
			}
			record()
		}
		time.Sleep(2 * time.Second)
		ask := func(at time.Time) (a pastAnswer) {
			t.Helper()
			_, _, text := get(t, client, fmt.Sprint("http://127.0.0.1:8080/api/v1/past?at=", at.UnixMilli()), nil)
			if err := json.Unmarshal([]byte(text), &a); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			return a
		}
		for ago := time.Minute; ago < pastKept-10*time.Second; ago += 97 * time.Second {
			asked := time.Now().Add(-ago)
			a := ask(asked)
			if late := asked.Sub(a.At); late < 0 || late > pastEvery || len(a.Ports) != len(m.loads) || len(a.Devices) != 4 || a.Devices[0].Ports != 6 {
				t.Fatalf("%v ago: the column is %v older, with %d ports", ago, late, len(a.Ports))
			}
			for _, p := range a.Ports {
				// The page looks once a second: what an agent recorded since is in the next column.
				of := records[p.ID]
				shows := func(r api.Record) bool {
					return r.State == p.State && r.Reason == p.Reason && r.Signals[0].Bucket == p.Signals[0].S && math.Abs(float64(r.MinABW)-float64(p.ABWBPS)) <= float64(r.MinABW)/2048+100
				}
				k := len(of) - 1
				for k > 0 && of[k].First.At.After(a.At) {
					k--
				}
				if !shows(of[k]) && !(a.At.Sub(of[k].First.At) <= lookEvery && k > 0 && shows(of[k-1])) {
					t.Fatalf("%v ago: %+v, and the record is %+v", ago, p, of[k])
				}
			}
			if !slices.IsSortedFunc(a.Worst, func(x, y Bottleneck) int { return int(abwcOf(a, x.ID)) - int(abwcOf(a, y.ID)) }) || len(a.Worst) != worstPorts {
				t.Errorf("the worst are %+v", a.Worst)
			}
			for _, p := range a.Ports {
				if p.State == api.StateLive && p.ABWCPPM < abwcOf(a, a.Worst[0].ID) {
					t.Errorf("%s has less than the worst", p.ID)
				}
			}
			if w := a.Worst[0]; w.Spark[sparkSlots-1] < 0 {
				t.Errorf("the sparkline of the worst ends with nothing: %v", w.Spark)
			}
		}
		if a := ask(began.Add(-time.Minute)); !a.At.IsZero() || a.From.IsZero() || len(a.Ports) != 0 {
			t.Errorf("before all that is kept: %v, %d ports", a.At, len(a.Ports))
		}
		// A port's own history begins later than what is kept of the fleet, and goes on from it.
		_, _, text := get(t, client, "http://127.0.0.1:8080/api/v1/port?device=leaf1&port=Ethernet204", nil)
		var port struct{ Samples [][]any }
		if err := json.Unmarshal([]byte(text), &port); err != nil {
			t.Fatal(err)
		}
		for i := 1; i < len(port.Samples); i++ {
			if port.Samples[i][0].(float64) <= port.Samples[i-1][0].(float64) {
				t.Fatalf("sample %d is not newer than the one before", i)
			}
		}
		if first := time.UnixMilli(int64(port.Samples[0][0].(float64))); time.Since(first) < pastKept-time.Minute {
			t.Errorf("the port's history begins at %v", first)
		}
		if code, _, _ := get(t, client, "http://127.0.0.1:8080/api/v1/past?at=x", nil); code != 400 {
			t.Errorf("no time: %d", code)
		}
	})
}

func abwcOf(a pastAnswer, id string) uint32 {
	i := slices.IndexFunc(a.Ports, func(p PortRow) bool { return p.ID == id })
	return a.Ports[i].ABWCPPM
}

// TestPastOfPortsThatCome: columns have the ports that were there.
func TestPastOfPortsThatCome(t *testing.T) {
	a := &agents{of: map[string]*api.Status{"s1": status("s1", live("p1", 1000, 100))}}
	b := boardOf(a)
	d := &boardDevice{name: "s1", byName: make(map[string]*boardPort)}
	b.devices = []*boardDevice{d}
	now := time.Now()
	step := func(ports ...api.Port) {
		at := now
		for i := range ports {
			ports[i].WindowEnd = &at
		}
		a.of["s1"] = status("s1", ports...)
		b.look(d)
		b.remember(now)
		now = now.Add(pastEvery)
	}
	step(live("p1", 1000, 100))
	step(live("p1", 1000, 200))
	step(live("p1", 1000, 300), live("p2", 1000, 600))
	step(live("p2", 1000, 700))
	var got []string
	for i := range b.past.columns {
		var an pastAnswer
		if err := an.fill(b.past.columns[:i+1], pastEvery); err != nil {
			t.Fatal(err)
		}
		for _, p := range an.Ports {
			got = append(got, fmt.Sprint(i, " ", p.Port, " ", p.State, " ", p.LoadBPS))
		}
	}
	want := []string{"0 p1 live 100", "1 p1 live 200", "2 p1 live 300", "2 p2 live 600", "3 p1 gone 0", "3 p2 live 700"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if of := pastOf(b.past.columns, "s1", "p1", math.MaxInt64); len(of) != 4 || of[2].load != 300 || of[3].measured {
		t.Errorf("p1 was %+v", of)
	}
	if of := pastOf(b.past.columns, "s1", "p2", math.MaxInt64); len(of) != 2 || of[0].load != 600 {
		t.Errorf("p2 was %+v", of)
	}
}

// pastFleet serves a fleet that has a past of 50 minutes: in the first 20 of them leaf1:Ethernet204 was the worst port, and
// for its last minute leaf2:Ethernet0 is.
func pastFleet(t *testing.T) (m *moving, host string, began time.Time) {
	t.Helper()
	m = newMoving(t, 2, 2)
	cfg := one(t)
	cfg.Status, cfg.Fleet = m.status, func() (*inventory.Fleet, []string) { return m.fleet, m.names }
	s := run(t, cfg)
	end := time.Now().Add(-time.Second)
	began = end.Add(-50 * time.Minute)
	// A half of an hour ago its agent wrote another S.
	cfgWhy := func(device, port string) (*api.Why, error) {
		at := func(ago time.Duration, s uint8) api.Record {
			m := api.Moment{At: end.Add(-ago)}
			return api.Record{First: m, Last: m, Cycles: 1, State: api.StateLive, Signals: []api.Signal{{Signal: "abw", Bucket: s, Locator: "5", Unit: "bit/s"}}}
		}
		return &api.Why{Records: []api.Record{at(2*time.Hour, 0), at(30*time.Minute, 27)}}, nil
	}
	s.board.mu.Lock()
	s.cfg.Why = cfgWhy
	s.board.mu.Unlock()
	fill := func(at time.Time) {
		for _, l := range m.loads {
			m.set(l.device, l.port, loaded(100e9, 10e9))
		}
		if at.Before(end.Add(-30 * time.Minute)) {
			m.set("leaf1", "Ethernet204", loaded(100e9, 99e9))
			m.set("spine2", "Ethernet8", func(p *api.Port) {
				p.State, p.Reason, p.WindowStart, p.WindowEnd, p.Signals = api.StateStale, "the lease ended 3s ago", nil, nil, nil
			})
		} else {
			m.set("spine2", "Ethernet8", func(p *api.Port) { *p = live("Ethernet8", 100e9, 10e9) })
		}
		if at.After(end.Add(-time.Minute)) {
			m.set("leaf2", "Ethernet0", loaded(100e9, 96e9))
		}
		m.mu.Lock()
		for _, st := range m.of {
			for i := range st.Ports {
				if p := &st.Ports[i]; p.WindowEnd != nil {
					p.WindowEnd = &at
				}
			}
		}
		m.mu.Unlock()
	}
	s.board.mu.Lock()
	devices := slices.Clone(s.board.devices)
	s.board.mu.Unlock()
	for len(devices) == 0 {
		time.Sleep(10 * time.Millisecond) // until the page has its fleet
		s.board.mu.Lock()
		devices = slices.Clone(s.board.devices)
		s.board.mu.Unlock()
	}
	is := newPast(1 << 20)
	for at := began; at.Before(end); at = at.Add(pastEvery) {
		fill(at)
		for _, d := range devices {
			s.board.look(d)
		}
		is.add(s.board.column(at), at)
	}
	s.board.mu.Lock()
	s.board.past = is // the page's own columns come behind these
	s.board.mu.Unlock()
	return m, s.Addr().String(), began
}

// TestLongFleetTravels: the slider shows the whole first screen as it was, with keys alone, and the address of that
// moment is one to share.
func TestLongFleetTravels(t *testing.T) {
	t.Parallel()
	m, host, began := pastFleet(t)
	b := webtest.New(t, webtest.Options{}, host)
	b.Window(1440, 900)
	b.Open("http://" + host + "/")
	const worst = `document.querySelector("#worst li a")?.textContent`
	b.Await(worst + ` === "leaf2:Ethernet0" && document.getElementById("travel")?.hidden === false && document.getElementById("then").textContent === "now"`)

	// To the beginning with the keyboard.
	webtest.Eval[bool](b, `document.getElementById("when").focus() ?? true`)
	b.Type(kb.Home)
	b.Await(worst + ` === "leaf1:Ethernet204"`)
	b.Await(`/^As it was at [0-9: -]+: 4 switches: 3 live, 1 stale\. Oldest signal: /.test(document.getElementById("now").textContent)`)
	b.Await(`document.getElementById("ill").innerText.includes("spine2:Ethernet8 ? stale: the lease ended 3s ago")`)
	b.Await(cell("leaf1:Ethernet204", 2) + ` === "1 Gbit/s" && ` + cell("leaf1:Ethernet204", 6) + ` === "abw 0 (5)" && ` + cell("leaf2:Ethernet0", 2) + ` === "90 Gbit/s"`)
	b.Await(`[...document.querySelectorAll("#map .figure")].some((e) => e.textContent === "1G 1 %")`)
	b.Await(`document.getElementById("worst-when").textContent === "Bottlenecks then" && document.getElementById("drivers").getBoundingClientRect().height === 0`)
	if unnamed := b.Unnamed(); len(unnamed) > 0 {
		t.Errorf("without a name: %q", unnamed)
	}
	address := webtest.Eval[string](b, `location.href`)
	if at, err := time.Parse(time.RFC3339, webtest.Eval[string](b, `new URLSearchParams(location.search).get("at") ?? ""`)); err != nil || at.Sub(began).Abs() > 2*pastEvery {
		t.Errorf("the address %s has %v, and what is kept begins at %v: %v", address, at, began, err)
	}
	picture(t, b, "past")

	// What comes meanwhile changes nothing of it.
	m.set("leaf2", "Ethernet4", loaded(100e9, 999e8))
	last := webtest.Eval[float64](b, `Number(document.getElementById("when").max)`)
	b.Await(fmt.Sprintf(`Number(document.getElementById("when").max) > %f + 2000`, last))
	if got := webtest.Eval[string](b, worst); got != "leaf1:Ethernet204" {
		t.Errorf("the past has changed: the worst is %s", got)
	}
	// A port's page is of that time, too, as csig why has it.
	webtest.Eval[bool](b, `document.querySelector("#worst li a").click() ?? true`)
	b.Await(`location.pathname === "/port" && document.getElementById("state")?.textContent.startsWith("As it was at ") && document.getElementById("facts").innerText.includes("ABW\n1 Gbit/s")`)
	b.Await(`document.querySelector("#why tr[aria-current]")?.children[4].textContent.startsWith("abw 0") && document.getElementById("facts").innerText.includes("S of abw\n0")`)

	b.Open(address)
	b.Await(worst + ` === "leaf1:Ethernet204" && document.body.classList.contains("past")`)
	b.Open(address + "&from=gpu-1&to=gpu-5")
	b.Await(`document.getElementById("path").textContent === "Of what is known 1 Gbit/s, at leaf1:Ethernet204. Nothing current is known of spine2:Ethernet8."`)
	b.Open(address)
	b.Await(worst + ` === "leaf1:Ethernet204" && document.body.classList.contains("past")`)
	b.Window(390, 844)
	b.Await(`document.querySelector("#map svg").getBoundingClientRect().right <= 390`)
	if wide := webtest.Eval[int](b, `document.documentElement.scrollWidth`); wide > 390 {
		t.Errorf("the page is %d px wide on a screen of 390", wide)
	}
	b.Prefer("prefers-color-scheme", "dark")
	picture(t, b, "past-390-dark")
	webtest.Eval[bool](b, `document.getElementById("back").focus() ?? true`)
	b.Type(kb.Enter)
	b.Await(worst + ` === "leaf2:Ethernet4" && !document.body.classList.contains("past") && document.activeElement.id === "when"`)
	if at := webtest.Eval[string](b, `location.search`); at != "" {
		t.Errorf("the address of now is %s", at)
	}
	b.Open("http://" + host + "/?at=" + began.Add(-time.Hour).UTC().Format(time.RFC3339))
	b.Await(`document.getElementById("now")?.textContent.startsWith("Nothing is kept of ") && document.querySelectorAll("#rows tr").length === 0`)
}
