package web

import (
	"slices"

	"github.com/csig-agent/csig/hosts/mesh"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// pathTags is the least that tags between two hosts have read.
type pathTags struct {
	State  string   `json:"state"`  // of the pair
	Signal string   `json:"signal"` // abw, or abwc of a profile without it
	Read   bool     `json:"read"`   // the following is there
	Note   string   `json:"note"`   // none, stale, or ""
	Range  string   `json:"range"`
	Low    uint64   `json:"low"` // of the bucket and of its neighbours: what is within is no difference
	High   uint64   `json:"high"`
	Ports  []string `json:"ports"` // that may have written it
	AgeNS  int64    `json:"age_ns"`
}

// tags is what the mesh has read from one host to another; nil where they are not two of its hosts.
func (s *Server) tags(f *inventory.Fleet, from, to string) *pathTags {
	p, err := s.cfg.Mesh.Pair(from, to)
	carried := f.Profile.Carried()
	sig := quantize.MinABW
	if !slices.Contains(carried, sig) {
		sig = quantize.MinABWC
	}
	if err != nil || !slices.Contains(carried, sig) {
		return nil
	}
	out := &pathTags{State: p.State, Signal: sig.String(), Ports: []string{}}
	i := slices.IndexFunc(p.Signals, func(r mesh.PairReading) bool { return r.Signal == out.Signal })
	if i < 0 {
		return out
	}
	r := &p.Signals[i]
	out.Read, out.Note, out.Range, out.AgeNS = true, r.Note, r.Range, r.AgeNS
	for _, port := range r.Ports {
		out.Ports = append(out.Ports, clean(port))
	}
	buckets := f.Profile.Signals[sig].Buckets
	out.Low, _ = buckets.Range(max(r.S, 1) - 1)
	_, out.High = buckets.Range(min(r.S+1, quantize.NumBuckets-1))
	return out
}
