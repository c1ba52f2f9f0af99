//go:build !linux

package main

import "github.com/spf13/cobra"

func runDemo(*cobra.Command, demoOptions) error { return unsupported("demo") }
