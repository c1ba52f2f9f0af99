package controller

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/csig-agent/csig/agent/api"
)

// dropMarker removes this machine's off-marker where the device was given its configuration
// later, by way of another owner, which could not remove it. What csig off left bare stays so
// without it, too (agent's LeaveBare).
func (k *keeper) dropMarker(ctx context.Context) error {
	info, err := os.Lstat(k.marker)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	applied, err := k.lease.Applied(ctx)
	if err != nil || !applied.After(info.ModTime()) {
		return err
	}
	_ = api.RemoveOffMarker(k.marker) // one that is a user's stays, and the agent waits and names it
	return nil
}
