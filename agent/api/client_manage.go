package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/csig-agent/csig/vendors"
)

// Facts asks what the device can do. platform is what it is, for a daemon that
// has no configuration.
func (c *Client) Facts(ctx context.Context, platform string) (vendors.Facts, error) {
	var f Facts
	if err := c.object(ctx, FactsPath, platform, FactsFormat, &f, func() string { return f.Format }); err != nil {
		return vendors.Facts{}, err
	}
	out, err := f.Facts()
	if err != nil {
		return out, fmt.Errorf("agent at %s: %w", c.name, err)
	}
	return out, nil
}

// Setup asks what the device has now, and which configuration the daemon runs.
func (c *Client) Setup(ctx context.Context, platform string) (vendors.Setup, error) {
	var s Setup
	err := c.object(ctx, SetupPath, platform, SetupFormat, &s, func() string { return s.Format })
	return s.Setup, err
}

// Health asks how the device's ports fare; none where it cannot tell.
func (c *Client) Health(ctx context.Context, platform string) ([]vendors.PortHealth, error) {
	var h Health
	if err := c.object(ctx, HealthPath, platform, HealthFormat, &h, func() string { return h.Format }); err != nil {
		return nil, err
	}
	out := make([]vendors.PortHealth, 0, len(h.Ports))
	for _, p := range h.Ports {
		out = append(out, vendors.PortHealth(p))
	}
	return out, nil
}

// MTUs asks for the MTU of every port that the device tells of, in bytes.
func (c *Client) MTUs(ctx context.Context, platform string) (map[string]int, error) {
	var m MTUs
	if err := c.object(ctx, MTUPath, platform, MTUFormat, &m, func() string { return m.Format }); err != nil {
		return nil, err
	}
	out := make(map[string]int, len(m.Ports))
	for _, p := range m.Ports {
		out[p.Port] = p.MTU
	}
	return out, nil
}

// SetMTU has the daemon set the MTU of one port, in bytes.
func (c *Client) SetMTU(ctx context.Context, platform, port string, mtu int) error {
	text, err := json.Marshal(MTUs{MTUFormat, []PortMTU{{port, mtu}}})
	if err != nil {
		return err
	}
	return c.change(ctx, http.MethodPut, MTUPath+query(platform), text)
}

// Config asks for the configuration that the daemon runs, or one that it ran
// before, by its hash.
func (c *Client) Config(ctx context.Context, hash string) ([]byte, error) {
	var f Config
	if err := c.getObject(ctx, ConfigPath+"?hash="+url.QueryEscape(hash), ConfigFormat, &f, func() string { return f.Format }); err != nil {
		return nil, err
	}
	if f.Hash != hash {
		return nil, fmt.Errorf("agent at %s: it was asked for the configuration %.12s and answers with %.12s", c.name, hash, f.Hash)
	}
	return []byte(f.File), nil
}

// Configure gives the daemon a fleet file with exactly one local device. A
// *vendors.PermanentError is a refusal that has changed nothing; after another
// error the configuration may be in force, and the daemon goes on trying. mark
// is that of Arm where the daemon was armed for this change, else "".
func (c *Client) Configure(ctx context.Context, file []byte, mark string) error {
	path := ConfigPath
	if mark != "" {
		path += "?mark=" + url.QueryEscape(mark)
	}
	return c.change(ctx, http.MethodPut, path, file)
}

// Forget has the daemon remove everything of ours, its configuration included.
// mark is as for Configure.
func (c *Client) Forget(ctx context.Context, platform, mark string) error {
	v := url.Values{}
	if platform != "" {
		v.Set("platform", platform)
	}
	if mark != "" {
		v.Set("mark", mark)
	}
	return c.change(ctx, http.MethodDelete, ConfigPath+"?"+v.Encode(), nil)
}

func (c *Client) change(ctx context.Context, method, path string, file []byte) error {
	body, err := c.do(ctx, method, path, file)
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err := io.Copy(io.Discard, body); err != nil {
		return fmt.Errorf("agent at %s: %w", c.name, err)
	}
	return nil
}

// object reads one object of a format.
func (c *Client) object(ctx context.Context, path, platform, want string, v any, format func() string) error {
	return c.getObject(ctx, path+query(platform), want, v, format)
}

func (c *Client) getObject(ctx context.Context, path, want string, v any, format func() string) error {
	body, err := c.get(ctx, path)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(v); err != nil {
		return fmt.Errorf("agent at %s: %w", c.name, err)
	}
	if got := format(); got != want {
		return fmt.Errorf("agent at %s answers with format %q; this csig reads %q: use the csig that goes with the agent", c.name, got, want)
	}
	return nil
}

func query(platform string) string {
	if platform == "" {
		return ""
	}
	return "?platform=" + url.QueryEscape(platform)
}
