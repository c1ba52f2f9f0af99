// Package manual writes a program's manual pages and shell completions, for its packages. The
// program itself does not import it: the tag "manual" builds one that does.
package manual

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/csig-agent/csig/docs"
)

// Main writes the files of a program below a folder, as they are installed below /usr/share,
// and ends the process. SOURCE_DATE_EPOCH is their date; exit are the exit codes of a command.
func Main(root *cobra.Command, exit func(*cobra.Command) string, dir string) {
	exitStatus(root, exit)
	root.Long += "\n\nDocumentation, examples, alert rules of Prometheus and a dashboard of Grafana: /usr/share/doc/" + root.Name() + ", and " + docs.Repository + "."
	if err := write(root, dir); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func write(root *cobra.Command, dir string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	date := time.Unix(seconds, 0).UTC()
	root.InitDefaultCompletionCmd()
	root.DisableAutoGenTag = true
	name := root.Name()
	path := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	for _, folder := range []string{path("man", "man1"), path("bash-completion", "completions"), path("zsh", "vendor-completions"), path("fish", "vendor_completions.d")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	return errors.Join(
		doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: name, Manual: "Congestion Signaling", Date: &date}, path("man", "man1")),
		root.GenBashCompletionFileV2(path("bash-completion", "completions", name), true),
		root.GenZshCompletionFile(path("zsh", "vendor-completions", "_"+name)),
		root.GenFishCompletionFile(path("fish", "vendor_completions.d", name+".fish"), true),
	)
}

// exitStatus ends the description of each command with its exit codes: pages have no other
// place for them.
func exitStatus(cmd *cobra.Command, exit func(*cobra.Command) string) {
	cmd.Long = strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short)) + "\n\nExit codes: " + exit(cmd) + "."
	for _, sub := range cmd.Commands() {
		exitStatus(sub, exit)
	}
}
