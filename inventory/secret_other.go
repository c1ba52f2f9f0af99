//go:build !linux

package inventory

import "io/fs"

func ofKernel(fs.File) bool { return false }

// unprivileged calls start: there are no capabilities here.
func unprivileged(start func() error) error { return start() }
