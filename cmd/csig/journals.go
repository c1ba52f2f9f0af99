package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory/outfile"
	"github.com/csig-agent/csig/plans"
)

func newJournals() *cobra.Command {
	var socket, out string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "journals [ID]",
		Short: "List the journals that controllers keep for all operators, or fetch one",
		Long: `List the journals of csig apply and csig rollback that controllers keep, which share
devices through NATS, or fetch one to a file: csig apply --resume and csig rollback
continue it, on any machine.`,
		Example: `  csig journals --socket /run/csig/vs2.sock
  csig journals --socket /run/csig/vs2.sock 2f6c0d9e41b7a853 -o fabric.plan.journal`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := api.NewClient(socket)
			defer c.Close()
			switch {
			case len(args) == 0 && out != "":
				return usageError(cmd, "-o without an ID: csig journals lists them")
			case len(args) == 1 && out == "":
				return usageError(cmd, "where to? name a file with -o")
			case len(args) == 1:
				return fetchJournal(cmd, c, args[0], out)
			}
			list, err := c.Journals(cmd.Context())
			if errors.Is(err, errors.ErrUnsupported) {
				return fmt.Errorf("%w: only controllers that share devices keep journals", err)
			}
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), api.JournalList{Format: api.JournalsFormat, Journals: list})
			}
			if len(list) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "No journals are kept.")
				return nil
			}
			tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(tw, "ID\tLAST CHANGE\tBY\tWITH\tBYTES")
			for _, j := range list {
				fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%d\n", j.ID, j.Changed.Local().Format(time.DateTime), orDash(j.Who), orDash(j.What), j.Size)
			}
			if err := tw.Flush(); err != nil {
				return err
			}
			if len(list) >= api.MostJournals {
				fmt.Fprintf(cmd.ErrOrStderr(), "csig: the newest %d are listed: older ones are fetched by their IDs, which their operators have\n", len(list))
			}
			return nil
		},
	}
	addSocket(cmd, &socket)
	addJSON(cmd, &asJSON)
	cmd.Flags().StringVarP(&out, "output", "o", "", "write the journal to this file, which must not exist")
	return cmd
}

// fetchJournal writes a kept journal to a file.
func fetchJournal(cmd *cobra.Command, c *api.Client, id, path string) error {
	return outfile.Write(path, 0o600, nil, func(w io.Writer) error {
		for at := int64(0); ; {
			part, err := c.Journal(cmd.Context(), id, at)
			switch {
			case err != nil:
				return err
			case len(part) == 0 && at == 0:
				return fmt.Errorf("no journal %s is kept: csig journals lists them", id)
			case len(part) == 0:
				return nil
			case at+int64(len(part)) > plans.MaxText:
				return fmt.Errorf("journal %s has more than %d bytes", id, plans.MaxText)
			}
			if _, err := w.Write(part); err != nil {
				return err
			}
			at += int64(len(part))
		}
	})
}
