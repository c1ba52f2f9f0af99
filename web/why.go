package web

import (
	"maps"
	"net/http"
	"time"

	"github.com/csig-agent/csig/agent/api"
)

// maxRecords is how many records of a port the page shows: the newest.
const maxRecords = 200

// whyAnswer is how a port's signals came about, as csig why has it.
type whyAnswer struct {
	Error   string      `json:"error"` // why there are none
	Shadow  bool        `json:"shadow"`
	More    int         `json:"more"`    // older records that are left off
	Records []whyRecord `json:"records"` // the newest first
}

// whyRecord is an api.Record without what only a terminal has the room for.
type whyRecord struct {
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Cycles   uint64    `json:"cycles"`
	State    string    `json:"state"`
	MinABW   uint64    `json:"min_abw_bps"`
	MaxABW   uint64    `json:"max_abw_bps"`
	Octets   uint64    `json:"octets"` // the counter, in the first cycle
	Bits     uint64    `json:"bits"`   // on the wire in the window of the first cycle
	WindowNS int64     `json:"window_ns"`
	Program  int64     `json:"program_ns"`
	Ops      uint32    `json:"operations"`
	Written  bool      `json:"written"`
	Held     bool      `json:"held"`
	Signals  []Signal  `json:"signals"`
	Computed []int     `json:"computed"` // buckets of the values of the first cycle, before damping, beside Signals
	Notes    []string  `json:"notes"`    // reason, failure, refusal, repair
}

func (s *Server) serveWhy(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.board.mu.Lock()
	d, p := s.board.find(q.Get("device"), q.Get("port"))
	s.board.mu.Unlock()
	a := whyAnswer{Records: []whyRecord{}}
	switch {
	case p == nil:
		http.Error(w, "there is no such port", http.StatusNotFound)
		return
	case s.cfg.Why == nil:
		a.Error = "csig why in a terminal has it"
	default:
		why, err := s.cfg.Why(d.name, p.name)
		if err != nil {
			a.Error = clean(err.Error())
			break
		}
		a.Shadow, a.More = why.Shadow, max(0, len(why.Records)-maxRecords)
		for i := len(why.Records) - 1; i >= a.More; i-- {
			a.Records = append(a.Records, recordRow(&why.Records[i]))
		}
	}
	reply(w, a)
}

func recordRow(r *api.Record) whyRecord {
	out := whyRecord{
		From: r.First.At.UTC(), To: r.Last.At.UTC(), Cycles: r.Cycles, State: r.State, MinABW: r.MinABW, MaxABW: r.MaxABW,
		Octets: r.First.Octets, Bits: r.First.Bits, WindowNS: r.First.WindowEnd.Sub(r.First.WindowStart).Nanoseconds(), Program: r.First.ProgramNS, Ops: r.First.Operations,
		Written: r.Written, Held: r.Held, Signals: []Signal{}, Computed: append([]int{}, r.First.Buckets...), Notes: []string{},
	}
	for i := range r.Signals {
		out.Signals = append(out.Signals, signalRow(&r.Signals[i]))
	}
	for _, n := range []struct{ what, text string }{{"", r.Reason}, {"the cycle failed: ", r.Failure}, {"not written: ", r.Refused}, {"rules had been changed, and were restored: ", r.Repaired}} {
		if n.text != "" {
			out.Notes = append(out.Notes, clean(n.what+n.text))
		}
	}
	return out
}

func signalRow(g *api.Signal) Signal {
	return Signal{g.Signal, g.Bucket, g.Low, g.High, g.Unit, clean(g.Locator), g.Doubtful, g.Stale}
}

// peer is the other end of a port's link.
type peer struct {
	Name   string `json:"name"`   // of the device or host; "": it is not known
	Port   string `json:"port"`   // "" at a host
	Driven bool   `json:"driven"` // the page has that port, too
}

// peer is that of a port by the fleet file. The caller has the lock.
func (b *board) peer(d *boardDevice, p *boardPort) (out peer) {
	if b.fleet == nil {
		return out
	}
	dev, ok := b.fleet.Device(d.shownName())
	if !ok {
		return out
	}
	q, ok := dev.Port(p.name)
	if !ok {
		return out
	}
	_, there := b.find(q.Peer.Device, q.Peer.Port)
	return peer{clean(q.Peer.Device), clean(q.Peer.Port), there != nil}
}

// ranges are those of buckets, by T and S, in the signal's unit.
type ranges map[uint8]signalRanges

type signalRanges struct {
	Unit string              `json:"unit"`
	Of   map[uint8][2]uint64 `json:"of"`
}

// rangesByProfile are learned from what devices write: they are the same in all of a profile.
type rangesByProfile map[string]ranges

// mostProfiles bounds what devices can make the page remember.
const mostProfiles = 16

// learn takes the buckets that a port writes. The caller has the board's lock.
func (r *rangesByProfile) learn(s *api.Status, p *api.Port) {
	for i := range p.Signals {
		g := &p.Signals[i]
		if g.T >= signalsKept {
			continue
		}
		of := (*r)[s.ProfileHash]
		if of == nil {
			if *r == nil || len(*r) >= mostProfiles {
				*r = rangesByProfile{}
			}
			of = ranges{}
			(*r)[s.ProfileHash] = of
		}
		if of[g.T].Of == nil {
			of[g.T] = signalRanges{clean(g.Unit), make(map[uint8][2]uint64)}
		}
		of[g.T].Of[g.Bucket] = [2]uint64{g.Low, g.High}
	}
}

// of are those of a device's profile, for one that has no lock.
func (r rangesByProfile) of(s *api.Status) ranges {
	out := ranges{}
	if s == nil {
		return out
	}
	for t, g := range r[s.ProfileHash] {
		out[t] = signalRanges{g.Unit, maps.Clone(g.Of)}
	}
	return out
}
