//go:build !linux

package main

import (
	"context"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
)

func pathProber(*inventory.Fleet) plans.PathProber {
	return func(context.Context, plans.Path, int) (plans.PathAnswer, error) {
		return plans.PathAnswer{}, unsupported("apply --probe")
	}
}
