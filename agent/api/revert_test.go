package api

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
)

func TestArmed(t *testing.T) {
	m := &manager{}
	socket, _ := manage(t, m, nil)
	c := NewClient(socket)
	defer c.Close()
	ctx := t.Context()
	if err := c.PendingRevert(ctx); err != nil {
		t.Errorf("nothing waits: %v", err)
	}
	c.Device.Platform = "b"
	mark, err := c.StartRevert(ctx, 30*time.Second)
	if err != nil || mark != "m&1" || m.platform.Platform != "b" || m.armed.Left != 30*time.Second {
		t.Errorf("mark %q, %v, manager %+v", mark, err, m)
	}
	m.mark = "none"
	if err := c.Configure(ctx, []byte("a file")); err != nil || m.mark != mark {
		t.Errorf("a change after that goes with mark %q, %v", m.mark, err)
	}
	var armed *vendors.PendingRevertError
	if err := c.PendingRevert(ctx); !errors.As(err, &armed) || armed.Left != 30*time.Second {
		t.Errorf("it waits: %v", err)
	}
	for what, change := range map[string]func() error{
		"configure": func() error { return c.Configure(ctx, []byte("a file")) },
		"forget":    func() error { return c.Remove(ctx) },
	} {
		for _, want := range []string{mark, ""} {
			m.mark, c.token = "none", want
			if err := change(); err != nil || m.mark != want {
				t.Errorf("%s with mark %q: the manager has %q, %v", what, want, m.mark, err)
			}
		}
	}
	c.token = mark
	if err := c.Confirm(ctx, mark); err != nil || m.mark != mark || m.armed != nil {
		t.Errorf("confirmed with %q, %v", m.mark, err)
	}
	if err := c.Remove(ctx); err != nil || m.mark != "" {
		t.Errorf("a change after the confirmation goes with mark %q, %v", m.mark, err)
	}

	m.err = vendors.ErrReverted
	if err := c.Confirm(ctx, mark); !errors.Is(err, vendors.ErrReverted) {
		t.Errorf("too late: %v", err)
	}
	m.err = errors.ErrUnsupported
	if _, err := c.StartRevert(ctx, time.Second); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("it cannot: %v", err)
	}
	m.err = nil
	m.armed = nil
	for _, text := range []string{`{"format": "csig.armed/v2"}`, `{`, `{"after_ns": "` + strings.Repeat("1", maxRevert) + `"}`} {
		var perm *vendors.PermanentError
		if err := c.change(ctx, http.MethodPost, RevertPath, []byte(text)); !errors.As(err, &perm) || m.armed != nil {
			t.Errorf("%.20s: %v", text, err)
		}
	}
}
