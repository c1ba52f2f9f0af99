package process

import (
	"strings"

	"github.com/spf13/cobra"
)

// ExitCodes ends every help page of a program with its exit codes. The line may be a template
// of cobra's.
func ExitCodes(root *cobra.Command, line string) {
	root.SetUsageTemplate(strings.TrimSuffix(root.UsageTemplate(), "\n") + "\n\nExit codes:\n  " + line + "\n")
}
