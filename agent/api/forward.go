package api

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
)

// Trusted is a connection whose peer may do everything: a controller that has identified its
// own client.
type Trusted interface {
	net.Conn
	Peer() string // for the log
}

// ErrNoOwner is the answer of a controller that shares a device, while no owner of it answers.
var ErrNoOwner = errors.New("no controller that drives the device answers")

// Also has the server answer connections that are Trusted, at another listener. It is called
// before Serve.
func (s *Server) Also(ln net.Listener) { s.lns = append(s.lns, &limited{Listener: ln}) }

// Forward has another handler answer what is asked of the device: all but journals, metrics, and
// a status that no operator's command asks for. It is called before Serve, in place of Manage.
func (s *Server) Forward(to http.Handler) { s.forward = to }

func (s *Server) forwards(r *http.Request) bool {
	path := r.URL.Path
	switch {
	case s.forward == nil || slices.Contains(observePaths, path) || path == JournalsPath || strings.HasPrefix(path, JournalsPath+"/"):
		return false
	case path == StatusPath || path == WatchPath:
		return r.Header.Get(operatorHeader) != ""
	}
	return true
}
