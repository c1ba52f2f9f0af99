package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/csig-agent/csig/vendors"
)

// Facts asks what the device can do. platform is what it is, for a daemon that
// has no configuration.
func (c *Client) Facts(ctx context.Context, platform string) (vendors.Facts, error) {
	var f Facts
	if err := c.object(ctx, http.MethodGet, FactsPath+query(platform), nil, &f, FactsFormat, &f.Format); err != nil {
		return vendors.Facts{}, err
	}
	return f.Facts, nil
}

// Setup asks what the device has now, and which configuration the daemon runs.
func (c *Client) Setup(ctx context.Context, platform string) (vendors.Setup, error) {
	var s Setup
	err := c.object(ctx, http.MethodGet, SetupPath+query(platform), nil, &s, SetupFormat, &s.Format)
	return s.Setup, err
}

// Health asks for the error and drop counters of the device's ports; none where it has none.
func (c *Client) Health(ctx context.Context, platform string) ([]vendors.PortHealth, error) {
	var h Health
	if err := c.object(ctx, http.MethodGet, HealthPath+query(platform), nil, &h, HealthFormat, &h.Format); err != nil {
		return nil, err
	}
	out := make([]vendors.PortHealth, 0, len(h.Ports))
	for _, p := range h.Ports {
		out = append(out, vendors.PortHealth(p))
	}
	return out, nil
}

// MTUs asks for the MTU of every port that the device reports, in bytes.
func (c *Client) MTUs(ctx context.Context, platform string) (map[string]int, error) {
	var m MTUs
	if err := c.object(ctx, http.MethodGet, MTUPath+query(platform), nil, &m, MTUFormat, &m.Format); err != nil {
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
	if err := c.object(ctx, http.MethodGet, ConfigPath+"?hash="+url.QueryEscape(hash), nil, &f, ConfigFormat, &f.Format); err != nil {
		return nil, err
	}
	if f.Hash != hash {
		return nil, fmt.Errorf("agent at %s: it was asked for the configuration %.12s and answers with %.12s", c.name, hash, f.Hash)
	}
	return []byte(f.File), nil
}

// Configure gives the daemon a fleet file with exactly one local device. A
// *vendors.PermanentError is a refusal that has changed nothing; after another
// error the configuration may be in force, and the daemon keeps trying. mark is
// the token of Arm where an auto-revert is pending for this change, else "".
func (c *Client) Configure(ctx context.Context, file []byte, mark string) error {
	path := ConfigPath
	if mark != "" {
		path += "?mark=" + url.QueryEscape(mark)
	}
	return c.change(ctx, http.MethodPut, path, file)
}

// RemoveSetup has the daemon remove everything of csig, its configuration included.
// mark is as for Configure.
func (c *Client) RemoveSetup(ctx context.Context, platform, mark string) error {
	v := url.Values{}
	if platform != "" {
		v.Set("platform", platform)
	}
	if mark != "" {
		v.Set("mark", mark)
	}
	return c.change(ctx, http.MethodDelete, ConfigPath+"?"+v.Encode(), nil)
}

// change asks for a change, whose answer is of no interest.
func (c *Client) change(ctx context.Context, method, path string, file []byte) error {
	ctx, cancel := context.WithTimeout(ctx, maxRequest)
	defer cancel()
	a, err := c.do(ctx, method, path, file)
	if err != nil {
		return err
	}
	defer a.Close()
	if err := a.next(new(any)); err != nil {
		return c.broken(err)
	}
	return nil
}

func query(platform string) string {
	if platform == "" {
		return ""
	}
	return "?platform=" + url.QueryEscape(platform)
}
