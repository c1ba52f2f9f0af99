package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// DefaultSocket is where an agent listens without --socket: in vendors.AgentDir.
func DefaultSocket() string { return filepath.Join(vendors.AgentDir(), "agent.sock") }

// DefaultShadowSocket is where an agent in shadow mode listens without
// --socket: beside DefaultSocket, because it may run beside a real agent.
func DefaultShadowSocket() string { return filepath.Join(filepath.Dir(DefaultSocket()), "shadow.sock") }

// CheckSocket refuses a path that no socket can have, in plainer words than
// the kernel's.
func CheckSocket(socket string) error {
	const most = len(syscall.RawSockaddrUnix{}.Path) - 1
	switch {
	case socket == "":
		return errors.New("--socket is empty: name a file, such as " + DefaultSocket())
	case socket[0] == '@':
		return fmt.Errorf("socket %s: names that begin with @ are no files: name a file with --socket, ./%s for one in this directory", socket, socket)
	case len(socket) > most:
		return fmt.Errorf("socket %s: its path has %d bytes and a unix socket's %d at most: name a shorter one with --socket", socket, len(socket), most)
	}
	return nil
}

// noSocket reports whether there is a file which is something else than a socket.
func noSocket(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() != fs.ModeSocket
}

// ErrNoAgent is the error of a client whose socket has no listener.
var ErrNoAgent = errors.New("no agent listens")

// ErrNoAnswer is the error of a client whose agent is there but has not
// answered when its context's time was over.
var ErrNoAnswer = errors.New("no answer in time")

// noAnswer returns an error with what to do about an agent that hangs.
func (c *Client) noAnswer() error {
	if !c.unix {
		return fmt.Errorf("agent at %s: %w: it hangs, is stopped or cannot be reached; when its lease ends its data plane falls back by itself", c.name, ErrNoAnswer)
	}
	return fmt.Errorf("agent at %s: %w: it hangs or is stopped, and its data plane falls back by itself when its lease ends; look at its process (ps, state T: kill -CONT resumes it) and its log, or kill and restart it", c.name, ErrNoAnswer)
}

// Client sends requests to one agent. It can do what the driver of the agent's device can.
type Client struct {
	// Device is what a daemon without a configuration has to know: the device's platform,
	// or a fleet file of it alone where that is not enough.
	Device Described

	// Start is how its agent is started, for the message that none listens; "" names what csig agent takes.
	Start string

	name     string    // of where it listens
	token    string    // of a pending auto-revert that this client has begun
	operator *Operator // who changes the device; nil: not said
	unix     bool      // the name is a unix socket here
	http     http.Client

	plainer func(error) error // of a connection with TLS: adds what to do; else nil
}

// NewClient returns a client of the agent at this unix socket.
func NewClient(socket string) *Client {
	c := NewDialClient(socket, func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	})
	c.unix = true
	return c
}

// NewDialClient returns a client of the agent that dial connects to; name is
// where that is, for errors.
func NewDialClient(name string, dial func(ctx context.Context) (net.Conn, error)) *Client {
	c := &Client{name: name}
	c.http.Transport = &http.Transport{
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		MaxResponseHeaderBytes: 16 << 10,
		DisableCompression:     true,
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

// Status asks for one status.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	s := new(Status)
	if err := c.object(ctx, http.MethodGet, StatusPath, nil, s, StatusFormat, &s.Format); err != nil {
		return nil, err
	}
	return s, nil
}

// Watch calls f with a status after each cycle, and once a second while none
// completes, until ctx ends, the agent goes
// away or f returns an error, which Watch then returns. A slow f misses
// cycles; Status.Cycle.Count shows how many.
func (c *Client) Watch(ctx context.Context, f func(*Status) error) error {
	a, err := c.do(ctx, http.MethodGet, WatchPath, nil)
	if err != nil {
		return err
	}
	defer a.Close()
	for {
		s := new(Status)
		if err := a.next(s); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return c.broken(err)
		}
		if s.Format != StatusFormat {
			return c.otherFormat(s.Format, StatusFormat)
		}
		if err := f(s); err != nil {
			return err
		}
	}
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) otherFormat(got, want string) error {
	return fmt.Errorf("agent at %s answers with format %q; this csig reads %q: use the csig that goes with the agent", c.name, got, want)
}

// do sends a request and returns the answer. An answer of type Error is an error,
// a *vendors.PermanentError where it is marked permanent.
func (c *Client) do(ctx context.Context, method, path string, body []byte) (*answers, error) {
	if c.unix {
		if err := CheckSocket(c.name); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	c.sign(req)
	if end, ok := ctx.Deadline(); ok && c.unix {
		req.Header.Set(DeadlineHeader, end.UTC().Format(time.RFC3339Nano))
	}
	resp, err := c.http.Do(req) //nolint:bodyclose // answers closes it
	if err != nil && c.plainer != nil {
		err = c.plainer(err)
	}
	var refused *url.Error
	switch {
	case err != nil && c.unix && noSocket(c.name):
		return nil, fmt.Errorf("%w at %s: it is not a socket: name the one of the agent with --socket, %s unless the agent has another", ErrNoAgent, c.name, DefaultSocket())
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		switch {
		case c.Start != "":
			return nil, fmt.Errorf("%w at %s: %s", ErrNoAgent, c.name, c.Start)
		case !c.unix:
			return nil, fmt.Errorf("%w at %s: start one there with csig agent --wait", ErrNoAgent, c.name)
		}
		return nil, fmt.Errorf("%w at %s: start one with csig agent -i FILE (with --wait for csig apply), or name the socket of the one that runs: --socket for csig status, management.daemon in the fleet file", ErrNoAgent, c.name)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("no permission to open the socket of the agent at %s (%w): run as the user that started it; csig status, also as a member of the group that the agent gives its socket to (--socket-group)", c.name, fs.ErrPermission)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, c.noAnswer()
	case errors.As(err, &refused): // the URL in its text is of no interest
		return nil, fmt.Errorf("agent at %s: %w", c.name, untrusted.Error(refused.Err))
	case err != nil:
		return nil, fmt.Errorf("agent at %s: %w", c.name, untrusted.Error(err))
	}
	a := newAnswers(resp.Body)
	if resp.StatusCode == http.StatusOK {
		return a, nil
	}
	defer a.Close()
	var answer Error
	if err := a.next(&answer); err != nil || answer.Format != ErrorFormat {
		if resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusMethodNotAllowed {
			return nil, fmt.Errorf("agent at %s: its version of csig does not support %s %s: %w", c.name, method, req.URL.Path, errors.ErrUnsupported)
		}
		return nil, fmt.Errorf("agent at %s: %s", c.name, untrusted.Text(resp.Status, maxText))
	}
	err = fmt.Errorf("agent at %s: %s", c.name, answer.Message)
	if kind := kinds[answer.Kind]; kind != nil {
		err = &kindError{err.Error(), kind}
	}
	if answer.Permanent {
		return nil, &vendors.PermanentError{Err: err}
	}
	return nil, err
}
