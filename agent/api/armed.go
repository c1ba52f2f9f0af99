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

// ArmedPath is where a daemon is told to go back by itself, unless a change is
// confirmed. GET: one Armed; POST: an Armed with AfterNS, answered with the
// Mark; DELETE with ?mark=: the change is kept. The mark goes with the changes,
// as ?mark= of ConfigPath.
const ArmedPath = "/v1/armed"

// ArmedFormat names the shape of Armed.
const ArmedFormat = "csig.armed/v1"

// Armed is whether and when a daemon goes back by itself.
type Armed struct {
	Format  string `json:"format"`
	Armed   bool   `json:"armed"`
	LeftNS  int64  `json:"left_ns"`  // until it goes back; negative: overdue; 0 where it does not
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

// Arm has the daemon go back by itself to what it does now, after a delay. An
// error that wraps errors.ErrUnsupported says why it cannot.
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
		return "", fmt.Errorf("agent at %s: it answers a request to revert by itself without a mark: use the csig that goes with the agent", c.name)
	}
	return a.Mark, nil
}

// Armed is a *vendors.ArmedError when the daemon waits to go back by itself. One
// of a csig that knows nothing of that does not.
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

// Confirm has the daemon keep what it was given since it was armed. The error
// wraps vendors.ErrReverted when nothing waits any more.
func (c *Client) Confirm(ctx context.Context, mark string) error {
	return c.change(ctx, http.MethodDelete, ArmedPath+"?mark="+url.QueryEscape(mark), nil)
}
