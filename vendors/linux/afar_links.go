package linux

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/csig-agent/csig/vendors"
)

var (
	_ vendors.HealthReader = (*Afar)(nil)
	_ vendors.MTUSetter    = (*Afar)(nil)
)

// afarLink is a network device as ip -j lists it.
type afarLink struct {
	Index int    `json:"ifindex"`
	Name  string `json:"ifname"`
	MTU   int    `json:"mtu"`
	Stats struct {
		RX, TX struct{ Errors, Dropped uint64 }
	} `json:"stats64"`
}

// links lists the network devices.
func (d *Afar) links(ctx context.Context) ([]afarLink, error) {
	out, err := d.shell(ctx, "exec ip -j -s link show", nil)
	if err != nil {
		return nil, fmt.Errorf("list network devices: %w", err)
	}
	var links []afarLink
	if err := json.Unmarshal(out, &links); err != nil {
		return nil, fmt.Errorf("list network devices: ip -j prints no JSON: install iproute2 on the switch: %w", err)
	}
	return links, nil
}

// Health reads the error and drop counters of every network device, the same
// ones as Driver.
func (d *Afar) Health(ctx context.Context) ([]vendors.PortHealth, error) {
	links, err := d.links(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]vendors.PortHealth, len(links))
	for i := range links {
		l := &links[i]
		out[i] = vendors.PortHealth{Port: l.Name, Errors: l.Stats.RX.Errors + l.Stats.TX.Errors, Discards: l.Stats.RX.Dropped + l.Stats.TX.Dropped}
	}
	return out, nil
}

// MTUs reads the MTU of every network device.
func (d *Afar) MTUs(ctx context.Context) (map[string]int, error) {
	links, err := d.links(ctx)
	if err != nil {
		return nil, err
	}
	out := make(map[string]int, len(links))
	for i := range links {
		out[links[i].Name] = links[i].MTU
	}
	return out, nil
}

// SetMTU sets the MTU of one port.
func (d *Afar) SetMTU(ctx context.Context, port string, mtu int) error {
	if !plain(port) {
		return &vendors.PermanentError{Port: port, Err: errors.New(notPlain)}
	}
	if err := d.meet(ctx); err != nil {
		return err
	}
	sudo := ""
	if d.host.sudo {
		sudo = "sudo -n "
	}
	if _, err := d.shell(ctx, fmt.Sprintf(`exec %sip link set dev "%s" mtu %d`, sudo, port, mtu), nil); err != nil {
		return &vendors.PortError{Port: port, Err: fmt.Errorf("set the MTU to %d: %w", mtu, err)}
	}
	return nil
}
