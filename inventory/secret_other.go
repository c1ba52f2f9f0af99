//go:build !linux

package inventory

// unprivileged calls start: there are no capabilities here.
func unprivileged(start func() error) error { return start() }
