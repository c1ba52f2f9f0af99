package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/agent/api"
)

// What csig status --check exits with, as monitoring plugins do.
const (
	checkOK = iota
	checkWarning
	checkCritical
	checkUnknown
)

var checkWords = []string{checkOK: "OK", checkWarning: "WARNING", checkCritical: "CRITICAL", checkUnknown: "UNKNOWN"}

// statusCheck is a check as JSON.
type statusCheck struct {
	Format string      `json:"format"`
	Result string      `json:"result"` // ok, warning, critical or unknown
	Code   int         `json:"code"`   // the exit code
	Why    string      `json:"why"`    // what the line of text has
	Status *api.Status `json:"status"` // null where no agent answered
}

// checkStatus prints a line and exits as monitoring plugins do.
func checkStatus(cmd *cobra.Command, c *api.Client, asJSON bool) error {
	s, err := ask(cmd.Context(), c)
	if errors.Is(err, api.ErrNoAgent) && !cmd.Flags().Changed("socket") {
		shadow := api.NewClient(api.DefaultShadowSocket())
		defer shadow.Close()
		if from, e := ask(cmd.Context(), shadow); !errors.Is(e, api.ErrNoAgent) {
			s, err = from, e
		}
	}
	code, why := checkUnknown, ""
	switch {
	case errors.Is(err, api.ErrNoAgent), errors.Is(err, api.ErrNoAnswer):
		code, why = checkCritical, err.Error()
	case err != nil:
		why = err.Error()
	default:
		code, why = judgeStatus(s)
	}
	if asJSON {
		err = printJSON(cmd.OutOrStdout(), statusCheck{"csig.status-check/v1", strings.ToLower(checkWords[code]), code, why, s})
	} else {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: csig: %s\n", checkWords[code], strings.ReplaceAll(why, "\n", " "))
	}
	if err != nil || code == checkOK {
		return err
	}
	return &exitError{code: code}
}

// judgeStatus is how well an agent and its ports do, and a sentence with the worst first.
func judgeStatus(s *api.Status) (code int, why string) {
	var parts []string
	found := func(c int, format string, args ...any) {
		if c > code {
			code = c
		}
		parts = append(parts, fmt.Sprintf(format, args...))
	}
	if s.Waiting != "" {
		if s.Elsewhere != nil {
			code, why = judgeStatus(s.Elsewhere)
			if s.OwnerSilent() {
				return max(code, checkWarning), fmt.Sprintf("waits: %s; the owner's last status, %v ago: %s", s.Waiting, s.Time.Sub(s.Elsewhere.Time).Round(time.Second), why)
			}
			return code, "the owner's: " + why
		}
		return checkWarning, "waits: " + s.Waiting
	}
	switch s.DataPlane {
	case api.DataPlaneLeased, api.DataPlaneNative:
	case api.DataPlaneShadow, api.DataPlaneNone:
		found(checkWarning, "%s", planeText(s))
	default:
		found(checkCritical, "%s", planeText(s))
	}
	if s.Cycle.Hangs {
		found(checkCritical, "no cycle ends any more")
	}
	if s.SetupIncomplete {
		found(checkWarning, "the setup is not complete")
	}
	if s.Cycle.LastError != "" {
		found(checkCritical, "the last cycle failed: %s", s.Cycle.LastError)
	}
	if s.RecordsError != "" {
		found(checkWarning, "records are not written to their file: %s", s.RecordsError)
	}
	if s.Reload != nil && s.Reload.Error != "" {
		found(checkWarning, "its file was not reloaded: %s", s.Reload.Error)
	}
	if d := s.Drift; d != nil && len(d.Differences) > 0 {
		found(checkWarning, "drift, %s: %s", count(len(d.Differences), "difference"), d.Differences[0])
	}
	if d := s.Drift; d != nil && d.Error != "" {
		found(checkWarning, "drift not checked: %s", d.Error)
	}
	for _, p := range s.Ports {
		switch at := troubleOf(p.State); {
		case at >= troubleOf(api.StateLive):
		case at >= troubleOf(api.StateDown):
			code = max(code, checkWarning)
		default: // also a state of a later version
			code = max(code, checkCritical)
		}
	}
	if summary := portSummary(s.Ports); summary != "" {
		parts = append(parts, summary)
	}
	if bad := worstFirst(slices.DeleteFunc(slices.Clone(s.Ports), func(p api.Port) bool {
		return troubleOf(p.State) >= troubleOf(api.StateLive)
	})); len(bad) > 0 {
		text := bad[0].Port + " is " + bad[0].State
		if bad[0].Reason != "" {
			text += " (" + bad[0].Reason + ")"
		}
		parts = append(parts, text)
	}
	return code, s.Device + ": " + strings.Join(parts, "; ")
}
