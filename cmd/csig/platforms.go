package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
	"github.com/csig-agent/csig/vlanrules"
)

func newPlatforms() *cobra.Command {
	var asJSON, markdown bool
	cmd := &cobra.Command{
		Use:   "platforms [PLATFORM]",
		Short: "Show what each platform can do with CSIG tags, with sources",
		Long: `What csig knows of every platform that a fleet file may name: whether it can compare
and replace, forward or strip tags, by what means, and why not. With a PLATFORM, all
of it, each statement with its source: ran (tried with csig), read (the platform's own
text, with its title or path) or assumed (with the reason).`,
		Example: `  csig platforms
  csig platforms eos
  csig platforms --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError(cmd, "unexpected %q: it takes one PLATFORM at a time", args[1])
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return all.Default().Platforms(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := knownPlatforms(args)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			switch {
			case asJSON:
				return printJSON(w, found)
			case markdown:
				_, err = fmt.Fprint(w, platformsMarkdown(found))
			case len(args) == 1:
				_, err = fmt.Fprint(w, platformText(&found.Platforms[0], newScreen(w).columns()))
			default:
				_, err = fmt.Fprint(w, platformsText(found))
			}
			return err
		},
	}
	addJSON(cmd, &asJSON)
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print Markdown: the table, and every statement with its source")
	cmd.MarkFlagsMutuallyExclusive("json", "markdown")
	return cmd
}

// platformsResult is what csig platforms prints.
type platformsResult struct {
	Format    string           `json:"format"`
	Platforms []platformResult `json:"platforms"`
}

// platformResult is one platform, as it is without a device at hand.
type platformResult struct {
	Platform     string              `json:"platform"`
	Title        string              `json:"title"`
	Driver       bool                `json:"driver"`       // csig has one
	Experimental string              `json:"experimental"` // why the driver is; "" where it is not
	Update       vlanrules.Verdict   `json:"update"`
	Wide         vlanrules.Verdict   `json:"wide"`
	Strip        vlanrules.Verdict   `json:"strip"`
	Lease        vlanrules.Verdict   `json:"lease"`
	Passthrough  vlanrules.Verdict   `json:"passthrough"`
	TagDepths    []vlanrules.Verdict `json:"tag_depths"` // of tags behind 0, 1, 2 … VLAN tags
	MTUHeadroom  int                 `json:"mtu_headroom_bytes"`
	Rules        *vlanrules.Caps     `json:"rules,omitempty"`   // of a platform with a driver
	Fencing      *fencing            `json:"fencing,omitempty"` // of one that csig-controller can drive
	Notes        []string            `json:"notes"`
	Traits       vendors.Traits      `json:"traits"`
}

// fencing is whether a device refuses what a controller that owned it before still sends.
type fencing struct {
	vlanrules.Verdict
	vendors.Source
}

// knownPlatforms is all of them, or the one that is named.
func knownPlatforms(names []string) (*platformsResult, error) {
	registry := all.Default()
	if len(names) == 0 {
		names = registry.Platforms()
	}
	out := &platformsResult{Format: "csig.platforms/v1", Platforms: []platformResult{}}
	for _, name := range names {
		p, err := registry.Platform(name)
		if err != nil {
			return nil, err
		}
		f := api.FactsOf(p.Offline())
		one := platformResult{
			Platform: name, Title: p.Title, Driver: p.Open != nil, Experimental: p.Experimental, Update: f.Update, Wide: f.Wide, Strip: f.Strip, Lease: f.Lease, Passthrough: f.Passthrough,
			TagDepths: f.TagDepths, MTUHeadroom: f.MTUHeadroom, Notes: f.Notes, Traits: f.Traits,
		}
		if one.Driver {
			one.Rules = &f.Rules
		}
		if p.Shared() {
			one.Fencing = &fencing{}
			one.Fencing.Verdict, one.Fencing.Source = p.FenceOf(nil)
		}
		out.Platforms = append(out.Platforms, one)
	}
	return out, nil
}

// platformRow is one line of the table.
func platformRow(p *platformResult) []string {
	t := &p.Traits
	update := map[vlanrules.Level]string{vlanrules.Full: "yes", vlanrules.Degraded: "degraded", vlanrules.Refused: "no"}[p.Update.Level]
	if t.Native.Is != "" {
		update = "native"
	}
	if p.Experimental != "" {
		update += "*"
	}
	rules := string(t.MatchVID.Is)
	if t.Stage.Known() && t.MatchVID.Is != vendors.MatchNone {
		rules += ", " + strings.Replace(string(t.Stage.Is), "before output", "pre-out", 1)
	}
	change := strings.Replace(orDash(string(t.Txn.Is)), string(vendors.TxnCandidate), "commit", 1)
	if t.Revert.Is != "" {
		change += ", undo"
	}
	return []string{p.Platform, update, map[vlanrules.Level]string{vlanrules.Full: "yes", vlanrules.Degraded: "depends", vlanrules.Refused: "no"}[p.Passthrough.Level],
		orDash(strings.TrimPrefix(string(t.Strip.Is), "port ")), orDash(rules), orDash(shortKeys[t.Key.Is]), shortTPIDs(&t.TPIDs), change}
}

var shortKeys = map[vendors.KeySpace]string{vendors.KeyWire: "wire", vendors.KeyBridging: "bridging", vendors.KeySubinterface: "subif", vendors.KeyNone: "none"}

var platformHead = []string{"platform", "update", "forward", "strip", "VID match", "key", "TPIDs", "change"}

const platformLegend = `update: compare-and-replace of compact tags, by csig (yes, degraded; *: its driver is experimental, since it never ran on hardware) or by the device itself (native). forward: what a device without any setup does with tagged frames; depends: on what its own facts list (csig platforms NAME). strip: the platform's means, a rule that pops the tag or a flag of the port. VID match: what its rules can match of a tag's VID, and where. key: what they take for the VID; only the one on the wire makes compare-and-replace. change: the largest that it takes as a whole (commit: a configuration); undo: it can take one back by itself.`

// shortTPIDs is for the table.
func shortTPIDs(f *vendors.Fact[vendors.TPIDs]) string {
	switch {
	case !f.Known():
		return "-"
	case f.Is.Any:
		return "any"
	}
	var out []string
	for _, tpid := range f.Is.List {
		out = append(out, fmt.Sprintf("%04x", tpid))
	}
	return strings.Join(out, " ")
}

// platformsText is the table of all platforms, of up to 100 columns.
func platformsText(found *platformsResult) string {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	fmt.Fprintln(tw, strings.Join(platformHead, "\t"))
	for i := range found.Platforms {
		fmt.Fprintln(tw, strings.Join(platformRow(&found.Platforms[i]), "\t"))
	}
	_ = tw.Flush() // into memory
	b.WriteString("\n" + wrap(platformLegend, 80, 0))
	b.WriteString("\n" + wrap(driversText(found), 80, 0))
	b.WriteString("\nReasons and sources: csig platforms PLATFORM\n")
	return b.String()
}

// driversText returns which platforms csig drives.
func driversText(found *platformsResult) string {
	var names, unproven []string
	for i := range found.Platforms {
		p := &found.Platforms[i]
		if p.Driver {
			names = append(names, p.Platform)
		}
		if p.Experimental != "" {
			unproven = append(unproven, p.Platform)
		}
	}
	asks := ""
	if len(unproven) > 0 {
		asks = " That of " + strings.Join(unproven, ", ") + " is experimental: csig apply sets up a device on whose model its rules were measured (facts), or that the fleet file lets it (experimental: true)."
	}
	return "csig has a driver for " + strings.Join(names, ", ") + "." + asks + " Devices of the other platforms are assessed and planned by these facts, and left alone." + fencingText(found)
}

// fencingText returns which platforms refuse what a former owner among controllers still sends.
func fencingText(found *platformsResult) string {
	var fenced, unfenced, local []string
	for i := range found.Platforms {
		switch p := &found.Platforms[i]; {
		case p.Fencing != nil && p.Fencing.Level != vlanrules.Refused:
			fenced = append(fenced, p.Platform)
		case p.Fencing != nil:
			unfenced = append(unfenced, p.Platform)
		case p.Driver:
			local = append(local, p.Platform)
		}
	}
	text := ""
	for _, kind := range []struct {
		what  string
		names []string
	}{
		{"Controllers that share devices keep a former owner's late writes out of these, under conditions (former owners fenced): ", fenced},
		{"These are unfenced, and a take-over waits until such writes have arrived: ", unfenced},
		{"No controller drives these: ", local},
	} {
		if len(kind.names) > 0 {
			text += " " + kind.what + strings.Join(kind.names, ", ") + "."
		}
	}
	return text
}
