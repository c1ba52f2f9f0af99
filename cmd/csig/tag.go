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
	return group("tag", "Encode and decode CSIG tags", `  csig tag decode 99002385
  csig tag encode --signal abwc --s 7 --lm 5`, newTagDecode(), newTagEncode())
}

// tagFlags are how to read or write a tag.
type tagFlags struct {
	layout string
	tpid   string
	wide   bool
	file   string
	json   bool
}

func (f *tagFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.layout, "layout", "draft-00", "how the tag's bits are divided: draft-00 or uec (default with -i: the profile's)")
	cmd.Flags().BoolVar(&f.wide, "wide", false, "the 8-byte tag instead of the 4-byte one")
	cmd.Flags().StringVarP(&f.file, "inventory", "i", "", "fleet file whose profile gives TPID, layout, bucket ranges and names")
	addJSON(cmd, &f.json)
}

// tagDomain is what the flags, or the fleet's profile in their place, define about
// tags.
type tagDomain struct {
	layout quantize.Layout
	fleet  *inventory.Fleet // nil without -i
	tpids  []uint16         // of the wanted format; none where errTPID is set
	others map[uint16]int   // the domain's other TPIDs, and the bytes of a tag with one
	// errTPID is not nil where a TPID is needed and not given.
	errTPID error

	from, to string // the ends of the frame's path; "" where not known
}

// defaultTPIDs are what csig takes where neither flags nor a fleet file set them.
var defaultTPIDs = quantize.TPIDs{Compact: 0x9900, Wide: 0x9901}

// resolve reads the flags.
func (f *tagFlags) resolve(cmd *cobra.Command) (tagDomain, error) {
	var d tagDomain
	var err error
	if d.layout, err = quantize.ParseLayout(f.layout); err != nil {
		return d, fmt.Errorf("--layout: %w", err)
	}
	if cmd.Flags().Changed("tpid") {
		if d.tpids, err = parseTPIDs("tpid", f.tpid); err != nil {
			return d, err
		}
	}
	if f.file == "" {
		if d.tpids == nil {
			d.take(defaultTPIDs, f.wide)
		}
		return d, nil
	}
	if d.fleet, err = inventory.Load(f.file); err != nil {
		return d, err
	}
	prof := &d.fleet.Profile
	if cmd.Flags().Changed("layout") && d.layout != prof.Layout {
		return d, fmt.Errorf("--layout %s: the profile %s of %s has the layout %s: leave out --layout or -i", d.layout, prof.Name, f.file, prof.Layout)
	}
	d.layout = prof.Layout
	if d.tpids == nil {
		d.take(prof.TPIDs(), f.wide)
		for _, r := range d.fleet.Policy.Retired {
			d.others[r.TPID] = quantize.Tag{Wide: r.Wide}.Size()
		}
	}
	if len(d.tpids) == 0 {
		d.errTPID = fmt.Errorf("--wide: the profile %s of %s has no wide_tpid: its domain uses no wide tags; name a TPID with --tpid, or leave out --wide", prof.Name, f.file)
	}
	return d, nil
}

// take takes one of two TPIDs for the wanted tag's, and the other for one that may
// stand beside it; 0 is none.
func (d *tagDomain) take(t quantize.TPIDs, wide bool) {
	d.others = map[uint16]int{t.Compact: quantize.CompactSize, t.Wide: quantize.WideSize}
	want := t.Compact
	if wide {
		want = t.Wide
	}
	if want != 0 {
		d.tpids = []uint16{want}
	}
	delete(d.others, want)
	delete(d.others, 0)
}

// parseTPIDs reads "0x9900,0x9901", the value of a flag. What no profile may have
// is refused here, too.
func parseTPIDs(flag, s string) ([]uint16, error) {
	var out []uint16
	for _, part := range strings.Split(s, ",") {
		v, err := strconv.ParseUint(strings.TrimSpace(part), 0, 16)
		if err != nil || v < lowestEtherType {
			return nil, fmt.Errorf("--%s %q: want Ethernet types from 0x%04x to 0xffff, separated by commas", flag, s, lowestEtherType)
		}
		if err := mayBeTPID(uint16(v)); err != nil {
			return nil, fmt.Errorf("--%s: %w", flag, err)
		}
		out = append(out, uint16(v))
	}
	return out, nil
}

// mayBeTPID is why no profile may have a TPID; nil: one may.
func mayBeTPID(tpid uint16) error {
	var bad *quantize.Problem
	if errors.As(quantize.TPIDs{Compact: tpid}.Validate(), &bad) {
		return bad.Err
	}
	return nil
}

// lowestEtherType is the least number that is an Ethernet type; below it a
// frame has its length there.
const lowestEtherType = 0x0600

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
	Profile *profileResult `json:"profile,omitempty"`   // with -i
	Note    string         `json:"note,omitempty"`      // why there is no profile in spite of -i
}

// profileResult is what the domain's profile adds to a tag.
type profileResult struct {
	Name    string   `json:"name"`
	Unit    string   `json:"unit"`
	Low     uint64   `json:"low"`
	High    uint64   `json:"high"`
	Range   string   `json:"range"`
	Locator string   `json:"locator"`
	Ports   []string `json:"ports"` // that write this locator, on the way from --from to --to
}

// where names the locator, and the ports that write it.
func (p *profileResult) where() string {
	return strings.Join(append([]string{p.Locator}, p.Ports...), ", ")
}

func newTagDecode() *cobra.Command {
	var (
		f        tagFlags
		from, to string
	)
	cmd := &cobra.Command{
		Use:   "decode HEX",
		Short: "Decode a tag, or the tag of a frame",
		Long: `Decode HEX. Exactly 4 bytes (8 with --wide) are a tag with any TPID that a domain
may choose. More are an Ethernet frame, in which the tag is the last L2 tag and has
a TPID of --tpid; it may stand behind up to 4 VLAN tags. Anything else is an error,
and so is a frame with two CSIG tags, which switches leave as it is.

HEX may have a 0x in front, and spaces, colons and hyphens between bytes.

A locator has too few bits for every port of a fleet. With -i all ports that
write the tag's locator are listed; --from and --to leave those on the way.`,
		Example: `  csig tag decode 99002385
  csig tag decode -i fleet.yaml --json 9900037e
  csig tag decode -i fleet.yaml --from h1 --to h2 99002381
  csig tag decode --wide 9901000310000400
  csig tag decode 02:00:00:00:00:02 02:00:00:00:00:01 8100-0005 9900-2385 0800`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(cmd, "HEX is missing: the bytes of a tag or a frame, e.g. 99002385")
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.file == "" && (from != "" || to != "") {
				return usageError(cmd, "--from and --to go with -i FLEET, which has the paths")
			}
			raw, err := parseHex(strings.Join(args, " "))
			if err != nil {
				return fmt.Errorf("HEX is not hexadecimal: %w", err)
			}
			d, err := f.resolve(cmd)
			if err != nil {
				return err
			}
			tag, vlans, err := d.decode(raw, f.wide)
			if err != nil {
				return err
			}
			d.from, d.to = from, to
			return printTag(cmd.OutOrStdout(), f.json, tag, &d, vlans)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.tpid, "tpid", "", "TPIDs of the CSIG tag in a frame, separated by commas (default: the profile's with -i, else 0x9900, or 0x9901 with --wide)")
	cmd.Flags().StringVar(&from, "from", "", "where the frame came from, a host or device: only ports on the way may have written the locator")
	cmd.Flags().StringVar(&to, "to", "", "where it was seen")
	return cmd
}

// decode decodes a bare tag or finds the one in a frame; vlans is nil for a
// bare tag.
func (d *tagDomain) decode(raw []byte, wide bool) (tag quantize.Tag, vlans *int, err error) {
	size := quantize.Tag{Wide: wide}.Size()
	switch {
	case len(raw) == size:
		if err := mayBeTPID(binary.BigEndian.Uint16(raw)); err != nil {
			return tag, nil, fmt.Errorf("HEX is no CSIG tag: %w", err)
		}
		tag, err = quantize.DecodeTag(raw, d.layout, wide)
		return tag, nil, err
	case len(raw) < shortestFrame:
		hint := ""
		switch {
		case wide && len(raw) == quantize.CompactSize:
			hint = "; without --wide it is a compact tag"
		case !wide && len(raw) == quantize.WideSize:
			hint = "; with --wide it is a wide tag"
		}
		return tag, nil, fmt.Errorf("HEX is %s: a tag has %d, and a frame %d or more%s", count(len(raw), "byte"), size, shortestFrame, hint)
	case d.errTPID != nil:
		return tag, nil, d.errTPID
	}
	at, before, err := d.find(raw, size)
	if err != nil {
		return tag, nil, fmt.Errorf("HEX is a frame of %s: %w", count(len(raw), "byte"), err)
	}
	tag, err = quantize.DecodeTag(raw[at:at+size], d.layout, wide)
	return tag, &before, err
}

// shortestFrame is two addresses and an Ethernet type.
const shortestFrame = 14

// find finds the tag of size bytes that is a frame's last L2 tag: its offset, and
// how many VLAN tags stand in front. Like quantize.FindTag, and with it the data
// planes and csig probe, it takes a frame with two CSIG tags for one that has no
// signal; unlike it, it knows TPIDs by the list, and reports what is where. Where
// one of them is a VLAN's too, it is CSIG's.
func (d *tagDomain) find(frame []byte, size int) (at, vlans int, err error) {
	at = -1
	off := 12
	for {
		if len(frame) < off+2 {
			return 0, 0, fmt.Errorf("%w, at byte %d", quantize.ErrTruncated, len(frame))
		}
		et := binary.BigEndian.Uint16(frame[off:])
		other, csig := d.others[et], slices.Contains(d.tpids, et)
		vlan := !csig && other == 0 && (et == 0x8100 || et == 0x88a8)
		switch {
		case at >= 0 && vlan:
			return 0, 0, fmt.Errorf("%w: the CSIG tag at byte %d is followed by a VLAN tag, 0x%04x", quantize.ErrNotLast, at, et)
		case at >= 0 && (csig || other > 0):
			return 0, 0, fmt.Errorf("%w: the CSIG tag at byte %d is followed by another, 0x%04x; switches leave such a frame as it is, and csig probe reads no signal from it; to decode one of its tags, give the bytes of the tag alone", quantize.ErrNotLast, at, et)
		case at >= 0:
			return at, vlans, nil
		case csig:
			at = off
			off += size
		case vlan && vlans == quantize.MaxVLANs:
			return 0, 0, quantize.ErrTooDeep
		case vlan:
			vlans++
			off += quantize.CompactSize
		default:
			return 0, 0, fmt.Errorf("%w: behind %s comes 0x%04x, and the tag's TPID is %s (--tpid)", quantize.ErrNoTag, count(vlans, "VLAN tag"), et, hexList(d.tpids))
		}
	}
}

// hexList writes "0x9900 or 0x9901".
func hexList(tpids []uint16) string {
	out := make([]string, 0, len(tpids))
	for _, t := range tpids {
		out = append(out, fmt.Sprintf("0x%04x", t))
	}
	return strings.Join(out, " or ")
}

func newTagEncode() *cobra.Command {
	var (
		f           tagFlags
		signal, t   string
		s, lm, r, d uint32
	)
	cmd := &cobra.Command{
		Use:   "encode",
		Short: "Encode a tag",
		Long: `Encode a tag: the inverse of decode. Without --s and --lm it is the tag that a
sender starts with: the value anything replaces, with the locator "none".`,
		Example: `  csig tag encode --signal abwc --s 7 --lm 5
  csig tag encode --signal abw -i fleet.yaml
  csig tag encode --t 1 --s 7 --lm 5 --layout uec --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError(cmd, "unexpected %q: the parts of the tag are flags, e.g. --signal abw --s 7 --lm 5", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			dom, err := f.resolve(cmd)
			switch {
			case err != nil:
				return err
			case dom.errTPID != nil:
				return dom.errTPID
			case len(dom.tpids) != 1:
				return fmt.Errorf("--tpid %q: encode takes one TPID", f.tpid)
			case dom.fleet != nil && slices.Contains(dom.fleet.VLANTPIDs, dom.tpids[0]):
				return fmt.Errorf("--tpid: 0x%04x is one of the vlan_tpids of %s, whose ordinary VLAN tags would be taken for CSIG's", dom.tpids[0], f.file)
			}
			name := "signal"
			if cmd.Flags().Changed("t") {
				if name = "t"; cmd.Flags().Changed("signal") {
					return usageError(cmd, "--signal and --t are the same: choose one")
				}
				signal = t
			}
			sig, err := parseSignalOrT(signal)
			if err != nil {
				return fmt.Errorf("--%s: %w", name, err)
			}
			for _, part := range []struct {
				flag     string
				v, limit uint32
			}{{"lm", lm, 0xffff}, {"r", r, 0xff}, {"d", d, 1}} {
				if part.v > part.limit {
					return fmt.Errorf("--%s %d: want 0 to %d", part.flag, part.v, part.limit)
				}
			}
			tag := quantize.Tag{TPID: dom.tpids[0], Wide: f.wide, T: sig, R: uint8(r), S: s, LM: uint16(lm), D: d == 1}
			if !cmd.Flags().Changed("s") {
				tag.S = initialS(dom.fleet, sig, f.wide)
			}
			if !cmd.Flags().Changed("lm") {
				tag.LM = dom.layout.LMNone()
				if f.wide {
					tag.LM = uint16(1<<dom.layout.WideLMBits() - 2) // "none": all ones minus one
				}
			}
			raw, err := tag.Encode(dom.layout)
			if err != nil {
				return fmt.Errorf("a %s tag in the layout %s: %w", format(f.wide), dom.layout, err)
			}
			if f.json {
				return printTag(cmd.OutOrStdout(), true, tag, &dom, nil)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), hex.EncodeToString(raw))
			return err
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.tpid, "tpid", "", "TPID of the tag (default: the profile's with -i, else 0x9900, or 0x9901 with --wide)")
	cmd.Flags().StringVar(&signal, "signal", "abw", strings.Join(quantize.SignalNames(), ", ")+", or a number from 0 to 7 (15 with --wide)")
	cmd.Flags().StringVarP(&t, "t", "t", "", "the same as --signal") // cobra completes one-letter flags by their shorthand
	cmd.Flags().Uint32Var(&s, "s", 0, "signal value: the bucket, or the multiple of the quantum with --wide (default: what senders start with)")
	cmd.Flags().Uint32Var(&lm, "lm", 0, "locator metadata (default: none)")
	cmd.Flags().Uint32Var(&r, "r", 0, "reserved bits")
	cmd.Flags().Uint32Var(&d, "d", 0, "uec: 1 for a trimmed frame")
	return cmd
}

func format(wide bool) string {
	if wide {
		return "wide"
	}
	return "compact"
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

// parseSignalOrT reads a signal's name, its number, or the t4 … t15 that
// signals without a name are printed as.
func parseSignalOrT(s string) (quantize.Signal, error) {
	if v, err := strconv.ParseUint(strings.TrimPrefix(s, "t"), 0, 4); err == nil {
		return quantize.Signal(v), nil
	}
	sig, err := quantize.ParseSignal(s)
	if err != nil {
		err = fmt.Errorf("%w, or a number from 0 to 15", err)
	}
	return sig, err
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

// printTag prints a tag, with what the profile defines about it.
func printTag(w io.Writer, asJSON bool, tag quantize.Tag, d *tagDomain, vlans *int) error {
	res, err := newTagResult(tag, d.layout)
	if err != nil {
		return err
	}
	res.VLANs = vlans
	if d.fleet != nil {
		if err := res.describe(d.fleet, tag, d.from, d.to); err != nil {
			return err
		}
	}
	if asJSON {
		return printJSON(w, res)
	}
	fmt.Fprintf(w, "tpid 0x%04x  %s %s\n", tag.TPID, format(tag.Wide), d.layout)
	if vlans != nil {
		fmt.Fprintf(w, "behind %s\n", count(*vlans, "VLAN tag"))
	}
	fmt.Fprintf(w, "t    %d  %s\n", res.T, res.Signal)
	fmt.Fprintf(w, "r    %d\n", res.R)
	if d.layout == quantize.UEC {
		fmt.Fprintf(w, "d    %d\n", res.D)
	}
	s, lm := "", ""
	if p := res.Profile; p != nil {
		s, lm = "  ("+p.Range+")", "  ("+p.where()+")"
	}
	fmt.Fprintf(w, "s    %d%s\n", res.S, s)
	_, err = fmt.Fprintf(w, "lm   %d%s\n", res.LM, lm)
	if res.Note != "" {
		_, err = fmt.Fprintf(w, "note %s\n", res.Note)
	}
	return err
}

// describe adds what the fleet's profile defines about a tag, or why it does not
// apply: a tag of another domain is still worth looking at. The error is
// for ends of a path that the fleet does not have.
func (res *tagResult) describe(fleet *inventory.Fleet, tag quantize.Tag, from, to string) error {
	r, err := fleet.Profile.Read(tag)
	if err != nil {
		res.Note = fmt.Sprintf("no range and no name: %v (profile %s of %s)", err, fleet.Profile.Name, fleet.Path)
		return nil
	}
	res.Profile = &profileResult{
		Name: fleet.Profile.Name, Unit: string(tag.T.Unit()),
		Low: r.Range.Low, High: r.Range.High, Range: r.String(), Locator: r.Locator, Ports: []string{},
	}
	if tag.Wide {
		return nil
	}
	ports, err := fleet.Candidates(tag.T, tag.LM, from, to)
	for _, ref := range ports {
		res.Profile.Ports = append(res.Profile.Ports, ref.String())
	}
	return err
}
