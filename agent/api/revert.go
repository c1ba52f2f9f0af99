package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// RevertPath is the path of a daemon's auto-revert: the daemon undoes changes that
// are not confirmed in time. GET: one Revert; POST: a Revert with AfterNS, answered
// with the Token; DELETE with ?mark=: the change is confirmed. Changes carry the
// token as ?mark= of ConfigPath.
const RevertPath = "/v1/armed"

// RevertFormat names the shape of Revert.
const RevertFormat = "csig.armed/v1"

// Revert is whether and when a daemon reverts by itself.
type Revert struct {
	Format  string `json:"format"`
	Pending bool   `json:"armed"`
	LeftNS  int64  `json:"left_ns"`  // until it reverts; negative: overdue; 0 where it does not
	AfterNS int64  `json:"after_ns"` // of a POST: the delay
	Token   string `json:"mark"`     // of a POST's answer; "" else
}

// maxRevert bounds a Revert as JSON, in bytes.
const maxRevert = 1 << 12

// manageRevert answers RevertPath.
func (s *Server) manageRevert(m Manager) {
	s.mux.HandleFunc("GET "+RevertPath, answer(func(r *http.Request) (any, error) {
		err := m.PendingRevert(r.Context())
		var waits *vendors.PendingRevertError
		if errors.As(err, &waits) {
			return Revert{Format: RevertFormat, Pending: true, LeftNS: int64(waits.Left)}, nil
		}
		return Revert{Format: RevertFormat}, err
	}))
	s.mux.HandleFunc("POST "+RevertPath, s.change(maxRevert, func(r *http.Request, body []byte) (any, error) {
		var want Revert
		if err := decode(body, "the delay of an auto-revert", RevertFormat, &want, &want.Format); err != nil {
			return nil, err
		}
		token, err := m.StartRevert(r.Context(), described(r), time.Duration(want.AfterNS))
		return Revert{Format: RevertFormat, Pending: true, LeftNS: want.AfterNS, AfterNS: want.AfterNS, Token: token}, err
	}))
	s.mux.HandleFunc("DELETE "+RevertPath, s.change(0, func(r *http.Request, _ []byte) (any, error) {
		return struct{}{}, m.Confirm(r.Context(), argument(r, "mark"))
	}))
}
