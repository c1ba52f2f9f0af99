package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
)

// boardOf is a board of these devices, whose statuses come from a.
func boardOf(a *agents, names ...string) *board {
	return newBoard(&Config{Status: a.status, Fleet: func() (*inventory.Fleet, []string) { return nil, names }})
}

// rows are the ports of a delta, by their ids, as "state" or "state abw".
func rows(t *testing.T, d delta) string {
	t.Helper()
	out := []string{}
	for _, text := range d.Ports {
		var p PortRow
		if err := json.Unmarshal(text, &p); err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s %s %d", p.ID, p.State, p.ABWBPS))
	}
	return strings.Join(out, ", ")
}

// TestDeltas: a client is sent everything first, then what has changed, and everything again where
// the fleet is another.
func TestDeltas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &agents{of: map[string]*api.Status{"s1": status("s1", live("p1", 1000, 100), live("p2", 1000, 200)), "s2": status("s2", live("p1", 1000, 300))}}
		names := []string{"s1"}
		b := newBoard(&Config{Status: a.status, Fleet: func() (*inventory.Fleet, []string) { return nil, names }})
		ctx, all := t.Context(), sync.WaitGroup{}
		b.renew(ctx, &all)
		s1 := b.devices[0]
		await := func(want string) { // the first look of a device is the board's own
			t.Helper()
			synctest.Wait()
			if d, _, _ := b.since(place{}, "", ""); rows(t, d) != want {
				t.Fatalf("got %s, want %s", rows(t, d), want)
			}
		}
		await("s1:p1 live 900, s1:p2 live 800")
		d, at, changed := b.since(place{}, "", "")
		if !d.Full || len(d.Devices) != 1 {
			t.Errorf("the first: %+v", d)
		}
		a.set("s1", "p2", loaded(1000, 400))
		b.look(s1)
		select {
		case <-changed:
		default:
			t.Error("nobody was told of a change")
		}
		d, at, _ = b.since(at, "", "")
		if got := rows(t, d); d.Full || got != "s1:p2 live 600" {
			t.Errorf("after a change: %s, full %t", got, d.Full)
		}
		if d, _, _ := b.since(place{}, "s1", "p1"); rows(t, d) != "s1:p1 live 900" {
			t.Errorf("of one port: %s", rows(t, d))
		}

		// A port that its agent no longer reports, and a device that is no longer in the fleet.
		a.mu.Lock()
		a.of["s1"].Ports = a.of["s1"].Ports[:1]
		a.mu.Unlock()
		b.look(s1)
		if d, _, _ := b.since(at, "", ""); rows(t, d) != "s1:p2 gone 0" {
			t.Errorf("a port that is gone: %s", rows(t, d))
		}
		names = []string{"s2"}
		b.renew(ctx, &all)
		await("s2:p1 live 700")
		if d, _, _ := b.since(at, "", ""); !d.Full {
			t.Errorf("another fleet: %+v", d)
		}
	})
}

// TestSilence: a device whose agent does not answer is said to be silent, until it does.
func TestSilence(t *testing.T) {
	a := &agents{of: map[string]*api.Status{"s1": status("s1", live("p1", 1000, 100))}}
	b := boardOf(a)
	d := &boardDevice{name: "s1", byName: make(map[string]*boardPort)}
	b.devices = []*boardDevice{d}
	silent := func() bool {
		var r DeviceRow
		if err := json.Unmarshal(d.row.text, &r); err != nil {
			t.Fatal(err)
		}
		return r.Silent
	}
	b.look(d)
	if b.silence(time.Now()); silent() {
		t.Error("it is silent at once")
	}
	port := func(want string) {
		t.Helper()
		if all, _, _ := b.since(place{}, "", ""); rows(t, all) != want {
			t.Errorf("its port is %s, want %s", rows(t, all), want)
		}
	}
	port("s1:p1 live 900")
	if b.silence(time.Now().Add(silentAfter + time.Second)); !silent() {
		t.Error("it is not silent")
	}
	port("s1:p1 unknown 0") // and not live, with its last figures
	if b.look(d); silent() {
		t.Error("it is silent after an answer")
	}
	port("s1:p1 live 900")

	// Of so many ports each device is looked at every 11 s.
	b.ports = 10 * portsASecond
	if b.silence(time.Now().Add(22 * time.Second)); silent() {
		t.Error("of 40,000 ports it is silent when one look is late")
	}
	if b.silence(time.Now().Add(24 * time.Second)); !silent() {
		t.Error("of 40,000 ports it is never silent")
	}
}

// TestOwnerSilent: the ports of a device that no controller drives do not stay as its last owner left them.
func TestOwnerSilent(t *testing.T) {
	own := status("s1", live("p1", 1000, 100))
	s := status("s1")
	s.Waiting, s.Elsewhere, s.Time = "no controller drives s1", own, time.Now()
	b := newBoard(&Config{Status: func(string) *api.Status { return s }, Owner: func(string) string { return "" }})
	d := &boardDevice{name: "s1", byName: make(map[string]*boardPort)}
	b.devices = []*boardDevice{d}
	for _, c := range []struct {
		age         time.Duration
		port, plane string
	}{
		{12 * time.Second, "s1:p1 live 900", api.DataPlaneLeased},
		{31 * time.Second, "s1:p1 unknown 0", api.DataPlaneUnknown},
		{time.Second, "s1:p1 live 900", api.DataPlaneLeased}, // of the next owner
	} {
		own.Time = s.Time.Add(-c.age)
		b.look(d)
		var r DeviceRow
		if err := json.Unmarshal(d.row.text, &r); err != nil {
			t.Fatal(err)
		}
		if all, _, _ := b.since(place{}, "", ""); rows(t, all) != c.port || r.DataPlane != c.plane || r.Waiting != s.Waiting {
			t.Errorf("%v: %s, %+v; want %s, %s", c.age, rows(t, all), r, c.port, c.plane)
		}
	}
}

// TestHistory: the newest samples are kept in their order, so many at most, and what is the same as
// before is none.
func TestHistory(t *testing.T) {
	var h history
	now := time.Now()
	add := func(load uint64, most int) {
		p := live("p1", 1000, load)
		now = now.Add(time.Second)
		*p.WindowEnd = now
		h.add(&p, now, most)
		h.add(&p, now.Add(time.Hour), most) // looked at again
	}
	loads := func() string {
		out := []uint64{}
		for _, s := range h.all() {
			out = append(out, s.load)
		}
		return fmt.Sprint(out)
	}
	for i := range uint64(7) {
		add(i, 5)
	}
	if got := loads(); got != "[2 3 4 5 6]" {
		t.Errorf("five of seven: %s", got)
	}
	add(7, 3) // there are more ports now
	if got := loads(); got != "[5 6 7]" {
		t.Errorf("three: %s", got)
	}
	add(8, 4)
	add(9, 4)
	if got := loads(); got != "[6 7 8 9]" {
		t.Errorf("four again: %s", got)
	}
	stale := api.Port{Port: "p1", State: api.StateStale}
	h.add(&stale, now.Add(time.Second), 4)
	h.add(&stale, now.Add(2*time.Second), 4)
	if s := h.all(); s[3].measured || s[3].has != 0 || !s[2].measured {
		t.Errorf("a port without a value: %+v", s)
	}
}

// TestEventsAreBounded: a port that changes all the time does not fill the memory.
func TestEventsAreBounded(t *testing.T) {
	d := &boardDevice{name: "s1"}
	states := []string{api.StateLive, api.StateStale}
	var was *api.Status
	for i := range 10 * eventsKept {
		p := live("p1", 1000, 100)
		p.State = states[i%2]
		is := status("s1", p)
		d.record(was, is, time.Now())
		was = is
	}
	if n := len(d.events); n != eventsKept || d.events[n-1].To != api.StateStale || d.events[n-1].From != api.StateLive {
		t.Errorf("%d events, the last is %+v", n, d.events[n-1])
	}
}

// TestDeafFollower: a browser that does not read what it is sent is dropped.
func TestDeafFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ports []api.Port
		for i := range 200 { // more than a connection takes unread
			p := live(fmt.Sprintf("p%d", i), 1000, 100)
			p.Reason = strings.Repeat("x", 400)
			ports = append(ports, p)
		}
		a := &agents{of: map[string]*api.Status{"s1": status("s1", ports...)}}
		cfg := one(t)
		cfg.Status = a.status
		s, ln, _ := inMemory(t, cfg)
		if _, err := io.WriteString(dial(t, ln), "GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(writeTimeout - time.Second)
		if len(s.live) != 1 {
			t.Error("it does not follow")
		}
		time.Sleep(2 * time.Second)
		if len(s.live) != 0 {
			t.Error("it is not dropped")
		}
	})
}

// TestWaiting: the notes of a device say in words that its agent waits, and what for.
func TestWaiting(t *testing.T) {
	for waiting, want := range map[string]string{
		"for a configuration: csig apply gives it one": `"waiting":"waiting for a configuration: csig apply gives it one"`,
		"controller \"b\" drives s1":                   `"waiting":"controller \"b\" drives s1"`,
		"":                                             `"waiting":""`,
	} {
		s := status("s1")
		s.Waiting = waiting
		text, err := json.Marshal(new(board{cfg: &Config{}}).deviceRow(&boardDevice{name: "s1"}, s, ""))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%q: %s, %v", waiting, text, err)
		}
	}
}

// TestClockSetBack: what comes after a clock was set back is kept, in place of what was of a later time.
func TestClockSetBack(t *testing.T) {
	var h history
	now := time.Now()
	add := func(load uint64) {
		p := live("p1", 1000, load)
		*p.WindowEnd = now
		h.add(&p, now, 100)
	}
	for i := range uint64(20) {
		now = now.Add(time.Second)
		add(i)
	}
	now = now.Add(-15 * time.Second)
	for range 5 {
		now = now.Add(time.Second)
		add(500)
	}
	all := h.all()
	if len(all) != 10 || all[4].load != 4 || all[5].load != 500 || !slices.IsSortedFunc(all, func(a, b sample) int { return cmp.Compare(a.at, b.at) }) {
		t.Errorf("5 seconds before and 5 after: %+v", all)
	}
	r := newPast(1 << 20)
	of := &places{}
	for _, at := range []int64{10_000, 20_000, 30_000, 15_000, 25_000} {
		r.add(column{at: at, of: of}, time.Now())
	}
	if len(r.columns) != 3 || r.columns[1].at != 15_000 {
		t.Errorf("of the fleet: %+v", r.columns)
	}
}

// TestGonePorts: a port that its agent does not report any more is there for an hour, and its memory is free then.
func TestGonePorts(t *testing.T) {
	b := newBoard(&Config{})
	d := &boardDevice{name: "s1", byName: make(map[string]*boardPort)}
	b.devices = append(b.devices, d)
	now := time.Now()
	for i := range 200 { // each minute it has another name
		b.putPorts(d, status("s1", live(fmt.Sprint("p", i), 1000, 1)), now)
		now = now.Add(time.Minute)
	}
	if len(d.ports) != 62 || len(d.byName) != 62 || b.ports != 62 || d.ports[61].name != "p199" {
		t.Errorf("%d ports are kept, by name %d, and counted are %d", len(d.ports), len(d.byName), b.ports)
	}
	if delta, _, _ := b.since(place{epoch: b.epoch - 1, version: b.version}, "", ""); !delta.Full || len(delta.Ports) != 62 {
		t.Errorf("a browser is sent %d ports, all: %v", len(delta.Ports), delta.Full)
	}
}

// deaf is a client that reads nothing until it goes.
type deaf struct {
	*httptest.ResponseRecorder
	gone chan struct{}
}

func (d *deaf) Write(b []byte) (int, error) { <-d.gone; return len(b), nil }

// TestDeafReaders: clients that do not read their answers hold up no others.
func TestDeafReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := one(t)
		cfg.Mesh = newMeshed(t, 2, 2).collector
		s, _, client := inMemory(t, cfg)
		served := map[string]http.HandlerFunc{"mesh": s.serveMesh, "past?at=2000000000000": s.servePast, "port?device=s1&port=swp1": s.servePort}
		gone := make(chan struct{})
		var all sync.WaitGroup
		for path, serve := range served {
			for range maxTravels {
				all.Go(func() {
					serve(&deaf{httptest.NewRecorder(), gone}, httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/"+path, nil))
				})
			}
		}
		synctest.Wait()
		began := time.Now()
		for path := range served {
			r, err := client.Get("http://localhost/api/v1/" + path)
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			if r.StatusCode != http.StatusOK || time.Since(began) > 0 {
				t.Errorf("%s: %s after %v", path, r.Status, time.Since(began))
			}
		}
		close(gone)
		all.Wait()
	})
}
