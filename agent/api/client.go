package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
)

// DefaultSocket is where an agent listens when nobody says otherwise:
// $XDG_RUNTIME_DIR/csig/agent.sock for an ordinary user, else
// /run/csig/agent.sock.
func DefaultSocket() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" && os.Geteuid() != 0 {
		return filepath.Join(dir, "csig", "agent.sock")
	}
	return "/run/csig/agent.sock"
}

// Client talks to one agent.
type Client struct {
	socket string
	http   http.Client
}

// NewClient returns a client of the agent at this unix socket.
func NewClient(socket string) *Client {
	c := &Client{socket: socket}
	c.http.Transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}
	return c
}

// Status asks for one status.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	body, err := c.get(ctx, StatusPath)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return c.decode(json.NewDecoder(body))
}

// Watch calls f with a status after each cycle until ctx ends, the agent goes
// away or f returns an error, which Watch then returns. A slow f misses
// cycles; Status.Cycle.Count tells how many.
func (c *Client) Watch(ctx context.Context, f func(*Status) error) error {
	body, err := c.get(ctx, WatchPath)
	if err != nil {
		return err
	}
	defer body.Close()
	dec := json.NewDecoder(body)
	for {
		s, err := c.decode(dec)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		}
		if err := f(s); err != nil {
			return err
		}
	}
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) decode(dec *json.Decoder) (*Status, error) {
	s := new(Status)
	if err := dec.Decode(s); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("agent at %s went away: %w", c.socket, err)
		}
		return nil, fmt.Errorf("agent at %s: %w", c.socket, err)
	}
	if s.Format != StatusFormat {
		return nil, fmt.Errorf("agent at %s answers with format %q; this csig reads %q: use the csig that goes with the agent", c.socket, s.Format, StatusFormat)
	}
	return s, nil
}

func (c *Client) get(ctx context.Context, path string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("no agent listens at %s: start one with csig agent -c FILE, or name its socket with --socket", c.socket)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("not allowed to talk to the agent at %s: run as the user that started it", c.socket)
	case err != nil:
		return nil, fmt.Errorf("agent at %s: %w", c.socket, err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("agent at %s: %s", c.socket, resp.Status)
	}
	return resp.Body, nil
}
