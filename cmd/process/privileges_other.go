//go:build !linux

package process

// dropPrivileges does nothing: no device is driven on this machine.
func dropPrivileges([]string, bool) error { return nil }
