package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// exitCodes are what commands exit with, where it is more than 0 and 1; what is said of a
// command holds for those below it.
var exitCodes = map[string]string{
	"plan":          "0 nothing to do, 1 an error, 2 changes are pending",
	"apply":         "0 complete, 1 an error, 3 stopped where it was asked to, or not confirmed",
	"rollback":      "0 complete, 1 an error, 3 stopped where it was asked to, or not confirmed",
	"off":           "0 complete, 1 an error, 3 stopped where it was asked to, or not confirmed",
	"qualify":       "0 no fault was found, 1 an error, 3 a fault was found",
	"qualify list":  "0 done, 1 an error",
	"status":        "0 done, 1 an error; with --check 0 ok, 1 warning, 2 critical, 3 unknown",
	"agent":         "0 it was asked to end, 1 an error",
	"inventory":     "0 done, 1 an error, and mistakes in the file",
	"rules explain": "0 done, 1 an error, and rules that the device cannot have",
}

// exitText is the line of a command's help.
func exitText(cmd *cobra.Command) string {
	for c := cmd; c.HasParent(); c = c.Parent() {
		name := strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
		if text, ok := exitCodes[name]; ok {
			return text
		}
	}
	return "0 done, 1 an error"
}

// Once, and not for each root: cobra keeps one map of functions.
func init() { cobra.AddTemplateFunc("exitCodes", exitText) }
