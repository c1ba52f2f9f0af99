package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
)

func TestLinks(t *testing.T) {
	m := &manager{received: make(chan vendors.LinkFrame), gone: make(chan struct{}, 1)}
	socket, _ := manage(t, m, nil)
	c := NewClient(socket)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	full := vendors.LinkFrame{Nonce: 1<<64 - 1, Tag: []byte{0x99, 0, 0x2f, 0xfe}, Size: 1518}
	if err := c.SendLink(ctx, "swp 1", full); err != nil || !reflect.DeepEqual(m.sent, full) || m.ports[0] != "swp 1" {
		t.Errorf("sent %+v at %q, %v", m.sent, m.ports, err)
	}
	l, err := c.ListenLink(ctx, "Ethernet1/1&x")
	if err != nil || m.ports[1] != "Ethernet1/1&x" {
		t.Fatalf("listens at %q, %v", m.ports, err)
	}
	for _, want := range []vendors.LinkFrame{full, {Nonce: 2, Tag: []byte{}, Size: 60}} {
		m.received <- want
		if got, err := l.Next(ctx); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("received %+v, %v", got, err)
		}
	}
	soon, end := context.WithTimeout(ctx, time.Millisecond)
	defer end()
	if f, err := l.Next(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("received %+v, %v", f, err)
	}
	m.received <- full // a wait that was over has ended nothing
	if _, err := l.Next(ctx); err != nil {
		t.Error(err)
	}
	_ = l.Close()
	select {
	case <-m.gone:
	case <-ctx.Done():
		t.Error("the daemon still listens")
	}

	// A listener that ends reports it.
	if l, err = c.ListenLink(ctx, "swp1"); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	close(m.received)
	if f, err := l.Next(ctx); err == nil || !strings.Contains(err.Error(), "it receives no more test frames") {
		t.Errorf("received %+v, %v", f, err)
	}
}

// Errors are known again at the other end, and what is no test frame is
// refused before any device is asked.
func TestLinkErrors(t *testing.T) {
	for _, want := range []error{vendors.ErrNotYet, errors.ErrUnsupported} {
		m := &manager{err: fmt.Errorf("port swp1: %w", want)}
		socket, _ := manage(t, m, nil)
		c := NewClient(socket)
		_, err := c.ListenLink(t.Context(), "swp1")
		if also := c.SendLink(t.Context(), "swp1", vendors.LinkFrame{}); !errors.Is(err, want) || !errors.Is(also, want) || !strings.Contains(err.Error(), "port swp1: ") {
			t.Errorf("got %v, %v, want %v", err, also, want)
		}
		c.Close()
	}
	m := &manager{}
	socket, _ := manage(t, m, nil)
	c := NewClient(socket)
	defer c.Close()
	for name, text := range map[string]string{
		"format": `{"format": "csig.link/v2", "port": "swp1"}`, "tag": `{"format": "csig.link/v1", "port": "swp1", "tag": "9g"}`,
		"size": `{"format": "csig.link/v1", "port": "swp1", "size_bytes": 1e30}`, "endless": `{"format": "` + strings.Repeat("x", maxLinkFrame) + `"}`,
	} {
		var perm *vendors.PermanentError
		if err := c.change(t.Context(), http.MethodPost, LinkPath, []byte(text)); !errors.As(err, &perm) || len(m.ports) > 0 {
			t.Errorf("%s: %v, asked for %q", name, err, m.ports)
		}
	}
	// A daemon of before.
	if _, err := c.do(t.Context(), http.MethodGet, "/v1/nothing", nil); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "does not support GET /v1/nothing") {
		t.Errorf("got %v", err)
	}
}
