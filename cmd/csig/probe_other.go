//go:build !linux

package main

import (
	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/device"
)

func probeSend(*cobra.Command, *probeOptions) error { return device.NeedsLinux("probe") }

func probeListen(*cobra.Command, *probeOptions) error { return device.NeedsLinux("probe") }
