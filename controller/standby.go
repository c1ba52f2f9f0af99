package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/controller/owner"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/vendors"
)

// standby answers at the socket of a device that another controller owns.
type standby struct {
	device, version string
	store           *owner.Store
	since           time.Time
}

// waits says for what.
func (s *standby) waits() string {
	by := s.store.Owner(s.device)
	switch err := s.store.Trouble(); {
	case err != nil && by != "":
		return fmt.Sprintf("NATS does not tell who drives %s (%v); the last was controller %q, and this one takes over when NATS answers and that one is gone", s.device, err, by)
	case err != nil:
		return fmt.Sprintf("NATS does not tell who drives %s (%v); this one takes over when it answers, and the term of the last has passed", s.device, err)
	case by != "":
		return fmt.Sprintf("controller %q drives %s; this one takes over when that one is gone", by, s.device)
	}
	return fmt.Sprintf("no controller drives %s: this one takes over when the term of the last has passed", s.device)
}

// Status says who drives the device, with the last status of that one.
func (s *standby) Status() *api.Status {
	return &api.Status{
		Elsewhere: s.elsewhere(),

		Format: api.StatusFormat, Version: s.version, Time: time.Now(), Started: s.since, Waiting: s.waits(), DataPlane: api.DataPlaneNone,
		SelfTest: api.Verdict{Code: findings.SelfTest, What: "self-test", Level: api.SelfTestNotRun}, Verdicts: []api.Verdict{}, Ports: []api.Port{},
	}
}

// askLimit is how long the store may take to tell the owner's status.
const askLimit = time.Second

// elsewhere is the owner's status, nil where none is known.
func (s *standby) elsewhere() *api.Status {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	text, err := s.store.Status(ctx, s.device)
	own := new(api.Status)
	if err != nil || len(text) == 0 || json.Unmarshal(text, own) != nil || own.Format != api.StatusFormat {
		return nil
	}
	own.Elsewhere = nil
	return own
}

func (s *standby) refuse() error {
	return &vendors.PermanentError{Err: fmt.Errorf("%w: %s", api.ErrNoOwner, s.waits())}
}

// toOwner hands requests over to the owner of the device, at another controller. Each has a
// connection of its own: the owner may be another one for the next.
func (s *standby) toOwner() http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "agent", "agent"
			r.Out.Header.Del(api.DeadlineHeader) // of this machine's clock; a client that goes away ends the request
		},
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				c, err := s.store.Dial(ctx, s.device)
				if errors.Is(err, owner.ErrNoTunnel) {
					err = s.refuse()
				}
				return c, err
			},
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 16 << 10,
		},
		FlushInterval: -1, // a line of a stream at a time
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, err error) { api.WriteError(w, err) },
		ErrorLog:      log.New(io.Discard, "", 0),
	}
}
