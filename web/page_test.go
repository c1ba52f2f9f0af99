package web

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/web/webtest"
)

func TestMain(m *testing.M) { os.Exit(webtest.Main(m)) }

var pictures = flag.String("pictures", "", "folder for pictures of the pages")

// agents are those of a fleet for tests: statuses that a test changes.
type agents struct {
	mu sync.Mutex
	of map[string]*api.Status
}

func (a *agents) status(device string) *api.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, ok := a.of[device]
	if !ok {
		return nil
	}
	now := *s
	now.Time = time.Now()
	now.Ports = append([]api.Port(nil), s.Ports...)
	for i := range now.Ports {
		if p := &now.Ports[i]; p.WindowEnd != nil {
			p.AgeNS = now.Time.Sub(*p.WindowEnd).Nanoseconds()
		}
	}
	return &now
}

// set gives a port other figures, as a cycle does.
func (a *agents) set(device, port string, change func(p *api.Port)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.of[device]
	for i := range s.Ports {
		if p := &s.Ports[i]; p.Port == port {
			change(p)
			end := time.Now()
			if p.WindowEnd != nil {
				p.WindowEnd = &end
			}
		}
	}
}

// live is a port whose link has this much load.
func live(name string, capacity, load uint64) api.Port {
	end := time.Now()
	start := end.Add(-time.Second)
	p := api.Port{Port: name, Action: "update", State: api.StateLive, WindowStart: &start, WindowEnd: &end}
	loaded(capacity, load)(&p)
	return p
}

func loaded(capacity, load uint64) func(*api.Port) {
	return func(p *api.Port) {
		p.CapacityBPS, p.LoadBPS, p.ABWBPS = capacity, load, capacity-load
		p.ABWCPPM = uint32((capacity - load) * 1_000_000 / capacity)
		s := uint8((capacity - load) * 31 / capacity)
		p.Signals = []api.Signal{{Signal: "abw", T: 0, Bucket: s, Low: uint64(s) * capacity / 31, High: uint64(s+1) * capacity / 31, Unit: "bit/s", LM: 5, Locator: "5"}}
	}
}

// status is that of an agent that runs.
func status(device string, ports ...api.Port) *api.Status {
	return &api.Status{Format: api.StatusFormat, Device: device, Platform: "linux", Version: "test", Started: time.Now(), Profile: "x", ProfileHash: "0123456789abcdef",
		TPID: 0x88a8, Layout: "draft-00", IntervalNS: int64(time.Second), DataPlane: api.DataPlaneLeased, Verdicts: []api.Verdict{}, Ports: ports}
}

// serve serves a page of these agents until the test ends, and returns its host.
func serve(t testing.TB, fleet *inventory.Fleet, names []string, a *agents) string {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	return run(t, Config{
		Addr: "127.0.0.1:0", Log: logrus.NewEntry(log), Status: a.status,
		Fleet: func() (*inventory.Fleet, []string) { return fleet, names },
	}).Addr().String()
}

func run(t testing.TB, cfg Config) *Server {
	t.Helper()
	s, stop := start(t, cfg)
	t.Cleanup(stop)
	return s
}

// start serves a page until it is stopped.
func start(t testing.TB, cfg Config) (s *Server, stop func()) {
	t.Helper()
	s, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	return s, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// picture keeps a picture of the page where it is asked for.
func picture(t *testing.T, b *webtest.Browser, name string) {
	t.Helper()
	if *pictures == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*pictures, name+".png"), b.Picture(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// cell is a cell's text in the table of ports: columns count from the port's name.
func cell(port string, column int) string {
	return fmt.Sprintf(`[...document.querySelectorAll("#rows tr")].find((tr) => tr.children[0].textContent === %q)?.children[%d].textContent`, port, column)
}

// TestLongPageIsLive loads the page in a Chromium: it says nothing in the console, asks no other
// host, and shows a value that an agent changes.
func TestLongPageIsLive(t *testing.T) {
	t.Parallel()
	a := &agents{of: map[string]*api.Status{"s1": status("s1", live("swp1", 10e9, 1e9), live("swp2", 10e9, 9e9))}}
	host := serve(t, nil, []string{"s1", "s2"}, a)
	b := webtest.New(t, webtest.Options{}, host)
	b.Open("http://" + host + "/")
	b.Await(cell("s1:swp1", 2) + ` === "9 Gbit/s"`)
	if first := webtest.Eval[string](b, `document.querySelector("#rows tr th").textContent`); first != "s1:swp2" {
		t.Errorf("%s is first, and has not the least ABW", first)
	}
	b.Await(`document.getElementById("live").textContent === "Live"`)

	a.set("s1", "swp1", loaded(10e9, 4e9))
	b.Await(cell("s1:swp1", 2) + ` === "6 Gbit/s"`)
	a.set("s1", "swp2", func(p *api.Port) {
		p.State, p.Reason, p.WindowEnd, p.Signals = api.StateStale, "the lease ended 3s ago: no answer", nil, nil
	})
	b.Await(cell("s1:swp2", 1) + ` === "?stale"`)
	b.Await(cell("s1:swp2", 2) + ` === "–"`)
	b.Await(`[...document.querySelectorAll("#counts li")].some((li) => li.textContent === "? 1 stale")`)
	picture(t, b, "live")
}

// TestLongDeadPath: where the path to the server dies without a reset, the page does not stay live,
// and connects again.
func TestLongDeadPath(t *testing.T) {
	t.Parallel()
	a := &agents{of: map[string]*api.Status{"s1": status("s1", live("swp1", 10e9, 1e9))}}
	host, dead := mortal(t, serve(t, nil, []string{"s1"}, a))
	b := webtest.New(t, webtest.Options{}, host)
	b.Open("http://" + host + "/")
	b.Await(cell("s1:swp1", 2) + ` === "9 Gbit/s"`)
	b.Await(`document.getElementById("live").textContent === "Live"`)

	dead.Store(true)
	later := func() { // the limit passes on the page's clock
		webtest.Eval[float64](b, `(Date.now = ((now) => () => now() + 41000)(Date.now))()`)
	}
	later()
	b.Await(`document.getElementById("live").textContent.startsWith("Not live: the last news came ")`)
	a.set("s1", "swp1", loaded(10e9, 4e9))
	dead.Store(false) // what was sent meanwhile is lost
	later()
	b.Await(cell("s1:swp1", 2) + ` === "6 Gbit/s"`)
	b.Await(`document.getElementById("live").textContent === "Live"`)
}

// mortal relays connections to a host, and loses what is sent over them while it is dead.
func mortal(t *testing.T, host string) (addr string, dead *atomic.Bool) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	dead = new(atomic.Bool)
	relay := func(to, from net.Conn) {
		defer to.Close()
		buf := make([]byte, 32<<10)
		for {
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			if dead.Load() {
				continue
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", host)
			if err != nil {
				c.Close()
				continue
			}
			go relay(s, c)
			go relay(c, s)
		}
	}()
	return ln.Addr().String(), dead
}

// TestLongNarrowTable: on narrow screens a long reason neither makes its row high nor leaves the
// window.
func TestLongNarrowTable(t *testing.T) {
	t.Parallel()
	reason := strings.Repeat("capacity unknown: the device does not report it; set speed: for this port in the fleet file; ", 3)
	stale := live("swp2", 10e9, 1e9)
	stale.State, stale.Reason, stale.WindowEnd = api.StateStale, reason, nil
	a := &agents{of: map[string]*api.Status{"leaf1": status("leaf1", live("swp1", 10e9, 1e9), stale)}}
	host := serve(t, nil, []string{"leaf1"}, a)
	b := webtest.New(t, webtest.Options{}, host)
	b.Open("http://" + host + "/")
	for _, width := range []int64{800, 1000, 1200, 1600} {
		b.Window(width, 800)
		b.Await(cell("leaf1:swp2", 1) + ` === "?stale"`)
		if high := webtest.Eval[float64](b, `Math.max(...[...document.querySelectorAll("#rows tr")].map((tr) => tr.getBoundingClientRect().height))`); high > 60 {
			t.Errorf("%d px: a row is %v px high", width, high)
		}
		if left := webtest.Eval[float64](b, `innerWidth - document.querySelector("#rows td:last-child").getBoundingClientRect().right`); left < 0 {
			t.Errorf("%d px: the reason ends %v px beyond the window", width, -left)
		}
		if wide := webtest.Eval[float64](b, `document.querySelector("#rows td:last-child").getBoundingClientRect().width`); wide < 80 {
			t.Errorf("%d px: the reason has %v px", width, wide)
		}
		picture(t, b, fmt.Sprint("narrow-", width))
	}
	if title := webtest.Eval[string](b, `[...document.querySelectorAll("#rows td:last-child")].map((td) => td.title).join("")`); title != strings.TrimSpace(reason) {
		t.Errorf("the whole reason is not at hand: %q", title)
	}
}

// TestLongAnotherServer: a page that stays open has the map of the server that is there now.
func TestLongAnotherServer(t *testing.T) {
	t.Parallel()
	a := &agents{of: map[string]*api.Status{}}
	addr := "127.0.0.1:0"
	serve := func(switches int) (stop func()) {
		t.Helper()
		text := "format: csig.fleet/v1\nprofile: {name: x, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-100G}}}\ndefaults: {platform: sonic}\ndevices:\n"
		links, names := "links: |\n", []string(nil)
		for i := range switches {
			names = append(names, fmt.Sprint("s", i))
			text += fmt.Sprintf("  - {name: s%d}\n", i)
			if i > 0 {
				links += fmt.Sprintf("  s0:Ethernet%d - s%d:Ethernet0\n", 4*i, i)
			}
			a.of[names[i]] = status(names[i], live("Ethernet0", 10e9, 1e9))
		}
		fleet, err := inventory.Parse("fleet.yaml", []byte(text+links))
		if err != nil {
			t.Fatal(err)
		}
		cfg := one(t)
		cfg.Addr, cfg.Status, cfg.Fleet = addr, a.status, func() (*inventory.Fleet, []string) { return fleet, names }
		s, end := start(t, cfg)
		addr = s.Addr().String()
		return end
	}
	stop := serve(2)
	b := webtest.New(t, webtest.Options{}, addr)
	b.Open("http://" + addr + "/")
	b.Await(`document.querySelectorAll("#map .switch").length === 2`)
	stop()
	stop = serve(3)
	defer stop()
	b.Await(`document.querySelectorAll("#map .switch").length === 3`)
	b.Problems() // of the connection that was gone
}
