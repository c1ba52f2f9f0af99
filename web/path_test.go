package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/csig-agent/csig/web/webtest"
)

// TestPaths: the ports that a frame passes between two ends of every kind.
func TestPaths(t *testing.T) {
	m := newMoving(t, 3, 2)
	var p fleetPaths
	for _, c := range []struct{ from, to, want string }{
		{"gpu-1", "gpu-2", "[[leaf1:Ethernet4]]"},
		{"gpu-1", "gpu-5", "[[leaf1:Ethernet204 leaf1:Ethernet208] [spine1:Ethernet8 spine2:Ethernet8] [leaf2:Ethernet0]]"},
		{"leaf1", "leaf2", "[[leaf1:Ethernet204 leaf1:Ethernet208] [spine1:Ethernet8 spine2:Ethernet8]]"},
		{"leaf1:Ethernet204", "gpu-5", "[[leaf1:Ethernet204] [spine1:Ethernet8] [leaf2:Ethernet0]]"},
		{"gpu-1", "spine2:Ethernet12", "[[leaf1:Ethernet208] [spine2:Ethernet12]]"},
		{"leaf1:Ethernet204", "leaf1:Ethernet204", "[[leaf1:Ethernet204]]"},
		{"leaf1:Ethernet204", "spine1:Ethernet8", "[[leaf1:Ethernet204] [spine1:Ethernet8]]"},
		{"leaf1:Ethernet0", "gpu-1", "[[leaf1:Ethernet0]]"},
		{"leaf1:Ethernet0", "gpu-2", "leaf1:Ethernet0 leads to the host gpu-1, and no further"},
		{"gpu-1", "gpu-99", `to: there is no device "gpu-99", and no port is connected to a host of this name`},
		{"", "gpu-1", "give both ends"},
		{strings.Repeat("x", maxEnd+1), "gpu-1", "no name is longer than 256 characters"},
	} {
		hops, err := p.between(m.fleet, c.from, c.to)
		got := fmt.Sprint(hops)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("from %s to %s: %s, want %s", c.from, c.to, got, c.want)
		}
	}
	if _, err := p.between(nil, "a", "b"); err == nil {
		t.Error("a path without a fleet")
	}
}

// TestLongPathOnPage: from A to B is the minimum that the counters have, at the port that limits it, and
// follows them.
func TestLongPathOnPage(t *testing.T) {
	t.Parallel()
	m := newMoving(t, 2, 2)
	for _, l := range m.loads {
		m.set(l.device, l.port, loaded(100e9, 10e9))
	}
	m.set("leaf2", "Ethernet0", loaded(100e9, 40e9))
	m.set("leaf1", "Ethernet204", loaded(100e9, 70e9))
	host := serve(t, m.fleet, m.names, m.agents)
	b := webtest.New(t, webtest.Options{}, host)
	b.Window(1440, 900)
	b.Open("http://" + host + "/")
	b.Await(`document.querySelectorAll("#ends option").length === 8 + 4 + 16`)
	b.Await(`document.querySelectorAll("#rows tr").length === 16`)
	webtest.Eval[bool](b, `document.getElementById("from").focus() ?? true`)
	b.Type("gpu-1\t")
	b.Type("gpu-5\r")
	b.Await(`document.getElementById("path").textContent === "On the best path 60 Gbit/s, at leaf2:Ethernet0; on the worst 30 Gbit/s, at leaf1:Ethernet204."`)
	b.Await(`[...document.querySelectorAll("#hops li")].map((li) => li.textContent).join("|") === "leaf1:Ethernet208 90 Gbit/s or leaf1:Ethernet204 30 Gbit/s|spine1:Ethernet8 90 Gbit/s or spine2:Ethernet8 90 Gbit/s|leaf2:Ethernet0 60 Gbit/s"`)
	if n := webtest.Eval[int](b, `document.querySelectorAll("#map .way").length`); n != 5 {
		t.Errorf("%d ports of the path are marked on the map, of 5", n)
	}
	picture(t, b, "path")
	m.set("leaf2", "Ethernet0", loaded(100e9, 99e9))
	b.Await(`document.getElementById("path").textContent === "On every path 1 Gbit/s, at leaf2:Ethernet0."`)

	// The address is that of the question.
	b.Open(webtest.Eval[string](b, `location.href`))
	b.Await(`document.getElementById("path").textContent.startsWith("On every path 1 Gbit/s")`)
	b.Open("http://" + host + "/?from=gpu-1&to=%3Cb%3Ex")
	b.Await(`document.getElementById("path").textContent.startsWith('to: there is no device "<b>x"')`)
}
