package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// at is a path with what the device is and more arguments, by their names.
func (c *Client) at(path string, args ...string) string {
	v := url.Values{}
	for args = append(args, "platform", c.Device.Platform, "device", c.Device.File); len(args) > 0; args = args[2:] {
		if args[1] != "" {
			v.Set(args[0], args[1])
		}
	}
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}

// Probe asks what the device can do.
func (c *Client) Probe(ctx context.Context) (vendors.Facts, error) {
	var f Facts
	if err := c.object(ctx, http.MethodGet, c.at(FactsPath), nil, &f, FactsFormat, &f.Format); err != nil {
		return vendors.Facts{}, err
	}
	return f.Facts, nil
}

// Observe asks what the device has now, and which configuration the daemon runs.
func (c *Client) Observe(ctx context.Context) (vendors.Setup, error) {
	var s Setup
	err := c.object(ctx, http.MethodGet, c.at(SetupPath), nil, &s, SetupFormat, &s.Format)
	return s.Setup, err
}

// Health asks for the error and drop counters of the device's ports; none where it has none.
func (c *Client) Health(ctx context.Context) ([]vendors.PortHealth, error) {
	var h Health
	err := c.object(ctx, http.MethodGet, c.at(HealthPath), nil, &h, HealthFormat, &h.Format)
	return h.Ports, err
}

// MTUs asks for the MTU of every port that the device reports, in bytes.
func (c *Client) MTUs(ctx context.Context) (map[string]int, error) {
	var m MTUs
	if err := c.object(ctx, http.MethodGet, c.at(MTUPath), nil, &m, MTUFormat, &m.Format); err != nil {
		return nil, err
	}
	out := make(map[string]int, len(m.Ports))
	for _, p := range m.Ports {
		out[p.Port] = p.MTU
	}
	return out, nil
}

// SetMTU has the daemon set the MTU of one port, in bytes.
func (c *Client) SetMTU(ctx context.Context, port string, mtu int) error {
	return c.changeTo(ctx, http.MethodPut, c.at(MTUPath), MTUs{MTUFormat, []PortMTU{{port, mtu}}})
}

// Config asks for the configuration that the daemon runs, or one that it ran
// before, by its hash.
func (c *Client) Config(ctx context.Context, hash string) ([]byte, error) {
	var f Config
	if err := c.object(ctx, http.MethodGet, c.at(ConfigPath, "hash", hash), nil, &f, ConfigFormat, &f.Format); err != nil {
		return nil, err
	}
	if f.Hash != hash {
		return nil, fmt.Errorf("agent at %s: it was asked for the configuration %.12s and answers with %.12s", c.name, hash, f.Hash)
	}
	return []byte(f.File), nil
}

// Configure gives the daemon a fleet file with exactly one local device. A
// *vendors.PermanentError is a refusal that has changed nothing; after another
// error the configuration may be in force, and the daemon keeps trying. An auto-revert
// that this client has begun goes on; any other is cancelled.
func (c *Client) Configure(ctx context.Context, file []byte) error {
	return c.change(ctx, http.MethodPut, c.at(ConfigPath, "mark", c.token), file)
}

// Remove has the daemon remove everything of csig, its configuration included. An
// auto-revert is as for Configure.
func (c *Client) Remove(ctx context.Context) error {
	return c.change(ctx, http.MethodDelete, c.at(ConfigPath, "mark", c.token), nil)
}

// StartRevert starts the daemon's auto-revert: after the delay it restores its present
// configuration unless Confirm is called. The error wraps errors.ErrUnsupported
// where the device has no auto-revert.
func (c *Client) StartRevert(ctx context.Context, after time.Duration) (token string, err error) {
	text, err := json.Marshal(Revert{Format: RevertFormat, AfterNS: int64(after)})
	if err != nil {
		return "", err
	}
	var a Revert
	if err := c.object(ctx, http.MethodPost, c.at(RevertPath), text, &a, RevertFormat, &a.Format); err != nil {
		return "", err
	}
	if a.Token == "" {
		return "", fmt.Errorf("agent at %s: its answer to a request for an auto-revert has no token: use the csig that goes with the agent", c.name)
	}
	c.token = a.Token
	return a.Token, nil
}

// PendingRevert returns a *vendors.PendingRevertError while an auto-revert is pending.
func (c *Client) PendingRevert(ctx context.Context) error {
	var a Revert
	err := c.object(ctx, http.MethodGet, c.at(RevertPath), nil, &a, RevertFormat, &a.Format)
	if err == nil && a.Pending {
		return &vendors.PendingRevertError{Left: time.Duration(a.LeftNS)}
	}
	return err
}

// Confirm has the daemon keep the changes since StartRevert. The error wraps
// vendors.ErrReverted when no auto-revert is pending any more.
func (c *Client) Confirm(ctx context.Context, token string) error {
	c.token = ""
	return c.change(ctx, http.MethodDelete, c.at(RevertPath, "mark", token), nil)
}

// changeTo asks for a change to what an object says.
func (c *Client) changeTo(ctx context.Context, method, path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.change(ctx, method, path, text)
}

// change asks for a change. A daemon answers that with an empty object; any other answer
// is no sign that it did anything.
func (c *Client) change(ctx context.Context, method, path string, file []byte) error {
	ctx, cancel := context.WithTimeout(ctx, maxRequest)
	defer cancel()
	a, err := c.do(ctx, method, path, file)
	if err != nil {
		return err
	}
	defer a.Close()
	var answer any
	if err := a.next(&answer); err != nil {
		return c.broken(err)
	}
	if object, ok := answer.(map[string]any); !ok || len(object) > 0 {
		return fmt.Errorf("agent at %s: its answer to a change is not that of csig agent: outcome unknown; csig plan shows the device's state", c.name)
	}
	return nil
}
