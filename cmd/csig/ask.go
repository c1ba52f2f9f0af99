package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// askWait is how long a daemon may take for an answer.
const askWait = 10 * time.Second

// atSocket is a transport to the daemon that answers at a unix socket.
func atSocket(socket string) *http.Transport {
	return &http.Transport{MaxResponseHeaderBytes: 16 << 10, DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}
}

// The errors of askJSON that its callers say more about: no daemon answers, or something else does.
type unansweredError struct{ error }

func (e unansweredError) Unwrap() error { return e.error }

var errOtherAnswer = errors.New("it is no JSON of this kind")

// askJSON reads what a daemon has at a URL, of so many bytes at most. who names the daemon and its place in errors.
func askJSON(ctx context.Context, transport *http.Transport, url, who string, most int64, to any) error {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return unansweredError{errors.Unwrap(err)} // without the URL
	}
	defer resp.Body.Close()
	text, err := untrusted.ReadAll(resp.Body, most)
	switch {
	case errors.Is(err, untrusted.ErrTooLong):
		return fmt.Errorf("%s answers with more than %d MiB", who, most>>20)
	case err != nil:
		return fmt.Errorf("%s: %w", who, err)
	case resp.StatusCode != http.StatusOK:
		var refused api.Error
		if json.Unmarshal(text, &refused) == nil && refused.Message != "" {
			return errors.New(untrusted.Text(refused.Message, 500))
		}
		return fmt.Errorf("%s answers %s", who, untrusted.Text(resp.Status, 100))
	}
	err = json.Unmarshal(text, to)
	api.Printable(to)
	if err != nil {
		return errOtherAnswer
	}
	return nil
}
