//go:build !linux

package all

import (
	"context"

	"github.com/csig-agent/csig/vendors"
)

// The kernel's data planes are Linux's, and bridges are found by its list of sockets.

func linuxTable(context.Context, *vendors.Config) ([]vendors.Former, error) { return nil, nil }

func ebpfPlane(context.Context, *vendors.Config) ([]vendors.Former, error) { return nil, nil }

func kernelPlanes(session) finder {
	return func(context.Context, *vendors.Config) ([]vendors.Former, error) { return nil, nil }
}

func bridgesOf(context.Context, *vendors.Config) ([]vendors.Former, error) { return nil, nil }

func bridges(context.Context, *vendors.Config, string) ([]vendors.Former, error) { return nil, nil }
