package api

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// LinkPath is where a daemon is asked for test frames of its device's links.
// POST: one LinkFrame, to be sent; GET with ?port=NAME: a LinkFrame a line, as
// they arrive, for linkLimit at most.
const LinkPath = "/v1/link"

// LinkFormat names the shape of LinkFrame.
const LinkFormat = "csig.link/v1"

// What one listener gets, at most.
const (
	linkLimit  = time.Minute
	linkFrames = 1 << 12
)

// maxLinkFrame bounds a LinkFrame as JSON, in bytes.
const maxLinkFrame = 1 << 12

// LinkFrame is a test frame that leaves or has arrived at a port, as
// vendors.LinkFrame.
type LinkFrame struct {
	Format string `json:"format"`
	Port   string `json:"port"`
	Nonce  uint64 `json:"nonce"`
	Tag    string `json:"tag"` // hexadecimal, from the TPID on; "": none
	Size   int    `json:"size_bytes"`
}

// manageLinks answers LinkPath.
func (s *Server) manageLinks(m Manager) {
	s.mux.HandleFunc("POST "+LinkPath, answer(func(r *http.Request) (any, error) {
		// A test frame changes nothing, and a gate sends many: its sender has one line in a while.
		s.noteFrames(r)
		body, err := s.body(r, maxLinkFrame)
		if err != nil {
			return nil, err
		}
		var f LinkFrame
		if err := json.Unmarshal(body, &f); err != nil {
			return nil, &vendors.PermanentError{Err: fmt.Errorf("reading the test frame: %w", err)}
		}
		out, err := f.frame()
		if err != nil {
			return nil, &vendors.PermanentError{Err: err}
		}
		return struct{}{}, m.SendLink(r.Context(), f.Port, out)
	}))
	s.mux.HandleFunc("GET "+LinkPath, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), linkLimit)
		defer cancel()
		go func() {
			select {
			case <-s.stop:
				cancel()
			case <-ctx.Done():
			}
		}()
		s.note(r, "device read requested")
		port := argument(r, "port")
		l, err := m.ListenLink(ctx, port)
		if err != nil {
			WriteError(w, err)
			return
		}
		defer l.Close()
		w.Header().Set("Content-Type", "application/jsonl")
		err = Send(w, nil, writeTimeout) // from now on it listens
		enc := json.NewEncoder(stream{w})
		for n := 0; n < linkFrames && err == nil; n++ {
			var f vendors.LinkFrame
			if f, err = l.Next(ctx); err != nil {
				break
			}
			err = enc.Encode(LinkFrame{LinkFormat, port, f.Nonce, hex.EncodeToString(f.Tag), f.Size})
		}
	})
}

func (f *LinkFrame) frame() (vendors.LinkFrame, error) {
	out := vendors.LinkFrame{Nonce: f.Nonce, Size: f.Size}
	if f.Format != LinkFormat {
		return out, fmt.Errorf("a test frame comes in format %q; this csig reads %q", f.Format, LinkFormat)
	}
	var err error
	if out.Tag, err = hex.DecodeString(f.Tag); err != nil {
		return out, fmt.Errorf("a test frame's tag %q: %w", f.Tag, err)
	}
	return out, nil
}

// SendLink has the daemon send a test frame out of a port of its device.
func (c *Client) SendLink(ctx context.Context, port string, f vendors.LinkFrame) error {
	return c.changeTo(ctx, http.MethodPost, LinkPath, LinkFrame{LinkFormat, port, f.Nonce, hex.EncodeToString(f.Tag), f.Size})
}

// ListenLink has the daemon take in test frames at a port of its device, until
// the listener is closed or ctx ends.
func (c *Client) ListenLink(ctx context.Context, port string) (vendors.LinkListener, error) {
	ctx, cancel := context.WithCancel(ctx)
	body, err := c.do(ctx, http.MethodGet, c.at(LinkPath, "port", port), nil)
	if err != nil {
		cancel()
		return nil, err
	}
	l := &linkListener{name: c.name, cancel: cancel, frames: make(chan vendors.LinkFrame), ended: make(chan struct{})}
	go l.read(ctx, body)
	return l, nil
}

// linkListener receives the test frames that a daemon receives.
type linkListener struct {
	name   string // of the daemon
	cancel context.CancelFunc
	frames chan vendors.LinkFrame
	ended  chan struct{} // closed when err is final
	err    error
}

func (l *linkListener) read(ctx context.Context, body *answers) {
	defer close(l.ended)
	defer body.Close()
	for {
		var f LinkFrame
		err := body.next(&f)
		var out vendors.LinkFrame
		if err == nil {
			out, err = f.frame()
		}
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = fmt.Errorf("it receives no more test frames: %w", err)
			}
			l.err = fmt.Errorf("agent at %s: %w", l.name, err)
			return
		}
		select {
		case l.frames <- out:
		case <-ctx.Done():
			l.err = context.Cause(ctx)
			return
		}
	}
}

// Next waits for the next test frame.
func (l *linkListener) Next(ctx context.Context) (vendors.LinkFrame, error) {
	select {
	case f := <-l.frames:
		return f, nil
	case <-l.ended:
		return vendors.LinkFrame{}, l.err
	case <-ctx.Done():
		return vendors.LinkFrame{}, ctx.Err()
	}
}

// Close has the daemon listen no more.
func (l *linkListener) Close() error {
	l.cancel()
	<-l.ended
	return nil
}
