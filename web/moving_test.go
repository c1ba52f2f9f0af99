package web

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
)

// moving is a fleet of leaves and spines whose load moves: four hosts on each leaf, and four spines
// above each.
type moving struct {
	fleet *inventory.Fleet
	names []string
	*agents
	loads []load // of all ports
}

// load is how loaded a port is: around mean, by swing and in a period of so many seconds.
type load struct {
	device, port       string
	mean, swing, phase float64
	period             float64
}

func newMoving(t testing.TB, leaves, spines int) *moving { return newMovingWith(t, leaves, spines, "") }

// newMovingWith is one whose fleet file has more text at its end.
func newMovingWith(t testing.TB, leaves, spines int, more string) *moving {
	t.Helper()
	m := &moving{agents: &agents{of: make(map[string]*api.Status)}}
	ports := make(map[string][]api.Port)
	var links []string
	add := func(device, port string) {
		n := len(m.loads)
		ports[device] = append(ports[device], live(port, 100e9, 1e9))
		m.loads = append(m.loads, load{device, port, 0.15 + 0.5*float64(n*7%16)/16, 0.04 + 0.1*float64(n*5%11)/11, float64(n % 13), 20 + float64(n%29)})
	}
	for l := 1; l <= leaves; l++ {
		leaf := fmt.Sprintf("leaf%d", l)
		m.names = append(m.names, leaf)
		for s := 1; s <= min(spines, 4); s++ {
			spine := fmt.Sprintf("spine%d", (l+s)%spines+1)
			up, down := fmt.Sprintf("Ethernet%d", 200+4*s), fmt.Sprintf("Ethernet%d", 4*l)
			links = append(links, fmt.Sprintf("%s:%s - %s:%s", leaf, up, spine, down))
			add(leaf, up)
			add(spine, down)
		}
		for h := range 4 {
			port := fmt.Sprintf("Ethernet%d", 4*h)
			links = append(links, fmt.Sprintf("%s:%s - gpu-%d", leaf, port, 4*(l-1)+h+1))
			add(leaf, port)
		}
	}
	for s := 1; s <= spines; s++ {
		m.names = append(m.names, fmt.Sprintf("spine%d", s))
	}
	var text strings.Builder
	text.WriteString("format: csig.fleet/v1\nprofile: {name: pod1, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-100G}, abwc: {buckets: log}}}\ndefaults: {platform: sonic}\ndevices:\n")
	for _, name := range m.names {
		fmt.Fprintf(&text, "  - {name: %s}\n", name)
		s := status(name, ports[name]...)
		s.Platform = "sonic"
		for _, what := range []string{"counters are cached for 1 s", "the chip has one table for all ports", "entries are written one by one", "no lease: the watchdog on the switch clears values after 3 s"} {
			s.Verdicts = append(s.Verdicts, api.Verdict{What: "update", Level: "degraded", Reason: what})
		}
		m.of[name] = s
	}
	text.WriteString("links: |\n  " + strings.Join(links, "\n  ") + "\n" + more)
	f, err := inventory.Parse("pod1.yaml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	m.fleet = f
	return m
}

// at has all ports loaded as they are so many seconds after the beginning.
func (m *moving) at(second float64) {
	for _, l := range m.loads {
		part := l.mean + l.swing*math.Sin(2*math.Pi*(second+l.phase)/l.period)
		m.set(l.device, l.port, loaded(100e9, uint64(100e9*min(max(part, 0), 1))))
	}
}

// run moves the load each second until the test ends.
func (m *moving) run(t testing.TB) {
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	m.at(0)
	go func() {
		every := time.NewTicker(time.Second)
		defer every.Stop()
		for second := 1.0; ; second++ {
			select {
			case <-every.C:
				m.at(second)
			case <-end:
				return
			}
		}
	}()
}
