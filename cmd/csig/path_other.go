//go:build !linux

package main

import (
	"context"

	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/rollout"
)

func pathProber(*inventory.Fleet) rollout.PathProber {
	return func(context.Context, rollout.Path, int) (rollout.PathAnswer, error) {
		return rollout.PathAnswer{}, device.NeedsLinux("apply --probe")
	}
}
