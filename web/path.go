package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/csig-agent/csig/inventory"
)

// maxEnd bounds the name of an end of a path, in bytes.
const maxEnd = 256

var tooLong = fmt.Sprintf("no name is longer than %d characters", maxEnd)

// pathAnswer is where frames go from one end to another, by the fleet file.
type pathAnswer struct {
	Error string     `json:"error"` // why there is no path
	Hops  [][]string `json:"hops"`  // ids of egress ports; a frame passes one of each hop
	Tags  *pathTags  `json:"tags"`  // null where the ends are not two hosts of a mesh that is collected here
}

// fleetPaths finds paths through the fleet that was last asked for: a large one takes long to look at.
type fleetPaths struct {
	mu    sync.Mutex
	fleet *inventory.Fleet
	paths *inventory.Paths
}

func (s *Server) servePath(w http.ResponseWriter, r *http.Request) {
	s.board.mu.Lock()
	f := s.board.fleet
	s.board.mu.Unlock()
	q, a := r.URL.Query(), pathAnswer{Hops: [][]string{}}
	if hops, err := s.paths.between(f, q.Get("from"), q.Get("to")); err != nil {
		a.Error = clean(err.Error())
	} else {
		for _, hop := range hops {
			ids := []string{}
			for _, p := range hop {
				ids = append(ids, clean(p.Device)+":"+clean(p.Port))
			}
			a.Hops = append(a.Hops, ids)
		}
	}
	if s.cfg.Mesh != nil && f != nil { // also where the fleet file has no path: hosts may know more
		a.Tags = s.tags(f, q.Get("from"), q.Get("to"))
	}
	reply(w, a)
}

// between is the path from a host, a device or a port (DEVICE:PORT, which is passed first) to another (which is
// passed last).
func (p *fleetPaths) between(f *inventory.Fleet, from, to string) (hops [][]inventory.PortRef, err error) {
	switch {
	case f == nil:
		return nil, fmt.Errorf("no links are known here")
	case from == "" || to == "":
		return nil, fmt.Errorf("give both ends")
	case len(from) > maxEnd || len(to) > maxEnd:
		return nil, errors.New(tooLong)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fleet != f {
		p.fleet, p.paths = f, f.Paths()
	}
	var first, last [][]inventory.PortRef
	if ref, port, ok := portOf(f, from); ok {
		if first = [][]inventory.PortRef{{ref}}; from == to || port.Peer.Device == to {
			return first, nil
		}
		if from = port.Peer.Device; from == "" {
			return nil, fmt.Errorf("the fleet file does not have what %s is connected to", ref)
		}
		if _, device := f.Device(from); !device {
			return nil, fmt.Errorf("%s leads to the host %s, and no further", ref, from)
		}
	}
	if ref, _, ok := portOf(f, to); ok {
		if to, last = ref.Device, [][]inventory.PortRef{{ref}}; from == to {
			return append(first, last...), nil
		}
	}
	if hops, err = p.paths.Hops(from, to); err != nil {
		return nil, fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "--")) // the name of a flag
	}
	return append(append(first, hops...), last...), nil
}

// portOf is the port that a name of the form DEVICE:PORT means.
func portOf(f *inventory.Fleet, name string) (inventory.PortRef, *inventory.Port, bool) {
	device, port, _ := strings.Cut(name, ":")
	if d, ok := f.Device(device); ok {
		if q, ok := d.Port(port); ok {
			return inventory.PortRef{Device: device, Port: port}, q, true
		}
	}
	return inventory.PortRef{}, nil, false
}
