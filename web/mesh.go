package web

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csig-agent/csig/hosts/mesh"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// Bounds of what the page shows of a mesh.
const (
	maxLimits   = 100 // ports
	maxFindings = 50
	maxChanges  = 60 // of a pair: the newest
)

// meshAnswer is what the hosts of a mesh have found out: what csig mesh status --json has, with the pairs as the cells
// of a matrix.
type meshAnswer struct {
	Here        bool              `json:"here"` // a mesh is collected here
	Now         time.Time         `json:"now,omitzero"`
	Profile     string            `json:"profile"`
	IntervalNS  int64             `json:"interval_ns"`
	OldestNS    int64             `json:"oldest_ns"`
	Live        int               `json:"live"` // hosts
	All         int               `json:"all"`
	States      map[string]int    `json:"states"` // pairs
	Bottlenecks []mesh.Bottleneck `json:"bottlenecks"`
	MoreLimits  int               `json:"more_limits"` // that are left off
	Findings    []mesh.Finding    `json:"findings"`
	MoreFound   int               `json:"more_findings"`

	Hosts  []string   `json:"hosts"`  // of the matrix; none of a mesh of more than mesh.MostMatrix
	Signal string     `json:"signal"` // that the cells are of
	Kinds  []string   `json:"kinds"`  // states of pairs, by number
	Ports  []string   `json:"ports"`  // that limit pairs, by number
	Cells  []pairCell `json:"cells"`  // of each host to all others, in the order of Hosts
}

// pairCell is a pair: its state, its level, the per cent of the capacity that its worst path has left at most, S, and the
// number of the port that limits it. -1: none.
type pairCell [5]int

// Levels of a cell beside 0 to 3, which are between the limits of ABW/C.
const (
	levelNone  = -1
	levelStale = 4
)

// meshText is a mesh's answer as it is sent: all browsers ask for the same.
type meshText struct {
	mu   sync.Mutex
	of   *mesh.Status
	text []byte
}

func (s *Server) serveMesh(w http.ResponseWriter, _ *http.Request) {
	if s.cfg.Mesh == nil {
		reply(w, meshAnswer{})
		return
	}
	status := s.cfg.Mesh.Status()
	s.board.mu.Lock()
	f := s.board.fleet
	s.board.mu.Unlock()
	s.mesh.mu.Lock()
	if s.mesh.of != status {
		s.mesh.of, s.mesh.text = status, marshal(answerOf(status, f))
	}
	text := s.mesh.text
	s.mesh.mu.Unlock() // before it is sent: a client that does not read holds up no other
	send(w, text)
}

func answerOf(s *mesh.Status, f *inventory.Fleet) meshAnswer {
	a := meshAnswer{
		Here: true, Now: s.Time.UTC(), Profile: clean(s.Profile), IntervalNS: s.IntervalNS, OldestNS: s.OldestNS, All: len(s.Hosts), States: s.States,
		Bottlenecks: s.Bottlenecks[:min(len(s.Bottlenecks), maxLimits)], Findings: s.Findings[:min(len(s.Findings), maxFindings)],
		Hosts: []string{}, Kinds: mesh.States, Ports: []string{}, Cells: []pairCell{},
	}
	a.MoreLimits, a.MoreFound = len(s.Bottlenecks)-len(a.Bottlenecks), len(s.Findings)-len(a.Findings)
	for i := range s.Hosts {
		if s.Hosts[i].State == mesh.HostLive {
			a.Live++
		}
		if len(s.Hosts) <= mesh.MostMatrix {
			a.Hosts = append(a.Hosts, clean(s.Hosts[i].Name))
		}
	}
	if len(s.Pairs) == 0 || f == nil {
		return a
	}
	sig, carried := cellSignal(f)
	if !carried {
		return a
	}
	a.Signal = sig.String()
	number := make(map[string]int)
	for i := range s.Pairs {
		p := &s.Pairs[i]
		one := pairCell{slices.Index(mesh.States, p.State), levelNone, -1, -1, -1}
		if k := slices.IndexFunc(p.Signals, func(r mesh.PairReading) bool { return r.Signal == a.Signal }); k >= 0 {
			r := &p.Signals[k]
			one[1], one[2], one[3] = levelOf(r, sig, f)
			if len(r.Ports) > 0 {
				name := clean(strings.Join(r.Ports, " or "))
				if _, known := number[name]; !known {
					number[name] = len(a.Ports)
					a.Ports = append(a.Ports, name)
				}
				one[4] = number[name]
			}
		}
		a.Cells = append(a.Cells, one)
	}
	return a
}

// cellSignal is the signal that the matrix shows: what is left of the capacity says most.
func cellSignal(f *inventory.Fleet) (quantize.Signal, bool) {
	carried := f.Profile.Carried()
	if slices.Contains(carried, quantize.MinABWC) {
		return quantize.MinABWC, true
	}
	if len(carried) == 0 {
		return 0, false
	}
	return carried[0], true
}

// levelOf is the level of a reading, the per cent of the capacity that are left at most, where that is known, and S.
func levelOf(r *mesh.PairReading, sig quantize.Signal, f *inventory.Fleet) (level, left, s int) {
	switch r.Note {
	case "stale":
		return levelStale, -1, -1
	case "none":
		return len(limits), -1, int(r.S) // no port has less
	}
	s = int(r.S)
	if ppm, ok := leftOf(r, sig, f); ok {
		level = 0
		for level < len(limits) && ppm > uint64(limits[level]) {
			level++
		}
		return level, int((ppm + 5_000) / 10_000), s
	}
	apart := int(max(r.S, sig.WorstBucket()) - min(r.S, sig.WorstBucket())) // buckets from the worst one
	for _, most := range []int{4, 8, 16} {
		if apart < most {
			return level, -1, s
		}
		level++
	}
	return level, -1, s
}

// leftOf is the part of the capacity that a reading leaves at most, in ppm.
func leftOf(r *mesh.PairReading, sig quantize.Signal, f *inventory.Fleet) (ppm uint64, ok bool) {
	buckets := f.Profile.Signals[sig].Buckets
	_, high := buckets.Range(r.S)
	switch {
	case sig == quantize.MinABWC:
		return min(high, 1_000_000), true
	case sig == quantize.MinABW && len(r.Ports) > 0:
		if _, p, ok := portOf(f, r.Ports[0]); ok && p.Speed > 0 {
			return uint64(math.Min(1, float64(high)/float64(p.Speed)) * 1e6), true
		}
	}
	return 0, false
}

// meshWhyAnswer is what the way from one host to another has read.
type meshWhyAnswer struct {
	Error string    `json:"error"`
	Why   *mesh.Why `json:"why"`  // null with an error
	More  int       `json:"more"` // older changes that are left off
}

func (s *Server) serveMeshWhy(w http.ResponseWriter, r *http.Request) {
	from, to := r.URL.Query().Get("from"), r.URL.Query().Get("to")
	var a meshWhyAnswer
	switch {
	case s.cfg.Mesh == nil:
		a.Error = "no mesh is collected here"
	case len(from) > maxEnd || len(to) > maxEnd:
		a.Error = tooLong
	default:
		why, err := s.cfg.Mesh.Why(from, to)
		if err != nil {
			a.Error = clean(err.Error())
			break
		}
		a.More = max(0, len(why.Changes)-maxChanges)
		why.Changes = why.Changes[a.More:]
		a.Why = why
	}
	reply(w, a)
}
