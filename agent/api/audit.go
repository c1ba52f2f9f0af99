package api

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"time"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// note logs that a peer asks for something, and more by names and values. The peer is whom the
// kernel or the certificate names, and no header.
func (s *Server) note(r *http.Request, what string, more ...string) {
	if s.audit == nil {
		return
	}
	line := s.audit.WithField("peer", s.peerOf(r).name).WithField("address", r.RemoteAddr).WithField("request", r.Method+" "+r.URL.Path)
	d := described(r)
	if d.Platform != "" {
		line = line.WithField("platform", untrusted.Text(d.Platform, 40))
	}
	if d.File != "" {
		line = line.WithField("device_sha256", fmt.Sprintf("%x", sha256.Sum256([]byte(d.File))))
	}
	for ; len(more) > 1; more = more[2:] {
		line = line.WithField(more[0], more[1])
	}
	line.Info(what)
}

// framesEvery is how often the log names a peer that sends test frames one after the other.
const framesEvery = time.Minute

// noteFrames logs that a peer has test frames sent, once in framesEvery.
func (s *Server) noteFrames(r *http.Request) {
	name, now := s.peerOf(r).name, time.Now()
	s.mu.Lock()
	known := s.framesBy == name && now.Sub(s.framesAt) < framesEvery
	if !known {
		s.framesBy, s.framesAt = name, now
	}
	s.mu.Unlock()
	if !known {
		s.note(r, "test frames requested")
	}
}
