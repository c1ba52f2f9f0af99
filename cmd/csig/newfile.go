package main

import (
	"os"

	"github.com/csig-agent/csig/inventory/outfile"
)

// createNew opens a file for output. What is there already stays, unless it is
// empty, a pipe or a terminal, and no link is followed.
func createNew(path string) (*os.File, error) { return outfile.Create(path, 0o644, nil) }
