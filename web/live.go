package web

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/inventory/draw"
)

const (
	liveEvery = time.Second      // how often a client is sent what has changed, at most
	liveMost  = time.Hour        // how long a client follows until it has to ask again, with what lets it
	liveIdle  = 15 * time.Second // after which it is sent that nothing has
)

// topology is what the map is drawn by.
type topology struct {
	Title string    `json:"title"`
	Map   *draw.Map `json:"map"` // null where no link is known
}

// mapText is the topology of a fleet as it is sent: placing a large one takes long, and is done once.
type mapText struct {
	mu    sync.Mutex
	fleet *inventory.Fleet
	text  []byte // nil: not yet
}

func (s *Server) serveFleet(w http.ResponseWriter, _ *http.Request) {
	s.board.mu.Lock()
	f := s.board.fleet
	s.board.mu.Unlock()
	send(w, s.topology(f))
}

func (s *Server) topology(f *inventory.Fleet) []byte {
	s.drawn.mu.Lock()
	defer s.drawn.mu.Unlock()
	if s.drawn.text != nil && s.drawn.fleet == f {
		return s.drawn.text
	}
	var t topology
	if f != nil {
		t.Title = clean(f.Path)
		if m := draw.NewMap(f); len(m.Edges) > 0 {
			t.Map = &m
		}
	}
	s.drawn.fleet, s.drawn.text = f, marshal(t)
	return s.drawn.text
}

// marshal is for texts and numbers, which are no error.
func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// portAnswer is a port with its history.
type portAnswer struct {
	Now     time.Time       `json:"now"`
	Device  json.RawMessage `json:"device"`
	Port    json.RawMessage `json:"port"`
	Most    int             `json:"most"`    // samples that are kept of the port alone
	Older   int             `json:"older"`   // and of the fleet, in larger steps
	Samples [][]any         `json:"samples"` // after the time that was given; time in ms, load, capacity (null where not measured), S by T (null where none is written)
	Ranges  ranges          `json:"ranges"`  // of the buckets of the device's profile, as far as they have been written
	Peer    peer            `json:"peer"`
	Events  []Event         `json:"events"` // of the port and of its device, the newest first
}

func (s *Server) servePort(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.board.mu.Lock()
	d, p := s.board.find(q.Get("device"), q.Get("port"))
	if p == nil {
		s.board.mu.Unlock()
		http.Error(w, "there is no such port", http.StatusNotFound)
		return
	}
	a := portAnswer{Now: time.Now().UTC(), Device: d.row.text, Port: p.text, Most: s.board.samples(), Samples: [][]any{}, Events: []Event{}}
	a.Ranges, a.Peer = s.board.ranges.of(shown(d.status)), s.board.peer(d, p)
	samples, columns := p.history.all(), slices.Clone(s.board.past.columns)
	device, port := d.shownName(), p.name
	a.Older = len(columns)
	for i := len(d.events) - 1; i >= 0; i-- {
		if e := d.events[i]; e.Port == "" || e.Port == clean(p.name) {
			a.Events = append(a.Events, e)
		}
	}
	s.board.mu.Unlock()
	after, _ := strconv.ParseInt(q.Get("after"), 10, 64) // 0: all
	if after == 0 && len(samples) > 0 {                  // what is older than the port's own history, in larger steps
		if !s.mayTravel(r) {
			return
		}
		samples = append(pastOf(columns, device, port, samples[0].at), samples...)
		<-s.travels
	}
	for _, m := range samples {
		if m.at <= after {
			continue
		}
		row := []any{m.at, nil, nil}
		if m.measured {
			row[1], row[2] = m.load, m.capacity
		}
		for t, v := range m.s {
			if m.has&(1<<t) == 0 {
				row = append(row, nil)
			} else {
				row = append(row, v)
			}
		}
		a.Samples = append(a.Samples, row)
	}
	reply(w, a)
}

func reply(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	send(w, text)
}

func send(w http.ResponseWriter, text []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // an error: the client is gone
}

// serveLive sends what is on the board and then what changes there, as server-sent events. A
// client that takes them slowly is sent less of them, as it is sent what has changed since
// it was last sent something; one that does not take them is dropped.
func (s *Server) serveLive(w http.ResponseWriter, r *http.Request) {
	select {
	case s.live <- struct{}{}:
		defer func() { <-s.live }()
	default:
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many browsers follow this page: close one", http.StatusServiceUnavailable)
		return
	}
	q := r.URL.Query()
	if q.Has("device") != q.Has("port") || q.Has("port") && q.Get("port") == "" {
		http.Error(w, "give device and port, or neither for all ports", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	var at place
	pace := time.NewTicker(liveEvery)
	defer pace.Stop()
	var sent time.Time
	end := time.NewTimer(liveMost)
	defer end.Stop()
	for {
		d, now, changed := s.board.since(at, q.Get("device"), q.Get("port"))
		if d.Full || len(d.Devices)+len(d.Ports) > 0 || time.Since(sent) >= liveIdle {
			text, err := json.Marshal(d)
			if err != nil {
				return
			}
			if api.Send(w, append(append([]byte("data: "), text...), "\n\n"...), writeTimeout) != nil {
				return
			}
			sent = time.Now()
		}
		at = now
		select {
		case <-pace.C:
		case <-end.C:
			return
		case <-r.Context().Done():
			return
		case <-s.stop:
			return
		}
		select {
		case <-changed:
		case <-time.After(liveIdle):
		case <-r.Context().Done():
			return
		case <-s.stop:
			return
		}
	}
}
