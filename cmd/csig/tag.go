package main

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

func newTag() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tag",
		Short: "Encode and decode CSIG tags",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTagDecode(), newTagEncode())
	return cmd
}

// tagFlags say how to read or write a tag.
type tagFlags struct {
	layout string
	tpid   string
	wide   bool
	file   string
	json   bool
}

func (f *tagFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.layout, "layout", "draft-00", "how the tag's bits are divided: draft-00 or uec")
	cmd.Flags().BoolVar(&f.wide, "wide", false, "the 8-byte tag instead of the 4-byte one")
	cmd.Flags().StringVarP(&f.file, "config", "c", "", "fleet file whose profile gives TPID, layout, bucket ranges and names")
	addJSON(cmd, &f.json)
	_ = cmd.RegisterFlagCompletionFunc("layout", cobra.FixedCompletions([]string{"draft-00", "uec"}, cobra.ShellCompDirectiveNoFileComp))
}

// resolve applies the fleet file's profile where the flags say nothing.
func (f *tagFlags) resolve(cmd *cobra.Command) (quantize.Layout, *inventory.Fleet, error) {
	layout, err := quantize.ParseLayout(f.layout)
	if err != nil || f.file == "" {
		return layout, nil, err
	}
	fleet, err := inventory.Load(f.file)
	if err != nil {
		return 0, nil, err
	}
	if !cmd.Flags().Changed("layout") {
		layout = fleet.Profile.Layout
	}
	return layout, fleet, nil
}

// parseTPIDs reads "0x9900,0x9901".
func parseTPIDs(s string) ([]uint16, error) {
	var out []uint16
	for _, part := range strings.Split(s, ",") {
		v, err := strconv.ParseUint(strings.TrimSpace(part), 0, 16)
		if err != nil || v < 0x600 {
			return nil, fmt.Errorf("--tpid %q: want Ethernet types from 0x0600 to 0xffff, separated by commas", s)
		}
		out = append(out, uint16(v))
	}
	return out, nil
}

// tagResult is what decode and encode print.
type tagResult struct {
	Format  string         `json:"format"`
	TPID    uint16         `json:"tpid"`
	T       uint8          `json:"t"`
	R       uint8          `json:"r"`
	S       uint32         `json:"s"`
	LM      uint16         `json:"lm"`
	D       uint8          `json:"d"`
	Wide    bool           `json:"wide"`
	Layout  string         `json:"layout"`
	Hex     string         `json:"hex"` // the tag's bytes
	Signal  string         `json:"signal"`
	VLANs   *int           `json:"vlan_tags,omitempty"` // in front of the tag, when it came in a frame
	Profile *profileResult `json:"profile,omitempty"`   // with -c
}

// profileResult is what the domain's profile adds to a tag.
type profileResult struct {
	Name    string   `json:"name"`
	Unit    string   `json:"unit"`
	Low     uint64   `json:"low"`
	High    uint64   `json:"high"`
	Range   string   `json:"range"`
	Locator string   `json:"locator"`
	Ports   []string `json:"ports"` // that write this locator
}

func newTagDecode() *cobra.Command {
	var f tagFlags
	cmd := &cobra.Command{
		Use:   "decode HEX",
		Short: "Decode a tag, or the tag of a frame",
		Long: `Decode HEX. Exactly 4 bytes (8 with --wide) are a tag with any TPID. More are an
Ethernet frame, in which the tag is the last L2 tag with a TPID of --tpid; it
may stand behind up to 4 VLAN tags. Anything else is an error.`,
		Example: `  csig tag decode 99002385
  csig tag decode -c fleet.yaml --json 9900037e
  csig tag decode --wide 9901000310000400`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := hex.DecodeString(strings.NewReplacer(" ", "", ":", "", "0x", "", "\n", "").Replace(strings.Join(args, "")))
			if err != nil {
				return fmt.Errorf("%q is not hexadecimal: %w", strings.Join(args, " "), err)
			}
			layout, fleet, err := f.resolve(cmd)
			if err != nil {
				return err
			}
			tpids, err := parseTPIDs(f.tpid)
			if err != nil {
				return err
			}
			if fleet != nil && !cmd.Flags().Changed("tpid") {
				tpids = []uint16{fleet.Profile.TPID}
				if f.wide {
					tpids = []uint16{fleet.Profile.WideTPID}
				}
			}
			tag, vlans, err := decodeTag(raw, layout, f.wide, tpids)
			if err != nil {
				return err
			}
			return printTag(cmd.OutOrStdout(), f.json, tag, layout, fleet, vlans)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.tpid, "tpid", "0x9900", "TPIDs of the CSIG tag in a frame, separated by commas")
	return cmd
}

// decodeTag decodes a bare tag or finds the one in a frame; vlans is nil for a
// bare tag.
func decodeTag(raw []byte, layout quantize.Layout, wide bool, tpids []uint16) (quantize.Tag, *int, error) {
	size := quantize.Tag{Wide: wide}.Size()
	if len(raw) == size {
		tag, err := quantize.DecodeTag(raw, layout, wide)
		return tag, nil, err
	}
	pos, frame, err := findLast(raw, wide, tpids)
	if err != nil {
		return quantize.Tag{}, nil, fmt.Errorf("%d bytes are not a tag (that is %d bytes), and read as a frame: %w", len(raw), size, err)
	}
	tag, err := quantize.DecodeTag(frame[pos.Offset:pos.Offset+size], layout, wide)
	return tag, &pos.VLANs, err
}

// findLast finds the last tag with one of several TPIDs, and returns the frame
// it is in: where CSIG tags follow each other, the ones in front are cut out.
func findLast(frame []byte, wide bool, tpids []uint16) (quantize.Position, []byte, error) {
	var pos quantize.Position
	err := quantize.ErrNoTag
	for _, tpid := range tpids {
		want := quantize.TPIDs{Compact: tpid}
		if wide {
			want = quantize.TPIDs{Wide: tpid}
		}
		p, e := quantize.FindTag(frame, want)
		if e == nil || errors.Is(e, quantize.ErrNotLast) {
			pos, err = p, e
			break
		}
		if errors.Is(err, quantize.ErrNoTag) {
			err = e // any other error says more
		}
	}
	if err == nil || errors.Is(err, quantize.ErrNotLast) {
		if inner := binary.BigEndian.Uint16(frame[pos.EtherType:]); slices.Contains(tpids, inner) {
			return findLast(slices.Concat(frame[:pos.Offset], frame[pos.EtherType:]), wide, tpids)
		}
	}
	return pos, frame, err
}

func newTagEncode() *cobra.Command {
	var (
		f           tagFlags
		signal      string
		s, lm, r, d uint32
	)
	cmd := &cobra.Command{
		Use:   "encode",
		Short: "Encode a tag",
		Long: `Encode a tag: the inverse of decode. Without --s and --lm it is the tag that a
sender starts with: the value anything replaces, with the locator "none".`,
		Example: `  csig tag encode --signal abwc --s 7 --lm 5
  csig tag encode --signal abw
  csig tag encode --t 1 --s 7 --lm 5 --layout uec --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			layout, fleet, err := f.resolve(cmd)
			if err != nil {
				return err
			}
			sig, err := parseSignalOrT(signal)
			if err != nil {
				return err
			}
			tpids, err := parseTPIDs(f.tpid)
			if err != nil {
				return err
			}
			if len(tpids) != 1 {
				return fmt.Errorf("--tpid %q: encode takes one TPID", f.tpid)
			}
			tpid := tpids[0]
			if fleet != nil && !cmd.Flags().Changed("tpid") {
				if tpid = fleet.Profile.TPID; f.wide {
					tpid = fleet.Profile.WideTPID
				}
			}
			for name, v := range map[string]uint32{"lm": lm, "r": r, "d": d} {
				if max := map[string]uint32{"lm": 0xffff, "r": 0xff, "d": 1}[name]; v > max {
					return fmt.Errorf("--%s %d: want 0 to %d", name, v, max)
				}
			}
			tag := quantize.Tag{TPID: tpid, Wide: f.wide, T: sig, R: uint8(r), S: s, LM: uint16(lm), D: d == 1}
			if !cmd.Flags().Changed("s") {
				tag.S = initialS(fleet, sig, f.wide)
			}
			if !cmd.Flags().Changed("lm") {
				tag.LM = layout.LMNone()
				if f.wide {
					tag.LM = 1<<layout.WideLMBits() - 2
				}
			}
			if _, err := tag.Encode(layout); err != nil {
				return err
			}
			if f.json {
				return printTag(cmd.OutOrStdout(), true, tag, layout, fleet, nil)
			}
			raw, err := tag.Encode(layout)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), hex.EncodeToString(raw))
			return err
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.tpid, "tpid", "0x9900", "TPID of the tag")
	cmd.Flags().StringVar(&signal, "signal", "abw", "abw, abwc, pd, nqd, or a number from 0 to 15")
	cmd.Flags().StringVar(&signal, "t", "abw", "the same as --signal")
	cmd.Flags().Uint32Var(&s, "s", 0, "signal value: the bucket, or the multiple of the quantum with --wide")
	cmd.Flags().Uint32Var(&lm, "lm", 0, "locator metadata")
	cmd.Flags().Uint32Var(&r, "r", 0, "reserved bits")
	cmd.Flags().Uint32Var(&d, "d", 0, "uec: 1 for a trimmed frame")
	return cmd
}

// initialS is the S a sender starts with.
func initialS(fleet *inventory.Fleet, sig quantize.Signal, wide bool) uint32 {
	switch {
	case wide:
		return sig.WideInitial()
	case fleet != nil:
		return uint32(fleet.Profile.Initial(sig))
	}
	return uint32(sig.InitialBucket())
}

func parseSignalOrT(s string) (quantize.Signal, error) {
	if v, err := strconv.ParseUint(s, 0, 4); err == nil {
		return quantize.Signal(v), nil
	}
	return quantize.ParseSignal(s)
}

func newTagResult(tag quantize.Tag, layout quantize.Layout) (tagResult, error) {
	raw, err := tag.Encode(layout)
	if err != nil {
		return tagResult{}, err
	}
	res := tagResult{
		Format: "csig.tag/v1", TPID: tag.TPID, T: uint8(tag.T), R: tag.R, S: tag.S, LM: tag.LM,
		Wide: tag.Wide, Layout: layout.String(), Hex: hex.EncodeToString(raw), Signal: tag.T.String(),
	}
	if tag.D {
		res.D = 1
	}
	return res, nil
}

// printTag prints a tag, with what the profile says about it.
func printTag(w io.Writer, asJSON bool, tag quantize.Tag, layout quantize.Layout, fleet *inventory.Fleet, vlans *int) error {
	res, err := newTagResult(tag, layout)
	if err != nil {
		return err
	}
	res.VLANs = vlans
	if fleet != nil {
		if res.Profile, err = describe(fleet, tag); err != nil {
			return err
		}
	}
	if asJSON {
		return printJSON(w, res)
	}
	kind := "compact"
	if tag.Wide {
		kind = "wide"
	}
	fmt.Fprintf(w, "tpid 0x%04x  %s %s\n", tag.TPID, kind, layout)
	if vlans != nil {
		fmt.Fprintf(w, "behind %d VLAN tags\n", *vlans)
	}
	fmt.Fprintf(w, "t    %d  %s\n", res.T, res.Signal)
	fmt.Fprintf(w, "r    %d\n", res.R)
	if layout == quantize.UEC {
		fmt.Fprintf(w, "d    %d\n", res.D)
	}
	fmt.Fprintf(w, "s    %d%s\n", res.S, parenthesis(res.Profile, func(p *profileResult) string { return p.Range }))
	_, err = fmt.Fprintf(w, "lm   %d%s\n", res.LM, parenthesis(res.Profile, func(p *profileResult) string {
		return strings.Join(append([]string{p.Locator}, p.Ports...), ", ")
	}))
	return err
}

func parenthesis(p *profileResult, f func(*profileResult) string) string {
	if p == nil || f(p) == "" {
		return ""
	}
	return "  (" + f(p) + ")"
}

// describe reads a tag with the fleet's profile.
func describe(fleet *inventory.Fleet, tag quantize.Tag) (*profileResult, error) {
	r, err := fleet.Profile.Read(tag)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", fleet.Profile.Name, err)
	}
	p := &profileResult{
		Name: fleet.Profile.Name, Unit: string(tag.T.Unit()),
		Low: r.Range.Low, High: r.Range.High, Range: r.String(), Locator: r.Locator, Ports: []string{},
	}
	if !tag.Wide {
		for _, ref := range fleet.LocatorPorts(tag.T, tag.LM) {
			p.Ports = append(p.Ports, ref.String())
		}
	}
	return p, nil
}
