package owner

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestTunnels: a controller's HTTP server answers requests of another's clients, whatever their
// size, streams included.
func TestTunnels(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		c1, c2 := m.a, m.b
		if _, err := c2.Dial(t.Context(), "sw 1"); !errors.Is(err, ErrNoTunnel) {
			t.Fatalf("nobody listens: %v", err)
		}
		ln, err := c1.Listen("sw 1")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		mux := http.NewServeMux()
		mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			_, _ = w.Write(body)
		})
		mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, "line\n"); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
			}
		})
		s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
		go func() { _ = s.Serve(ln) }()
		t.Cleanup(func() { s.Close() })

		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return c2.Dial(ctx, "sw 1")
		}}}
		for _, size := range []int{0, 1, tunnelChunk, 1<<20 + 1} {
			sent := make([]byte, size)
			_, _ = rand.Read(sent)
			r, err := client.Post("http://agent/echo", "", bytes.NewReader(sent))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r.Body)
			r.Body.Close()
			if err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%d bytes: %d come back, %v", size, len(got), err)
			}
		}
		r, err := client.Get("http://agent/stream")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r.Body, make([]byte, 50)); err != nil {
			t.Error(err)
		}
		r.Body.Close()
		<-ended // the other end notices

		if err := ln.Close(); err != nil {
			t.Error(err)
		}
		if _, err := c2.Dial(t.Context(), "sw 1"); !errors.Is(err, ErrNoTunnel) {
			t.Errorf("the former owner listens: %v", err)
		}
	})
}

// TestTunnelOfTheDead: an end whose other end is gone without a word is told at its next write.
func TestTunnelOfTheDead(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		c1, c2 := m.a, m.b
		ln, err := c1.Listen("sw1")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		accepted := make(chan net.Conn, 1)
		go func() { c, _ := ln.Accept(); accepted <- c }()
		dead, err := c2.Dial(t.Context(), "sw1")
		if err != nil {
			t.Fatal(err)
		}
		defer dead.Close()
		c := <-accepted
		defer c.Close()
		if p, ok := c.(interface{ Peer() string }); !ok || p.Peer() != "controller c2" {
			t.Errorf("the peer is %v", c)
		}
		m.c2.Close()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = c.Write([]byte("x"))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("it reads on: %v", err)
		}
	})
}
