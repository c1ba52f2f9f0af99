package ebpf

import (
	"context"
	"errors"
	"slices"
)

// FindLeft returns the network devices of a namespace that have a data plane of csig's, of
// any version, as platform linux-ebpf. The error wraps os.ErrPermission where this process
// may not look.
func FindLeft(ctx context.Context, cfg Config) (ports []string, err error) {
	d, err := Open(cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	devices, err := d.devices(ctx)
	if err != nil {
		return nil, err
	}
	err = d.Do(func() error {
		for name, index := range devices {
			prog, err := attached(index)
			if err != nil {
				return err
			}
			if prog == nil {
				continue
			}
			ports = append(ports, name)
			if err := prog.Close(); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errNoBPF) {
		return nil, nil // then there is none
	}
	slices.Sort(ports)
	return ports, err
}
