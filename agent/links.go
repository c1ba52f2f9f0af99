package agent

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
)

// maxLinkSize is the longest test frame, in bytes: no link takes a longer one.
const maxLinkSize = 1<<16 - 1

// ListenLink takes in the test frames that arrive at a port of the device's own
// configuration.
func (d *Daemon) ListenLink(ctx context.Context, port string) (l vendors.LinkListener, err error) {
	dev, err := d.mayTry(port, nil)
	if err != nil {
		return nil, err
	}
	err = d.open(dev, func(driver vendors.Driver) error {
		p, err := vendors.Links(driver)
		if err == nil {
			l, err = p.ListenLink(ctx, port)
		}
		return err
	})
	if err != nil && l != nil {
		err = errors.Join(err, l.Close())
	}
	return l, err
}

// SendLink sends a test frame, and nothing else, out of a port of the device's
// own configuration: without a tag, or with one of a TPID that configuration
// knows as CSIG's.
func (d *Daemon) SendLink(ctx context.Context, port string, f vendors.LinkFrame) error {
	if f.Size < 0 || f.Size > maxLinkSize {
		return refuse(fmt.Errorf("port %s: a test frame of %d bytes: want %d at most", port, f.Size, maxLinkSize))
	}
	dev, err := d.mayTry(port, f.Tag)
	if err != nil {
		return err
	}
	return d.open(dev, func(driver vendors.Driver) error {
		p, err := vendors.Links(driver)
		if err != nil {
			return err
		}
		return p.SendLink(ctx, port, f)
	})
}

// mayTry reports whether a link may be tried from here, for peers that may change
// the configuration, and the device.
func (d *Daemon) mayTry(port string, tag []byte) (dev *inventory.Device, err error) {
	d.change.Lock()
	defer d.change.Unlock()
	if err := d.may(); err != nil {
		return nil, err
	}
	r := d.current()
	if r == nil {
		return nil, fmt.Errorf("this daemon has no configuration, and so no ports: %w", vendors.ErrNotYet)
	}
	if _, ok := r.dev.Port(port); !ok {
		return nil, fmt.Errorf("port %s is not in this daemon's configuration: %w", port, vendors.ErrNotYet)
	}
	if len(tag) > 0 && !isTag(tag, r.own) {
		return nil, fmt.Errorf("port %s: %x is no tag of this daemon's configuration: %w", port, tag, vendors.ErrNotYet)
	}
	return r.dev, nil
}

// isTag reports whether these are the bytes of a CSIG tag, by the TPIDs of the
// domain and those that were its own or are to be.
func isTag(tag []byte, own *inventory.Fleet) bool {
	if len(tag) != 4 && len(tag) != 8 {
		return false
	}
	is := inventory.RetiredTPID{TPID: binary.BigEndian.Uint16(tag), Wide: len(tag) == 8}
	known := append([]inventory.RetiredTPID{{TPID: own.Profile.TPID}, {TPID: own.Profile.WideTPID, Wide: true}}, own.Policy.Retired...)
	for _, t := range known {
		if t == is && t.TPID != 0 {
			return true
		}
	}
	return false
}
