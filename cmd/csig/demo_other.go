//go:build !linux

package main

import (
	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/device"
)

func runDemo(*cobra.Command, demoOptions) error { return device.NeedsLinux("demo") }
