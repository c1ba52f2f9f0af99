package web

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/web/webtest"
)

// becomes has a port be the worst from a cycle of its agent on that ends now, and returns its id and that time.
func (m *moving) becomes(k int) (id string, ended time.Time) {
	l := m.loads[k%len(m.loads)]
	for _, other := range m.loads {
		if other != l {
			m.set(other.device, other.port, loaded(100e9, 10e9))
		}
	}
	m.set(l.device, l.port, loaded(100e9, 99e9))
	for _, p := range m.status(l.device).Ports {
		if p.Port == l.port {
			ended = *p.WindowEnd
		}
	}
	return l.device + ":" + l.port, ended
}

// TestWorstIsNamedInTime: whenever in the page's second a cycle ends that makes a port the worst one, what follows the
// page is told within two intervals of a second.
func TestWorstIsNamedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMoving(t, 4, 2)
		m.at(0)
		cfg := one(t)
		cfg.Status, cfg.Fleet = m.status, func() (*inventory.Fleet, []string) { return m.fleet, m.names }
		_, ln, _ := inMemory(t, cfg)
		c := dial(t, ln)
		if _, err := fmt.Fprint(c, "GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(c)
		lines.Buffer(nil, 1<<20)
		most := time.Duration(0)
		for k := range 60 {
			time.Sleep(time.Duration(1000+k*170%1000) * time.Millisecond) // the agent's cycle, at each phase
			id, ended := m.becomes(k)
			for lines.Scan() {
				text, event := strings.CutPrefix(lines.Text(), "data: ")
				var d delta
				if !event {
					continue
				}
				if err := json.Unmarshal([]byte(text), &d); err != nil {
					t.Fatal(err)
				}
				if len(d.Worst) > 0 && d.Worst[0].ID == id {
					most = max(most, d.Now.Sub(ended))
					break
				}
			}
			if lines.Err() != nil {
				t.Fatal(lines.Err())
			}
		}
		t.Logf("at most %v after the end of the window", most)
		if most > 2*time.Second || most == 0 {
			t.Errorf("the worst port is named %v after it has become it", most)
		}
	})
}

// TestLongWorstIsNamedInTime: in a browser the worst port stands first within two intervals of its agent, from the end of the
// window on that makes it so: by the stamps of the agent and of the page.
func TestLongWorstIsNamedInTime(t *testing.T) {
	t.Parallel()
	const interval = 5 * time.Second // a browser of a busy machine may be slow; the test above has one
	m := newMoving(t, 36, 4)
	m.at(0)
	for _, s := range m.of {
		s.IntervalNS = interval.Nanoseconds()
	}
	host := serve(t, m.fleet, m.names, m.agents)
	b := webtest.New(t, webtest.Options{}, host)
	b.Open("http://" + host + "/")
	b.Await(`document.querySelectorAll("#worst li").length === 5`)
	// The page's own stamps: when another port came to stand first.
	webtest.Eval[bool](b, `(() => {
		globalThis.firsts = [];
		new MutationObserver(() => {
			const id = document.querySelector("#worst li")?.dataset.port;
			if (id && firsts.at(-1)?.id !== id) firsts.push({ id, at: Date.now() });
		}).observe(document.getElementById("worst"), { childList: true, subtree: true, attributes: true, characterData: true });
		return true;
	})()`)
	most := time.Duration(0)
	for k := range 5 {
		time.Sleep(interval + time.Duration(k)*130*time.Millisecond) // the agents' cycle, at another phase of the page's
		id, ended := m.becomes(17 * k)
		b.Await(fmt.Sprintf(`firsts.at(-1)?.id === %q`, id))
		at := time.UnixMilli(webtest.Eval[int64](b, `firsts.at(-1).at`))
		took := at.Sub(ended)
		most = max(most, took)
		if took > 2*interval {
			t.Errorf("%s stands first %v after it has become the worst, in intervals of %v", id, took, interval)
		}
	}
	t.Logf("%v at most, of an interval of %v", most.Round(time.Millisecond), interval)
}
