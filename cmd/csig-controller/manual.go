//go:build manual

package main

import (
	"os"

	"github.com/csig-agent/csig/cmd/manual"
)

// init makes a program of this tag write its manual: PROGRAM FOLDER.
func init() { manual.Main(newRoot(), exitText, os.Args[1]) }
