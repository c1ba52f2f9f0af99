package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// ArmedPath is the path of a daemon's auto-revert: the daemon undoes changes that
// are not confirmed in time. GET: one Armed; POST: an Armed with AfterNS, answered
// with the Mark; DELETE with ?mark=: the change is confirmed. Changes carry the
// mark, a token, as ?mark= of ConfigPath.
const ArmedPath = "/v1/armed"

// ArmedFormat names the shape of Armed.
const ArmedFormat = "csig.armed/v1"

// Armed is whether and when a daemon reverts by itself.
type Armed struct {
	Format  string `json:"format"`
	Armed   bool   `json:"armed"`
	LeftNS  int64  `json:"left_ns"`  // until it reverts; negative: overdue; 0 where it does not
	AfterNS int64  `json:"after_ns"` // of a POST: the delay
	Mark    string `json:"mark"`     // of a POST's answer; "" else
}

// maxArmed bounds an Armed as JSON, in bytes.
const maxArmed = 1 << 12

// manageArmed answers ArmedPath.
func (s *Server) manageArmed(m Manager) {
	s.mux.HandleFunc("GET "+ArmedPath, answer(func(r *http.Request) (any, error) {
		err := m.Armed(r.Context(), argument(r, "platform"))
		var waits *vendors.ArmedError
		if errors.As(err, &waits) {
			return Armed{Format: ArmedFormat, Armed: true, LeftNS: int64(waits.Left)}, nil
		}
		return Armed{Format: ArmedFormat}, err
	}))
	s.mux.HandleFunc("POST "+ArmedPath, s.change(maxArmed, func(r *http.Request, body []byte) (any, error) {
		var want Armed
		if err := decode(body, "the delay of an auto-revert", ArmedFormat, &want, &want.Format); err != nil {
			return nil, err
		}
		mark, err := m.Arm(r.Context(), argument(r, "platform"), time.Duration(want.AfterNS))
		return Armed{Format: ArmedFormat, Armed: true, LeftNS: want.AfterNS, AfterNS: want.AfterNS, Mark: mark}, err
	}))
	s.mux.HandleFunc("DELETE "+ArmedPath, s.change(0, func(r *http.Request, _ []byte) (any, error) {
		return struct{}{}, m.Confirm(r.Context(), argument(r, "mark"))
	}))
}
