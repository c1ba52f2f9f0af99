//go:build !linux

package main

import "github.com/spf13/cobra"

func probeSend(*cobra.Command, *probeOptions) error { return unsupported("probe") }

func probeListen(*cobra.Command, *probeOptions) error { return unsupported("probe") }
