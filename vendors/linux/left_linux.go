package linux

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/vendors"
)

// Left is what this driver's platform has at the network devices of a namespace.
type Left struct {
	What  string   // its objects, for people; "": there are none
	Ports []string // the devices that they are at
}

// FindLeft finds what csig made here as platform linux: its table, and its programs, also
// without the table. The error wraps os.ErrPermission where this process may not look.
func FindLeft(ctx context.Context, cfg Config) (left Left, err error) {
	d, err := Open(cfg)
	switch {
	case errors.Is(err, os.ErrPermission), errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM):
		return left, err
	case err != nil:
		return left, nil // without nftables there is no table
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	seen, err := d.Look(ctx)
	if errors.As(err, new(*vendors.ForeignError)) {
		seen, err = vendors.DataPlane{}, nil // not csig's
	}
	if err != nil {
		return left, err
	}
	at := map[string]bool{}
	if !seen.Setup.Nothing() {
		left.What = "nftables table netdev " + tableName
		for _, p := range seen.Setup.Ports {
			at[p.Port] = true
		}
	}
	strips := false
	err = d.Do(func() error {
		for index, name := range d.links.Name {
			have, err := attached(index)
			if errors.Is(err, errNoBPF) || errors.Is(err, errHidden) || errors.Is(err, unix.ENODEV) {
				continue // the kernel has none, this process may not read whose it is, or the device is gone
			}
			if err != nil {
				return err
			}
			if len(have) > 0 {
				at[name], strips = true, true
			}
			if err := release(have); err != nil {
				return err
			}
		}
		return nil
	})
	if strips && left.What == "" {
		left.What = "BPF program " + stripName
	}
	left.Ports = slices.Sorted(maps.Keys(at))
	return left, err
}
