//go:build !linux

package main

import "github.com/csig-agent/csig/inventory"

// dropPrivileges does nothing: no device is driven on this machine.
func dropPrivileges(*inventory.Device, bool) error { return nil }
