package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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

// Arm starts the daemon's auto-revert: after the delay it restores its present
// configuration unless Confirm is called. The error wraps errors.ErrUnsupported
// where the device has no auto-revert.
func (c *Client) Arm(ctx context.Context, platform string, after time.Duration) (mark string, err error) {
	text, err := json.Marshal(Armed{Format: ArmedFormat, AfterNS: int64(after)})
	if err != nil {
		return "", err
	}
	var a Armed
	if err := c.object(ctx, http.MethodPost, ArmedPath+query(platform), text, &a, ArmedFormat, &a.Format); err != nil {
		return "", err
	}
	if a.Mark == "" {
		return "", fmt.Errorf("agent at %s: its answer to a request for an auto-revert has no token: use the csig that goes with the agent", c.name)
	}
	return a.Mark, nil
}

// Armed returns a *vendors.ArmedError while an auto-revert is pending. A daemon of
// a csig without auto-revert has none.
func (c *Client) Armed(ctx context.Context, platform string) error {
	var a Armed
	err := c.object(ctx, http.MethodGet, ArmedPath+query(platform), nil, &a, ArmedFormat, &a.Format)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil
	case err == nil && a.Armed:
		return &vendors.ArmedError{Left: time.Duration(a.LeftNS)}
	}
	return err
}

// Confirm has the daemon keep the changes since Arm. The error wraps
// vendors.ErrReverted when no auto-revert is pending any more.
func (c *Client) Confirm(ctx context.Context, mark string) error {
	return c.change(ctx, http.MethodDelete, ArmedPath+"?mark="+url.QueryEscape(mark), nil)
}
